package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// withoutSecret is a key as lists show it.
func withoutSecret(made app.Answer) app.Map {
	shown := made.JSON()
	delete(shown, "secret")
	return shown
}

func TestKeySecretIsShownOnceAndRepeatedToARetry(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		body := app.Map{"name": "Ops", "scopes": []string{"send", "read", "send"}, "expires_at": stamp(time.Hour), "ip_allowlist": []string{"127.0.0.0/8", "::1"}}
		made := a.Live.IdempotencyKey("make").Post("/v1/api-keys", body).Is(201)
		require.Regexp(t, `^ll_live_`+made.Text("prefix")+`[a-z2-7]{40}$`, made.Text("secret"))
		require.Equal(t, app.Map{
			"id": made.Text("id"), "name": "Ops", "env": "live", "scopes": []any{"read", "send"}, "prefix": made.Text("prefix"),
			"ip_allowlist": []any{"127.0.0.0/8", "::1"}, "expires_at": stamp(time.Hour), "last_used_at": nil, "revoked_at": nil, "created_at": stamp(0),
		}, withoutSecret(made))
		again := a.Live.IdempotencyKey("make").Post("/v1/api-keys", body).Is(201)
		require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
		require.Equal(t, made.JSON(), again.JSON())
		require.Equal(t, withoutSecret(made), a.Live.Get("/v1/api-keys").Is(200).Data()[0])

		var known int
		a.QueryRow(`select count(*) from ledger_events where data::text like '%' || $1 || '%'`, []any{made.Text("secret")}, &known)
		require.Zero(t, known)
		a.QueryRow(`select count(*) from ledger_idempotency_records where position(convert_to($1, 'UTF8') in body) > 0`, []any{made.Text("secret")}, &known)
		require.Zero(t, known)
	})
}

func TestRotationChangesOnlyTheSecretOfAKey(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	made := a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read", "admin"}}).Is(201)
	old := a.As(made.Text("secret"))
	old.Get("/v1/contacts").Is(200)
	old.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201) // both nodes know it now
	rotated := a.Live.IdempotencyKey("r").Post("/v1/api-keys/"+made.Text("id")+"/rotate", nil).Is(200)
	require.NotEqual(t, made.Text("prefix"), rotated.Text("prefix"))
	require.Equal(t, stamp(0), rotated.Text("last_used_at"))
	old.Get("/v1/contacts").Refused(401, "unauthorized")
	old.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Refused(401, "unauthorized")
	fresh := a.As(rotated.Text("secret"))
	fresh.Get("/v1/contacts").Is(200)
	fresh.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	require.Equal(t, rotated.JSON(), a.Live.IdempotencyKey("r").Post("/v1/api-keys/"+made.Text("id")+"/rotate", nil).Is(200).JSON())
	fresh.Get("/v1/contacts").Is(200)
	require.Equal(t, withoutSecret(rotated), a.Live.Get("/v1/api-keys").Is(200).Data()[0])
}

func TestRevokedKeyStaysRevoked(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	made := a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read"}}).Is(201)
	key := a.As(made.Text("secret"))
	key.Get("/v1/contacts").Is(200)
	revoked := a.Live.Delete("/v1/api-keys/" + made.Text("id")).Is(200)
	require.Equal(t, stamp(0), revoked.Text("revoked_at"))
	key.Get("/v1/contacts").Refused(401, "unauthorized")
	a.Advance(time.Minute)
	require.Equal(t, revoked.JSON(), a.Live.Delete("/v1/api-keys/"+made.Text("id")).Is(200).JSON())
	a.Live.Post("/v1/api-keys/"+made.Text("id")+"/rotate", nil).Refused(409, "conflict")
	require.Equal(t, revoked.JSON(), a.Live.Get("/v1/api-keys").Is(200).Data()[0])
	for _, method := range []string{"DELETE", "POST"} {
		path := "/v1/api-keys/key_unknown"
		if method == "POST" {
			path += "/rotate"
		}
		a.Live.Do(method, path, nil).Refused(404, "not_found")
	}
	foreign := a.NewOrganisation("Stranger").Live
	foreign.Delete("/v1/api-keys/"+made.Text("id")).Refused(404, "not_found")
	foreign.Post("/v1/api-keys/"+made.Text("id")+"/rotate", nil).Refused(404, "not_found")
}

func TestExpiredKeyCannotBeRotated(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	made := a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read"}, "expires_at": stamp(time.Hour)}).Is(201)
	key := a.As(made.Text("secret"))
	a.Advance(time.Hour - time.Millisecond)
	key.Get("/v1/contacts").Is(200)
	a.Advance(time.Millisecond)
	key.Get("/v1/contacts").Refused(401, "unauthorized")
	a.Live.Post("/v1/api-keys/"+made.Text("id")+"/rotate", nil).Refused(409, "conflict")
}

