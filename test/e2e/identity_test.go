package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// newIdentity makes a service identity with all scopes, and a client that uses its token.
func newIdentity(a *app.App, more app.Map) (app.Answer, *app.Client) {
	body := app.Map{"name": "bot", "scopes": []string{"read", "send", "admin"}}
	for k, v := range more {
		body[k] = v
	}
	made := a.Live.Post("/v1/service-identities", body).Is(201)
	return made, a.As(made.Text("token"))
}

func TestIdentityTokenIsShownOnce(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		body := app.Map{"name": "Bot", "scopes": []string{"send", "read"}, "allowed_line_ids": []string{a.Lines[0].ID, a.Lines[0].ID}, "daily_limit": 10}
		made := a.Live.IdempotencyKey("k").Post("/v1/service-identities", body).Is(201)
		shown := made.JSON()
		require.Regexp(t, `^ll_live_[a-z2-7]{48}$`, shown["token"])
		delete(shown, "token")
		require.Equal(t, app.Map{
			"id": made.Text("id"), "name": "Bot", "kind": "mcp_client", "status": "active", "scopes": []any{"read", "send"}, "env": "live",
			"api_key_id": made.Text("api_key_id"), "allowed_line_ids": []any{a.Lines[0].ID}, "daily_limit": 10.0, "created_at": stamp(0),
		}, shown)
		require.Equal(t, made.JSON(), a.Live.IdempotencyKey("k").Post("/v1/service-identities", body).Is(201).JSON())
		require.Equal(t, []app.Map{shown}, a.Live.Get("/v1/service-identities").Is(200).Data())
		key := a.Live.Get("/v1/api-keys").Is(200).Data()[0]
		require.Equal(t, []any{made.Text("api_key_id"), "Bot"}, []any{key["id"], key["name"]})

		bot := a.As(made.Text("token"))
		bot.Get("/v1/contacts").Is(200)
		bot.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(403, "forbidden")
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
		bot.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": "x"}).Is(200)
		who := a.Live.Get("/v1/compliance/consent-events?contact_id=" + contact).Is(200)
		require.Equal(t, app.Map{"type": "identity", "id": made.Text("id")}, who.At("data.0.actor"))
	})
}

func TestIdentityGetsOnlyTheScopesThatItsCreatorHas(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	all := []string{"read", "send", "admin"}
	create := func(c *app.Client, env string, scopes []string) app.Answer {
		return c.Post("/v1/service-identities", app.Map{"name": "x", "env": env, "scopes": scopes})
	}
	admin := a.Key(apikey.Live, nil, apikey.Admin)
	made := create(admin, "live", all).Is(201)
	require.Equal(t, []any{"admin"}, made.At("scopes"))
	a.As(made.Text("token")).Get("/v1/contacts").Refused(403, "forbidden")
	create(admin, "live", []string{"read", "send"}).Refused(403, "forbidden")
	create(a.Test, "live", all).Refused(403, "forbidden")
	require.Equal(t, "test", create(a.Test, "test", all).Is(201).Text("env"))
	require.Equal(t, []any{"read"}, create(a.Sessions[organisation.Developer], "live", all).Is(201).At("scopes"))
	create(a.Sessions[organisation.Manager], "live", all).Refused(403, "forbidden")

	// A change keeps the scopes that it does not name, and cannot add a scope that the caller does not have.
	path := "/v1/service-identities/" + create(a.Live, "live", []string{"read", "send"}).Is(201).Text("id")
	require.Equal(t, []any{"read", "send"}, admin.Do("PATCH", path, app.Map{"name": "y"}).Is(200).At("scopes"))
	require.Equal(t, []any{"admin", "send"}, admin.Do("PATCH", path, app.Map{"scopes": []string{"send", "admin"}}).Is(200).At("scopes"))
	require.Equal(t, []any{"send"}, admin.Do("PATCH", path, app.Map{"scopes": []string{"send", "read"}}).Is(200).At("scopes"))
	admin.Do("PATCH", path, app.Map{"scopes": []string{"read"}}).Refused(403, "forbidden")
	a.Test.Do("PATCH", path, app.Map{"daily_limit": 5}).Refused(403, "forbidden")
}

