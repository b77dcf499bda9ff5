package e2e_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

func TestAuditLogListsWhoChangedWhat(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		owner := a.Sessions[organisation.Owner]
		log := func(query string) app.Answer { return owner.Get("/v1/audit-log" + query).Is(200) }

		made := owner.Post("/v1/api-keys", app.Map{"name": "Ops", "scopes": []string{"read"}, "ip_allowlist": []string{"127.0.0.1"}}).Is(201)
		entry := log("").Data()[0]
		delete(entry, "id")
		delete(entry, "position")
		require.Equal(t, app.Map{
			"type": "api_key.created", "actor": app.Map{"type": "user", "id": a.Users[organisation.Owner].String()},
			"target": app.Map{"type": "api_key", "id": made.Text("id")}, "request_id": made.Header.Get("x-request-id"), "occurred_at": stamp(0),
			"changes": app.Map{
				"name": "Ops", "env": "live", "scopes": []any{"read"}, "prefix": made.Text("prefix"), "ip_allowlist": []any{"127.0.0.1"},
			},
		}, entry)

		a.Advance(30 * time.Minute)
		identity, bot := newIdentity(a, app.Map{"daily_limit": 10})
		path := "/v1/service-identities/" + identity.Text("id")
		owner.Do("PATCH", path, app.Map{"name": "bot", "daily_limit": nil}).Is(200)
		owner.Do("PATCH", path, app.Map{"status": "disabled"}).Is(200)
		owner.Do("PATCH", path, app.Map{"status": "active"}).Is(200)
		about := log("?target_type=service_identity&target_id=" + identity.Text("id"))
		require.Equal(t, []any{"identity.enabled", "identity.disabled", "identity.updated", "identity.created"}, about.Column("type"))
		require.Equal(t, app.Map{"daily_limit": nil}, about.At("data.2.changes"))
		require.Equal(t, app.Map{}, about.At("data.0.changes"))

		contact := bot.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": "Ada"}).Is(201).Text("id")
		bot.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": "letter"}).Is(200)
		bot.Delete("/v1/contacts/" + contact).Is(200)
		by := log("?actor_type=identity&actor_id=" + identity.Text("id"))
		require.Equal(t, []any{"contact.deleted", "contact.opted_out"}, by.Column("type"))
		require.Equal(t, app.Map{"from": "unknown", "to": "opted_out", "source": "letter"}, by.At("data.1.changes"))

		require.Equal(t, []any{made.Text("id")}, targets(log("?type=api_key.created&to="+stamp(time.Minute)+"&from="+stamp(0)+"&actor_type=user")))
		require.Empty(t, log("?from="+stamp(time.Hour)).Data())
		_, err := a.Nodes[0].App.PauseOrganisation(t.Context(), a.Operator(), "unpaid")
		require.NoError(t, err)
		require.Equal(t, "organisation.paused", log("").Text("data.0.type"))
		require.Equal(t, "unpaid", log("").Text("data.0.changes.reason"))
	})
}

func targets(log app.Answer) []any {
	var ids []any
	for _, entry := range log.Data() {
		ids = append(ids, object(entry["target"])["id"])
	}
	return ids
}

