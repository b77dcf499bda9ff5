package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// route is a request and the scope that it needs.
type route struct {
	method, path string
	body         any
	status       int // status for callers that have the access
	scopes       string
	roles        string
}

// routes returns requests to endpoints of every group of rights. Every call needs a new contact, scheduled message and
// unused phone.
func routes(contact, waiting, phone string) []route {
	return []route{
		{"GET", "/v1/contacts", nil, 200, "read", "owner admin manager developer analyst agent"},
		{"GET", "/v1/contacts/" + contact, nil, 200, "read", "owner admin manager developer analyst agent"},
		{"POST", "/v1/contacts", app.Map{"phone": phone}, 201, "admin", "owner admin manager"},
		{"POST", "/v1/contacts/" + contact + "/consent", app.Map{"status": "unknown", "source": "x"}, 200, "admin", "owner admin manager"},
		{"GET", "/v1/messages", nil, 200, "read", "owner admin manager developer analyst agent"},
		{"GET", "/v1/messages/" + waiting, nil, 200, "read", "owner admin manager developer analyst agent"},
		{"GET", "/v1/messages/" + waiting + "/events", nil, 200, "read", "owner admin manager developer analyst agent"},
		{"GET", "/v1/conversations", nil, 200, "read", "owner admin manager developer analyst agent"},
		{"GET", "/v1/saved-replies", nil, 200, "read", "owner admin manager developer analyst agent"},
		{"GET", "/v1/teams", nil, 200, "read", "owner admin manager developer analyst agent"},
		{"GET", "/v1/me", nil, 200, "read send admin", "owner admin billing manager developer analyst agent"},
		{"POST", "/v1/messages", app.Map{"contact_id": contact, "body": "x", "send_at": stamp(time.Hour)}, 201, "send", "owner admin manager"},
		{"POST", "/v1/messages/" + waiting + "/cancel", nil, 200, "send", "owner admin manager"},
		{"GET", "/v1/compliance/consent-events", nil, 200, "admin", "owner admin manager analyst"},
		{"POST", "/v1/contacts/" + contact + "/opt-out", app.Map{"source": "x"}, 200, "send admin", "owner admin manager agent"},
		{"DELETE", "/v1/contacts/" + contact, nil, 200, "admin", "owner admin manager"},
	}
}

func TestEveryCallerMayDoWhatItsScopesOrRoleCoverAndNothingElse(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	callers := map[string]*app.Client{}
	for _, scope := range []apikey.Scope{apikey.Read, apikey.Send, apikey.Admin} {
		callers["scope "+string(scope)] = a.Key(apikey.Live, nil, scope)
	}
	for role, session := range a.Sessions {
		callers["role "+string(role)] = session
	}
	for name, c := range callers {
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
		waiting := a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": "x", "send_at": stamp(time.Hour)}).Is(201).Text("id")
		for _, r := range routes(contact, waiting, a.Phone()) {
			kind, which, _ := strings.Cut(name, " ")
			covered := r.roles
			if kind == "scope" {
				covered = r.scopes
			}
			answer := c.Do(r.method, r.path, r.body)
			if strings.Contains(" "+covered+" ", " "+which+" ") {
				require.Equal(t, r.status, answer.Status, "%s %s %s: %s", name, r.method, r.path, answer.Raw)
			} else {
				answer.Refused(403, "forbidden")
			}
		}
	}
	for _, r := range routes("ctc_1", "msg_1", a.Phone()) {
		for _, c := range []*app.Client{
			a.Anonymous(), a.As(""), a.As("nonsense"), a.As("ll_live_" + strings.Repeat("a", 40)), a.As("ll_test_"), a.Anonymous().Header("authorization", "Basic abc"),
		} {
			answer := c.Do(r.method, r.path, r.body).Refused(401, "unauthorized")
			require.Equal(t, "Bearer", answer.Header.Get("www-authenticate"))
		}
	}
}

