package service

import "ledgerline/httpapi"

// documentation is what the OpenAPI document says besides the routes and their types. A test requires a description of
// every property and tag, and an example of every body that fits its schema.
func documentation() httpapi.Documentation {
	return httpapi.Documentation{Description: description, Tags: documentedTags, Properties: documentedProperties, Examples: examples}
}

const description = `Send and receive business messages, with consent, quiet hours and line limits applied for you.

**Credentials.** Every request carries ` + "`Authorization: Bearer TOKEN`" + `: an API key, the token of a service identity, or
a session token. Test keys (` + "`ll_test_…`" + `) send to sandbox numbers only.

**Retries.** Send the header ` + "`idempotency-key`" + ` with every POST, PATCH and DELETE. The same key with the same
request gives the first answer again for 24 hours, and nothing happens twice.

**Pages.** Lists take ` + "`limit`" + ` (1 to 100) and ` + "`cursor`" + `, the ` + "`next_cursor`" + ` of the page before.

**Compatibility.** Requests are strict: an unknown property is refused. Answers may get further properties at any time.

## Errors

A refusal has one form: ` + "`{\"error\": {code, message, request_id, details}}`" + `. Branch on the code.

| status | code | meaning |
|---|---|---|
| 400 | validation_failed | something in the request does not fit; ` + "`details.issues`" + ` names each place |
| 400 | bad_request | the request cannot be read, or does not choose a workspace |
| 401 | unauthorized | no credential, or one that is unknown, expired, revoked or disabled |
| 403 | forbidden | the scopes of the key, or the role of the user, do not cover this |
| 403 | org_paused | the organisation is paused: it reads, and writes nothing |
| 404 | not_found | it does not exist, or the caller may not see it |
| 405 | bad_request | this path does not take the method |
| 409 | conflict | the state does not allow it, or the name or number is taken |
| 409 | idempotency_conflict | the idempotency key was used for another request or by another caller, or is in use |
| 413 | payload_too_large | the body is too large |
| 415 | unsupported_media_type | the body is not ` + "`application/json`" + ` |
| 422 | contact_opted_out | the contact opted out; nothing may be sent |
| 422 | consent_required | the organisation requires an opt-in, and the contact has none |
| 429 | rate_limited | too many requests; wait as ` + "`retry-after`" + ` says |
| 500 | internal_error | a failure of the service; try again with the same idempotency key |
| 503 | service_unavailable | not possible now; wait as ` + "`retry-after`" + ` says |

A message that was accepted and could not be delivered has the status ` + "`failed`" + ` and one of these error codes;
` + "`error_details`" + ` says more:

| error_code | meaning |
|---|---|
| contact_opted_out | the contact opted out before it was sent |
| consent_required | an opt-in was withdrawn, or is required since |
| hold_expired | it waited seven days for quiet hours or for the capacity of a line |
| not_on_chat | the number is not on the chat channel, and SMS is not allowed |
| carrier_rejected | the carrier refused it for good |
| carrier_unreachable | the carrier could not be reached in four attempts |
| sms_… | the SMS carrier's own code |
| canceled | it was canceled: by request, or because what it needs is gone |
`

var documentedTags = []httpapi.Tag{
	{Name: "contacts", Description: "People with a phone number: their data, labels and consent. CSV import and export."},
	{Name: "labels", Description: "Names that mark contacts."},
	{Name: "segments", Description: "Saved conditions on contacts."},
	{Name: "messages", Description: "Sending, and the timeline that tells why a message waits or failed."},
	{Name: "conversations", Description: "The inbox: one conversation for each contact, with replies, notes and who handles it."},
	{Name: "saved_replies", Description: "Texts that people use again."},
	{Name: "lines", Description: "Phone lines and the pools that they are in: capacity, health and requests for more."},
	{Name: "workflows", Description: "Automation: a trigger starts runs, and each run takes the steps of a graph for one contact."},
	{Name: "agents", Description: "Language models that answer in the conversations that they handle, and hand over to people."},
	{Name: "outreach", Description: "One message to each contact of a segment or a list."},
	{Name: "sms_connections", Description: "The account of the workspace at the SMS provider, for messages that cannot go over the chat channel."},
	{Name: "compliance", Description: "The consent trail, its proof, and the audit log."},
	{Name: "webhooks", Description: "Endpoints that are told of events, and the deliveries to them."},
	{Name: "api_keys", Description: "Credentials of programs."},
	{Name: "service_identities", Description: "Credentials of programs that act in their own name, with lines and a daily limit of their own."},
	{Name: "people", Description: "The caller, and the teams of the workspace."},
	{Name: "tools", Description: "The endpoints that AI agents use, each with an input that a model can fill in. The same tools are served over MCP at /mcp."},
}

