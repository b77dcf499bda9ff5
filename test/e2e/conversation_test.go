package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/organisation"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/test/app"
)

// talk is a contact with its conversation, which one message started.
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

func TestConversationShowsContactNewestMessageAndUnreadCount(t *testing.T) {
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

func TestMeShowsTheCallerAndTeamsListTheWorkspacesTeams(t *testing.T) {
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
	for c, members := range map[*app.Client]any{
		a.Sessions[organisation.Agent]: []any{agent.String()}, a.Live: nil, a.Key(apikey.Live, nil, apikey.Read): nil,
	} {
		require.Equal(t, []app.Map{{"id": team.Ref, "name": "Support", "member_ids": members, "created_at": stamp(0)}}, c.Get("/v1/teams").Is(200).Data())
	}
	require.Empty(t, a.NewWorkspace("Other").Live.Get("/v1/teams").Is(200).Data())
}

func (c talk) path(rest string) string { return "/v1/conversations/" + c.conversation + rest }

func TestConversationPatchIsAppliedCompletelyOrNotAtAll(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		c := newTalk(a, "Ann")
		manager := a.Users[organisation.Manager].String()
		team, err := a.Nodes[0].App.CreateTeam(t.Context(), a.Operator(), "Support")
		require.NoError(t, err)
		other, err := a.Nodes[0].App.CreateTeam(t.Context(), a.NewWorkspace("Other").Operator(), "Elsewhere")
		require.NoError(t, err)
		a.Live.Do("PATCH", c.path(""), app.Map{
			"assignee_user_id": uuid.NewString(), "team_id": other.Ref, "handled_by": "agent:" + uuid.NewString(), "status": "snoozed", "labels": []string{"ok", " "},
		}).Refused(400, "validation_failed", "body /assignee_user_id not_a_member", "body /team_id not_found", "body /handled_by not_found",
			"body /snoozed_until required", "body /labels/1 required")
		for value, code := range map[string]string{"somebody": "invalid_value", "": "invalid_value", "agent:1": "invalid_value", "workflow:" + uuid.NewString(): "invalid_value"} {
			a.Live.Do("PATCH", c.path(""), app.Map{"handled_by": value, "status": "closed"}).Refused(400, "validation_failed", "body /handled_by "+code)
		}
		shows(t, conversation(a.Live, c.conversation), app.Map{"status": "open", "assignee_user_id": nil, "team_id": nil, "labels": []any{}})

		a.Advance(time.Minute)
		changed := a.Live.Do("PATCH", c.path(""), app.Map{
			"assignee_user_id": manager, "team_id": team.Ref, "handled_by": "team", "labels": []string{"vip", "new"}, "status": "closed",
		}).Is(200).JSON()
		shows(t, changed, app.Map{
			"status": "closed", "assignee_user_id": manager, "team_id": team.Ref, "handled_by": "team", "labels": []any{"new", "vip"}, "updated_at": stamp(time.Minute),
			"last_message_at": stamp(0),
		})
		require.NotContains(t, changed, "messages", "the answer is the summary")
		require.Equal(t, []any{"new", "vip"}, a.Live.Get("/v1/contacts/"+c.contact).Is(200).At("labels"))
		require.Equal(t, []any{c.conversation}, a.Live.Get("/v1/conversations?label=VIP&status=closed&team_id="+team.Ref+"&assignee="+manager).Is(200).Column("id"))
		require.Equal(t, []any{c.conversation}, a.Sessions[organisation.Manager].Get("/v1/conversations?assignee=me").Is(200).Column("id"))
		require.Empty(t, a.Live.Get("/v1/conversations?assignee=unassigned").Is(200).Data())

		var before, after int64
		a.QueryRow(`select count(*) from ledger_events`, nil, &before)
		a.Live.Do("PATCH", c.path(""), app.Map{"assignee_user_id": manager, "labels": []string{"New", "vip"}, "status": "closed", "mark_read": true}).Is(200)
		a.Live.Do("PATCH", c.path(""), app.Map{}).Is(200)
		a.QueryRow(`select count(*) from ledger_events`, nil, &after)
		require.Equal(t, before, after, "a value that stays the same causes no event")

		a.Live.Do("PATCH", c.path(""), app.Map{"assignee_user_id": nil, "team_id": nil, "labels": []string{}}).Is(200)
		shows(t, conversation(a.Live, c.conversation), app.Map{"assignee_user_id": nil, "team_id": nil, "labels": []any{}, "status": "closed"})
		a.Live.Do("PATCH", c.path(""), app.Map{"status": nil}).Refused(400, "validation_failed", "body /status null_not_allowed")
		a.Live.Do("PATCH", "/v1/conversations/cnv_nothing", app.Map{"status": "open"}).Refused(404, "not_found")

		a.Inbound(c.phone, c.line, "I am back")
		require.Equal(t, "open", conversation(a.Live, c.conversation)["status"], "a message opens it")
	})
}

