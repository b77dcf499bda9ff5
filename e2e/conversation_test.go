package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/testkit/app"
)

// talk is a contact with a conversation that one message of ours started.
type talk struct{ phone, contact, conversation, line string }

func newTalk(a *app.App, name string) talk {
	phone := a.Phone()
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone, "first_name": name}).Is(201).Text("id")
	accepted := a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": "Hello " + name}).Is(201)
	a.Settle()
	return talk{phone, contact, accepted.Text("conversation_id"), text(message(a.Live, accepted.Text("id")), "from")}
}

func conversation(c *app.Client, id string) app.Map {
	return c.Get("/v1/conversations/" + id).Is(200).JSON()
}

func TestAConversationShowsItsContactItsNewestMessageAndWhatIsUnread(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.Phone()
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone, "first_name": "Grace", "last_name": "Hopper", "company": "Navy", "labels": []string{"vip", "Ada"}}).Is(201).Text("id")
		require.Empty(t, a.Live.Get("/v1/conversations").Is(200).Data(), "a contact alone is no conversation")
		first := a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": strings.Repeat("é", 250)}).Is(201)
		id := first.Text("conversation_id")
		a.Settle()
		sent := message(a.Live, first.Text("id"))
		summary := object(a.Live.Get("/v1/conversations").Is(200).At("data.0"))
		require.Equal(t, app.Map{
			"id": id, "status": "open", "snoozed_until": nil, "assignee_user_id": nil, "team_id": nil, "handled_by": "team", "unread_count": 0.0,
			"contact":      app.Map{"id": contact, "phone": phone, "first_name": "Grace", "last_name": "Hopper", "company": "Navy"},
			"labels":       []any{"Ada", "vip"},
			"line_id":      sent["line_id"],
			"last_message": app.Map{"direction": "outbound", "id": first.Text("id"), "preview": strings.Repeat("é", 200)}, "last_message_at": stamp(0),
			"created_at": stamp(0), "updated_at": stamp(0),
		}, summary)

		a.Advance(time.Minute)
		one := a.Inbound(phone, text(sent, "from"), "one")
		two := a.Inbound(phone, text(sent, "from"), "two")
		seen := conversation(a.Live, id)
		shows(t, seen, app.Map{"unread_count": 2.0, "last_message_at": stamp(time.Minute), "updated_at": stamp(time.Minute), "created_at": stamp(0), "messages_next_cursor": nil})
		require.Equal(t, app.Map{"direction": "inbound", "id": two, "preview": "two"}, seen["last_message"])
		page := a.Live.Get("/v1/conversations/" + id + "?messages_limit=2").Is(200)
		require.Equal(t, []any{two, one}, []any{page.At("messages.0.id"), page.At("messages.1.id")}, "newest first")
		older := a.Live.Get("/v1/conversations/" + id + "?messages_limit=2&messages_cursor=" + page.Text("messages_next_cursor")).Is(200)
		require.Equal(t, first.Text("id"), older.Text("messages.0.id"))
		require.Nil(t, older.At("messages.1"))
		require.Nil(t, older.At("messages_next_cursor"))
		a.Live.Get("/v1/conversations/"+id+"?messages_cursor=x").Refused(400, "validation_failed", "query /messages_cursor invalid_cursor")
		a.Live.Get("/v1/conversations/"+id+"?messages_limit=101").Refused(400, "validation_failed", "query /messages_limit too_large")

		media := a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "media": []app.Map{{"url": "https://example.com/a.png", "filename": "a.png"}}}).Is(201)
		shows(t, conversation(a.Live, id), app.Map{
			"unread_count": 2.0, "last_message": app.Map{"direction": "outbound", "id": media.Text("id"), "preview": "a.png"},
		})
		require.Empty(t, a.NewWorkspace("Other").Live.Get("/v1/conversations").Is(200).Data())
		a.NewOrganisation("Stranger").Live.Get("/v1/conversations/"+id).Refused(404, "not_found")
	})
}

