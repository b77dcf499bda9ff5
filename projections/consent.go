package projections

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var consentTable = &readmodel.Table{Name: "consent_events", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "phone", Type: "text"},
	{Name: "number_hash", Type: `text collate "C" not null`},
	{Name: "from_status", Type: "text not null"},
	{Name: "to_status", Type: "text not null"},
	{Name: "occurred_at", Type: "timestamptz not null"},
	{Name: "actor_type", Type: "text not null"},
	{Name: "actor_id", Type: "text"},
	{Name: "source", Type: "text"},
	{Name: "keyword", Type: "text"},
	{Name: "body", Type: "text"},
	{Name: "message_id", Type: "text"},
	{Name: "line_id", Type: "text"},
	{Name: "channel", Type: "text"},
	{Name: "ip", Type: "text"},
	{Name: "user_agent", Type: "text"},
	{Name: "shard", Type: "smallint not null"},
	{Name: "position", Type: "bigint not null"},
}}

// Consent is the trail of every consent change, with its evidence. It stays when a contact is erased, without the
// personal data (decisions, section 13).
var Consent = &readmodel.Projection{
	ID: "consent", Program: 1,
	Tables: []*readmodel.Table{consentTable},
	Indexes: []string{
		`create index on @consent_events (workspace_id, position desc)`,
		`create index on @consent_events (contact_id, position desc)`,
		`create index on @consent_events (workspace_id, number_hash, position desc)`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.ContactOptedIn, r *eventstore.Recorded) {
			c.Insert(consentTable, evidenceRow(r, &e.ConsentEvidence))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactOptedOut, r *eventstore.Recorded) {
			c.Insert(consentTable, evidenceRow(r, &e.ConsentEvidence))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactConsentCleared, r *eventstore.Recorded) {
			c.Insert(consentTable, evidenceRow(r, &e.ConsentEvidence))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactDeleted, _ *eventstore.Recorded) {
			c.BlankWhere(consentTable, "contact_id", e.ContactID, "phone", "body", "ip", "user_agent")
		}),
	),
}

func evidenceRow(r *eventstore.Recorded, e *events.ConsentEvidence) readmodel.Row {
	return readmodel.Row{
		"id": r.ID, "workspace_id": r.WorkspaceID, "contact_id": e.ContactID, "number_hash": e.NumberHash,
		"from_status": e.From, "to_status": e.To, "occurred_at": readmodel.Stamp(r.OccurredAt), "actor_type": r.Actor.Type,
		"actor_id": readmodel.EmptyToNull(r.Actor.ID), "source": e.Source, "keyword": e.Keyword, "message_id": e.MessageID, "line_id": e.LineID,
		"channel": e.Channel, "phone": readmodel.EmptyToNull(e.Evidence.Phone), "body": readmodel.EmptyToNull(e.Evidence.Text), "ip": readmodel.EmptyToNull(e.Evidence.IP),
		"user_agent": readmodel.EmptyToNull(e.Evidence.UserAgent), "shard": r.Shard, "position": r.Position,
	}
}

// Actor is who caused a change.
type Actor struct {
	Type string  `json:"type" enum:"key,identity,user,contact,system,operator"`
	ID   *string `json:"id"`
}

// ConsentEvent is one change of consent as auditors see it (decisions, section 13).
type ConsentEvent struct {
	ID         string  `json:"id" format:"uuid"`
	ContactID  string  `json:"contact_id" doc:"ctc_ id"`
	Phone      *string `json:"phone" doc:"E.164; null after erasure"`
	PhoneHash  string  `json:"phone_hash" doc:"Keyed hash of the number within the organisation; stays after erasure"`
	FromStatus string  `json:"from_status" enum:"unknown,opted_in,opted_out"`
	ToStatus   string  `json:"to_status" enum:"unknown,opted_in,opted_out"`
	OccurredAt string  `json:"occurred_at" format:"date-time"`
	Actor      Actor   `json:"actor"`
	Source     *string `json:"source"`
	Keyword    *string `json:"keyword"`
	Text       *string `json:"text" doc:"The message's text, verbatim; null after erasure"`
	MessageID  *string `json:"message_id"`
	LineID     *string `json:"line_id"`
	Channel    *string `json:"channel"`
	IP         *string `json:"ip"`
	UserAgent  *string `json:"user_agent"`
	Position   int64   `json:"position" doc:"Place in the ledger"`
	Hash       *string `json:"hash" doc:"Hash of the event in the ledger's chain, hex; null until its block is closed"`
}

// ConsentFilter are the filters of the consent trail; empty ones do not filter. Type is the status that a change led
// to; From and To bound the time, From included.
type ConsentFilter struct {
	NumberHash, ContactID, Type string
	From, To                    *time.Time
}

const consentColumns = `e.id::text, e.contact_id, e.phone, e.number_hash, e.from_status, e.to_status, e.occurred_at, e.actor_type, e.actor_id,
	e.source, e.keyword, e.body, e.message_id, e.line_id, e.channel, e.ip, e.user_agent, e.position`

func scanConsentEvent(row pgx.CollectableRow) (e ConsentEvent, err error) {
	var at time.Time
	err = row.Scan(&e.ID, &e.ContactID, &e.Phone, &e.PhoneHash, &e.FromStatus, &e.ToStatus, &at, &e.Actor.Type, &e.Actor.ID,
		&e.Source, &e.Keyword, &e.Text, &e.MessageID, &e.LineID, &e.Channel, &e.IP, &e.UserAgent, &e.Position)
	e.OccurredAt = readmodel.Stamp(at)
	return e, err
}

// ConsentEvents lists consent changes of the workspace, newest first: in the order of the ledger, in which each change
// begins where the one before it led. A workspace lives on one shard.
func (s *Store) ConsentEvents(ctx context.Context, v Viewer, by ConsentFilter, after *readmodel.Cursor, limit int) (readmodel.Page[ConsentEvent], error) {
	f := &readmodel.Filter{}
	f.Add("e.workspace_id = %s", v.Workspace)
	f.Equal("e.number_hash", by.NumberHash)
	f.Equal("e.contact_id", by.ContactID)
	f.Equal("e.to_status", by.Type)
	if by.From != nil {
		f.Add("e.occurred_at >= %s", *by.From)
	}
	if by.To != nil {
		f.Add("e.occurred_at < %s", *by.To)
	}
	if after != nil {
		f.Add("e.position < %s::text::bigint", after.ID)
	}
	sql := `select ` + consentColumns + ` from read.consent_events e` + f.Where() + ` order by e.position desc limit ` + f.Arg(limit+1)
	found, err := readmodel.List(ctx, s.Reader, "consent events", scanConsentEvent, sql, f.Args...)
	if err != nil {
		return readmodel.Page[ConsentEvent]{}, err
	}
	p := readmodel.PageOf(found, limit, func(e *ConsentEvent) readmodel.Cursor { return readmodel.Cursor{ID: strconv.FormatInt(e.Position, 10)} })
	return p, s.addHashes(ctx, v.Shard, p.Rows)
}

func (s *Store) addHashes(ctx context.Context, shard int, found []ConsentEvent) error {
	positions := make([]int64, len(found))
	for i := range found {
		positions[i] = found[i].Position
	}
	hashes, err := s.Ledger().LeafHashes(ctx, shard, positions)
	if err != nil {
		return err
	}
	for i := range found {
		if h, ok := hashes[found[i].Position]; ok {
			text := hex.EncodeToString(h)
			found[i].Hash = &text
		}
	}
	return nil
}