func TestProblemsOfANewKeyAreReportedAtTheirPointers(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/api-keys", app.Map{
		"name": " ", "scopes": []string{"read", "root"}, "env": "prod", "ip_allowlist": []string{"10.0.0.1", "10.0.0.0/33", "2001:db8::/32", "host"},
	}).Refused(400, "validation_failed", "body /name required", "body /scopes/1 invalid_value", "body /env invalid_value", "body /ip_allowlist/1 invalid_address", "body /ip_allowlist/3 invalid_address")
	a.Live.Post("/v1/api-keys", app.Map{"name": " ", "scopes": []string{"read"}, "expires_at": stamp(0), "ip_allowlist": []string{"x"}}).
		Refused(400, "validation_failed", "body /name required", "body /expires_at invalid_value", "body /ip_allowlist/0 invalid_address")
	a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{}}).Refused(400, "validation_failed", "body /scopes too_few_items")
	a.Live.Post("/v1/api-keys", app.Map{}).Refused(400, "validation_failed", "body /name required", "body /scopes required")
}

func TestCredentialsAreForDevelopersAndAdmins(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	identity, _ := newIdentity(a, nil)
	callers := map[*app.Client]bool{
		a.Key(apikey.Live, nil, apikey.Read, apikey.Send): false, a.Key(apikey.Live, nil, apikey.Admin): true,
	}
	for role, session := range a.Sessions {
		callers[session] = slices.Contains([]organisation.Role{organisation.Owner, organisation.Admin, organisation.Developer}, role)
	}
	for c, may := range callers {
		for _, answer := range []app.Answer{
			c.Get("/v1/api-keys"), c.Get("/v1/service-identities"),
			c.Do("PATCH", "/v1/service-identities/"+identity.Text("id"), app.Map{}),
			c.Delete("/v1/api-keys/" + a.NewKey(apikey.Live, nil, apikey.Read).ID),
		} {
			if may {
				answer.Is(200)
			} else {
				answer.Refused(403, "forbidden")
			}
		}
	}
}

func TestCallerCannotGrantAScopeThatItDoesNotHave(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	create := func(c *app.Client, env string, scopes ...string) app.Answer {
		return c.Post("/v1/api-keys", app.Map{"name": "x", "env": env, "scopes": scopes})
	}
	admin := a.Key(apikey.Live, nil, apikey.Admin)
	create(admin, "live", "admin").Is(201)
	create(admin, "live", "admin", "read").Refused(403, "forbidden")
	create(a.Test, "test", "read", "send", "admin").Is(201)
	create(a.Test, "live", "read").Refused(403, "forbidden")
	for role, may := range map[organisation.Role][]string{
		organisation.Owner: {"read", "send", "admin"}, organisation.Admin: {"read", "send", "admin"}, organisation.Developer: {"read"},
	} {
		for _, scope := range []string{"read", "send", "admin"} {
			answer := create(a.Sessions[role], "live", scope)
			if slices.Contains(may, scope) {
				answer.Is(201)
			} else {
				answer.Refused(403, "forbidden")
			}
		}
	}
	// Rotation returns the secret, so it needs every scope of the key.
	whole := create(a.Live, "live", "read", "send", "admin").Is(201).Text("id")
	admin.Post("/v1/api-keys/"+whole+"/rotate", nil).Refused(403, "forbidden")
	a.Test.Post("/v1/api-keys/"+whole+"/rotate", nil).Refused(403, "forbidden")
	a.Sessions[organisation.Developer].Post("/v1/api-keys/"+whole+"/rotate", nil).Refused(403, "forbidden")
	a.Sessions[organisation.Owner].Post("/v1/api-keys/"+whole+"/rotate", nil).Is(200)
	admin.Delete("/v1/api-keys/" + whole).Is(200)
}

func TestKeysArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	var want []any
	for range 5 {
		want = append([]any{a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read"}}).Is(201).Text("id")}, want...)
	}
	var got []any
	path := "/v1/api-keys?limit=2"
	for range 3 {
		page := a.Live.Get(path).Is(200)
		got = append(got, page.Column("id")...)
		path = "/v1/api-keys?limit=2&cursor=" + page.Text("next_cursor")
	}
	require.Equal(t, want, got[:5])
	a.NewOrganisation("Stranger").Live.Get(path).Refused(400, "validation_failed", "query /cursor invalid_cursor")
}

func TestLastUseOfAKeyIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	made := a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read"}}).Is(201)
	key := a.As(made.Text("secret"))
	used := func() any { return a.Live.Get("/v1/api-keys").Is(200).Data()[0]["last_used_at"] }
	require.Nil(t, used())
	writes := func() (n int) {
		a.QueryRow(`select xmin::text::bigint from api_key_uses where key_id = $1`, []any{made.Text("id")}, &n)
		return n
	}
	key.Get("/v1/contacts").Is(200)
	require.Equal(t, stamp(0), used())
	first := writes()
	a.Advance(59 * time.Second)
	for range 20 {
		key.Get("/v1/contacts").Is(200)
	}
	require.Equal(t, first, writes())
	a.Advance(time.Second)
	key.Get("/v1/contacts").Is(200)
	require.Equal(t, stamp(time.Minute), used())
	a.Advance(time.Hour)
	a.As(made.Text("secret")+"x").Get("/v1/contacts").Refused(401, "unauthorized")
	require.Equal(t, stamp(time.Minute), used())
}

