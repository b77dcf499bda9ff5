package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// kind is one kind of aggregate: how its streams begin, how its events fold, and the states of it that are remembered.
type kind[S any] struct {
	prefix string
	folder *eventstore.Folder[S]
	apply  func(S, *eventstore.Recorded) S
}

// longestStream is longer than any stream's name.
const longestStream = 100

// plausible tells whether a stream can be of this kind. Ids come from callers: what cannot be one is not looked for.
func (k kind[S]) plausible(stream string) bool {
	return strings.HasPrefix(stream, k.prefix) && len(stream) <= longestStream &&
		!strings.ContainsFunc(stream, func(r rune) bool { return r <= ' ' || r > '~' })
}

type state[S any] interface {
	Apply(event events.Event, in events.Envelope) S
}

func newKind[S state[S]](l *eventstore.Ledger, prefix string, size int) kind[S] {
	apply := func(s S, r *eventstore.Recorded) S {
		return s.Apply(r.Event, events.Envelope{Organisation: r.OrganisationID, Workspace: r.WorkspaceID, At: r.OccurredAt})
	}
	return kind[S]{prefix, eventstore.NewFolder(l, size, apply), apply}
}

// unit is one attempt at a command: what it looked at, and what it wants to append.
type unit struct {
	app   *App
	req   *Request
	now   time.Time
	fresh bool // load from the ledger, not from memory
	// passing says that what the unit makes is one of many that nobody asks for soon: it is not remembered.
	passing bool

	// tells says that the unit appends nothing that would be refused where there is no room: what was used is asked of the ledger.
	tells bool
	// usesNothing takes lines and identities to be unused: it is about another usage day, of which nobody knows.
	usesNothing bool

	cached     bool // something was decided on what may be old
	aggregates map[looked]any
	changes    []change
	advance    []func(*eventstore.Append)
	leanings   []func() (eventstore.Guard, bool)
	claims     []eventstore.Claim
	quotas     []eventstore.Quota
	full       map[string]error // what it means that a quota has no room, by its key; without it the decision is taken again
	taken      map[owned]func(owner string) error
	asides     []eventstore.StreamEvents
	forget     []string
	ref        string
	subject    string
	body       []byte
}

// looked names what a unit has looked at already; folder tells the kind.
type looked struct {
	folder any
	stream string
}

// change is one event on its way into a stream. Events keep the order in which they were recorded, across streams.
type change struct {
	stream    string
	expected  int
	workspace uuid.UUID
	event     events.Event
}

// aggregate is one aggregate within a unit: State already knows what was recorded.
type aggregate[S any] struct {
	unit      *unit
	kind      kind[S]
	base      eventstore.Folded[S]
	workspace uuid.UUID // in place of the request's, when not uuid.Nil
	recorded  []events.Event
	leaning   bool
	State     S
}

// load gives an aggregate to decide by: the remembered state on the first attempt, the ledger's on later ones. The append
// depends on it being as it was seen.
func load[S any](ctx context.Context, u *unit, k kind[S], stream string) (*aggregate[S], error) {
	g, err := glance(ctx, u, k, stream)
	if err == nil && k.plausible(stream) {
		g.lean()
	}
	return g, err
}

// glance is load for what the append does not depend on unless it leans on it later: what is remembered may be old.
func glance[S any](ctx context.Context, u *unit, k kind[S], stream string) (*aggregate[S], error) {
	if known, ok := u.aggregates[looked{k.folder, stream}].(*aggregate[S]); ok {
		return known, nil
	}
	base, err := find(ctx, k, stream, u.fresh)
	if err != nil {
		return nil, err
	}
	u.cached = u.cached || base.Cached
	return add(u, k, base), nil
}

