package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/test/app"
)

// use runs a tool over REST.
func use(c *app.Client, tool string, input app.Map) app.Answer {
	return c.Post("/v1/mcp/tools/"+tool, input)
}

func TestReadingToolsAnswerAsTheirEndpointsDo(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		ada := newTalk(a, "Ada")
		bob := newTalk(a, "Bob")
		c := a.Key(apikey.Live, nil, apikey.Read)

		want := c.Get("/v1/contacts/" + ada.contact).Is(200).JSON()
		require.Equal(t, want, use(c, "get_contact", app.Map{"contact_id": ada.contact}).Is(200).JSON())
		require.Equal(t, want, use(c, "get_contact", app.Map{"phone": ada.phone}).Is(200).JSON())
		require.Equal(t, c.Get("/v1/contacts?q=ad").Is(200).JSON(), use(c, "search_contacts", app.Map{"query": "ad"}).Is(200).JSON())
		found := use(c, "search_contacts", app.Map{"query": "+1", "limit": 1}).Is(200)
		require.Equal(t, []any{bob.contact}, found.Column("id"))
		require.Equal(t, []any{ada.contact}, c.Get("/v1/contacts?q=%2B1&cursor="+found.Text("next_cursor")).Is(200).Column("id"))

		require.Equal(t, c.Get("/v1/conversations").Is(200).JSON(), use(c, "list_conversations", app.Map{}).Is(200).JSON())
		require.Empty(t, use(c, "list_conversations", app.Map{"status": "closed"}).Is(200).Data())
		require.Len(t, use(c, "list_conversations", app.Map{"assignee": "unassigned", "limit": 1}).Is(200).Data(), 1)
		require.Equal(t, conversation(c, ada.conversation), use(c, "get_conversation", app.Map{"conversation_id": ada.conversation}).Is(200).JSON())

		messageID := text(object(conversation(c, ada.conversation)["last_message"]), "id")
		status := use(c, "get_message_status", app.Map{"message_id": messageID}).Is(200)
		require.Equal(t, message(c, messageID), status.At("message"))
		require.Equal(t, c.Get("/v1/messages/"+messageID+"/events").Is(200).At("data"), status.At("events"))

		require.Equal(t, c.Get("/v1/lines").Is(200).JSON(), use(c, "list_lines", app.Map{}).Is(200).JSON())
		require.Len(t, use(c, "list_lines", app.Map{"pool_id": a.PoolID}).Is(200).Data(), len(a.Lines))
		use(c, "list_lines", app.Map{"pool_id": "x"}).Refused(400, "validation_failed", "body /pool_id invalid_format")

		checked := use(c, "check_chat", app.Map{"phone": ada.phone}).Is(200)
		shows(t, checked.JSON(), app.Map{"phone": ada.phone, "chat": true})
		require.Equal(t, true, use(c, "check_chat", app.Map{"phone": ada.phone}).Is(200).At("cached"))
	})
}

func TestGetConversationReturnsUpTo200Messages(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	ada := newTalk(a, "Ada")
	for i := range 120 {
		a.Inbound(ada.phone, ada.line, fmt.Sprint(i))
	}
	for limit, want := range map[int]int{1: 1, 110: 110, 200: 121} {
		require.Len(t, use(a.Live, "get_conversation", app.Map{"conversation_id": ada.conversation, "limit": limit}).Is(200).At("messages"), want)
	}
	require.Len(t, use(a.Live, "get_conversation", app.Map{"conversation_id": ada.conversation}).Is(200).At("messages"), 50)
	for limit, code := range map[int]string{0: "too_small", 201: "too_large"} {
		use(a.Live, "get_conversation", app.Map{"conversation_id": ada.conversation, "limit": limit}).Refused(400, "validation_failed", "body /limit "+code)
	}
}

