package projections

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
)

var consentTable = &Table{Name: "consent_events", Key: []string{"id"}, Columns: []Column{
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
var Consent = &Projection{
	ID: "consent", Program: 1,
	Tables: []*Table{consentTable},
	Indexes: []string{
		`create index on @consent_events (workspace_id, position desc)`,
		`create index on @consent_events (contact_id, position desc)`,
		`create index on @consent_events (workspace_id, number_hash, position desc)`,
	},
	Wants: events.NamesOf((*events.ContactOptedIn)(nil), (*events.ContactOptedOut)(nil), (*events.ContactConsentCleared)(nil),
		(*events.ContactDeleted)(nil)),
	Project: func(r *eventstore.Recorded, c *Changes) {
		switch e := r.Event.(type) {
		case *events.ContactOptedIn:
			c.Insert(consentTable, evidenceRow(r, &e.ConsentEvidence))
		case *events.ContactOptedOut:
			c.Insert(consentTable, evidenceRow(r, &e.ConsentEvidence))
		case *events.ContactConsentCleared:
			c.Insert(consentTable, evidenceRow(r, &e.ConsentEvidence))
		case *events.ContactDeleted:
			c.Blank(consentTable, "contact_id", e.ContactID, "phone", "body", "ip", "user_agent")
		}
	},
}

func evidenceRow(r *eventstore.Recorded, e *events.ConsentEvidence) Row {
	return Row{
		"id": r.ID, "workspace_id": r.WorkspaceID, "contact_id": e.ContactID, "number_hash": e.NumberHash,
		"from_status": e.From, "to_status": e.To, "occurred_at": stamp(r.OccurredAt), "actor_type": r.Actor.Type,
		"actor_id": emptyIsNull(r.Actor.ID), "source": e.Source, "keyword": e.Keyword, "message_id": e.MessageID, "line_id": e.LineID,
		"channel": e.Channel, "phone": emptyIsNull(e.Evidence.Phone), "body": emptyIsNull(e.Evidence.Text), "ip": emptyIsNull(e.Evidence.IP),
		"user_agent": emptyIsNull(e.Evidence.UserAgent), "shard": r.Shard, "position": r.Position,
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
	e.OccurredAt = stamp(at)
	return e, err
}

// ConsentEvents lists consent changes of the workspace, newest first: in the order of the ledger, in which each change
// begins where the one before it led. A workspace lives on one shard.
func (s *Store) ConsentEvents(ctx context.Context, v Viewer, by ConsentFilter, after *Cursor, limit int) (Page[ConsentEvent], error) {
	f := &filter{}
	f.add("e.workspace_id = %s", v.Workspace)
	f.equal("e.number_hash", by.NumberHash)
	f.equal("e.contact_id", by.ContactID)
	f.equal("e.to_status", by.Type)
	if by.From != nil {
		f.add("e.occurred_at >= %s", *by.From)
	}
	if by.To != nil {
		f.add("e.occurred_at < %s", *by.To)
	}
	if after != nil {
		f.add("e.position < %s::text::bigint", after.ID)
	}
	sql := `select ` + consentColumns + ` from read.consent_events e` + f.where() + ` order by e.position desc limit ` + f.arg(limit+1)
	found, err := list(ctx, s, "consent events", scanConsentEvent, sql, f.args...)
	if err != nil {
		return Page[ConsentEvent]{}, err
	}
	p := page(found, limit, func(e *ConsentEvent) Cursor { return Cursor{ID: strconv.FormatInt(e.Position, 10)} })
	return p, s.addHashes(ctx, v.Shard, p.Rows)
}

func (s *Store) addHashes(ctx context.Context, shard int, found []ConsentEvent) error {
	positions := make([]int64, len(found))
	for i := range found {
		positions[i] = found[i].Position
	}
	hashes, err := s.ledger.Hashes(ctx, shard, positions)
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