func TestConversationsAreUnassignedWhenTheirUserLeavesTheWorkspace(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	other := a.NewWorkspace("Other")
	leaver := a.AddUser("leaver", map[uuid.UUID]organisation.Role{a.ID: organisation.Agent, other.ID: organisation.Agent})
	open, closed, theirs, elsewhere := newTalk(a, "Open"), newTalk(a, "Closed"), newTalk(a, "Theirs"), other.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x"}).Is(201).Text("conversation_id")
	for _, c := range []talk{open, closed} {
		a.Live.Do("PATCH", c.path(""), app.Map{"assignee_user_id": leaver}).Is(200)
	}
	a.Live.Do("PATCH", closed.path(""), app.Map{"status": "closed"}).Is(200)
	a.Live.Do("PATCH", "/v1/contacts/"+open.contact, app.Map{"owner_user_id": leaver}).Is(200)
	boss := a.Users[organisation.Manager].String()
	a.Live.Do("PATCH", theirs.path(""), app.Map{"assignee_user_id": boss}).Is(200)
	other.Live.Do("PATCH", "/v1/conversations/"+elsewhere, app.Map{"assignee_user_id": leaver}).Is(200)

	_, err := a.Nodes[1].App.RevokeRole(t.Context(), a.Operator(), leaver)
	require.NoError(t, err)
	a.Settle()
	for _, c := range []talk{open, closed} {
		require.Nil(t, conversation(a.Live, c.conversation)["assignee_user_id"])
	}
	require.Equal(t, "closed", conversation(a.Live, closed.conversation)["status"])
	require.Equal(t, boss, conversation(a.Live, theirs.conversation)["assignee_user_id"])
	require.Equal(t, leaver.String(), conversation(other.Live, elsewhere)["assignee_user_id"], "the membership there goes on")
	a.Sessions[organisation.Agent].Get(open.path("")).Is(200)
	a.Live.Do("PATCH", open.path(""), app.Map{"assignee_user_id": leaver}).Refused(400, "validation_failed", "body /assignee_user_id not_a_member")
	shows(t, a.Live.Do("PATCH", "/v1/contacts/"+open.contact, app.Map{"owner_user_id": leaver, "company": "Acme"}).Is(200).JSON(),
		app.Map{"owner_user_id": leaver.String(), "company": "Acme"})
	a.Live.Do("PATCH", "/v1/contacts/"+closed.contact, app.Map{"owner_user_id": leaver}).Refused(400, "validation_failed", "body /owner_user_id not_a_member")
}