func TestRetriedToolCallWithTheSameKeySendsOnce(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	ada := newTalk(a, "Ada")
	for tool, input := range map[string]app.Map{
		"send_message":          {"contact_id": ada.contact, "body": "Hello", "idempotency_key": "k1"},
		"reply_to_conversation": {"conversation_id": ada.conversation, "body": "Hello again", "idempotency_key": "k2"},
	} {
		first := use(a.Live, tool, input).Is(200)
		shows(t, first.JSON(), app.Map{"source": "mcp", "status": "queued", "contact_id": ada.contact, "sent_by_staff": false, "body": input["body"]})
		a.Settle()
		again := use(a.Live, tool, input).Is(200)
		require.Equal(t, first.JSON(), again.JSON())
		require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
		input["body"] = "Something else"
		use(a.Live, tool, input).Refused(409, "idempotency_conflict")
		for _, prefix := range []string{"outreach:", "workflow:", "agent:"} {
			input["idempotency_key"] = prefix + "1"
			use(a.Live, tool, input).Refused(400, "validation_failed", "body /idempotency_key reserved")
		}
		input["idempotency_key"] = "with space"
		use(a.Live, tool, input).Refused(400, "validation_failed", "body /idempotency_key invalid_characters")
	}
	// A key belongs to the workspace, for all endpoints. A tool call ignores the header.
	a.Live.IdempotencyKey("k1").Post("/v1/messages", app.Map{"contact_id": ada.contact, "body": "Hello"}).Refused(409, "idempotency_conflict")
	one, two := app.Map{"contact_id": ada.contact, "body": "one"}, app.Map{"contact_id": ada.contact, "body": "two"}
	require.NotEqual(t, use(a.Live.IdempotencyKey("k3"), "send_message", one).Is(200).Text("id"), use(a.Live.IdempotencyKey("k3"), "send_message", two).Is(200).Text("id"))
	owner := use(a.Sessions[organisation.Owner], "send_message", one).Is(200)
	require.Equal(t, []any{"mcp", true}, []any{owner.At("source"), owner.At("sent_by_staff")})
}

func TestProblemsOfAToolCallAreReportedInItsInput(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	ada := newTalk(a, "Ada")
	use(a.Live, "get_contact", app.Map{}).Refused(400, "validation_failed", "body /contact_id exactly_one")
	use(a.Live, "get_contact", app.Map{"contact_id": ada.contact, "phone": ada.phone}).Refused(400, "validation_failed", "body /contact_id exactly_one")
	use(a.Live, "get_contact", app.Map{"phone": ""}).Refused(400, "validation_failed", "body /phone invalid_phone")
	use(a.Live, "get_contact", app.Map{"contact_id": ""}).Refused(404, "not_found")
	use(a.Live, "list_lines", app.Map{"pool_id": ""}).Refused(400, "validation_failed", "body /pool_id invalid_format")
	use(a.Live, "get_contact", app.Map{"phone": "x"}).Refused(400, "validation_failed", "body /phone invalid_phone")
	use(a.Live, "get_contact", app.Map{"phone": "+14155550000"}).Refused(404, "not_found")
	use(a.Live, "get_contact", app.Map{"contact_id": "ctc_1"}).Refused(404, "not_found")
	use(a.Live, "get_conversation", app.Map{"conversation_id": "cnv_1"}).Refused(404, "not_found")
	use(a.Live, "get_message_status", app.Map{"message_id": "msg_1"}).Refused(404, "not_found")
	use(a.Live, "check_chat", app.Map{"phone": "x"}).Refused(400, "validation_failed", "body /phone invalid_phone")
	use(a.Live, "send_message", app.Map{"body": "x", "limit": 1}).Refused(400, "validation_failed", "body /to exactly_one", "body /limit unknown_property")
	use(a.Live, "send_message", app.Map{"body": "", "to": "x"}).Refused(400, "validation_failed", "body /body required", "body /to invalid_phone")
	use(a.Live, "send_message", app.Map{"body": "x", "to": ada.phone, "pool_id": "pool_1"}).Refused(400, "validation_failed", "body /pool_id not_found")
	use(a.Test, "send_message", app.Map{"body": "x", "to": ada.phone}).Refused(400, "validation_failed", "body /to not_sandbox")
	use(a.Live, "reply_to_conversation", app.Map{"conversation_id": ada.conversation, "body": strings.Repeat("x", 2001)}).Refused(400, "validation_failed", "body /body too_long")
	use(a.Live, "handoff_to_human", app.Map{"conversation_id": ada.conversation, "reason": strings.Repeat("x", 501), "team_id": "x"}).
		Refused(400, "validation_failed", "body /reason too_long", "body /team_id invalid_format")
	use(a.Live, "handoff_to_human", app.Map{"conversation_id": ada.conversation, "reason": "x", "team_id": uuid.NewString()}).
		Refused(400, "validation_failed", "body /team_id not_found")
	use(a.Live, "upsert_contact", app.Map{"phone": "x", "email": "x"}).Refused(400, "validation_failed", "body /phone invalid_phone", "body /email invalid_format")
	use(a.Live, "upsert_contact", app.Map{"phone": ada.phone, "consent_status": "opted_in"}).Refused(400, "validation_failed", "body /consent_status unknown_property")
	a.Live.Post("/v1/contacts/"+ada.contact+"/opt-out", app.Map{"source": "x"}).Is(200)
	use(a.Live, "send_message", app.Map{"body": "x", "to": ada.phone}).Refused(422, "contact_opted_out")
	use(a.Live, "reply_to_conversation", app.Map{"conversation_id": ada.conversation, "body": "x"}).Refused(422, "contact_opted_out")
}

