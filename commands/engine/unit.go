package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// Unit is the unit of work of one try of a command: the aggregates that it has read, and what it will append.
type Unit struct {
	Engine  *Engine
	Request *Request
	Now     time.Time
	Fresh   bool // aggregates are loaded from the ledger, not taken from memory
	// SkipCache keeps the new states of aggregates out of the cache, unless they are in it already. Bulk writes set it.
	SkipCache bool

	Ref     string // id of the resource, for Result and the idempotency record
	Subject string // contact whose data is in the answer, for the idempotency record
	Body    []byte // answer of the request, for the idempotency record

	generation    uint64 // of the ledger before the first state was read
	cached        bool   // a cached state was used, which may be old
	aggregates    map[aggregateName]any
	changes       []change
	onAppended    []func(*eventstore.Append)
	guards        []func() (guard eventstore.Guard, needed bool)
	claims        []eventstore.Claim
	quotas        []eventstore.Quota
	quotaRefusals map[string]error // refusal when a quota would be exceeded, by key; without one the command decides again
	onClaimTaken  map[claimName]func(owner string) error
	unloaded      []eventstore.StreamEvents
	erase         []string
}

// aggregateName identifies an aggregate within a unit. kind is the loader of its kind.
type aggregateName struct {
	kind   any
	stream string
}

// change is one event to append. Events keep the order in which they were recorded, across streams.
type change struct {
	stream    string
	expected  int
	workspace uuid.UUID
	event     events.Event
}

// Unit returns a unit of work for reading only: it loads aggregates from the ledger and appends nothing.
func (e *Engine) Unit(req *Request) *Unit { return e.unit(req, true) }

func (e *Engine) unit(req *Request, fresh bool) *Unit {
	return &Unit{
		Engine: e, Request: req, Now: e.Ledger.Now(), Fresh: fresh, generation: e.Ledger.Generation(),
		aggregates: map[aggregateName]any{}, onClaimTaken: map[claimName]func(string) error{}, quotaRefusals: map[string]error{},
	}
}

// OnAppended registers a function that runs after the append has committed.
func (u *Unit) OnAppended(f func(*eventstore.Append)) { u.onAppended = append(u.onAppended, f) }

// Claim claims a unique key for an owner. When another owner has the key, the command is refused with the error that
// taken returns; if taken returns nil, the command decides again.
func (u *Unit) Claim(scope, key, owner string, taken func(owner string) error) {
	u.claims = append(u.claims, eventstore.Claim{Scope: scope, Key: key, Owner: owner})
	u.onClaimTaken[claimName{scope, key}] = taken
}

// ReleaseClaim releases the claim of a unique key.
func (u *Unit) ReleaseClaim(scope, key, owner string) {
	u.claims = append(u.claims, eventstore.Claim{Scope: scope, Key: key, Owner: owner, Release: true})
}

// Owner finds the owner of a claim whose owner may change: from the cache on the first try of a command, from the
// ledger on later tries. A decision that uses it must guard the owner's stream, which gets an event whenever its claim
// changes.
func (u *Unit) Owner(ctx context.Context, scope, key string) (owner string, found bool, err error) {
	if u.Fresh {
		u.Engine.DropOwner(scope, key)
	} else {
		u.cached = true
	}
	return u.Engine.Owner(ctx, scope, key)
}

// Quota adds to a counter with a limit. full is the refusal when the counter would exceed its limit; if full is nil,
// the command decides again.
func (u *Unit) Quota(q eventstore.Quota, full error) {
	u.quotas = append(u.quotas, q)
	if full != nil {
		u.quotaRefusals[q.Key] = full
	}
}

// RecordOnStream adds an event to a stream that the unit has not loaded. The append fails unless the stream has the
// version expected.
func (u *Unit) RecordOnStream(stream string, expected int, event events.Event) {
	u.unloaded = append(u.unloaded, eventstore.StreamEvents{Stream: stream, Expected: expected, Events: []events.Event{event}})
}

// Erase destroys the key of a subject's personal data with the append.
func (u *Unit) Erase(subject string) { u.erase = append(u.erase, subject) }

// pending returns the number of events to append.
func (u *Unit) pending() int { return len(u.changes) + len(u.unloaded) }

// neededGuards returns the guards on streams that the unit read and adds no events to.
func (u *Unit) neededGuards() []eventstore.Guard {
	var guards []eventstore.Guard
	for _, g := range u.guards {
		if guard, needed := g(); needed {
			guards = append(guards, guard)
		}
	}
	return guards
}

// build returns the append with everything that the unit has recorded.
func (u *Unit) build() *eventstore.Append {
	a := &eventstore.Append{
		Organisation: u.Request.Organisation, Workspace: u.Request.Workspace, Actor: u.Request.Actor,
		RequestID: u.Request.RequestID, CausationID: u.Request.Causation, CorrelationID: u.Request.Correlation, At: u.Now, Generation: u.generation,
		Claims: u.claims, Quotas: u.quotas, EraseSubjects: u.erase, Guards: slices.Concat(u.Request.Guards, u.neededGuards()),
	}
	for _, c := range u.changes {
		if n := len(a.Streams); n > 0 && a.Streams[n-1].Stream == c.stream {
			a.Streams[n-1].Events = append(a.Streams[n-1].Events, c.event)
			continue
		}
		a.Streams = append(a.Streams, eventstore.StreamEvents{
			Stream: c.stream, Expected: c.expected, Workspace: c.workspace, Events: []events.Event{c.event},
		})
	}
	a.Streams = append(a.Streams, u.unloaded...)
	if r := u.Request.Idempotency; r != nil {
		record := *r
		if u.Ref != "" {
			record.Ref = u.Ref
		}
		if u.Subject != "" {
			record.Subject = u.Subject
		}
		if u.Body != nil {
			record.Body = u.Body
		}
		a.Idempotency = &record
	}
	return a
}

// Unreadable turns an error of reading the ledger into service_unavailable, unless the request was canceled or the
// stored data cannot be decoded.
func Unreadable(err error) error {
	undecodable := (*eventstore.UndecodableError)(nil)
	if errors.As(err, &undecodable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("commands: %w", err)
	}
	return Unavailable(err)
}

// Unavailable is the refusal service_unavailable with its cause.
func Unavailable(cause error) *fault.Fault {
	f := fault.New(fault.Unavailable, "The service cannot be reached right now. Try again.")
	f.RetryAfter, f.Cause = time.Second, cause
	return f
}

// UnknownOutcome is the refusal unknown_outcome with its cause.
func UnknownOutcome(cause error) *fault.Fault {
	f := fault.New(fault.UnknownOutcome, "It is not known whether the request was carried out. Repeat it with the same idempotency key, or read the resource first.")
	f.RetryAfter, f.Cause = 2*time.Second, cause
	return f
}

// NotFound is the refusal not_found for a resource, named as a user would name it.
func NotFound(resource string) error { return notFound(resource) }

// Hidden is NotFound for a resource that the caller may not see. It stays the answer to a caller that once wrote the
// resource with the same idempotency key (rule API-19).
func Hidden(resource string) error {
	f := notFound(resource)
	f.Hidden = true
	return f
}

func notFound(resource string) *fault.Fault {
	return fault.New(fault.NotFound, "There is no such %s.", resource)
}