func TestHiddenResourcesAreNotFoundForAnAgent(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	agent, manager := a.Sessions[organisation.Agent], a.Sessions[organisation.Manager]
	create := func(owner any) string {
		body := app.Map{"phone": a.Phone()}
		if owner != nil {
			body["owner_user_id"] = owner
		}
		return manager.Post("/v1/contacts", body).Is(201).Text("id")
	}
	own, unowned, others := create(a.Users[organisation.Agent]), create(nil), create(a.Users[organisation.Manager])
	require.ElementsMatch(t, []any{own, unowned}, agent.Get("/v1/contacts").Is(200).Column("id"))
	agent.Get("/v1/contacts/"+others).Refused(404, "not_found")
	agent.Post("/v1/contacts/"+others+"/opt-out", app.Map{"source": "x"}).Refused(404, "not_found")
	agent.Post("/v1/contacts/"+unowned+"/opt-out", app.Map{"source": "x"}).Is(200)
	require.Equal(t, "unknown", manager.Get("/v1/contacts/"+others).Text("consent_status"))
	// An agent sees a contact whose conversation is unassigned.
	id := manager.Post("/v1/messages", app.Map{"contact_id": others, "body": "x"}).Is(201)
	require.Equal(t, "dashboard", id.Text("source"))
	require.Equal(t, true, id.At("sent_by_staff"))
	agent.Get("/v1/contacts/" + others).Is(200)
	agent.Get("/v1/messages/" + id.Text("id") + "/events").Is(200)
}

func TestRevokedKeyIsRefusedAtOnceOnEveryNode(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	made := a.NewKey(apikey.Live, nil, apikey.Read, apikey.Send, apikey.Admin)
	c := a.As(made.Secret)
	phone := a.Phone()
	contact := c.IdempotencyKey("k").Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
	c.Get("/v1/contacts").Is(200)
	// The key is revoked on the reading node, so the writing node learns of it only through the ledger.
	_, err := a.Nodes[1].App.RevokeAPIKey(t.Context(), a.Operator(), made.ID, nil)
	require.NoError(t, err)
	c.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(401, "unauthorized")
	c.Get("/v1/contacts").Refused(401, "unauthorized")
	c.IdempotencyKey("k").Post("/v1/contacts", app.Map{"phone": phone}).Refused(401, "unauthorized")
	c.Delete("/v1/contacts/"+contact).Refused(401, "unauthorized")
	a.Live.Get("/v1/contacts/" + contact).Is(200)
}

func TestRevokedKeyIsRefusedForRequestsThatChangeNothing(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": "Ada"}).Is(201).Text("id")
	path := "/v1/contacts/" + contact
	idle := func(c *app.Client) map[string]app.Answer {
		return map[string]app.Answer{
			"no-op":   c.Do("PATCH", path, app.Map{"first_name": "Ada"}),
			"dry run": c.Post("/v1/messages?dry_run=true", app.Map{"contact_id": contact, "body": "x"}),
			"refusal": c.Do("PATCH", "/v1/contacts/ctc_none", app.Map{"first_name": "Ada"}),
		}
	}
	reader := a.Nodes[1].App
	var keys []*app.Client
	for range 2 { // the writing node has the credential in memory after the first request
		made := a.NewKey(apikey.Live, nil, apikey.Send, apikey.Admin)
		c := a.As(made.Secret)
		for what, answer := range idle(c) {
			require.NotContains(t, []int{401, 403}, answer.Status, what)
		}
		if len(keys) == 0 {
			_, err := reader.RevokeAPIKey(t.Context(), a.Operator(), made.ID, nil)
			require.NoError(t, err)
		}
		keys = append(keys, c)
	}
	for _, answer := range idle(keys[0]) {
		answer.Refused(401, "unauthorized")
	}
	manager := a.Sessions[organisation.Manager]
	idle(manager)
	_, err := reader.GrantRole(t.Context(), a.Operator(), a.Users[organisation.Manager], organisation.Analyst)
	require.NoError(t, err)
	for _, answer := range idle(manager) {
		answer.Refused(403, "forbidden")
	}
	_, err = reader.PauseOrganisation(t.Context(), a.Operator(), "unpaid")
	require.NoError(t, err)
	for _, answer := range idle(keys[1]) {
		answer.Refused(403, "org_paused")
	}
}

func TestRevokedKeyGetsNoStoredAnswers(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	made := a.NewKey(apikey.Live, nil, apikey.Admin)
	body := app.Map{"phone": a.Phone()}
	a.As(made.Secret).IdempotencyKey("k").Post("/v1/contacts", body).Is(201)
	_, err := a.Nodes[1].App.RevokeAPIKey(t.Context(), a.Operator(), made.ID, nil)
	require.NoError(t, err)
	a.As(made.Secret).IdempotencyKey("k").Post("/v1/contacts", body).Refused(401, "unauthorized")
}

func TestExpiredKeysAndSessionsAreRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	session := a.As(a.Session(a.Users[organisation.Owner]))
	session.Get("/v1/contacts").Is(200)
	a.Advance(time.Hour + time.Minute)
	session.Get("/v1/contacts").Refused(401, "unauthorized")
	session.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(401, "unauthorized")
}

func TestRevokedSessionsAreRefusedOnEveryNodeAndLaterOnesAreNot(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	user := a.Users[organisation.Manager]
	session := a.As(a.Session(user))
	session.Get("/v1/contacts").Is(200)
	session.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	_, err := a.Nodes[1].App.RevokeSessions(t.Context(), a.Operator(), user)
	require.NoError(t, err)
	session.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(401, "unauthorized")
	require.Eventually(t, func() bool { return session.Get("/v1/contacts").Status == http.StatusUnauthorized }, 10*time.Second, 10*time.Millisecond)
	a.As(a.Session(a.Users[organisation.Owner])).Get("/v1/contacts").Is(200)
	a.Advance(time.Second)
	again := a.As(a.Session(user))
	again.Get("/v1/contacts").Is(200)
	again.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	session.Get("/v1/contacts").Refused(401, "unauthorized")
}

func TestKeyIsRefusedFromAddressesOutsideItsAllowlist(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TrustedProxies("127.0.0.1"))
	c := a.Key(apikey.Live, []string{"203.0.113.0/24", "2001:db8::1"}, apikey.Read, apikey.Admin)
	from := func(address string) *app.Client { return c.Header("x-forwarded-for", address) }
	for _, ok := range []string{"203.0.113.9", "2001:db8::1", "::ffff:203.0.113.1", "10.0.0.1, 203.0.113.7"} {
		from(ok).Get("/v1/contacts").Is(200)
		from(ok).Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	}
	for _, wrong := range []string{"203.0.114.1", "2001:db8::2", "nonsense", "203.0.113.9, 10.0.0.1"} {
		from(wrong).Get("/v1/contacts").Refused(403, "forbidden")
		from(wrong).Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(403, "forbidden")
	}
	c.Get("/v1/contacts").Refused(403, "forbidden")
	direct := app.Start(t)
	direct.Key(apikey.Live, []string{"127.0.0.1"}, apikey.Read).Header("x-forwarded-for", "203.0.113.9").Get("/v1/contacts").Is(200)
}

func TestWorkspaceHeaderSelectsTheWorkspaceOfASession(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	other := a.NewWorkspace("Other")
	stranger := a.NewOrganisation("Stranger")
	a.Live.Header("x-workspace-id", a.ID.String()).Get("/v1/contacts").Is(200)
	a.Live.Header("x-workspace-id", strings.ToUpper(a.ID.String())).Get("/v1/contacts").Is(200)
	for _, id := range []uuid.UUID{other.ID, stranger.ID, uuid.New()} {
		a.Live.Header("x-workspace-id", id.String()).Get("/v1/contacts").Refused(403, "forbidden")
		a.Live.Header("x-workspace-id", id.String()).Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(403, "forbidden")
	}
	a.Live.Header("x-workspace-id", "nonsense").Get("/v1/contacts").Refused(400, "validation_failed", "header /x-workspace-id invalid_format")

	owner := a.As(a.Session(a.Users[organisation.Owner]))
	owner.Get("/v1/contacts").Refused(400, "bad_request", "header /x-workspace-id required")
	contact := owner.Header("x-workspace-id", other.ID.String()).Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	owner.Header("x-workspace-id", a.ID.String()).Get("/v1/contacts/"+contact).Refused(404, "not_found")
	other.Live.Get("/v1/contacts/" + contact).Is(200)
	owner.Header("x-workspace-id", stranger.ID.String()).Get("/v1/contacts").Refused(403, "forbidden")

	// The refusal lists the workspaces that the session can choose.
	me := owner.Get("/v1/me").Is(200)
	shows(t, me.JSON(), app.Map{
		"type": "user", "role": nil, "workspace_id": nil, "workspace_name": nil, "organisation_id": a.Organisation.String(), "organisation_name": "Acme",
	})
	require.Len(t, me.At("user.workspaces"), 2)
	require.Equal(t, []any{}, me.At("user.team_ids"))
	owner.Header("x-workspace-id", stranger.ID.String()).Get("/v1/me").Refused(403, "forbidden")
	shows(t, owner.Header("x-workspace-id", other.ID.String()).Get("/v1/me").Is(200).JSON(), app.Map{"role": "owner", "workspace_id": other.ID.String()})

	single := a.As(stranger.Session(stranger.Users[organisation.Owner]))
	single.Get("/v1/contacts").Is(200)
	nowhere := a.As(a.Session(a.AddUser("nowhere", nil)))
	nowhere.Get("/v1/contacts").Refused(403, "forbidden")
	nowhere.Get("/v1/me").Refused(403, "forbidden")
	nobody := a.As(a.Session(uuid.New()))
	nobody.Get("/v1/contacts").Refused(401, "unauthorized")
}

func TestRevokedRoleTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	owner := a.Sessions[organisation.Owner]
	owner.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	_, err := a.Nodes[1].App.GrantRole(t.Context(), a.Operator(), a.Users[organisation.Owner], organisation.Analyst)
	require.NoError(t, err)
	owner.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(403, "forbidden")
	owner.Get("/v1/contacts").Is(200)
	_, err = a.Nodes[1].App.RevokeRole(t.Context(), a.Operator(), a.Users[organisation.Owner])
	require.NoError(t, err)
	owner.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(403, "forbidden")
	owner.Get("/v1/contacts").Refused(403, "forbidden")
}

func TestPausedOrganisationMayReadAndNotWrite(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	stranger := a.NewOrganisation("Stranger")
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	waiting := a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": "x", "send_at": stamp(time.Hour)}).Is(201).Text("id")
	for _, n := range a.Nodes {
		a.Live.OnNode(n).Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	}
	_, err := a.Nodes[0].App.PauseOrganisation(t.Context(), a.Operator(), "unpaid")
	require.NoError(t, err)
	for _, n := range a.Nodes {
		for _, c := range []*app.Client{a.Live.OnNode(n), a.Test.OnNode(n), a.Sessions[organisation.Owner].OnNode(n)} {
			for _, r := range routes(contact, waiting, a.Phone()) {
				if r.method == http.MethodGet {
					if r.path != "/v1/compliance/consent-events" || c != nil {
						c.Do(r.method, r.path, nil).Is(200)
					}
					continue
				}
				c.Do(r.method, r.path, r.body).Refused(403, "org_paused")
			}
		}
		stranger.Live.OnNode(n).Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	}
	_, err = a.Nodes[0].App.ResumeOrganisation(t.Context(), a.Operator())
	require.NoError(t, err)
	for _, n := range a.Nodes {
		a.Live.OnNode(n).Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	}
}

func TestForgedSessionsAreRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	user := a.Users[organisation.Owner].String()
	claims := func(change app.Map) jwt.MapClaims {
		c := jwt.MapClaims{"sub": user, "iss": app.Issuer, "aud": app.Audience, "exp": app.Noon.Add(time.Hour).Unix()}
		for k, v := range change {
			if v == nil {
				delete(c, k)
			} else {
				c[k] = v
			}
		}
		return c
	}
	sign := func(change app.Map) string { return a.Sign(jwt.SigningMethodHS256, app.Secret, claims(change)) }
	a.As(sign(nil)).Get("/v1/contacts").Is(200)
	a.As(sign(app.Map{"aud": []string{"x", app.Audience}})).Get("/v1/contacts").Is(200)
	a.As(sign(app.Map{"exp": app.Noon.Add(24 * time.Hour).Unix(), "role": "billing"})).Get("/v1/contacts").Is(200)
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	good := sign(nil)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"alg none":         a.Sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil)),
		"another secret":   a.Sign(jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), claims(nil)),
		"another alg":      a.Sign(jwt.SigningMethodHS512, app.Secret, claims(nil)),
		"a key of its own": a.Sign(jwt.SigningMethodES256, elliptical, claims(nil)),
		"no signature":     parts[0] + "." + parts[1] + ".",
		"two parts":        parts[0] + "." + parts[1],
		"other claims":     parts[0] + "." + strings.Split(sign(app.Map{"sub": uuid.NewString()}), ".")[1] + "." + parts[2],
		"expired":          sign(app.Map{"exp": app.Noon.Add(-time.Minute).Unix()}),
		"no expiry":        sign(app.Map{"exp": nil}),
		"too long a life":  sign(app.Map{"exp": app.Noon.Add(25 * time.Hour).Unix()}),
		"another issuer":   sign(app.Map{"iss": "else"}),
		"another audience": sign(app.Map{"aud": "else"}),
		"no audience":      sign(app.Map{"aud": nil}),
		"no subject":       sign(app.Map{"sub": nil}),
		"a subject's name": sign(app.Map{"sub": "owner"}),
		"not yet":          sign(app.Map{"nbf": app.Noon.Add(30 * time.Minute).Unix()}),
		"huge":             "ey" + strings.Repeat("a", 9000) + ".a.b",
	} {
		answer := a.As(token).Get("/v1/contacts")
		require.Equal(t, 401, answer.Status, "%s: %s", name, answer.Raw)
		answer.Refused(401, "unauthorized")
		a.As(token).Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(401, "unauthorized")
	}
}

func TestAlteredKeysAreRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	secret := a.NewKey(apikey.Live, nil, apikey.Read).Secret
	a.As(secret).Get("/v1/contacts").Is(200)
	for i := range secret {
		changed := []byte(secret)
		changed[i]++
		if answer := a.As(string(changed)).Get("/v1/contacts"); answer.Status != 401 {
			t.Fatalf("byte %d changed: %d", i, answer.Status)
		}
	}
	for _, wrong := range []string{secret + "a", secret[:len(secret)-1], strings.ToUpper(secret), strings.Replace(secret, "live", "test", 1)} {
		a.As(wrong).Get("/v1/contacts").Refused(401, "unauthorized")
	}
}

func TestIDsOfOtherWorkspacesAreNotFound(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Shards(4))
	strangers := []*app.Workspace{a.NewWorkspace("Other"), a.NewOrganisation("One"), a.NewOrganisation("Two"), a.NewOrganisation("Three")}
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "labels": []string{"x"}}).Is(201).Text("id")
	waiting := a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": "x", "send_at": stamp(time.Hour)}).Is(201)
	for _, w := range strangers {
		for _, r := range routes(contact, waiting.Text("id"), a.Phone()) {
			switch {
			case strings.Contains(r.path, contact), strings.Contains(r.path, waiting.Text("id")), r.path == "/v1/messages" && r.method == http.MethodPost:
				w.Live.Do(r.method, r.path, r.body).Refused(404, "not_found")
			case r.method == http.MethodGet:
				require.Empty(t, w.Live.Get(r.path).Is(200).Data())
			}
		}
		for _, query := range []string{"contact_id=" + contact, "conversation_id=" + waiting.Text("conversation_id"), "line_id=" + a.Lines[0].ID} {
			require.Empty(t, w.Live.Get("/v1/messages?"+query).Is(200).Data())
		}
		require.Empty(t, w.Live.Get("/v1/compliance/consent-events?contact_id="+contact).Is(200).Data())
		require.Empty(t, w.Live.Get("/v1/contacts?label=x").Is(200).Data())
		w.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x", "line_id": a.Lines[0].ID, "pool_id": a.PoolID}).
			Refused(400, "validation_failed", "body /line_id not_found", "body /pool_id not_found")
		if w.Organisation != a.Organisation {
			w.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "owner_user_id": a.Users[organisation.Manager]}).
				Refused(400, "validation_failed", "body /owner_user_id not_a_member")
		}
	}
	require.Equal(t, "scheduled", status(a.Live, waiting.Text("id")))
}

func TestRequestsAreLimitedPerKey(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.RateLimits())
	exceeded := func(limit int, do func(c *app.Client) app.Answer) {
		t.Helper()
		c := a.Key(apikey.Live, nil, apikey.Read, apikey.Send, apikey.Admin)
		for i := range 50 * limit {
			answer := do(c)
			if answer.Status == 429 {
				require.GreaterOrEqual(t, i, limit)
				answer.Refused(429, "rate_limited")
				require.Equal(t, "1", answer.Header.Get("retry-after"))
				return
			}
		}
		t.Fatal("no limit")
	}
	exceeded(20, func(c *app.Client) app.Answer { return c.Post("/v1/messages", app.Map{}) })
	exceeded(50, func(c *app.Client) app.Answer { return c.Get("/v1/contacts/ctc_1") })
	a.Live.Get("/v1/contacts").Is(200)
}
