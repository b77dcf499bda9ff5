package projections

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// AuditEntry is one entry of the audit log as the API shows it, and defines the columns of its table: see
// readmodel.TableOf.
type AuditEntry struct {
	ID         string         `json:"id" format:"uuid" doc:"Of the event in the ledger" sql:"uuid not null"`
	Type       string         `json:"type" doc:"What happened, for example api_key.rotated" sql:"text collate \"C\" not null"`
	Actor      Actor          `json:"actor"`
	Target     AuditTarget    `json:"target"`
	Changes    map[string]any `json:"changes" doc:"The new values; never a secret, and no personal data" sql:"jsonb not null"`
	RequestID  *string        `json:"request_id" doc:"x-request-id of the request that did it" sql:"text"`
	OccurredAt string         `json:"occurred_at" format:"date-time" sql:"timestamptz not null"`
	Position   int64          `json:"position" doc:"Position in the ledger" sql:"bigint not null"`
}

// AuditTarget is the resource that changed.
type AuditTarget struct {
	Type string `json:"type" doc:"For example api_key, service_identity, line, contact"`
	ID   string `json:"id"`
}

var auditTable = readmodel.TableOf[AuditEntry]("audit_log", []string{"id"},
	readmodel.Column{Name: "organisation_id", Type: "uuid not null"},
	readmodel.Column{Name: "workspace_id", Type: "uuid"}, // null: concerns all workspaces of the organisation
	readmodel.Column{Name: "actor_type", Type: "text not null"},
	readmodel.Column{Name: "actor_id", Type: "text"},
	readmodel.Column{Name: "target_type", Type: "text not null"},
	readmodel.Column{Name: "target_id", Type: `text collate "C" not null`},
)

// inWorkspace is the fact that names the workspace of an event. The event may be in the stream of something that
// belongs to the whole organisation, such as a user with roles in several workspaces.
const inWorkspace = "workspace_id"

// auditRow says how the audit log shows the events of a type: the type of the target, the fact with the target's id,
// and the facts that are shown. An empty id means the organisation. An event whose facts name a workspace is shown in
// that workspace only. Facts hold no personal data. Secrets, and hashes from which a secret could be found, must not be
// shown.
type auditRow struct{ event, target, id, shows string }