func TestChangesOfAnIdentityApplyToItsTokenAtOnce(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	made, bot := newIdentity(a, nil)
	path := "/v1/service-identities/" + made.Text("id")
	write := func() app.Answer { return bot.Post("/v1/contacts", app.Map{"phone": a.Phone()}) }
	patch := func(body app.Map) app.Answer { return a.Live.Do("PATCH", path, body) }
	bot.Get("/v1/contacts").Is(200)
	write().Is(201)

	require.Equal(t, []any{"read"}, patch(app.Map{"scopes": []string{"read"}}).Is(200).At("scopes"))
	write().Refused(403, "forbidden")
	bot.Get("/v1/contacts").Is(200)
	require.Equal(t, []any{"read"}, a.Live.Get("/v1/api-keys").Is(200).Data()[0]["scopes"])
	patch(app.Map{"scopes": []string{"admin"}}).Is(200)
	write().Is(201)
	bot.Get("/v1/contacts").Refused(403, "forbidden")
	patch(app.Map{"scopes": []string{"admin", "read"}}).Is(200)

	require.Equal(t, "disabled", patch(app.Map{"status": "disabled"}).Is(200).Text("status"))
	write().Refused(401, "unauthorized")
	refused := bot.Get("/v1/contacts").Refused(401, "unauthorized")
	require.Equal(t, "The service identity of this token is disabled.", refused.Text("error.message"))
	require.Equal(t, "active", patch(app.Map{"status": "active"}).Is(200).Text("status"))
	write().Is(201)
	bot.Get("/v1/contacts").Is(200)

	rotated := a.Live.Post("/v1/api-keys/"+made.Text("api_key_id")+"/rotate", nil).Is(200)
	require.Equal(t, []any{"admin", "read"}, rotated.At("scopes"))
	bot.Get("/v1/contacts").Refused(401, "unauthorized")
	bot = a.As(rotated.Text("secret"))
	write().Is(201)
	a.Live.Delete("/v1/api-keys/" + made.Text("api_key_id")).Is(200)
	bot.Get("/v1/contacts").Refused(401, "unauthorized")
	patch(app.Map{"status": "active"}).Is(200)
	bot.Get("/v1/contacts").Refused(401, "unauthorized")
}

func TestAnIdentityDoesNotManageCredentials(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	made, bot := newIdentity(a, app.Map{"daily_limit": 1})
	bot.Get("/v1/api-keys").Is(200)
	bot.Get("/v1/service-identities").Is(200)
	bot.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"send"}}).Refused(403, "forbidden")
	bot.Post("/v1/service-identities", app.Map{"name": "x", "scopes": []string{"send"}}).Refused(403, "forbidden")
	bot.Do("PATCH", "/v1/service-identities/"+made.Text("id"), app.Map{"daily_limit": nil}).Refused(403, "forbidden")
	other := a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"send"}}).Is(201).Text("id")
	bot.Post("/v1/api-keys/"+other+"/rotate", nil).Refused(403, "forbidden")
	own := bot.Post("/v1/api-keys/"+made.Text("api_key_id")+"/rotate", nil).Is(200)
	bot.Get("/v1/contacts").Refused(401, "unauthorized")
	a.As(own.Text("secret")).Get("/v1/contacts").Is(200)
}