// loadMany looks at several aggregates of the ledger's present in one round trip, so that load finds them.
func loadMany[S any](ctx context.Context, u *unit, k kind[S], streams []string) error {
	var missing []string
	asked := map[string]bool{}
	for _, stream := range streams {
		if u.aggregates[looked{k.folder, stream}] == nil && !asked[stream] && k.plausible(stream) {
			asked[stream] = true
			missing = append(missing, stream)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := k.folder.LoadMany(ctx, missing)
	if err != nil {
		return unreadable(err)
	}
	for _, base := range found {
		add(u, k, base)
	}
	return nil
}

// find gives the remembered state, or with fresh the ledger's.
func find[S any](ctx context.Context, k kind[S], stream string, fresh bool) (eventstore.Folded[S], error) {
	if !k.plausible(stream) {
		return eventstore.Folded[S]{Stream: stream}, nil
	}
	look := k.folder.Peek
	if fresh {
		look = k.folder.Load
	}
	found, err := look(ctx, stream)
	if err != nil {
		return found, unreadable(err)
	}
	return found, nil
}

// begin gives an aggregate that does not exist yet, under an id that was just made.
func begin[S any](u *unit, k kind[S], stream string) *aggregate[S] {
	return add(u, k, eventstore.Folded[S]{Stream: stream})
}

func add[S any](u *unit, k kind[S], base eventstore.Folded[S]) *aggregate[S] {
	g := &aggregate[S]{unit: u, kind: k, base: base, State: base.State}
	u.aggregates[looked{k.folder, base.Stream}] = g
	u.advance = append(u.advance, func(a *eventstore.Append) {
		if len(g.recorded) > 0 && (!u.passing || k.folder.Remembers(base.Stream)) {
			k.folder.Advance(g.base, g.wrap(a, g.recorded))
		}
	})
	return g
}

func (g *aggregate[S]) wrap(a *eventstore.Append, list []events.Event) []eventstore.Recorded {
	recorded := eventstore.Fresh(a, g.base.Stream, list)
	if g.workspace != uuid.Nil {
		for i := range recorded {
			recorded[i].WorkspaceID = g.workspace
		}
	}
	return recorded
}

// in puts the aggregate's events into another workspace than the request's.
func (g *aggregate[S]) in(workspace uuid.UUID) *aggregate[S] {
	g.workspace = workspace
	return g
}

// record adds events to the append and folds them into State.
func (g *aggregate[S]) record(list ...events.Event) {
	u := g.unit
	as := &eventstore.Append{Organisation: u.req.Organisation, Workspace: u.req.Workspace, Actor: u.req.Actor, At: u.now}
	for _, r := range g.wrap(as, list) {
		g.State = g.kind.apply(g.State, &r)
	}
	for _, e := range list {
		u.changes = append(u.changes, change{g.base.Stream, g.base.Version, g.workspace, e})
	}
	g.recorded = append(g.recorded, list...)
}

// lean makes the append depend on the aggregate being as it was seen. One that gets events does so anyway.
func (g *aggregate[S]) lean() {
	if g.leaning {
		return
	}
	g.leaning = true
	g.unit.leanings = append(g.unit.leanings, func() (eventstore.Guard, bool) {
		return g.base.Guard(), len(g.recorded) == 0
	})
}

// after expects the aggregate to be as this unit leaves it.
func (g *aggregate[S]) after() eventstore.Guard {
	return eventstore.Guard{Stream: g.base.Stream, Version: g.base.Version + len(g.recorded)}
}

// claim takes a unique thing. taken says what it means when somebody else has it: a refusal, or nil to decide again.
func (u *unit) claim(scope, key, owner string, taken func(owner string) error) {
	u.claims = append(u.claims, eventstore.Claim{Scope: scope, Key: key, Owner: owner})
	u.taken[owned{scope, key}] = taken
}

// aside adds an event to a stream that is no aggregate: nothing is decided by what lies there before.
func (u *unit) aside(stream string, expected int, event events.Event) {
	u.asides = append(u.asides, eventstore.StreamEvents{Stream: stream, Expected: expected, Events: []events.Event{event}})
}

// release gives a unique thing back.
func (u *unit) release(scope, key, owner string) {
	u.claims = append(u.claims, eventstore.Claim{Scope: scope, Key: key, Owner: owner, Release: true})
}

// ownerNow finds who holds a claim that may move: on the first attempt from memory where it can, later from the ledger.
// Whoever goes by it must lean on the owner's stream, which changes whenever its claim does.
func (u *unit) ownerNow(ctx context.Context, scope, key string) (owner string, found bool, err error) {
	if u.fresh {
		u.app.owners.Remove(owned{scope, key})
	} else {
		u.cached = true
	}
	return u.app.owner(ctx, scope, key)
}

// owner finds who holds a claim. One that never moves, as the secret of a key, may be gone by as it is, and so may the phone
// of a line while that is not retired; for one that does, see ownerNow.
func (a *App) owner(ctx context.Context, scope, key string) (owner string, found bool, err error) {
	if owner, found = a.owners.Get(owned{scope, key}); found {
		return owner, true, nil
	}
	if owner, found, err = a.ledger.ClaimOwner(ctx, scope, key); err != nil {
		return "", false, unreadable(err)
	}
	if found {
		a.owners.Add(owned{scope, key}, owner)
	}
	return owner, found, nil
}

// guards are what the unit leans on beside what it appends to.
func (u *unit) guards() []eventstore.Guard {
	var guards []eventstore.Guard
	for _, leaning := range u.leanings {
		if guard, needed := leaning(); needed {
			guards = append(guards, guard)
		}
	}
	return guards
}

// build makes the append of what was recorded.
func (u *unit) build() *eventstore.Append {
	a := &eventstore.Append{
		Organisation: u.req.Organisation, Workspace: u.req.Workspace, Actor: u.req.Actor, RequestID: u.req.RequestID,
		CausationID: u.req.Causation, CorrelationID: u.req.Correlation, At: u.now, Claims: u.claims, Quotas: u.quotas, Forget: u.forget,
		Guards: slices.Concat(u.req.Guards, u.guards()),
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
	a.Streams = append(a.Streams, u.asides...)
	if r := u.req.Receipt; r != nil {
		receipt := *r
		if u.ref != "" {
			receipt.Ref = u.ref
		}
		if u.subject != "" {
			receipt.Subject = u.subject
		}
		if u.body != nil {
			receipt.Body = u.body
		}
		a.Receipt = &receipt
	}
	return a
}

// unreadable tells a database that could not be asked from what it answered.
func unreadable(err error) error {
	undecodable := (*eventstore.UndecodableError)(nil)
	if errors.As(err, &undecodable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("commands: %w", err)
	}
	return unavailable(err)
}

func unavailable(cause error) *fault.Fault {
	f := fault.New(fault.Unavailable, "The service cannot be reached right now. Try again.")
	f.RetryAfter, f.Cause = time.Second, cause
	return f
}
