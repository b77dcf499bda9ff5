// Package readapi holds the endpoints that only read, one file per resource. Every read waits until the read models
// show everything that the ledger held when the request came in. So a caller that got the answer to a write sees the
// write in every later read, on any node. A read that has waited for readmodel.WaitLimit fails.
package readapi

import (
	"github.com/google/uuid"

	"ledgerline/fairqueue"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// API is the state that the endpoints share.
type API struct {
	store   *projections.Store
	cursors *httpapi.Cursors
	exports *fairqueue.Queue[uuid.UUID]
	proofs  *fairqueue.Queue[uuid.UUID]
}

// Register adds all read endpoints to a router. It is the complete table of their paths and of who may call them.
func Register(r *httpapi.API, store *projections.Store, cursors *httpapi.Cursors) {
	a := New(store, cursors)
	reads := []auth.Scope{auth.ScopeRead}
	admin := []auth.Scope{auth.ScopeAdmin}

	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/contacts", ID: "list_contacts", Summary: "List contacts, newest first", Tags: []string{"contacts"},
		Access: auth.Access{Keys: reads, Roles: auth.PermContactsRead},
	}, a.contacts)
	httpapi.Stream(r, httpapi.Route{
		Method: "GET", Path: "/v1/contacts/export", ID: "export_contacts", Summary: "Export contacts as CSV, newest first", Tags: []string{"contacts"},
		Access: auth.Access{Keys: reads, Roles: auth.PermContactsRead},
		Description: "Every contact that the caller can see and that fits the filters, as of one moment: UTF-8 with a byte order mark, commas, CRLF. " +
			"Cells that a spreadsheet would run as a formula begin with an apostrophe, phone numbers included. The header can serve as the mapping of an import. " +
			"Custom fields are columns named `fields.<key>`; only the 200 most frequent keys have one, further fields are in `other_fields` as JSON.",
	}, "text/csv", a.exportContacts)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/contacts/imports/{id}", ID: "get_import", Summary: "Get an import job", Tags: []string{"contacts"},
		Access: auth.Access{Keys: []auth.Scope{auth.ScopeRead, auth.ScopeAdmin}, Roles: auth.PermContacts},
	}, a.contactImport)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/contacts/{id}", ID: "get_contact", Summary: "Get a contact", Tags: []string{"contacts"},
		Access: auth.Access{Keys: reads, Roles: auth.PermContactsRead},
	}, a.contact)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/conversations", ID: "list_conversations", Summary: "List conversations, most recent activity first", Tags: []string{"conversations"},
		Access:      auth.Access{Keys: reads, Roles: auth.PermInboxRead},
		Description: "Activity is the newest message, in or out. Agents see the conversations that are assigned to them or to nobody.",
	}, a.conversations)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/conversations/{id}", ID: "get_conversation", Summary: "Get a conversation with its newest messages and notes", Tags: []string{"conversations"},
		Access: auth.Access{Keys: reads, Roles: auth.PermInboxRead},
	}, a.conversation)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/saved-replies", ID: "list_saved_replies", Summary: "List saved replies, newest first", Tags: []string{"saved_replies"},
		Access:      auth.Access{Keys: reads, Roles: auth.PermInboxRead},
		Description: "Agents see the replies for everyone and the replies of their own teams.",
	}, a.savedReplies)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/teams", ID: "list_teams", Summary: "List teams by name", Tags: []string{"people"},
		Access:      auth.Access{Keys: reads, Roles: auth.PermInboxRead},
		Description: "API keys see the names of teams, but not their members.",
	}, a.teams)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/me", ID: "get_me", Summary: "Get the caller of the request", Tags: []string{"people"},
		Access: auth.Access{
			Keys: []auth.Scope{auth.ScopeRead, auth.ScopeSend, auth.ScopeAdmin}, Roles: auth.PermPersonal, AnyWorkspace: true,
		},
		Description: "A signed-in user finds the workspaces to choose from in `user.workspaces`, also without x-workspace-id.",
	}, a.me)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/labels", ID: "list_labels", Summary: "List labels by name", Tags: []string{"labels"},
		Access: auth.Access{Keys: reads, Roles: auth.PermContactsRead},
	}, a.labels)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/segments", ID: "list_segments", Summary: "List segments by name, with their counts", Tags: []string{"segments"},
		Access: auth.Access{Keys: reads, Roles: auth.PermContactsRead},
	}, a.segments)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/messages", ID: "list_messages", Summary: "List messages, newest first", Tags: []string{"messages"},
		Access: auth.Access{Keys: reads, Roles: auth.PermInboxRead},
	}, a.messages)
	httpapi.Stream(r, httpapi.Route{
		Method: "GET", Path: "/v1/messages/export", ID: "export_messages", Summary: "Export messages as CSV, newest first", Tags: []string{"messages"},
		Access: auth.Access{Keys: reads, Roles: auth.PermInboxRead},
		Description: "Every message that the caller can see and that fits the filters, as of one moment: UTF-8 with a byte order mark, commas, CRLF. " +
			"The columns are the properties of a message; media, metadata and error_details are JSON. " +
			"Cells that a spreadsheet would run as a formula begin with an apostrophe, phone numbers included.",
	}, "text/csv", a.exportMessages)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/messages/{id}", ID: "get_message", Summary: "Get a message", Tags: []string{"messages"},
		Access: auth.Access{Keys: reads, Roles: auth.PermInboxRead},
	}, a.message)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/messages/{id}/events", ID: "list_message_events", Summary: "Get a message's timeline, oldest first", Tags: []string{"messages"},
		Access:      auth.Access{Keys: reads, Roles: auth.PermInboxRead},
		Description: "The timeline is the message's own events in the ledger.",
	}, a.timeline)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/compliance/consent-events", ID: "list_consent_events", Summary: "List consent changes, newest first", Tags: []string{"compliance"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermAudit},
		Description: "Each change of consent with its time, its actor and its source. The changes stay when a contact is erased, without its personal data.",
	}, a.consentEvents)
	httpapi.Stream(r, httpapi.Route{
		Method: "GET", Path: "/v1/compliance/consent-events/export", ID: "export_consent_events", Summary: "Export consent changes as CSV", Tags: []string{"compliance"},
		Access: auth.Access{Keys: admin, Roles: auth.PermAudit},
	}, "text/csv", a.exportConsent)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/compliance/proof", ID: "prove_consent", Summary: "Prove the consent history of a number", Tags: []string{"compliance"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermAudit},
		Description: "Everything that the ledger has about the number's consent, with the hashes by which a third party can check that nothing was changed, moved or left out: `ledgerline audit proof FILE`, or the script in the documentation.",
	}, a.proveConsent)

	lines := auth.Access{Keys: reads, Roles: auth.PermLinesRead}
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/lines", ID: "list_lines", Summary: "List lines, oldest first", Tags: []string{"lines"}, Access: lines,
	}, a.lines)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/lines/{id}", ID: "get_line", Summary: "Get a line", Tags: []string{"lines"}, Access: lines,
	}, a.line)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/pools", ID: "list_pools", Summary: "List pools, oldest first", Tags: []string{"lines"}, Access: lines,
	}, a.pools)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/line-requests", ID: "list_line_requests", Summary: "List requests for lines, newest first", Tags: []string{"lines"}, Access: lines,
	}, a.lineRequests)

	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/api-keys", ID: "list_api_keys", Summary: "List API keys, newest first", Tags: []string{"api_keys"},
		Access:      auth.Access{Keys: admin, Roles: auth.PermDeveloper},
		Description: "The list includes the tokens of service identities, and keys that are no longer valid. It never shows secrets.",
	}, a.apiKeys)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/service-identities", ID: "list_service_identities", Summary: "List service identities, newest first",
		Tags: []string{"service_identities"}, Access: auth.Access{Keys: admin, Roles: auth.PermDeveloper},
	}, a.identities)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/audit-log", ID: "list_audit_log", Summary: "List who changed what, newest first", Tags: []string{"compliance"},
		Access: auth.Access{Roles: auth.PermAudit},
		Description: "Changes of credentials, people, lines, settings and consent: who made them, when, in which request, and the new values. Derived from the ledger, " +
			"in its order. Changes of the whole organisation are in the log of each of its workspaces.",
	}, a.auditLog)

	workflows := auth.Access{Keys: reads, Roles: auth.PermWorkflowsRead}
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/workflows", ID: "list_workflows", Summary: "List workflows, most recently changed first", Tags: []string{"workflows"},
		Access: workflows,
	}, a.workflows)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/workflows/{id}", ID: "get_workflow", Summary: "Get a workflow with its draft, or its live version", Tags: []string{"workflows"},
		Access: workflows,
	}, a.workflow)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/workflows/{id}/versions", ID: "list_workflow_versions", Summary: "List the published versions of a workflow, newest first",
		Tags: []string{"workflows"}, Access: workflows,
	}, a.workflowVersions)

	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/workflow-runs", ID: "list_workflow_runs", Summary: "List runs, newest first", Tags: []string{"workflows"}, Access: workflows,
	}, a.workflowRuns)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/workflow-runs/{id}", ID: "get_workflow_run", Summary: "Get a run with its steps", Tags: []string{"workflows"}, Access: workflows,
	}, a.workflowRun)

	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/agents", ID: "list_agents", Summary: "List agents, newest first", Tags: []string{"agents"}, Access: workflows,
	}, a.agents)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/agents/{id}", ID: "get_agent", Summary: "Get an agent", Tags: []string{"agents"}, Access: workflows,
	}, a.agent)

	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/outreach", ID: "list_outreach", Summary: "List outreaches, newest first", Tags: []string{"outreach"}, Access: workflows,
	}, a.outreaches)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/outreach/{id}", ID: "get_outreach", Summary: "Get an outreach with its counts", Tags: []string{"outreach"}, Access: workflows,
	}, a.outreach)

	developer := auth.Access{Keys: admin, Roles: auth.PermDeveloper}
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/webhooks", ID: "list_webhooks", Summary: "List webhook endpoints, newest first", Tags: []string{"webhooks"}, Access: developer,
	}, a.webhooks)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/webhooks/{id}", ID: "get_webhook", Summary: "Get a webhook endpoint", Tags: []string{"webhooks"}, Access: developer,
	}, a.webhook)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/webhook-deliveries/{id}", ID: "get_delivery", Summary: "Get a delivery with the body that is sent", Tags: []string{"webhooks"}, Access: developer,
	}, a.delivery)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/webhooks/{id}/deliveries", ID: "list_deliveries", Summary: "List the deliveries of an endpoint, newest first", Tags: []string{"webhooks"},
		Access: developer,
	}, a.deliveries)

	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/sms-connections", ID: "list_sms_connections", Summary: "List the SMS connection of the workspace", Tags: []string{"sms_connections"},
		Access: developer,
	}, a.smsConnections)
	httpapi.Read(r, httpapi.Route{
		Method: "GET", Path: "/v1/sms-connections/{id}", ID: "get_sms_connection", Summary: "Get an SMS connection", Tags: []string{"sms_connections"}, Access: developer,
	}, a.smsConnection)
}

