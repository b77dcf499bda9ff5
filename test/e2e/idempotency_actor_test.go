package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

func TestStoredAnswerIsGivenToTheCallerThatUsedTheKeyAndToNobodyElse(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.Nodes(app.Everything, app.Everything))
		other := a.NewWorkspace("Other")
		stranger := a.NewOrganisation("Stranger")
		spare := a.Live.Post("/v1/api-keys", app.Map{"name": "spare", "scopes": []string{"read"}}).Is(201).Text("id")
		hook := a.Live.Post("/v1/webhooks", app.Map{"url": "https://example.com/a", "events": []string{"message.received"}}).Is(201).Text("id")
		makerKey := a.NewKey(apikey.Live, nil, apikey.Read, apikey.Send, apikey.Admin)
		revoked := a.NewKey(apikey.Live, nil, apikey.Read, apikey.Send, apikey.Admin)
		_, err := a.Nodes[0].App.RevokeAPIKey(t.Context(), a.Operator(), revoked.ID, nil)
		require.NoError(t, err)
		_, identity := newIdentity(a, nil)

		writes := []struct {
			path   string
			body   any
			status int
			secret string // property of the answer that is a secret
		}{
			{"/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read"}}, 201, "secret"},
			{"/v1/api-keys/" + spare + "/rotate", nil, 200, "secret"},
			{"/v1/service-identities", app.Map{"name": "x", "scopes": []string{"read"}}, 201, "token"},
			{"/v1/webhooks", app.Map{"url": "https://example.com/b", "events": []string{"message.received"}}, 201, "secret"},
			{"/v1/webhooks/" + hook + "/rotate", nil, 200, "secret"},
			{"/v1/contacts", app.Map{"phone": a.Phone(), "first_name": "Grace"}, 201, ""},
			{"/v1/messages", app.Map{"to": a.Phone(), "body": "Hello Grace", "send_at": stamp(time.Hour)}, 201, ""},
		}
		for i, w := range writes {
			key := fmt.Sprint("k", i)
			first := a.As(makerKey.Secret).IdempotencyKey(key).Post(w.path, w.body).Is(w.status)
			var before, after int64
			for name, c := range map[string]*app.Client{
				"another key": a.Live, "a test key": a.Test, "a revoked key": a.As(revoked.Secret), "an identity": identity,
				"a key that reads": a.Key(apikey.Live, nil, apikey.Read), "an owner": a.Sessions[organisation.Owner], "an agent": a.Sessions[organisation.Agent],
			} {
				a.QueryRow(`select sum(position) from ledger_heads`, nil, &before)
				for _, n := range a.Nodes {
					answer := c.IdempotencyKey(key).OnNode(n).Post(w.path, w.body)
					what := fmt.Sprintf("%s, %s: %s", w.path, name, answer.Raw)
					require.GreaterOrEqual(t, answer.Status, 400, what)
					require.Less(t, answer.Status, 500, what)
					require.Empty(t, answer.Header.Get(replayed), what)
					if w.secret != "" {
						require.NotContains(t, string(answer.Raw), first.Text(w.secret), what)
					}
					require.NotContains(t, string(answer.Raw), "Grace", what)
				}
				a.QueryRow(`select sum(position) from ledger_heads`, nil, &after)
				require.Equal(t, before, after, name)
			}
			for _, n := range a.Nodes { // the others have not used up the key, and have not changed its record
				again := a.As(makerKey.Secret).IdempotencyKey(key).OnNode(n).Post(w.path, w.body).Is(w.status)
				require.Equal(t, "true", again.Header.Get(replayed))
				require.Equal(t, string(first.Raw), string(again.Raw))
			}
		}
		for _, c := range []*app.Client{other.Live, stranger.Live} {
			made := c.IdempotencyKey("k0").Post(writes[0].path, writes[0].body).Is(201)
			require.Empty(t, made.Header.Get(replayed))
		}
		var plain int
		a.QueryRow(`select count(*) from ledger_idempotency_records where position('ll_live_'::bytea in body) > 0 or position('whsec_'::bytea in body) > 0`, nil, &plain)
		require.Zero(t, plain, "stored answers are encrypted")
	})
}

