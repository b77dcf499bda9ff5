// Package writeapi holds the endpoints that change something, one file per resource. An endpoint converts a request
// into a command and names the view that answers it: resource.view in view.go. Commands decide; endpoints do not.
package writeapi

import (
	"reflect"

	"ledgerline/commands"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/processes/webhooks/payload"
	"ledgerline/projections"
)

// API is the state that the endpoints share.
type API struct {
	app     *commands.App
	store   *projections.Store
	outside Outside
	source  string // of accepted messages; "" derives it from the kind of caller
}

// Outside is what the endpoints need of outside systems.
type Outside struct {
	Prober commands.Prober      // asks carriers on behalf of lookups
	SMS    commands.SMSProvider // checks SMS connections, and sends test texts
}

// Register registers all write endpoints. It is the complete route table: who may call which route, and which view
// answers it.
func Register(r *httpapi.API, app *commands.App, store *projections.Store, outside Outside) {
	a := &API{app: app, store: store, outside: outside}
	admin := []auth.Scope{auth.ScopeAdmin}
	sends := []auth.Scope{auth.ScopeSend}
	either := []auth.Scope{auth.ScopeSend, auth.ScopeAdmin}

	contact, label, segment := a.contacts().view, a.labels().view, a.segments().view
	accepted, pool, savedReply, delivery := a.acceptedMessages().view, a.pools().view, a.savedReplies().view, a.deliveries().view

	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/contacts", ID: "create_contact", Summary: "Create a contact", Tags: []string{"contacts"}, Status: 201,
		Access:      auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "The number is normalised to E.164. A number that opted out before makes the contact opted out, whatever consent the request has.",
	}, a.createContact, contact)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/contacts/{id}", ID: "update_contact", Summary: "Update a contact", Tags: []string{"contacts"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "Properties that are left out keep their values; null clears a value. labels and fields replace the present ones. A changed phone that opted out before makes the contact opted out.",
	}, a.updateContact, contact)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/contacts/{id}/labels", ID: "change_contact_labels", Summary: "Add and remove labels of a contact", Tags: []string{"contacts"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "Labels are given by name. A name in add that does not exist creates the label; in remove it is ignored. A name in both is added.",
	}, a.changeLabels, contact)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/contacts/import", ID: "import_contacts", Summary: "Import contacts from CSV", Tags: []string{"contacts"}, Status: 202, MaxBody: maxImport,
		Access: auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "Header and mapping are checked at once, then the import is queued; GET /v1/contacts/imports/{id} shows its progress. " +
			"An empty cell says nothing. Labels are separated by semicolons and are added. A row never opts in a number that opted out; `opted_out` in a row opts the number out.",
	}, a.importContacts, a.imports().view)
	httpapi.Write(r, httpapi.Route{
		Method: "DELETE", Path: "/v1/contacts/{id}", ID: "delete_contact", Summary: "Delete a contact", Tags: []string{"contacts"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "Erases the contact with its conversations, messages and notes. Its opt-out, if there is one, stays registered.",
	}, a.deleteContact, a.deletedFrom(projections.Contacts, projections.Messages, projections.Conversations, projections.Consent))
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/contacts/{id}/consent", ID: "set_contact_consent", Summary: "Set the consent of a contact", Tags: []string{"contacts"},
		Access: auth.Access{Keys: admin, Roles: auth.PermContacts},
	}, a.setConsent, contact)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/contacts/{id}/opt-out", ID: "opt_out_contact", Summary: "Opt a contact out", Tags: []string{"contacts"},
		Access:      auth.Access{Keys: either, Roles: auth.PermContacts | auth.PermOptOut},
		Description: "Sending stops at once, on every channel and in every workspace of the organisation.",
	}, a.optOut, contact)

	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/labels", ID: "create_label", Summary: "Create a label", Tags: []string{"labels"}, Status: 201,
		Access: auth.Access{Keys: admin, Roles: auth.PermContacts},
	}, a.createLabel, label)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/labels/{id}", ID: "update_label", Summary: "Update a label", Tags: []string{"labels"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "A label that is renamed keeps its contacts.",
	}, a.updateLabel, label)
	httpapi.Write(r, httpapi.Route{
		Method: "DELETE", Path: "/v1/labels/{id}", ID: "delete_label", Summary: "Delete a label", Tags: []string{"labels"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "Removes the label from every contact. Another label may then have its name.",
	}, a.deleteLabel, a.deletedFrom(projections.Contacts))
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/segments", ID: "create_segment", Summary: "Create a segment", Tags: []string{"segments"}, Status: 201,
		Access:      auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "A segment is a condition on contacts. Labels that it names must exist; they may be renamed later.",
	}, a.createSegment, segment)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/segments/{id}", ID: "update_segment", Summary: "Update a segment", Tags: []string{"segments"},
		Access: auth.Access{Keys: admin, Roles: auth.PermContacts},
	}, a.updateSegment, segment)
	httpapi.Write(r, httpapi.Route{
		Method: "DELETE", Path: "/v1/segments/{id}", ID: "delete_segment", Summary: "Delete a segment", Tags: []string{"segments"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermContacts},
		Description: "The contacts of the segment are not deleted.",
	}, a.deleteSegment, a.deletedFrom(projections.Segments))
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/messages", ID: "send_message", Summary: "Send a message", Tags: []string{"messages"}, Status: 201,
		Access: auth.Access{Keys: sends, Roles: auth.PermSending}, Sending: true, Errors: []int{422},
		Description:  "Accepts the message; it is sent as soon as the rules allow. An unknown number makes a contact.",
		DryRunAnswer: reflect.TypeFor[Preview](),
	}, a.sendMessage, accepted)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/messages/{id}/cancel", ID: "cancel_message", Summary: "Cancel a queued or scheduled message", Tags: []string{"messages"},
		Access:      auth.Access{Keys: sends, Roles: auth.PermSending},
		Description: "A message that is neither queued nor scheduled, or has been attempted, is 409. A test key cancels test messages only.",
	}, a.cancelMessage, a.messages().view)
	lines := auth.Access{Keys: admin, Roles: auth.PermLines}
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/lines/{id}", ID: "update_line", Summary: "Change a line", Tags: []string{"lines"}, Access: lines,
	}, a.updateLine, a.lineView)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/lines/{id}/pause", ID: "pause_line", Summary: "Pause a line that is in use", Tags: []string{"lines"}, Access: lines,
	}, a.pauseLine, a.lineView)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/lines/{id}/resume", ID: "resume_line", Summary: "Resume a line", Tags: []string{"lines"}, Access: lines,
		Description: "The line goes back to the state that it was paused from. One that the platform has paused stays paused.",
	}, a.resumeLine, a.lineView)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/pools", ID: "create_pool", Summary: "Create a pool", Tags: []string{"lines"}, Status: 201, Access: lines,
	}, a.createPool, pool)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/pools/{id}", ID: "update_pool", Summary: "Change a pool", Tags: []string{"lines"}, Access: lines,
	}, a.updatePool, pool)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/line-requests", ID: "request_lines", Summary: "Request more lines", Tags: []string{"lines"}, Status: 201, Access: lines,
		Description: "The operator of the service provisions them. At most five requests may be open.",
	}, a.requestLines, a.lineRequests().view)

	httpapi.Write[Lookup, LookupAnswer](r, httpapi.Route{
		Method: "POST", Path: "/v1/lookup", ID: "lookup", Summary: "Look up whether a number is on the chat channel", Tags: []string{"messages"},
		Access: auth.Access{Keys: []auth.Scope{auth.ScopeRead, auth.ScopeSend}, Roles: auth.PermSending}, Sending: true, Errors: []int{503},
		Description: "An answer from the last 30 days, for this or another contact of the organisation, is used again. Otherwise a line of the workspace asks the carrier.",
	}, a.lookup, nil)

	httpapi.Write[CreateAPIKey, projections.APIKeyWithSecret](r, httpapi.Route{
		Method: "POST", Path: "/v1/api-keys", ID: "create_api_key", Summary: "Create an API key", Tags: []string{"api_keys"}, Status: 201,
		Access:      auth.Access{Keys: admin, Roles: auth.PermDeveloper},
		Description: "The secret is shown in this answer and never again. A key gets no scope that its creator lacks; a test key makes test keys only. The address list and the expiry of a key that creates another one are inherited, or narrowed.",
	}, a.createAPIKey, nil)
	httpapi.Write(r, httpapi.Route{
		Method: "DELETE", Path: "/v1/api-keys/{id}", ID: "revoke_api_key", Summary: "Revoke an API key", Tags: []string{"api_keys"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermDeveloper},
		Description: "The key stops working at once, on every node, and cannot be restored. Revoking it again changes nothing. A test key revokes test keys only.",
	}, a.revokeAPIKey, a.apiKeys().view)
	httpapi.Write[httpapi.IDParam, projections.APIKeyWithSecret](r, httpapi.Route{
		Method: "POST", Path: "/v1/api-keys/{id}/rotate", ID: "rotate_api_key", Summary: "Give an API key another secret", Tags: []string{"api_keys"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermDeveloper},
		Description: "The old secret stops at once. Only a caller who has all scopes of the key, and no narrower limits than it, may learn its new one.",
	}, a.rotateAPIKey, nil)
	httpapi.Write[CreateIdentity, projections.IdentityWithToken](r, httpapi.Route{
		Method: "POST", Path: "/v1/service-identities", ID: "create_service_identity", Summary: "Create a service identity with its token",
		Tags: []string{"service_identities"}, Status: 201, Access: auth.Access{Keys: admin, Roles: auth.PermDeveloper},
		Description: "The token is an API key linked to the identity, shown in this answer and never again. Rotate or revoke it as an API key.",
	}, a.createIdentity, nil)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/service-identities/{id}", ID: "change_service_identity", Summary: "Change a service identity",
		Tags: []string{"service_identities"}, Access: auth.Access{Keys: admin, Roles: auth.PermDeveloper},
		Description: "The token's rights change at once. The identity of an agent changes through its agent: 409.",
	}, a.changeIdentity, a.identities().view)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/conversations/{id}", ID: "update_conversation", Summary: "Change a conversation", Tags: []string{"conversations"},
		Access: auth.Access{Keys: sends, Roles: auth.PermInbox},
		Description: "All changes are made, or none. Agents change what is assigned to them or to nobody, and assign to themselves or to nobody. " +
			"The team, the handler and the labels need full access to the inbox, and the labels access to contacts (`admin`) as well.",
	}, a.updateConversation, a.conversations().view)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/conversations/{id}/messages", ID: "reply_to_conversation", Summary: "Reply in a conversation", Tags: []string{"conversations"}, Status: 201,
		Access: auth.Access{Keys: sends, Roles: auth.PermInbox}, Sending: true, Errors: []int{422},
		Description: "The reply is a message and follows the same rules as all messages. A person's reply makes the team the handler and marks the conversation as read.",
	}, a.reply, accepted)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/conversations/{id}/notes", ID: "add_note", Summary: "Add a note to a conversation", Tags: []string{"conversations"}, Status: 201,
		Access:      auth.Access{Keys: sends, Roles: auth.PermInbox},
		Description: "For the team only; a note is never sent.",
	}, a.addNote, a.notes().view)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/saved-replies", ID: "create_saved_reply", Summary: "Create a saved reply", Tags: []string{"saved_replies"}, Status: 201,
		Access: auth.Access{Keys: admin, Roles: auth.PermInboxFull},
	}, a.createSavedReply, savedReply)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/saved-replies/{id}", ID: "update_saved_reply", Summary: "Change a saved reply", Tags: []string{"saved_replies"},
		Access: auth.Access{Keys: admin, Roles: auth.PermInboxFull},
	}, a.updateSavedReply, savedReply)
	httpapi.Write(r, httpapi.Route{
		Method: "DELETE", Path: "/v1/saved-replies/{id}", ID: "delete_saved_reply", Summary: "Delete a saved reply", Tags: []string{"saved_replies"},
		Access: auth.Access{Keys: admin, Roles: auth.PermInboxFull},
	}, a.deleteSavedReply, a.deletedFrom(projections.SavedReplies))

	workflows := auth.Access{Keys: admin, Roles: auth.PermWorkflows, NoTestKeys: true}
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/workflows", ID: "create_workflow", Summary: "Create a workflow", Tags: []string{"workflows"}, Status: 201,
		Access:      workflows,
		Description: "It begins as a draft, whose form alone is checked. Publishing checks the rest and turns it on.",
	}, a.createWorkflow, a.workflows().view)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/workflows/{id}", ID: "update_workflow", Summary: "Edit, pause, resume or archive a workflow", Tags: []string{"workflows"},
		Access: workflows,
		Description: "name, trigger, trigger_config and graph edit the draft; the live version keeps running until the draft is published. " +
			"A new trigger without trigger_config resets it. Pausing stops new runs and holds those under way; archiving is final and cancels them.",
	}, a.updateWorkflow, a.workflows().view)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/workflows/{id}/publish", ID: "publish_workflow", Summary: "Publish the draft of a workflow", Tags: []string{"workflows"},
		Access: workflows,
		Description: "Everything that is wrong with the draft is reported together, each at its path. Runs under way stay on their version. " +
			"Without a draft nothing changes.",
	}, a.publishWorkflow, a.workflows().view)

	httpapi.Read(r, httpapi.Route{
		Method: "POST", Path: "/v1/workflows/{id}/simulate", ID: "simulate_workflow", Summary: "Play a workflow without doing anything", Tags: []string{"workflows"},
		Access: auth.Access{Keys: admin, Roles: auth.PermWorkflows},
		Description: "Plays the draft or a published version for a contact or a sample contact, on a clock that jumps over waits. The answer has the steps with " +
			"their times, the rendered messages, when they would leave, and why one would wait or be refused. Nothing is written or sent. " +
			"A draft that cannot be published is refused as by publish; paths are those of the draft.",
	}, a.simulateWorkflow)
	httpapi.Write[FireWorkflowTrigger, WorkflowTriggered](r, httpapi.Route{
		Method: "POST", Path: "/v1/workflow-triggers/{token}", ID: "fire_workflow_trigger", Summary: "Start a run of a workflow", Tags: []string{"workflows"},
		Status: 202, Access: auth.Access{PathToken: true}, MaxBody: maxTriggerBody,
		Description: "For other systems: the body is a JSON object of at most 256 KiB with the phone number of a contact. A number that no contact has " +
			"makes one if trigger_config says so, else it is refused with 400. A workflow that is not live is 409. At most 10 requests a second for a token.",
	}, a.fireWorkflowTrigger, nil)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/agents", ID: "create_agent", Summary: "Create an agent", Tags: []string{"agents"}, Status: 201,
		Access:      workflows,
		Description: "It begins as a draft, with a service identity of its own in whose name it sends.",
	}, a.createAgent, a.agents().view)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/agents/{id}", ID: "update_agent", Summary: "Change, start or pause an agent", Tags: []string{"agents"},
		Access: workflows,
		Description: "A live agent answers in the conversations that it handles; it needs a model endpoint, else 409. " +
			"Pausing it hands these conversations to the team at once.",
	}, a.updateAgent, a.agents().view)

	outreach := auth.Access{Keys: either, Roles: auth.PermSending, NoTestKeys: true}
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/outreach", ID: "create_outreach", Summary: "Send a message to many contacts", Tags: []string{"outreach"}, Status: 201,
		Access: outreach, DryRunAnswer: reflect.TypeFor[OutreachPreview](),
		Description: "One message to each contact of a segment or a list, at most. The audience is fixed when it starts. Its messages follow the same rules as " +
			"all messages, and let all others go first where both wait for the same capacity.",
	}, a.createOutreach, a.outreaches().view)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/outreach/{id}/cancel", ID: "cancel_outreach", Summary: "Cancel an outreach", Tags: []string{"outreach"},
		Access:      outreach,
		Description: "Messages that have not left fail with canceled. An outreach that has ended is 409.",
	}, a.cancelOutreach, a.outreaches().view)

	developer := auth.Access{Keys: admin, Roles: auth.PermDeveloper}
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/webhooks", ID: "create_webhook", Summary: "Create a webhook endpoint", Tags: []string{"webhooks"}, Status: 201,
		Access:      developer,
		Description: "The answer shows the secret that signs the deliveries, once. At most 20 endpoints in a workspace and 50 in an organisation.",
	}, a.createWebhook, a.secretErased)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/webhooks/{id}", ID: "update_webhook", Summary: "Change, pause, resume or enable a webhook endpoint", Tags: []string{"webhooks"},
		Access: developer,
	}, a.updateWebhook, a.webhooks().view)
	httpapi.Write(r, httpapi.Route{
		Method: "DELETE", Path: "/v1/webhooks/{id}", ID: "delete_webhook", Summary: "Delete a webhook endpoint", Tags: []string{"webhooks"},
		Access:      developer,
		Description: "Deliveries stop at once; the endpoint and its history are removed.",
	}, a.deleteWebhook, a.webhookDeleted)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/webhooks/{id}/rotate", ID: "rotate_webhook", Summary: "Give a webhook endpoint a new secret", Tags: []string{"webhooks"},
		Access:      developer,
		Description: "The answer shows the new secret, once. For 24 hours deliveries carry a signature with each of the two.",
	}, a.rotateWebhook, a.secretErased)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/webhooks/{id}/test", ID: "test_webhook", Summary: "Send an example event", Tags: []string{"webhooks"}, Status: 202,
		Access:      developer,
		Description: "One attempt, whether or not the endpoint subscribes to the type. At most 10 a minute in a workspace.",
	}, a.testWebhook, delivery)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/webhook-deliveries/{id}/replay", ID: "replay_delivery", Summary: "Deliver an event once more", Tags: []string{"webhooks"}, Status: 202,
		Access:      developer,
		Description: "One more attempt of a finished delivery whose endpoint is active: the same event id, a new signature. At most 30 a minute in a workspace.",
	}, a.replayDelivery, delivery)
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/webhooks/{id}/replay", ID: "replay_webhook", Summary: "Deliver the events of a range of time once more", Tags: []string{"webhooks"}, Status: 202,
		Access: developer,
		Description: "One more attempt of each finished delivery of an active endpoint that was created in the range, oldest first: the failed ones, unless status says otherwise. " +
			"At most 1,000 at once: next_after continues. At most 10 requests a minute in a workspace.",
	}, a.replayRange, httpapi.View[ReplayedRange](nil))
	live := auth.Access{Keys: admin, Roles: auth.PermDeveloper, NoTestKeys: true}
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/sms-connections", ID: "create_sms_connection", Summary: "Connect the workspace to its account at the SMS provider",
		Tags: []string{"sms_connections"}, Status: 201, Access: live,
		Description: "Stores the credentials and verifies them; status and last_error say what came of it. A workspace has one connection.",
	}, a.createSMSConnection, a.smsConnections().view)
	httpapi.Write(r, httpapi.Route{
		Method: "PATCH", Path: "/v1/sms-connections/{id}", ID: "update_sms_connection", Summary: "Change, confirm, disable or enable an SMS connection",
		Tags: []string{"sms_connections"}, Access: live,
		Description: "Another account, token or sender makes it pending until it is verified again.",
	}, a.updateSMSConnection, a.smsConnections().view)
	httpapi.Write(r, httpapi.Route{
		Method: "DELETE", Path: "/v1/sms-connections/{id}", ID: "delete_sms_connection", Summary: "Delete an SMS connection", Tags: []string{"sms_connections"},
		Access:      live,
		Description: "The credentials are destroyed, and SMS stops at once. The audit log keeps a record.",
	}, a.deleteSMSConnection, a.deletedFrom(projections.SMSConnections))
	httpapi.Write(r, httpapi.Route{
		Method: "POST", Path: "/v1/sms-connections/{id}/verify", ID: "verify_sms_connection", Summary: "Check an SMS connection at the provider",
		Tags: []string{"sms_connections"}, Access: live,
		Description: "Good credentials and a good sender make it active; anything else makes it failing, with last_error.",
	}, a.verifySMSConnection, a.smsConnections().view)
	httpapi.Write[TestSMSConnection, SMSTest](r, httpapi.Route{
		Method: "POST", Path: "/v1/sms-connections/{id}/test", ID: "test_sms_connection", Summary: "Send the test text", Tags: []string{"sms_connections"},
		Access: auth.Access{Roles: auth.PermDeveloper}, Errors: []int{422, 503},
		Description: "One fixed text that names the organisation. The connection has to be active, verified and confirmed. At most 5 a minute and 20 in 24 hours in a workspace. The inbox does not show it.",
	}, a.testSMSConnection, nil)
	for _, w := range payload.Docs() {
		r.Webhook(httpapi.Webhook{Type: w.Type, Summary: w.Summary, Description: w.Description, Body: w.Body})
	}
}