// audited has a row for each event type that is in the audit log.
var audited = []auditRow{
	{"organisation.paused", "organisation", "", "reason"},
	{"organisation.resumed", "organisation", "", ""},
	{"organisation.compliance_changed", "organisation", "", "quiet_hours stop_keywords opt_out_confirmation require_consent"},
	{"organisation.sending_limits_set", "organisation", "", "limits"},
	{"workspace.created", "workspace", "workspace_id", "name"},
	{"user.created", "user", "user_id", ""},
	{"user.role_granted", "user", "user_id", "workspace_id role"},
	{"user.role_revoked", "user", "user_id", "workspace_id"},
	{"user.sessions_revoked", "user", "user_id", "until"},
	{"team.created", "team", "team_id", "name"},
	{"team.member_added", "team", "team_id", "user_id"},

	{"api_key.created", "api_key", "key_id", "name env scopes prefix ip_allowlist expires_at identity_id"},
	{"api_key.rotated", "api_key", "key_id", "prefix"},
	{"api_key.revoked", "api_key", "key_id", ""},
	{"identity.created", "service_identity", "identity_id", "name kind env scopes key_id allowed_line_ids daily_limit"},
	{"identity.updated", "service_identity", "identity_id", "name scopes allowed_line_ids daily_limit"},
	{"identity.disabled", "service_identity", "identity_id", ""},
	{"identity.enabled", "service_identity", "identity_id", ""},

	{"webhook.created", "webhook", "endpoint_id", "events"},
	{"webhook.updated", "webhook", "endpoint_id", "events moved"},
	{"webhook.secret_rotated", "webhook", "endpoint_id", "until"},
	{"webhook.paused", "webhook", "endpoint_id", ""},
	{"webhook.resumed", "webhook", "endpoint_id", ""},
	{"webhook.disabled", "webhook", "endpoint_id", "reason"},
	{"webhook.enabled", "webhook", "endpoint_id", ""},
	{"webhook.deleted", "webhook", "endpoint_id", ""},

	{"sms_connection.created", "sms_connection", "connection_id", "messaging_service_sid from_numbers prefix_org_name"},
	{"sms_connection.updated", "sms_connection", "connection_id", "changed"},
	{"sms_connection.verified", "sms_connection", "connection_id", ""},
	{"sms_connection.failing", "sms_connection", "connection_id", "error"},
	{"sms_connection.inbound_configured", "sms_connection", "connection_id", ""},
	{"sms_connection.disabled", "sms_connection", "connection_id", ""},
	{"sms_connection.enabled", "sms_connection", "connection_id", ""},
	{"sms_connection.compliance_confirmed", "sms_connection", "connection_id", "user_id"},
	{"sms_connection.compliance_withdrawn", "sms_connection", "connection_id", ""},
	{"sms_connection.deleted", "sms_connection", "connection_id", ""},
	{"sms_connection.text_tested", "sms_connection", "connection_id", "test_id"},

	{"pool.created", "pool", "pool_id", "name rotation default"},
	{"pool.updated", "pool", "pool_id", "name rotation fallback_sms_mode"},
	{"pool.line_added", "pool", "pool_id", "line_id"},
	{"pool.line_removed", "pool", "pool_id", "line_id"},
	{"line.provisioned", "line", "line_id", "phone display_name pool_id is_sandbox carrier state"},
	{"line.state_changed", "line", "line_id", "from to reason"},
	{"line.updated", "line", "line_id", "display_name pool_id contact_card"},
	{"line.carrier_configured", "line", "line_id", "carrier"},
	{"line_request.made", "line_request", "request_id", "count area_codes pool_id"},
	{"line_request.started", "line_request", "request_id", ""},
	{"line_request.served", "line_request", "request_id", "line_id"},
	{"line_request.fulfilled", "line_request", "request_id", ""},
	{"line_request.cancelled", "line_request", "request_id", "reason"},

	{"webhook.tested", "webhook", "endpoint_id", "delivery_id type"},
	{"webhook.replayed", "webhook", "endpoint_id", "delivery_id"},
	{"webhook.range_replayed", "webhook", "endpoint_id", "from to"},

	{"workflow.created", "workflow", "workflow_id", "name trigger trigger_config"},
	{"workflow.edited", "workflow", "workflow_id", "name trigger trigger_config graph"},
	{"workflow.published", "workflow", "workflow_id", "version_id version trigger trigger_config"},
	{"workflow.paused", "workflow", "workflow_id", ""},
	{"workflow.resumed", "workflow", "workflow_id", ""},
	{"workflow.archived", "workflow", "workflow_id", ""},

	{"agent.created", "agent", "agent_id", "name instructions model allowed_line_ids daily_limit identity_id"},
	{"agent.updated", "agent", "agent_id", "name instructions model allowed_line_ids daily_limit"},
	{"agent.activated", "agent", "agent_id", ""},
	{"agent.paused", "agent", "agent_id", ""},
	{"outreach.created", "outreach", "outreach_id", "name segment_id total body pool_id line_id send_at"},
	{"outreach.cancelled", "outreach", "outreach_id", ""},

	{"contact.opted_in", "contact", "contact_id", "from to source"},
	{"contact.opted_out", "contact", "contact_id", "from to source keyword"},
	{"contact.consent_cleared", "contact", "contact_id", "from to source"},
	{"contact.deleted", "contact", "contact_id", ""},
}

// changedOnly is the fact with the names of the facts that an event changed. Of such an event only those are shown.
const changedOnly = "changed"

// Audit is the log of changes of credentials, webhooks, lines, settings, people, workflows, agents, outreaches and
// consent. Of an erased contact it keeps the id.
var Audit = &readmodel.Projection{
	ID: "audit", Program: 6,
	Tables: []*readmodel.Table{auditTable},
	Indexes: []string{
		`create index on @audit_log (organisation_id, position desc)`,
		`create index on @audit_log (target_id, position desc)`,
		`create index on @audit_log (actor_id, position desc)`,
	},
	Handlers: feed.NewHandlers(auditHandlers()...),
}