func TestAgentsSeeAndChangeTheirOwnAndUnassignedConversations(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	agent, manager := a.Sessions[organisation.Agent], a.Sessions[organisation.Manager]
	me, boss := a.Users[organisation.Agent].String(), a.Users[organisation.Manager].String()
	mine, free, theirs := newTalk(a, "Mine"), newTalk(a, "Free"), newTalk(a, "Theirs")
	a.Live.Do("PATCH", mine.path(""), app.Map{"assignee_user_id": me}).Is(200)
	a.Live.Do("PATCH", theirs.path(""), app.Map{"assignee_user_id": boss}).Is(200)

	require.Equal(t, []any{free.conversation, mine.conversation}, agent.Get("/v1/conversations").Is(200).Column("id"))
	require.Equal(t, []any{mine.conversation}, agent.Get("/v1/conversations?assignee=me").Is(200).Column("id"))
	require.Equal(t, []any{free.conversation}, agent.Get("/v1/conversations?assignee=unassigned&status=open").Is(200).Column("id"))
	require.Empty(t, agent.Get("/v1/conversations?assignee="+boss).Is(200).Data())
	require.ElementsMatch(t, []any{free.contact, mine.contact}, agent.Get("/v1/contacts").Is(200).Column("id"), "contacts follow the conversation")
	require.Empty(t, agent.Get("/v1/messages?contact_id="+theirs.contact).Is(200).Data(), "messages too")
	require.Len(t, agent.Get("/v1/messages?contact_id="+mine.contact).Is(200).Data(), 1)

	for _, r := range []struct {
		method, rest string
		body         any
	}{{"GET", "", nil}, {"PATCH", "", app.Map{"status": "closed"}}, {"POST", "/messages", app.Map{"body": "x"}}, {"POST", "/notes", app.Map{"body": "x"}}} {
		agent.Do(r.method, theirs.path(r.rest), r.body).Refused(404, "not_found")
		for _, role := range []organisation.Role{organisation.Analyst, organisation.Developer} {
			if r.method != "GET" {
				a.Sessions[role].Do(r.method, mine.path(r.rest), r.body).Refused(403, "forbidden")
			}
		}
	}
	agent.Do("PATCH", free.path(""), app.Map{"assignee_user_id": boss}).Refused(403, "forbidden")
	for _, change := range []app.Map{{"team_id": nil}, {"handled_by": "team"}, {"labels": []string{"x"}}} {
		agent.Do("PATCH", mine.path(""), change).Refused(403, "forbidden")
		agent.Do("PATCH", theirs.path(""), change).Refused(404, "not_found")
		agent.Do("PATCH", "/v1/conversations/cnv_none", change).Refused(404, "not_found")
	}
	agent.Do("PATCH", free.path(""), app.Map{"assignee_user_id": me, "status": "closed"}).Is(200)
	agent.Do("PATCH", mine.path(""), app.Map{"assignee_user_id": nil}).Is(200)
	require.Equal(t, []any{free.conversation}, manager.Get("/v1/conversations?assignee="+me).Is(200).Column("id"))

	agent.Post(mine.path("/messages"), app.Map{"body": "I am on it"}).Is(201)
	agent.Post(mine.path("/notes"), app.Map{"body": "calls back on Monday"}).Is(201)
	send := a.Key(apikey.Live, nil, apikey.Send)
	send.Do("PATCH", mine.path(""), app.Map{"handled_by": "team", "team_id": nil}).Is(200)
	send.Do("PATCH", mine.path(""), app.Map{"labels": []string{"x"}}).Refused(403, "forbidden")
	a.Live.Do("PATCH", mine.path(""), app.Map{"labels": []string{"x"}}).Is(200)
	a.Key(apikey.Live, nil, apikey.Read, apikey.Admin).Do("PATCH", mine.path(""), app.Map{"labels": []string{"x"}}).Refused(403, "forbidden")
	a.Test.Do("PATCH", mine.path(""), app.Map{"handled_by": "agent:" + uuid.NewString()}).Refused(403, "forbidden")
}

func TestSnoozedConversationOpensAtItsTime(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		var talks []talk
		for _, name := range []string{"sleeps", "put off", "closed", "written to", "erased", "opened"} {
			talks = append(talks, newTalk(a, name))
		}
		snooze := func(c talk, until time.Duration) {
			a.Live.Do("PATCH", c.path(""), app.Map{"snoozed_until": stamp(until)}).Is(200)
		}
		state := func(c talk) []any {
			now := conversation(a.Live, c.conversation)
			return []any{now["status"], now["snoozed_until"]}
		}
		for _, c := range talks {
			a.Live.Do("PATCH", c.path(""), app.Map{"status": "snoozed", "snoozed_until": stamp(time.Hour)}).Is(200)
			require.Equal(t, []any{"snoozed", stamp(time.Hour)}, state(c))
		}
		sleeps, putOff, closed, written, erased, opened := talks[0], talks[1], talks[2], talks[3], talks[4], talks[5]
		snooze(putOff, 3*time.Hour)
		a.Live.Do("PATCH", closed.path(""), app.Map{"status": "closed"}).Is(200)
		a.Inbound(written.phone, written.line, "hello?")
		a.Live.Delete("/v1/contacts/" + erased.contact).Is(200)
		a.Live.Do("PATCH", opened.path(""), app.Map{"snoozed_until": nil}).Is(200)
		require.Equal(t, []any{"open", nil}, state(opened))

		a.Advance(59*time.Minute + 59*time.Second)
		require.Equal(t, []any{"snoozed", stamp(time.Hour)}, state(sleeps))
		a.Advance(time.Second)
		require.Equal(t, []any{"open", nil}, state(sleeps))
		require.Equal(t, []any{"snoozed", stamp(3 * time.Hour)}, state(putOff))
		require.Equal(t, []any{"closed", nil}, state(closed))
		require.Equal(t, []any{"open", nil}, state(written))
		a.Advance(5 * time.Hour)
		require.Equal(t, []any{"open", nil}, state(putOff))
		var woken int
		a.QueryRow(`select count(*) from ledger_events where type = 'conversation.woken'`, nil, &woken)
		require.Equal(t, 2, woken)

		for body, issue := range map[string]string{
			`{"status": "snoozed", "snoozed_until": "` + stamp(0) + `"}`:          "not_in_the_future",
			`{"snoozed_until": "` + stamp(0) + `"}`:                               "not_in_the_future",
			`{"status": "closed", "snoozed_until": "` + stamp(9*time.Hour) + `"}`: "not_snoozed",
			`{"status": "snoozed", "snoozed_until": null}`:                        "required",
			`{"status": "snoozed"}`:                                               "required",
		} {
			a.Live.Do("PATCH", sleeps.path(""), body).Refused(400, "validation_failed", "body /snoozed_until "+issue)
		}
		a.Live.Do("PATCH", closed.path(""), app.Map{"snoozed_until": nil}).Is(200)
		require.Equal(t, []any{"closed", nil}, state(closed), "no time opens only what is snoozed")
	})
}