func TestUpsertCreatesAContactOrUpdatesTheOneWithTheNumber(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	made := use(a.Live, "upsert_contact", app.Map{"phone": phone, "first_name": "Ada", "fields": app.Map{"plan": "a", "seats": 3}}).Is(200)
	require.Equal(t, true, made.At("created"))
	id := made.Text("contact.id")
	a.Live.Post("/v1/contacts/"+id+"/consent", app.Map{"status": "opted_in", "source": "form"}).Is(200)
	changed := use(a.Live, "upsert_contact", app.Map{"phone": phone, "company": "Acme", "fields": app.Map{"plan": "b"}}).Is(200)
	require.Equal(t, false, changed.At("created"))
	shows(t, object(changed.At("contact")), app.Map{
		"id": id, "first_name": "Ada", "company": "Acme", "fields": app.Map{"plan": "b"}, "consent_status": "opted_in", "consent_source": "form",
	})
	require.Equal(t, a.Live.Get("/v1/contacts/"+id).Is(200).JSON(), changed.At("contact"))
	same := use(a.Live, "upsert_contact", app.Map{"phone": phone, "company": "Acme"}).Is(200)
	require.Equal(t, changed.JSON(), same.JSON())
}

func TestHandoffGivesTheConversationToTheTeam(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		ada := newTalk(a, "Ada")
		team, err := a.Nodes[0].App.CreateTeam(t.Context(), a.Operator(), "Support")
		require.NoError(t, err)
		ask := app.Map{"conversation_id": ada.conversation, "reason": "The contact asks for a person.", "team_id": team.Ref}
		_, bot := newIdentity(a, app.Map{"scopes": []string{"send"}})

		// A program that answers in a conversation becomes its handler.
		_, err = a.Nodes[0].Ledger.Append(t.Context(), eventstore.Append{
			Organisation: a.Organisation, Workspace: a.ID, Actor: events.Actor{Type: "system"}, At: a.Clock.Now(),
			Streams: []eventstore.StreamEvents{{Stream: ada.conversation, Expected: eventstore.AnyVersion, Events: []events.Event{&events.ConversationHandlerChanged{
				ConversationRef: events.ConversationRef{ConversationID: ada.conversation, ContactID: ada.contact}, From: "team", To: "workflow:" + uuid.NewString(),
			}}}},
		})
		require.NoError(t, err)
		handed := use(bot, "handoff_to_human", ask).Is(200)
		require.Equal(t, true, handed.At("handed_off"))
		shows(t, object(handed.At("conversation")), app.Map{"id": ada.conversation, "handled_by": "team", "team_id": team.Ref})
		var handoffs int
		a.QueryRow(`select count(*) from ledger_events where type = 'agent.handoff' and stream = $1`, []any{ada.conversation}, &handoffs)
		require.Equal(t, 1, handoffs)

		other, err := a.Nodes[0].App.CreateTeam(t.Context(), a.Operator(), "Sales")
		require.NoError(t, err)
		ask["team_id"], ask["reason"] = other.Ref, "About a price."
		again := use(bot, "handoff_to_human", ask).Is(200)
		require.Equal(t, false, again.At("handed_off"))
		require.Equal(t, other.Ref, again.Text("conversation.team_id"))
		a.QueryRow(`select count(*) from ledger_events where type = 'agent.handoff' and stream = $1`, []any{ada.conversation}, &handoffs)
		require.Equal(t, 1, handoffs)
		notes := a.Live.Get("/v1/conversations/" + ada.conversation).Is(200)
		require.Equal(t, []any{"About a price.", "The contact asks for a person."}, []any{notes.At("notes.0.body"), notes.At("notes.1.body")})
		delete(ask, "team_id")
		require.Equal(t, other.Ref, use(bot, "handoff_to_human", ask).Is(200).Text("conversation.team_id"))
		use(a.Sessions[organisation.Agent], "handoff_to_human", ask).Refused(403, "forbidden")
	})
}