func auditHandlers() []feed.Handler[*readmodel.Changes] {
	handlers := make([]feed.Handler[*readmodel.Changes], len(audited))
	for i := range audited {
		handlers[i] = feed.OnType(audited[i].event, func(c *readmodel.Changes, r *eventstore.Recorded) {
			facts := map[string]any{}
			if json.Unmarshal(r.Data, &facts) != nil {
				facts = map[string]any{} // the entry is then shown without facts
			}
			c.Insert(auditTable, auditLogRow(r, &audited[i], facts))
		})
	}
	return handlers
}

func auditLogRow(r *eventstore.Recorded, as *auditRow, facts map[string]any) readmodel.Row {
	target, _ := facts[as.id].(string)
	if as.id == "" {
		target = r.OrganisationID.String()
	}
	changes := map[string]any{}
	only, partial := facts[changedOnly].([]any)
	for name := range strings.FieldsSeq(as.shows) {
		if value, there := facts[name]; there && (!partial || slices.Contains(only, any(name))) {
			changes[name] = value
		} else if partial && slices.Contains(only, any(name)) {
			changes[name] = nil
		}
	}
	row := readmodel.Row{
		"id": r.ID, "organisation_id": r.OrganisationID, "type": r.Type, "actor_type": r.Actor.Type, "actor_id": readmodel.EmptyToNull(r.Actor.ID),
		"target_type": as.target, "target_id": target, "request_id": readmodel.EmptyToNull(r.RequestID), "changes": changes,
		"occurred_at": readmodel.Stamp(r.OccurredAt), "position": r.Position,
	}
	if r.WorkspaceID != uuid.Nil {
		row["workspace_id"] = r.WorkspaceID
	}
	if workspace, ok := facts[inWorkspace].(string); ok {
		row["workspace_id"] = workspace
	}
	return row
}

// AuditFilter has the filters of the audit log. An empty one does not apply. From is inclusive, To exclusive.
type AuditFilter struct {
	Type, ActorType, ActorID, TargetType, TargetID string
	From, To                                       *time.Time
}

var auditFields = readmodel.Select[AuditEntry](auditTable, "a", map[string]string{
	"actor.type": "a.actor_type", "actor.id": "a.actor_id", "target.type": "a.target_type", "target.id": "a.target_id",
})

// AuditLog lists the changes in the workspace and those of its whole organisation (rule ACC-33), newest first. The
// order is that of the ledger: an organisation is on one shard.
func (s *Store) AuditLog(ctx context.Context, v Viewer, organisation uuid.UUID, by AuditFilter, after *readmodel.Cursor, limit int) (readmodel.Page[AuditEntry], error) {
	f := &readmodel.Filter{}
	f.Add("a.organisation_id = %s", organisation)
	f.Add("(a.workspace_id is null or a.workspace_id = %s)", v.Workspace)
	f.Equal("a.type", by.Type)
	f.Equal("a.actor_type", by.ActorType)
	f.Equal("a.actor_id", by.ActorID)
	f.Equal("a.target_type", by.TargetType)
	f.Equal("a.target_id", by.TargetID)
	if by.From != nil {
		f.Add("a.occurred_at >= %s", *by.From)
	}
	if by.To != nil {
		f.Add("a.occurred_at < %s", *by.To)
	}
	if after != nil {
		f.Add("a.position < %s::text::bigint", after.ID)
	}
	sql := `select ` + auditFields.SQL + ` from read.audit_log a` + f.Where() + ` order by a.position desc limit ` + f.Arg(limit+1)
	key := func(e *AuditEntry) readmodel.Cursor { return readmodel.Cursor{ID: strconv.FormatInt(e.Position, 10)} }
	return readmodel.ReadPage(ctx, s.Reader, "audit log", limit, auditFields.Scan, key, sql, f.Args...)
}