func TestTheInboxIsFilteredAndPaged(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	var talks []talk
	for _, name := range []string{"Ann", "Bea", "Cat"} {
		talks = append(talks, newTalk(a, name))
		a.Advance(time.Minute)
	}
	ids := func(query string) []any { return a.Live.Get("/v1/conversations" + query).Is(200).Column("id") }
	ann, bea, cat := talks[0].conversation, talks[1].conversation, talks[2].conversation
	require.Equal(t, []any{cat, bea, ann}, ids(""))
	a.Inbound(talks[0].phone, talks[0].line, "back again")
	require.Equal(t, []any{ann, cat, bea}, ids(""), "most recent activity first")
	require.Equal(t, []any{bea}, ids("?contact_id="+talks[1].contact))
	require.Equal(t, []any{bea}, ids("?q=bEA"))
	require.Equal(t, []any{cat}, ids("?q="+talks[2].phone[2:]))
	require.Empty(t, ids("?q=again"))
	require.Empty(t, ids("?q=%25"))
	require.Equal(t, []any{ann, cat, bea}, ids("?assignee=unassigned&status=open"))
	require.Empty(t, ids("?assignee=me"), "nothing is assigned to a key")
	require.Empty(t, ids("?assignee="+uuid.NewString()))
	require.Empty(t, ids("?team_id="+uuid.NewString()))
	require.Empty(t, ids("?status=closed"))
	require.Empty(t, ids("?label=unknown"))
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "labels": []string{"vip"}}).Is(201)
	require.Empty(t, ids("?label=vip"))
	lined := ids("?line_id=" + text(conversation(a.Live, cat), "line_id"))
	require.Contains(t, lined, cat)
	require.Empty(t, ids("?line_id="+a.Sandbox.ID))

	page := a.Live.Get("/v1/conversations?limit=2").Is(200)
	require.Equal(t, []any{ann, cat}, page.Column("id"))
	rest := a.Live.Get("/v1/conversations?limit=2&cursor=" + page.Text("next_cursor")).Is(200)
	require.Equal(t, []any{bea}, rest.Column("id"))
	require.Nil(t, rest.At("next_cursor"))
	a.Live.Get("/v1/conversations?status=open&cursor="+page.Text("next_cursor")).Refused(400, "validation_failed", "query /cursor invalid_cursor")
	a.Live.Get("/v1/conversations?assignee=nobody&line_id=x&contact_id=y").
		Refused(400, "validation_failed", "query /assignee invalid_format", "query /line_id invalid_format", "query /contact_id invalid_format")
}

func TestWhoIsAskingAndTheTeamsOfTheWorkspace(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	agent := a.Users[organisation.Agent]
	team, err := a.Nodes[0].App.CreateTeam(t.Context(), a.Operator(), "Support", agent)
	require.NoError(t, err)
	me := a.Sessions[organisation.Agent].Get("/v1/me").Is(200).JSON()
	shows(t, me, app.Map{
		"type": "user", "id": agent.String(), "role": "agent", "env": "live", "scopes": []any{}, "workspace_id": a.ID.String(), "workspace_name": "Main",
		"organisation_id": a.Organisation.String(), "organisation_name": "Acme", "time_zone": "America/New_York",
	})
	shows(t, object(me["user"]), app.Map{
		"id": agent.String(), "full_name": "The agent", "email": "agent@staff.example.com", "team_ids": []any{team.Ref},
		"workspaces": []any{app.Map{"id": a.ID.String(), "name": "Main", "role": "agent"}},
	})
	shows(t, a.Test.Get("/v1/me").Is(200).JSON(), app.Map{"type": "key", "env": "test", "role": nil, "user": nil, "scopes": []any{"admin", "read", "send"}})
	require.Equal(t, []app.Map{{"id": team.Ref, "name": "Support", "member_ids": []any{agent.String()}, "created_at": stamp(0)}}, a.Live.Get("/v1/teams").Is(200).Data())
	require.Empty(t, a.NewWorkspace("Other").Live.Get("/v1/teams").Is(200).Data())
}
