package eventstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
)

// Recorded is one event as the ledger holds it.
type Recorded struct {
	Shard          int
	Position       int64 // per shard, from 1, without gaps, in commit order
	ID             uuid.UUID
	Stream         string
	Version        int // per stream, from 1
	Type           string
	Schema         int
	OrganisationID uuid.UUID
	WorkspaceID    uuid.UUID // uuid.Nil for events of the organisation itself
	OccurredAt     time.Time
	Actor          events.Actor
	RequestID      string
	CausationID    uuid.UUID // the event that led to this one; uuid.Nil when a request did
	CorrelationID  uuid.UUID // the same for everything that one request or inbound message led to
	Data           json.RawMessage
	Subject        string // whose personal data is sealed here; "" when none
	Sealed         []byte

	// Event is the decoded event, its personal data opened. Erased tells that there was some whose key is destroyed:
	// the personal fields are then empty.
	Event  events.Event `json:"-"`
	Erased bool         `json:"-"`
}

// Expectations of a stream's version.
const (
	// NoStream expects that the stream has no events yet.
	NoStream = 0
	// AnyVersion expects nothing.
	AnyVersion = -1
)

// StreamEvents are the events that one append adds to one stream.
type StreamEvents struct {
	Stream    string
	Expected  int       // NoStream, AnyVersion or the version the decision was made at
	Workspace uuid.UUID // in place of the append's workspace when not uuid.Nil
	Events    []events.Event
}

// Guard is an expected version of a stream that the append only leans on: a credential, a contact's consent.
type Guard struct {
	Stream  string
	Version int
}

// Claim takes or releases a unique thing within a scope: a name in a workspace, the secret of a key. Taking what the
// owner holds already is no refusal; releasing what it does not hold is none either. They are taken in their order, so that
// what is released may be taken by another owner in the same append.
type Claim struct {
	Scope, Key, Owner string
	Release           bool
}

// Quota adds to a counter that may not pass its limit. What counts is the sum of the buckets from From on, so that a
// fixed window (From = Bucket = its start) and a rolling one (From = now - 60 min, Bucket = this minute) are one mechanism.
type Quota struct {
	Key    string
	Bucket time.Time
	From   time.Time
	Add    int64 // negative gives back, and is never refused
	Limit  int64
}

// IdempotencyRecord is the idempotency receipt of a write (interface, section 8). It commits with the events it answers for.
type IdempotencyRecord struct {
	Workspace   uuid.UUID
	Key         string
	Fingerprint []byte // of method, path and canonical body
	Ref         string // what was made or changed; the answer is built from its view when Body is missing
	Status      int    // HTTP status of the answer
	Body        []byte // nil until it is known; sealed at rest
	Subject     string // contact whose erasure empties the body; "" when none
	// Filled in by the ledger.
	Shard     int
	Position  int64 // of the last event; 0 when the answer was a refusal
	CreatedAt time.Time
}

// IdempotencyRecordLifetime is how long a receipt holds.
const IdempotencyRecordLifetime = 24 * time.Hour

// Append is one atomic step: events of several streams together with what must hold for them.
type Append struct {
	Organisation  uuid.UUID // decides the shard
	Workspace     uuid.UUID // uuid.Nil for events of the organisation itself
	Actor         events.Actor
	RequestID     string
	CausationID   uuid.UUID
	CorrelationID uuid.UUID // made up when uuid.Nil
	At            time.Time // occurred_at of all events

	Streams     []StreamEvents
	Guards      []Guard
	Claims      []Claim
	Quotas      []Quota
	Idempotency *IdempotencyRecord
	// EraseSubjects destroys the personal-data keys of these subjects, for good.
	EraseSubjects []string
}

// Result tells where an append's events lie. Without events First is 0 and Last is the shard's head.
type Result struct {
	Shard       int
	First, Last int64
	IDs         []uuid.UUID // of the events, in order
}

// VersionConflict refuses an append: a stream or a guard is not at the expected version. Load again and decide again.
type VersionConflict struct {
	Stream           string
	Expected, Actual int
	Guard            bool
}

func (e *VersionConflict) Error() string {
	return fmt.Sprintf("eventstore: stream %s is at version %d, not %d", e.Stream, e.Actual, e.Expected)
}

// ClaimTaken refuses an append: somebody else holds what it wants to take.
type ClaimTaken struct{ Scope, Key, Owner string }

func (e *ClaimTaken) Error() string {
	return fmt.Sprintf("eventstore: %s is taken by %s", e.Scope, e.Owner)
}

// QuotaExceeded refuses an append: the counter would pass its limit.
type QuotaExceeded struct {
	Key              string
	Used, Add, Limit int64
}

func (e *QuotaExceeded) Error() string {
	return fmt.Sprintf("eventstore: quota %s: %d used of %d, no room for %d", e.Key, e.Used, e.Limit, e.Add)
}

// IdempotencyRecordExists refuses an append: its idempotency key has been used within ReceiptLife.
type IdempotencyRecordExists struct{ Record IdempotencyRecord }

func (e *IdempotencyRecordExists) Error() string {
	return "eventstore: the idempotency key has been used"
}