// documentedProperties describes the properties whose types do not; see httpapi.Documentation.
var documentedProperties = map[string]string{
	"account_sid":               "The provider's id of the account",
	"area_codes":                "Area codes that the lines should have",
	"assignee":                  "Whose conversations",
	"assignee_user_id":          "The user to whom the conversation is assigned; null for nobody",
	"at":                        "When it happened",
	"block":                     "The number of the block that holds the entry",
	"body":                      "The text",
	"capability_checked_at":     "When it was last found out whether the number is on chat",
	"channel":                   "chat or sms",
	"checked_at":                "When this was found out",
	"code":                      "What clients branch on",
	"color":                     "As #rrggbb",
	"company":                   "The contact's company",
	"consent_at":                "When the consent last changed",
	"consent_source":            "Where the consent comes from",
	"consent_status":            "Whether the contact agreed to messages",
	"contact_id":                "ctc_ id of the contact",
	"count":                     "How many",
	"created":                   "Whether the contact was made by this call",
	"created_at":                "When it was made",
	"data":                      "The rows",
	"deleted":                   "Always true",
	"delivered_at":              "When the carrier reported that it arrived",
	"Delivery.delivered_at":     "When the endpoint took the event",
	"detail":                    "What else is known about the step; its properties depend on the kind of step",
	"direction":                 "inbound from the contact, or outbound to it",
	"disabled_at":               "When the endpoint was disabled because deliveries kept failing",
	"display_name":              "The name that people see for the line",
	"email":                     "Email address",
	"env":                       "live, or test for sandbox traffic only",
	"error":                     "Why the attempt failed; null when it succeeded",
	"error_code":                "Why it failed; the codes are listed above",
	"error_details":             "More about the failure, such as the number of attempts",
	"event_type":                "The type of the event",
	"SimulationStep.event":      "Of a webhook step: what workflow.webhook would carry; null for other steps",
	"events":                    "The types of events that are delivered",
	"expires_at":                "When it stops to be valid; null for never",
	"fallback_sms_mode":         "When a message goes by SMS: never, when the number is not on chat, or also when chat failed",
	"filename":                  "The name of the file",
	"finished_at":               "When it ended; null while it goes on",
	"first_name":                "First name",
	"first_reply_at":            "When the contact first wrote",
	"format":                    "The version of the proof's form",
	"extends":                   "Shows that the tree begins with that of an older head; null when head_size was not given",
	"from_numbers":              "Numbers of the account that send",
	"from_position":             "The first position in the ledger that the block covers",
	"from_status":               "The consent before",
	"full_name":                 "Full name",
	"hash":                      "SHA-256 in hexadecimal",
	"health_score":              "0 to 100; a line below 50 is throttled",
	"id":                        "Identifies it",
	"image_url":                 "The picture on the contact card",
	"ip":                        "The address of the request that made the change",
	"is_sandbox":                "Whether it is the sandbox line, which reaches sandbox numbers only",
	"issues":                    "What is wrong with the request",
	"keyword":                   "The word with which the contact opted out or in",
	"kind":                      "What uses the identity",
	"last_inbound_at":           "When the contact last wrote",
	"last_message":              "The newest message",
	"last_message_at":           "When the newest message was sent or received",
	"last_name":                 "Last name",
	"last_outbound_at":          "When the contact was last written to",
	"latency_ms":                "Milliseconds until the endpoint answered",
	"limit":                     "How many rows",
	"line_id":                   "ln_ id of the line",
	"location":                  "The part of the request",
	"media":                     "Files that go with the text",
	"message":                   "For people; it may change",
	"message_id":                "msg_ id of the message",
	"messaging_service_sid":     "The provider's id of the messaging service that sends; null for none",
	"metadata":                  "The caller's own data, at most 50 keys and 16 KB",
	"mime":                      "The media type, such as image/png",
	"name":                      "The name",
	"new_contacts":              "Contacts that the line wrote to for the first time today",
	"new_contacts_cap":          "How many of those are allowed today",
	"next_attempt_at":           "When the next attempt is due; null when there is none",
	"node_id":                   "The node of the workflow's graph",
	"note":                      "For the operator",
	"number":                    "Its number, from 1",
	"occurred_at":               "When it happened",
	"organisation_id":           "The organisation of the workspace",
	"organisation_name":         "The name of the organisation",
	"owner_user_id":             "The user who owns the contact",
	"phone_hash":                "A keyed hash of the number, which stands for it in the ledger",
	"previous":                  "The hash of the block before",
	"previous_assignee_user_id": "The user to whom the conversation was assigned before",
	"previous_consent_status":   "The consent before",
	"previous_state":            "The state before",
	"previous_status":           "The status before",
	"provider":                  "The provider; there is one",
	"read_at":                   "When the contact read it, where the channel tells",
	"reason":                    "Why",
	"request_id":                "The id of the request",
	"resume_at":                 "When the run goes on; null when it waits for nothing",
	"revoked_at":                "When it was revoked; null when it was not",
	"role":                      "The user's role in the workspace",
	"root":                      "The root of the Merkle tree of the block's entries",
	"rotation":                  "How lines are chosen: the contact's last one again, or in turn",
	"run_id":                    "The run of the workflow",
	"scheduled_for":             "When it is due; null when it is not scheduled",
	"scopes":                    "What it may do: read, send, admin",
	"sends":                     "Messages that the line sent today",
	"sends_cap":                 "How many messages are allowed today",
	"sent_at":                   "When the carrier accepted it",
	"sent_by_staff":             "Whether a signed-in user wrote it",
	"shard":                     "The part of the ledger that holds the organisation",
	"snoozed_until":             "When the conversation opens again; null when it is not snoozed",
	"source":                    "Where it comes from",
	"started_at":                "When it started",
	"state":                     "Whether the line sends, and how much",
	"state_changed_at":          "When the state last changed",
	"state_reason":              "Why the line has its state",
	"status":                    "Where it stands",
	"status_code":               "The HTTP status of the answer; null when there was none",
	"steps":                     "What the run did, in order",
	"team_id":                   "The team; null for none",
	"title":                     "The title",
	"to_position":               "The last position in the ledger that the block covers",
	"to_status":                 "The consent after",
	"total_rows":                "Rows of the file without its header",
	"type":                      "What kind it is",
	"updated_at":                "When it last changed",
	"url":                       "The address",
	"user":                      "The signed-in user; null for a key",
	"user_agent":                "The program that sent the request, as it names itself",
	"version":                   "The version of the workflow",
	"workflow_id":               "The workflow",
	"workflow_version_id":       "The published version of the workflow",
	"workspace_id":              "The workspace",
	"workspace_name":            "The name of the workspace",
}

