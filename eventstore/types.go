package eventstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
)

// Recorded is one event as it is stored in the ledger.
type Recorded struct {
	Shard          int
	Position       int64 // within the shard, from 1, without gaps
	ID             uuid.UUID
	Stream         string
	Version        int    // within the stream, from 1
	Type           string // wire name, for example contact.created
	Schema         int    // version of the wire format of this type
	OrganisationID uuid.UUID
	WorkspaceID    uuid.UUID // uuid.Nil for events of the organisation itself
	OccurredAt     time.Time
	Actor          events.Actor
	RequestID      string
	CausationID    uuid.UUID // the event that led to this one; uuid.Nil when a request did
	CorrelationID  uuid.UUID // shared by everything that one request or inbound message led to
	Data           json.RawMessage
	Subject        string // whose key encrypts the personal data; "" when there is none
	Sealed         []byte // the personal data, encrypted
	Tag            []byte // shows that a holder of the keyring appended the event; see Keyring.tag

	// Event is the decoded event with its personal data; nil until Ledger.Decode was called.
	Event events.Event `json:"-"`
	// Erased is true when the key of the personal data is destroyed. The personal fields of Event are empty then.
	Erased bool `json:"-"`

	unusual unusual // values that the ledger never writes, which only a change in the database can have left
}

// unusual tells apart values of a stored row that look alike in Recorded, so that the hash differs for each of them.
type unusual uint8

const (
	zeroWorkspace  unusual = 1 << iota // a workspace id of zeros, and not null
	zeroCausation                      // a causation id of zeros, and not null
	emptySubject                       // an empty subject, and not null
	infiniteFuture                     // the time 'infinity'
	infinitePast                       // the time '-infinity'
)

// Special values of StreamEvents.Expected.
const (
	// NoStream expects that the stream has no events yet.
	NoStream = 0
	// AnyVersion accepts every version.
	AnyVersion = -1
)

// StreamEvents are the events that one append adds to one stream.
type StreamEvents struct {
	Stream   string
	Expected int // NoStream, AnyVersion, or the version at which the command decided
	// Workspace replaces the append's workspace when it is not uuid.Nil. If the append has another workspace, the events
	// get the actor system, and neither the request nor the causation nor the correlation of the append: what happens in
	// one workspace is not shown in another one. Events of an append of the whole organisation keep its cause.
	Workspace uuid.UUID
	Events    []events.Event
}

// Guard is the expected version of a stream that an append depends on without adding to it, for example that of the API
// key that makes a request, or of a contact whose consent was checked.
type Guard struct {
	Stream  string
	Version int
}

// Claim takes or releases a unique thing: within Scope, Key belongs to one Owner. Examples are a name in a workspace
// and the hash of an API key. An append is not refused for taking what the owner holds already, nor for releasing what
// it does not hold. Claims apply in their order, so one append can release a claim and take it for another owner.
type Claim struct {
	Scope, Key, Owner string
	Release           bool
}

// Quota adds to a counter that may not exceed its limit. The counter is the sum of its buckets from From on. A fixed
// window has From and Bucket at its start; a rolling window of an hour has From an hour ago and Bucket at the current
// minute.
type Quota struct {
	Key    string
	Bucket time.Time // where Add is counted
	From   time.Time // start of the window
	Add    int64     // a negative number gives back and is never refused
	Limit  int64
}

// IdempotencyRecord is the stored answer to a request with an idempotency key (rules API-13 to API-18). It commits with
// the events of the request.
type IdempotencyRecord struct {
	Workspace   uuid.UUID
	Key         string // unique within the workspace
	Actor       string // caller that used the key; the body cannot be decrypted as the answer to another one
	Fingerprint []byte // hash of method, path and canonical body: another request with the same key is refused
	Ref         string // id of what the request created or changed; without Body the answer is built from its view
	Status      int    // HTTP status of the answer
	Body        []byte // of the answer; nil while it is not known. It is encrypted in the database
	Subject     string // contact whose erasure empties the body; "" when there is none
	// Set by the ledger.
	Shard     int
	Position  int64 // of the last event of the request; 0 when the request was refused
	CreatedAt time.Time
}

// IdempotencyRecordLifetime is how long an idempotency key counts as used.
const IdempotencyRecordLifetime = 24 * time.Hour

// Append is one atomic step: events of several streams with their preconditions.
type Append struct {
	Organisation  uuid.UUID // decides the shard
	Workspace     uuid.UUID // uuid.Nil for events of the organisation itself
	Actor         events.Actor
	RequestID     string
	CausationID   uuid.UUID // the event that leads to these; uuid.Nil when a request does
	CorrelationID uuid.UUID // uuid.Nil: a new one is made
	At            time.Time // OccurredAt of all events
	// Generation is Ledger.Generation at the time before the first state was read that the append was decided on. 0: the
	// append does not depend on states that were read before Append is called.
	Generation uint64

	Streams     []StreamEvents
	Guards      []Guard
	Claims      []Claim
	Quotas      []Quota
	Idempotency *IdempotencyRecord // nil for a request without an idempotency key
	// EraseSubjects are subjects whose personal data becomes unreadable for good: their keys are destroyed.
	EraseSubjects []string
}

// Result is where an append's events are in the ledger. Without events First is 0 and Last is the position of the
// shard's head.
type Result struct {
	Shard       int
	First, Last int64
	IDs         []uuid.UUID // of the events, in order
}

// VersionConflict refuses an append: a stream is not at the expected version. The caller loads again and decides again.
type VersionConflict struct {
	Stream           string
	Expected, Actual int
	Guard            bool // the stream is that of a guard; the append does not add to it
}

func (e *VersionConflict) Error() string {
	return fmt.Sprintf("eventstore: stream %s is at version %d, not %d", e.Stream, e.Actual, e.Expected)
}

// ClaimTaken refuses an append: another owner holds a claim that it takes.
type ClaimTaken struct{ Scope, Key, Owner string }

func (e *ClaimTaken) Error() string {
	return fmt.Sprintf("eventstore: %s is taken by %s", e.Scope, e.Owner)
}

// QuotaExceeded refuses an append: a counter would exceed its limit.
type QuotaExceeded struct {
	Key              string
	Used, Add, Limit int64
}

func (e *QuotaExceeded) Error() string {
	return fmt.Sprintf("eventstore: quota %s: %d used, limit %d, cannot add %d", e.Key, e.Used, e.Limit, e.Add)
}

// IdempotencyRecordExists refuses an append: its idempotency key has been used within IdempotencyRecordLifetime.
type IdempotencyRecordExists struct{ Record IdempotencyRecord }

func (e *IdempotencyRecordExists) Error() string {
	return "eventstore: the idempotency key has been used"
}