func TestUnreadCountsMessagesSinceAPersonReadOrAnswered(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	c := newTalk(a, "Ann")
	unread := func(want float64, why ...any) {
		t.Helper()
		require.Equal(t, any(want), conversation(a.Live, c.conversation)["unread_count"], why...)
	}
	a.Inbound(c.phone, c.line, "one")
	a.Inbound(c.phone, c.line, "two")
	unread(2)
	a.Live.Do("PATCH", c.path(""), app.Map{"mark_read": false}).Is(200)
	unread(2)
	shows(t, a.Live.Do("PATCH", c.path(""), app.Map{"mark_read": true}).Is(200).JSON(), app.Map{"unread_count": 0.0})
	a.Inbound(c.phone, c.line, "three")
	unread(1)
	a.Live.Post(c.path("/messages"), app.Map{"body": "from a program"}).Is(201)
	unread(1, "a program has not read it")
	a.Sessions[organisation.Manager].Post(c.path("/messages"), app.Map{"body": "from a person"}).Is(201)
	unread(0)
	a.Inbound(c.phone, c.line, "four")
	a.Inbound(c.phone, c.line, "five")
	unread(2)
	a.Live.Do("PATCH", c.path(""), app.Map{"labels": []string{"vip", "new"}}).Is(200)
	a.Live.Do("PATCH", c.path(""), app.Map{"labels": []string{"vip"}, "status": "closed"}).Is(200)
	look := func() []any {
		found := []any{conversation(a.Live, c.conversation)}
		for _, query := range []string{"", "?label=vip", "?label=vip&status=closed", "?label=new", "?label=vip&status=open"} {
			found = append(found, a.Live.Get("/v1/conversations"+query).Is(200).Column("id"))
		}
		return found
	}
	before := look()
	require.Equal(t, []any{[]any{c.conversation}, []any{c.conversation}, []any{c.conversation}, []any{}, []any{}}, before[1:])
	a.Settle()
	before = look()
	_, err := readmodel.Replay(t.Context(), a.Nodes[0].Ledger, projections.Conversations, nil)
	require.NoError(t, err)
	require.Equal(t, before, look(), "a replay counts the same")
}

func TestReplyFollowsTheSendingRules(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	c := newTalk(a, "Ann")
	a.Inbound(c.phone, c.line, "hi")
	manager := a.Sessions[organisation.Manager]
	reply := manager.IdempotencyKey("r").Post(c.path("/messages"), app.Map{"body": "hello", "media": []app.Map{{"url": "https://example.com/a.png"}}}).Is(201)
	shows(t, reply.JSON(), app.Map{
		"conversation_id": c.conversation, "contact_id": c.contact, "status": "queued", "direction": "outbound", "source": "dashboard", "sent_by_staff": true,
		"to": c.phone, "body": "hello",
	})
	again := manager.IdempotencyKey("r").Post(c.path("/messages"), app.Map{"body": "hello", "media": []app.Map{{"url": "https://example.com/a.png"}}}).Is(201)
	require.Equal(t, string(reply.Raw), string(again.Raw))
	require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, reply.Text("id")))
	a.Live.Post(c.path("/messages"), app.Map{}).Refused(400, "validation_failed", "body /body required")
	a.Live.Post(c.path("/messages"), app.Map{"to": c.phone, "body": strings.Repeat("x", 2001)}).
		Refused(400, "validation_failed", "body /to unknown_property", "body /body too_long")
	a.Test.Post(c.path("/messages"), app.Map{"body": "x"}).Refused(400, "validation_failed", "body /to not_sandbox")
	a.NewOrganisation("Stranger").Live.Post(c.path("/messages"), app.Map{"body": "x"}).Refused(404, "not_found")
	a.Live.Post("/v1/contacts/"+c.contact+"/opt-out", app.Map{"source": "x"}).Is(200)
	a.Live.Post(c.path("/messages"), app.Map{"body": "x"}).Refused(422, "contact_opted_out")
	a.Live.Delete("/v1/contacts/" + c.contact).Is(200)
	for _, answer := range []app.Answer{
		a.Live.Post(c.path("/messages"), app.Map{"body": "x"}), a.Live.Post(c.path("/notes"), app.Map{"body": "x"}), a.Live.Get(c.path("")),
		a.Live.Do("PATCH", c.path(""), app.Map{"status": "open"}),
	} {
		answer.Refused(404, "not_found")
	}
	require.Empty(t, a.Live.Get("/v1/conversations").Is(200).Data())
}