func TestProblemsOfAnIdentityAreReportedAtTheirPointers(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	stranger := a.NewOrganisation("Stranger")
	lines := []string{a.Lines[0].ID, stranger.Lines[0].ID, "nonsense"}
	wrong := []string{"body /name required", "body /allowed_line_ids/1 not_found", "body /allowed_line_ids/2 not_found"}
	a.Live.Post("/v1/service-identities", app.Map{"name": " ", "scopes": []string{"read"}, "allowed_line_ids": lines}).Refused(400, "validation_failed", wrong...)
	for limit, code := range map[int]string{0: "too_small", 100_001: "too_large"} {
		a.Live.Post("/v1/service-identities", app.Map{"name": "x", "scopes": []string{"read"}, "kind": "ai_agent", "daily_limit": limit}).
			Refused(400, "validation_failed", "body /kind invalid_value", "body /daily_limit "+code)
	}
	made, _ := newIdentity(a, app.Map{"daily_limit": 100_000})
	path := "/v1/service-identities/" + made.Text("id")
	a.Live.Do("PATCH", path, app.Map{"name": " ", "allowed_line_ids": lines}).Refused(400, "validation_failed", wrong...)
	a.Live.Do("PATCH", path, app.Map{"kind": "mcp_client"}).Refused(400, "validation_failed", "body /kind unknown_property")
	a.Live.Do("PATCH", path, app.Map{"scopes": []string{}, "name": nil}).Refused(400, "validation_failed", "body /scopes too_few_items", "body /name null_not_allowed")
	changed := a.Live.Do("PATCH", path, app.Map{"daily_limit": nil, "allowed_line_ids": []string{a.Lines[1].ID}, "name": "Other"}).Is(200)
	require.Nil(t, changed.At("daily_limit"))
	require.Equal(t, []any{a.Lines[1].ID}, changed.At("allowed_line_ids"))
	require.Equal(t, changed.JSON(), a.Live.Do("PATCH", path, app.Map{}).Is(200).JSON())
	a.Live.Do("PATCH", "/v1/service-identities/nonsense", app.Map{}).Refused(400, "validation_failed", "path /id invalid_format")
	a.Live.Do("PATCH", "/v1/service-identities/"+uuid.NewString(), app.Map{}).Refused(404, "not_found")
	stranger.Live.Do("PATCH", path, app.Map{}).Refused(404, "not_found")
	require.Empty(t, stranger.Live.Get("/v1/service-identities").Is(200).Data())
}

func TestIdentitiesArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	var want, got []any
	for i := range 3 {
		made, _ := newIdentity(a, app.Map{"name": fmt.Sprint(i)})
		want = append([]any{made.Text("id")}, want...)
	}
	page := a.Live.Get("/v1/service-identities?limit=2").Is(200)
	got = append(page.Column("id"), a.Live.Get("/v1/service-identities?limit=2&cursor="+page.Text("next_cursor")).Is(200).Column("id")...)
	require.Equal(t, want, got)
}

func TestIdentitySendsOnlyFromItsLinesAndUpToItsDailyLimit(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		own, other := a.Lines[1].ID, a.Lines[0].ID
		made, bot := newIdentity(a, app.Map{"allowed_line_ids": []string{own}})
		path := "/v1/service-identities/" + made.Text("id")
		sent := []string{send(bot, a.Phone(), "before there was a limit")}
		a.Settle()
		a.Live.Do("PATCH", path, app.Map{"daily_limit": 4}).Is(200)
		for i := range 5 {
			sent = append(sent, send(bot, a.Phone(), fmt.Sprint("text ", i)))
			a.Settle()
		}
		for _, id := range sent[:4] {
			shows(t, message(a.Live, id), app.Map{"line_id": own, "status": "delivered"})
		}
		for _, id := range sent[4:] {
			shows(t, message(a.Live, id), app.Map{"status": "queued", "scheduled_for": "2026-03-03T08:00:00.000Z"})
			timeline := a.Live.Get("/v1/messages/" + id + "/events").Is(200).Data()
			shows(t, object(timeline[len(timeline)-1]["detail"]), app.Map{"reason": "identity_daily_limit", "until": "2026-03-03T08:00:00.000Z"})
		}
		body := app.Map{"to": a.Phone(), "body": "x", "line_id": other}
		bot.Post("/v1/messages", body).Refused(403, "forbidden")
		a.Live.Post("/v1/messages", body).Is(201) // other callers are not affected
		a.Advance(24 * time.Hour)                 // the usage day and the contacts' nights are over
		for _, id := range sent[4:] {
			require.Contains(t, []any{"delivered", "read"}, status(a.Live, id))
			require.Equal(t, own, message(a.Live, id)["line_id"])
		}
	})
}