func TestKeyThatAnotherCallerUsedIsAConflict(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	body := app.Map{"to": a.Phone(), "body": "x", "send_at": stamp(time.Hour)}
	a.Live.IdempotencyKey("k").Post("/v1/messages", body).Is(201)
	a.Key(apikey.Live, nil, apikey.Send).IdempotencyKey("k").Post("/v1/messages", body).Refused(409, "idempotency_conflict")
	require.Len(t, a.Live.Get("/v1/messages").Is(200).Data(), 1)
}

func TestRotatedKeyAndNewSessionOfAUserGetTheirOwnStoredAnswers(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	made := a.NewKey(apikey.Live, nil, apikey.Admin)
	body := app.Map{"phone": a.Phone()}
	first := a.As(made.Secret).IdempotencyKey("k").Post("/v1/contacts", body).Is(201)
	issued, err := a.Nodes[0].App.RotateAPIKey(t.Context(), a.Operator(), made.ID, nil, nil)
	require.NoError(t, err)
	require.Equal(t, string(first.Raw), string(a.As(issued.Secret).IdempotencyKey("k").Post("/v1/contacts", body).Is(201).Raw))

	body = app.Map{"phone": a.Phone()}
	session := func() *app.Client { return a.As(a.Session(a.Users[organisation.Manager])) }
	first = session().IdempotencyKey("s").Post("/v1/contacts", body).Is(201)
	a.Advance(time.Minute)
	require.Equal(t, string(first.Raw), string(session().IdempotencyKey("s").Post("/v1/contacts", body).Is(201).Raw))
}

func TestAgentThatMayNoLongerSeeAResourceGetsNoStoredAnswerAboutIt(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	agent, manager := a.Sessions[organisation.Agent], a.Sessions[organisation.Manager]
	talk := newTalk(a, "Grace")
	conversation := "/v1/conversations/" + talk.conversation
	writes := []struct {
		method, path string
		body         app.Map
		status       int
	}{
		{"PATCH", conversation, app.Map{"mark_read": true}, 200},
		{"POST", conversation + "/notes", app.Map{"body": "called Grace"}, 201},
		{"POST", conversation + "/messages", app.Map{"body": "Hello Grace"}, 201},
		{"POST", "/v1/contacts/" + talk.contact + "/opt-out", app.Map{"source": "call"}, 200},
	}
	for i, w := range writes {
		agent.IdempotencyKey(fmt.Sprint("own", i)).Do(w.method, w.path, w.body).Is(w.status)
		manager.IdempotencyKey(fmt.Sprint("foreign", i)).Do(w.method, w.path, w.body)
	}
	manager.Do("PATCH", conversation, app.Map{"assignee_user_id": a.Users[organisation.Manager]}).Is(200)
	for i, w := range writes {
		for _, key := range []string{"own", "foreign", "new"} {
			for _, n := range a.Nodes {
				answer := agent.IdempotencyKey(fmt.Sprint(key, i)).OnNode(n).Do(w.method, w.path, w.body)
				require.Equal(t, "not_found", answer.Is(404).Text("error.code"))
				require.NotContains(t, string(answer.Raw), "Grace")
			}
		}
	}
	manager.Do("PATCH", conversation, app.Map{"assignee_user_id": nil}).Is(200)
	for i, w := range writes {
		again := agent.IdempotencyKey(fmt.Sprint("own", i)).Do(w.method, w.path, w.body).Is(w.status)
		require.Equal(t, "true", again.Header.Get(replayed))
	}
}

func TestCallerThatLostAPermissionGetsNoStoredAnswerThatNeedsIt(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	user := a.AddUser("dev", map[uuid.UUID]organisation.Role{a.ID: organisation.Admin})
	session := a.As(a.Session(user))
	body := app.Map{"name": "x", "scopes": []string{"read", "send", "admin"}}
	session.IdempotencyKey("k").OnNode(a.Nodes[0]).Post("/v1/api-keys", body).Is(201)
	// A developer may create keys, but not with these scopes. The first node has the old role in memory.
	_, err := a.Nodes[1].App.GrantRole(t.Context(), a.Operator(), user, organisation.Developer)
	require.NoError(t, err)
	for _, n := range a.Nodes {
		answer := session.IdempotencyKey("k").OnNode(n).Post("/v1/api-keys", body).Refused(403, "forbidden")
		require.NotContains(t, string(answer.Raw), "ll_live_")
	}
}