func TestNotesAreSeenByTheTeamAndNeverSent(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	c := newTalk(a, "Ann")
	first := a.Sessions[organisation.Manager].Post(c.path("/notes"), app.Map{"body": "one\ntwo"}).Is(201)
	require.Equal(t, app.Map{
		"id": first.Text("id"), "conversation_id": c.conversation, "author_user_id": a.Users[organisation.Manager].String(), "body": "one\ntwo", "created_at": stamp(0),
	}, first.JSON())
	a.Advance(time.Minute)
	second := a.Live.IdempotencyKey("n").Post(c.path("/notes"), app.Map{"body": strings.Repeat("é", 5000)}).Is(201)
	require.Nil(t, second.At("author_user_id"))
	a.Live.IdempotencyKey("n").Post(c.path("/notes"), app.Map{"body": strings.Repeat("é", 5000)}).Is(201)
	notes := conversation(a.Live, c.conversation)["notes"]
	require.Equal(t, []any{second.JSON(), first.JSON()}, notes, "newest first, and one for each key")
	a.Live.Post(c.path("/notes"), app.Map{"body": strings.Repeat("é", 5001)}).Refused(400, "validation_failed", "body /body too_long")
	a.Live.Post(c.path("/notes"), app.Map{"body": " "}).Refused(400, "validation_failed", "body /body required")
	a.Settle()
	require.Len(t, a.Live.Get("/v1/messages?contact_id="+c.contact).Is(200).Data(), 1, "nothing was sent")
	shows(t, conversation(a.Live, c.conversation), app.Map{"last_message_at": stamp(0)})
}

func TestRolesAndScopesThatMayWriteInTheInbox(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	c := newTalk(a, "Ann")
	a.Inbound(c.phone, c.line, "hi")
	callers := map[string]*app.Client{}
	for _, scope := range []apikey.Scope{apikey.Read, apikey.Send, apikey.Admin} {
		callers[string(scope)+" scope"] = a.Key(apikey.Live, nil, scope)
	}
	for role, session := range a.Sessions {
		callers[string(role)] = session
	}
	for _, r := range []struct {
		method, path string
		body         app.Map
		allowed      []string
	}{
		{"PATCH", c.path(""), app.Map{"status": "open"}, []string{"send scope", "owner", "admin", "manager", "agent"}},
		{"PATCH", c.path(""), app.Map{"team_id": nil, "handled_by": "team"}, []string{"send scope", "owner", "admin", "manager"}},
		{"PATCH", c.path(""), app.Map{"labels": []string{}}, []string{"owner", "admin", "manager"}},
		{"POST", c.path("/messages"), app.Map{"body": "x"}, []string{"send scope", "owner", "admin", "manager", "agent"}},
		{"POST", c.path("/notes"), app.Map{"body": "x"}, []string{"send scope", "owner", "admin", "manager", "agent"}},
		{"POST", "/v1/saved-replies", nil, []string{"admin scope", "owner", "admin", "manager"}},
	} {
		for name, caller := range callers {
			body := r.body
			if body == nil {
				body = app.Map{"title": "of " + name, "body": "x"}
			}
			answer := caller.Do(r.method, r.path, body)
			if slices.Contains(r.allowed, name) {
				require.Less(t, answer.Status, 300, "%s %s %s: %s", name, r.method, r.path, answer.Raw)
			} else {
				answer.Refused(403, "forbidden")
			}
		}
	}
}
