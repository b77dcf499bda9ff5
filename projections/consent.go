package projections

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// ConsentEvent is one change of consent as auditors see it (rule CON-17), and defines the columns of its table: see
// readmodel.TableOf.
type ConsentEvent struct {
	ID         string  `json:"id" format:"uuid" sql:"uuid not null"`
	ContactID  string  `json:"contact_id" doc:"ctc_ id" sql:"text collate \"C\" not null"`
	Phone      *string `json:"phone" doc:"E.164; null after erasure" sql:"text"`
	PhoneHash  string  `json:"phone_hash" doc:"Keyed hash of the number within the organisation; stays after erasure" column:"number_hash" sql:"text collate \"C\" not null"`
	FromStatus string  `json:"from_status" enum:"unknown,opted_in,opted_out" sql:"text not null"`
	ToStatus   string  `json:"to_status" enum:"unknown,opted_in,opted_out" sql:"text not null"`
	OccurredAt string  `json:"occurred_at" format:"date-time" sql:"timestamptz not null"`
	Actor      Actor   `json:"actor"`
	Source     *string `json:"source" sql:"text"`
	Keyword    *string `json:"keyword" sql:"text"`
	Text       *string `json:"text" doc:"The message's text, verbatim; null after erasure" column:"body" sql:"text"`
	MessageID  *string `json:"message_id" sql:"text"`
	LineID     *string `json:"line_id" sql:"text"`
	Channel    *string `json:"channel" sql:"text"`
	IP         *string `json:"ip" sql:"text"`
	UserAgent  *string `json:"user_agent" sql:"text"`
	Position   int64   `json:"position" doc:"Position in the ledger" sql:"bigint not null"`
	Hash       *string `json:"hash" doc:"Hash of the event in the ledger's chain, hex; null until its block is closed"`
}

// Actor is what caused a change.
type Actor struct {
	Type string  `json:"type" enum:"key,identity,user,contact,system,operator"`
	ID   *string `json:"id"`
}

var consentTable = readmodel.TableOf[ConsentEvent]("consent_events", []string{"id"},
	readmodel.Column{Name: "workspace_id", Type: "uuid not null"},
	readmodel.Column{Name: "actor_type", Type: "text not null"},
	readmodel.Column{Name: "actor_id", Type: "text"},
	readmodel.Column{Name: "shard", Type: "smallint not null"},
)

// Consent is every change of consent, with its evidence. When a contact is erased, its changes stay without the
// personal data.
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
			c.Insert(consentTable, consentRow(r, &e.ConsentEvidence))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactOptedOut, r *eventstore.Recorded) {
			c.Insert(consentTable, consentRow(r, &e.ConsentEvidence))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactConsentCleared, r *eventstore.Recorded) {
			c.Insert(consentTable, consentRow(r, &e.ConsentEvidence))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactDeleted, _ *eventstore.Recorded) {
			c.BlankWhere(consentTable, "contact_id", e.ContactID, "phone", "body", "ip", "user_agent")
		}),
	),
}

func consentRow(r *eventstore.Recorded, e *events.ConsentEvidence) readmodel.Row {
	return readmodel.Row{
		"id": r.ID, "workspace_id": r.WorkspaceID, "contact_id": e.ContactID, "number_hash": e.NumberHash,
		"from_status": e.From, "to_status": e.To, "occurred_at": readmodel.Stamp(r.OccurredAt), "actor_type": r.Actor.Type,
		"actor_id": readmodel.EmptyToNull(r.Actor.ID), "source": e.Source, "keyword": e.Keyword, "message_id": e.MessageID, "line_id": e.LineID,
		"channel": e.Channel, "phone": readmodel.EmptyToNull(e.Evidence.Phone), "body": readmodel.EmptyToNull(e.Evidence.Text), "ip": readmodel.EmptyToNull(e.Evidence.IP),
		"user_agent": readmodel.EmptyToNull(e.Evidence.UserAgent), "shard": r.Shard, "position": r.Position,
	}
}

// ConsentFilter has the filters of the consent events. An empty one does not apply. Type is the status that a change
// led to. From is inclusive, To exclusive.
type ConsentFilter struct {
	NumberHash, ContactID, Type string
	From, To                    *time.Time
}

var consentFields = readmodel.Select[ConsentEvent](consentTable, "e", map[string]string{
	"actor.type": "e.actor_type", "actor.id": "e.actor_id", "hash": readmodel.SetAfterScan,
})

// ConsentEvents lists changes of consent in the workspace, newest first. The order is that of the ledger, so that each
// change of a contact begins with the status to which the previous one led. A workspace is on one shard.
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
	sql := `select ` + consentFields.SQL + ` from read.consent_events e` + f.Where() + ` order by e.position desc limit ` + f.Arg(limit+1)
	key := func(e *ConsentEvent) readmodel.Cursor { return readmodel.Cursor{ID: strconv.FormatInt(e.Position, 10)} }
	p, err := readmodel.ReadPage(ctx, s.Reader, "consent events", limit, consentFields.Scan, key, sql, f.Args...)
	if err != nil {
		return p, err
	}
	return p, s.addHashes(ctx, v.Shard, p.Rows)
}

// addHashes fills in the hashes of events whose block is closed.
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