func TestTestCredentialCannotManageALiveOne(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	identity, bot := newIdentity(a, nil)
	_, sandboxBot := newIdentity(a, app.Map{"env": "test"})
	victim := a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read"}}).Is(201)
	own := a.Test.Post("/v1/api-keys", app.Map{"name": "x", "env": "test", "scopes": []string{"read"}}).Is(201).Text("id")
	for _, id := range []string{victim.Text("id"), identity.Text("api_key_id")} {
		for _, c := range []*app.Client{a.Test, sandboxBot} {
			require.NotEmpty(t, c.Delete("/v1/api-keys/"+id).Refused(403, "forbidden").Text("error.message"))
			c.Post("/v1/api-keys/"+id+"/rotate", nil).Refused(403, "forbidden")
		}
	}
	for _, body := range []app.Map{{"status": "disabled"}, {"scopes": []string{"read"}}, {"name": "y"}, {}} {
		a.Test.Do("PATCH", "/v1/service-identities/"+identity.Text("id"), body).Refused(403, "forbidden")
	}
	a.As(victim.Text("secret")).Get("/v1/contacts").Is(200)
	a.Test.Delete("/v1/api-keys/" + own).Is(200)
	bot.Delete("/v1/api-keys/"+victim.Text("id")).Refused(403, "forbidden")
	bot.Get("/v1/contacts").Is(200)
	bot.Delete("/v1/api-keys/" + identity.Text("api_key_id")).Is(200)
	bot.Get("/v1/contacts").Refused(401, "unauthorized")
}

func TestLimitedKeyCreatesAndRotatesOnlyCredentialsWithItsLimits(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	free := a.Live.Post("/v1/api-keys", app.Map{"name": "free", "scopes": []string{"read"}}).Is(201).Text("id")
	freeIdentity, _ := newIdentity(a, app.Map{"scopes": []string{"read"}})
	limited := a.As(a.Live.Post("/v1/api-keys", app.Map{
		"name": "limited", "scopes": []string{"read", "send", "admin"}, "ip_allowlist": []string{"127.0.0.0/8"}, "expires_at": stamp(time.Hour),
	}).Is(201).Text("secret"))
	create := func(more app.Map) app.Answer {
		body := app.Map{"name": "x", "scopes": []string{"read"}}
		for k, v := range more {
			body[k] = v
		}
		return limited.Post("/v1/api-keys", body)
	}
	inherited := create(nil).Is(201)
	shows(t, inherited.JSON(), app.Map{"ip_allowlist": []any{"127.0.0.0/8"}, "expires_at": stamp(time.Hour)})
	shows(t, create(app.Map{"ip_allowlist": []string{"127.0.0.1"}, "expires_at": stamp(time.Minute)}).Is(201).JSON(),
		app.Map{"ip_allowlist": []any{"127.0.0.1"}, "expires_at": stamp(time.Minute)})
	for _, wider := range []app.Map{{"ip_allowlist": []string{"0.0.0.0/0"}}, {"ip_allowlist": []string{"127.0.0.1", "::1"}}, {"expires_at": stamp(2 * time.Hour)}} {
		create(wider).Refused(403, "forbidden")
	}
	limited.Post("/v1/api-keys/"+inherited.Text("id")+"/rotate", nil).Is(200)
	limited.Post("/v1/api-keys/"+free+"/rotate", nil).Refused(403, "forbidden")
	limited.Post("/v1/api-keys/"+freeIdentity.Text("api_key_id")+"/rotate", nil).Refused(403, "forbidden")

	made := limited.Post("/v1/service-identities", app.Map{"name": "x", "scopes": []string{"read"}}).Is(201)
	shows(t, a.Live.Get("/v1/api-keys").Is(200).Data()[0], app.Map{
		"id": made.Text("api_key_id"), "ip_allowlist": []any{"127.0.0.0/8"}, "expires_at": stamp(time.Hour),
	})
	limited.Do("PATCH", "/v1/service-identities/"+made.Text("id"), app.Map{"scopes": []string{"read", "admin"}}).Is(200)
	path := "/v1/service-identities/" + freeIdentity.Text("id")
	limited.Do("PATCH", path, app.Map{"scopes": []string{"read", "admin"}}).Refused(403, "forbidden")
	limited.Do("PATCH", path, app.Map{"status": "disabled"}).Is(200)
	limited.Do("PATCH", path, app.Map{"status": "active"}).Refused(403, "forbidden")
	a.Live.Do("PATCH", path, app.Map{"status": "active"}).Is(200)
	bot := a.As(made.Text("token"))
	bot.Get("/v1/contacts").Is(200)
	a.Advance(time.Hour)
	bot.Get("/v1/contacts").Refused(401, "unauthorized")
}