func TestConcurrentNodesKeepTheDailyLimitOfAnIdentity(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	_, bot := newIdentity(a, app.Map{"daily_limit": 7})
	for range 20 {
		send(bot, a.Phone(), "x")
	}
	a.Settle()
	var left int
	a.QueryRow(`select count(*) from ledger_events where type = 'message.sent'`, nil, &left)
	require.Equal(t, 7, left)
}

func TestATestIdentitySendsThroughTheSandboxLineIfItMay(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	_, bot := newIdentity(a, app.Map{"env": "test", "daily_limit": 1, "allowed_line_ids": []string{a.Sandbox.ID}})
	first := send(bot, a.SandboxNumber(0), "x")
	a.Settle()
	second := send(bot, a.SandboxNumber(1), "x")
	a.Settle()
	require.Equal(t, []any{"delivered", "queued"}, []any{status(a.Test, first), status(a.Test, second)}, "sandbox traffic counts")
	_, lost := newIdentity(a, app.Map{"env": "test", "allowed_line_ids": []string{a.Lines[0].ID}})
	lost.Post("/v1/messages", app.Map{"to": a.SandboxNumber(2), "body": "x"}).Refused(403, "forbidden")
}

func TestRaisedLimitOfAnIdentityReleasesItsDeferredMessages(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	made, bot := newIdentity(a, app.Map{"daily_limit": 1})
	path := "/v1/service-identities/" + made.Text("id")
	first, second := send(bot, a.Phone(), "x"), send(bot, a.Phone(), "y")
	a.Settle()
	states := []any{status(a.Live, first), status(a.Live, second)}
	require.ElementsMatch(t, []any{"delivered", "queued"}, states)
	a.Live.Do("PATCH", path, app.Map{"daily_limit": 2}).Is(200)
	a.Settle()
	require.Equal(t, []any{"delivered", "delivered"}, []any{status(a.Live, first), status(a.Live, second)})
	// All lines of the pool but one that the identity may not use are out of service.
	for _, l := range a.Lines[1:] {
		_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), l.ID, "quarantined", nil)
		require.NoError(t, err)
	}
	a.Live.Do("PATCH", path, app.Map{"daily_limit": nil, "allowed_line_ids": []string{a.Lines[1].ID}}).Is(200)
	third := send(bot, a.Phone(), "z")
	a.Settle()
	require.Equal(t, "queued", status(a.Live, third))
	a.Live.Do("PATCH", path, app.Map{"allowed_line_ids": []string{a.Lines[0].ID}}).Is(200)
	a.Settle()
	shows(t, message(a.Live, third), app.Map{"status": "delivered", "line_id": a.Lines[0].ID})
}

func TestMessageLeavesByAnotherLineWhenItsIdentityLosesALine(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.SendsPerDay = 1
	a := app.Start(t, app.Limits(limits))
	made, bot := newIdentity(a, app.Map{})
	phone := a.Phone()
	first := send(bot, phone, "x")
	a.Settle()
	own, other := message(a.Live, first)["line_id"], a.Lines[0].ID
	if own == other {
		other = a.Lines[1].ID
	}
	deferred := send(bot, phone, "y")
	a.Settle()
	require.Equal(t, "queued", status(a.Live, deferred))
	a.Live.Do("PATCH", "/v1/service-identities/"+made.Text("id"), app.Map{"allowed_line_ids": []string{other}}).Is(200)
	a.Settle()
	shows(t, message(a.Live, deferred), app.Map{"status": "delivered", "line_id": other})
}