// viewer says which rows the caller may see.
func (a *API) viewer(c *httpapi.Call) projections.Viewer {
	v := projections.Viewer{Workspace: c.WorkspaceID, Shard: a.store.Ledger().ShardOf(c.OrganisationID)}
	if c.OwnOnly() {
		v.Agent = uuid.MustParse(c.ID) // the id of a session is the id of its user
	}
	return v
}

// openCursor decodes the cursor of a list; nil when the request has none.
func (a *API) openCursor(c *httpapi.Call, list string, filters any, cursor string) (*readmodel.Cursor, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // the request is for the first page
	}
	var at readmodel.Cursor
	err := a.cursors.Open(httpapi.Binding{List: list, Workspace: c.WorkspaceID, Filters: filters}, cursor, &at)
	return &at, err
}

// answerPage converts a page of a read model into the answer of a list, with the cursor of the next page. It passes err
// on.
func answerPage[T any](a *API, c *httpapi.Call, list string, filters any, page readmodel.Page[T], err error) (httpapi.Page[T], error) {
	if err != nil {
		return httpapi.Page[T]{}, err
	}
	out := httpapi.Page[T]{Data: page.Rows}
	if page.Next != nil {
		next, err := a.cursors.Seal(httpapi.Binding{List: list, Workspace: c.WorkspaceID, Filters: filters}, page.Next)
		if err != nil {
			return out, err
		}
		out.NextCursor = &next
	}
	return out, nil
}