type object = map[string]any

// The ids of examples.
const (
	exampleContact      = "ctc_01jxk3v0m5fzt8w2c9q4r7a6be"
	exampleConversation = "cnv_01jxk3v1c2e4h8d5m6p7q8r9st"
	exampleMessage      = "msg_01jxk3v2d3f5j9e6n7q8r9s0tv"
	exampleUser         = "01920f6c-b6f1-7c40-a8b1-f7c9d3f0a2b4"
)

// examples are request bodies by operation id. What they name, such as a line, has to be replaced before use.
var examples = map[string]any{
	"create_workflow": object{
		"name": "Welcome", "trigger": "message.received", "trigger_config": object{"keywords": []string{"join"}},
		"graph": object{
			"nodes": []object{
				{"id": "start", "type": "trigger"}, {"id": "hi", "type": "send", "config": object{"body": "Hi {{first_name|there}}!"}},
			},
			"edges": []object{{"from": "start", "to": "hi"}},
		},
	},
	"update_workflow": object{"status": "paused"},
	"simulate_workflow": object{
		"contact": object{"first_name": "Ada", "phone": "+14155550134"}, "message": object{"body": "join"},
		"replies": []object{{"body": "Yes please", "after": "PT5M"}},
	},
	"fire_workflow_trigger": object{"phone": "+14155550134", "order": object{"id": "A-1"}},
	"create_outreach": object{
		"name": "Spring news", "contact_ids": []string{exampleContact}, "body": "Hi {{first_name|there}}, our new opening hours are nine to seven.",
	},
	"create_agent": object{
		"name": "Front desk", "instructions": "You answer questions about opening hours: nine to six, Monday to Friday. Hand over everything else.", "daily_limit": 500,
	},
	"update_agent": object{"status": "live"},
	"create_contact": object{
		"phone": "+14155550134", "first_name": "Ada", "last_name": "Byron", "labels": []string{"vip"}, "fields": object{"plan": "gold"},
		"consent_status": "opted_in", "consent_source": "checkout form",
	},
	"update_contact":        object{"company": "Analytical Engines", "fields": object{"plan": "silver"}},
	"change_contact_labels": object{"add": []string{"vip"}, "remove": []string{"trial"}},
	"set_contact_consent":   object{"status": "opted_in", "source": "paper form"},
	"opt_out_contact":       object{"source": "phone call"},
	"import_contacts": object{
		"csv":     "Mobile,First name,Plan\n+14155550134,Ada,gold\n",
		"mapping": object{"Mobile": "phone", "First name": "first_name", "Plan": "fields.plan"}, "labels": []string{"imported"}, "update_existing": true,
	},
	"create_label":   object{"name": "vip", "color": "#1f6feb"},
	"update_label":   object{"name": "regular"},
	"create_segment": object{"name": "Gold in California", "definition": exampleDefinition},
	"update_segment": object{"name": "Gold"},

	"send_message":          object{"to": "+14155550134", "body": "Hello Ada, your order is ready."},
	"lookup":                object{"phone": "+14155550134"},
	"update_conversation":   object{"assignee_user_id": exampleUser, "mark_read": true},
	"reply_to_conversation": object{"body": "We are open until six."},
	"add_note":              object{"body": "Asked for a call tomorrow."},
	"create_saved_reply":    object{"title": "Opening hours", "body": "We are open from nine to six."},
	"update_saved_reply":    object{"body": "We are open from nine to five."},

	"update_line":   object{"display_name": "Front desk"},
	"pause_line":    object{"reason": "Moving to another phone"},
	"resume_line":   object{"reason": "Back in use"},
	"create_pool":   object{"name": "Support", "rotation": "sticky", "fallback_sms_mode": "not_chat"},
	"update_pool":   object{"rotation": "round_robin"},
	"request_lines": object{"count": 2, "area_codes": []string{"415"}},

	"create_api_key":          object{"name": "CRM", "scopes": []string{"read", "send"}},
	"create_service_identity": object{"name": "Support agent", "scopes": []string{"read", "send"}, "daily_limit": 500},
	"change_service_identity": object{"daily_limit": 1000},
	"create_webhook":          object{"url": "https://example.com/hooks/ledgerline", "events": []string{"message.received", "message.status"}},
	"update_webhook":          object{"status": "paused"},
	"test_webhook":            object{"type": "message.received"},
	"replay_webhook":          object{"from": "2026-03-02T00:00:00Z", "to": "2026-03-03T00:00:00Z", "status": "failed"},

	"create_sms_connection": object{
		"account_sid": "AC0123456789abcdef0123456789abcdef", "auth_token": "the token of the account", "from_numbers": []string{"+12125550300"},
		"compliance_confirmed": true, "configure_inbound_webhook": true,
	},
	"update_sms_connection": object{"disabled": true},
	"verify_sms_connection": object{"configure_inbound_webhook": true},
	"test_sms_connection":   object{"to": "+14155550134"},

	"tool_check_chat":            object{"phone": "+14155550134"},
	"tool_get_contact":           object{"phone": "+14155550134"},
	"tool_get_conversation":      object{"conversation_id": exampleConversation, "limit": 20},
	"tool_get_message_status":    object{"message_id": exampleMessage},
	"tool_handoff_to_human":      object{"conversation_id": exampleConversation, "reason": "The contact asks for a refund."},
	"tool_list_conversations":    object{"status": "open", "assignee": "unassigned"},
	"tool_list_lines":            object{},
	"tool_reply_to_conversation": object{"conversation_id": exampleConversation, "body": "We are open until six.", "idempotency_key": "reply-2041"},
	"tool_search_contacts":       object{"query": "Ada", "limit": 10},
	"tool_send_message":          object{"contact_id": exampleContact, "body": "Your order is ready.", "idempotency_key": "order-8812-ready"},
	"tool_upsert_contact":        object{"phone": "+14155550134", "first_name": "Ada"},
}

var exampleDefinition = object{"all": []object{
	{"field": "fields.plan", "op": "eq", "value": "gold"},
	{"field": "phone", "op": "starts_with", "value": "+1415"},
}}