func TestOnlyAuditorsOfTheWorkspaceMayReadItsAuditLog(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for role, session := range a.Sessions {
		switch role {
		case organisation.Owner, organisation.Admin, organisation.Manager, organisation.Analyst:
			session.Get("/v1/audit-log").Is(200)
		default:
			session.Get("/v1/audit-log").Refused(403, "forbidden")
		}
	}
	a.Live.Get("/v1/audit-log").Refused(403, "forbidden")
	owner, other, stranger := a.Sessions[organisation.Owner], a.NewWorkspace("Other"), a.NewOrganisation("Stranger")
	made := a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read"}}).Is(201).Text("id")
	require.Equal(t, []any{made}, targets(owner.Get("/v1/audit-log?target_id="+made).Is(200)))
	for _, elsewhere := range []*app.Client{other.Sessions[organisation.Owner], stranger.Sessions[organisation.Owner]} {
		require.Empty(t, elsewhere.Get("/v1/audit-log?target_id="+made).Is(200).Data())
	}
	_, err := a.Nodes[0].App.PauseOrganisation(t.Context(), a.Operator(), "unpaid")
	require.NoError(t, err)
	require.Equal(t, "organisation.paused", other.Sessions[organisation.Owner].Get("/v1/audit-log").Is(200).Text("data.0.type"))
	require.NotEqual(t, "organisation.paused", stranger.Sessions[organisation.Owner].Get("/v1/audit-log").Is(200).Text("data.0.type"))

	var want, got []any
	want = targets(owner.Get("/v1/audit-log?limit=100").Is(200))
	for path := "/v1/audit-log?limit=3"; ; {
		page := owner.Get(path).Is(200)
		got = append(got, targets(page)...)
		if page.At("next_cursor") == nil {
			break
		}
		path = "/v1/audit-log?limit=3&cursor=" + page.Text("next_cursor")
	}
	require.Equal(t, want, got)
	owner.Get("/v1/audit-log?actor_type=ghost").Refused(400, "validation_failed", "query /actor_type invalid_value")
}

func TestAuditLogShowsNothingOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		other := a.NewWorkspace("Second office")
		phone := a.Phone()
		own := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
		twin := other.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
		user := a.AddUser("newcomer", map[uuid.UUID]organisation.Role{a.ID: organisation.Agent, other.ID: organisation.Analyst})
		_, err := a.Nodes[0].App.RevokeRole(t.Context(), other.Operator(), user)
		require.NoError(t, err)
		optOut := other.Sessions[organisation.Manager].Header("user-agent", "Second office's browser").
			Post("/v1/contacts/"+twin+"/opt-out", app.Map{"source": "call to the second office", "keyword": "stop"}).Is(200)
		elsewhere := other.AddUser("stranger", map[uuid.UUID]organisation.Role{other.ID: organisation.Agent})

		secrets := []string{
			other.ID.String(), "Second office", twin, "call to the second office", optOut.Header.Get("x-request-id"),
		}
		owner := a.Sessions[organisation.Owner]
		log := owner.Get("/v1/audit-log?limit=100&target_id=" + own).Is(200)
		shows(t, object(log.At("data.0")), app.Map{
			"type": "contact.opted_out", "actor": app.Map{"type": "system", "id": nil}, "request_id": nil,
			"changes": app.Map{"from": "unknown", "to": "opted_out"},
		})
		trail := owner.Get("/v1/compliance/consent-events?contact_id=" + own).Is(200)
		shows(t, object(trail.At("data.0")), app.Map{
			"to_status": "opted_out", "actor": app.Map{"type": "system", "id": nil}, "source": nil, "keyword": nil, "text": nil, "ip": nil, "user_agent": nil,
		})
		for _, shown := range []app.Answer{
			owner.Get("/v1/audit-log?limit=100&type=user.role_granted").Is(200), owner.Get("/v1/audit-log?type=user.role_revoked").Is(200),
			owner.Get("/v1/audit-log?type=workspace.created").Is(200), log, trail,
			owner.Get("/v1/compliance/consent-events/export").Is(200),
		} {
			for _, secret := range secrets {
				require.NotContains(t, string(shown.Raw), secret)
			}
		}
		require.Empty(t, owner.Get("/v1/audit-log?type=user.role_granted&target_id="+elsewhere.String()).Is(200).Data())
		require.Len(t, owner.Get("/v1/audit-log?type=user.role_granted&target_id="+user.String()).Is(200).Data(), 1)
		require.Len(t, other.Sessions[organisation.Owner].Get("/v1/audit-log?type=user.role_revoked&target_id="+user.String()).Is(200).Data(), 1)
	})
}