// runs says which endpoint each tool runs .
var runs = map[string]string{
	"check_chat": "lookup", "get_contact": "get_contact", "get_conversation": "get_conversation", "get_message_status": "list_message_events",
	"handoff_to_human": "update_conversation", "list_conversations": "list_conversations", "list_lines": "list_lines", "reply_to_conversation": "reply_to_conversation",
	"search_contacts": "list_contacts", "send_message": "send_message", "upsert_contact": "update_contact",
}

func TestToolHasTheScopesAndLimitsOfItsEndpoint(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	route := func(id string) httpapi.Route {
		r, found := a.Nodes[0].API.Route(id)
		require.True(t, found, id)
		return r
	}
	for tool, endpoint := range runs {
		have, want := route("tool_"+tool), route(endpoint)
		require.Equal(t, "/v1/mcp/tools/"+tool, have.Path)
		require.Equal(t, want.Access, have.Access, tool)
		require.Equal(t, want.Sending, have.Sending, tool)
		for _, scope := range []apikey.Scope{apikey.Read, apikey.Send, apikey.Admin} {
			answer := use(a.Key(apikey.Live, nil, scope), tool, app.Map{"nonsense": true})
			if slices.Contains(want.Access.Keys, auth.Scope(scope)) {
				answer.Is(400)
			} else {
				answer.Refused(403, "forbidden")
			}
		}
		use(a.Anonymous(), tool, app.Map{}).Refused(401, "unauthorized")
	}
}

func TestToolsShareTheLimitsOfTheirKeyWithTheEndpoints(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.RateLimits())
	c := a.Key(apikey.Live, nil, apikey.Read, apikey.Send)
	for i := range 100 {
		var answer app.Answer
		if i%2 == 0 {
			answer = use(c, "send_message", app.Map{})
		} else {
			answer = c.Post("/v1/messages", app.Map{})
		}
		if answer.Status == 429 {
			require.GreaterOrEqual(t, i, 20)
			use(c, "get_contact", app.Map{}).Is(400)
			return
		}
	}
	t.Fatal("no limit")
}

func TestToolsHideConversationsThatAnAgentMayNotSee(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	ada := newTalk(a, "Ada")
	agent, manager := a.Sessions[organisation.Agent], a.Sessions[organisation.Manager]
	manager.Do("PATCH", "/v1/conversations/"+ada.conversation, app.Map{"assignee_user_id": a.Users[organisation.Manager]}).Is(200)
	use(agent, "get_conversation", app.Map{"conversation_id": ada.conversation}).Refused(404, "not_found")
	use(agent, "get_contact", app.Map{"phone": ada.phone}).Refused(404, "not_found")
	use(agent, "reply_to_conversation", app.Map{"conversation_id": ada.conversation, "body": "x"}).Refused(404, "not_found")
	require.Empty(t, use(agent, "list_conversations", app.Map{}).Is(200).Data())
	require.Equal(t, []any{ada.conversation}, use(manager, "list_conversations", app.Map{"assignee": "me"}).Is(200).Column("id"))
	manager.Do("PATCH", "/v1/conversations/"+ada.conversation, app.Map{"assignee_user_id": nil}).Is(200)
	use(agent, "reply_to_conversation", app.Map{"conversation_id": ada.conversation, "body": "x"}).Is(200)
}
