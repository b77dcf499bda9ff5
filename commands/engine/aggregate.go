package engine

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// Kind is one kind of aggregate: the prefix of its streams, how its events fold into a state, and the states that this
// process remembers.
type Kind[S any] struct {
	prefix string
	folder *eventstore.AggregateLoader[S]
	apply  func(S, *eventstore.Recorded) S
}

type state[S any] interface {
	Apply(event events.Event, in events.Envelope) S
}

func newKind[S state[S]](l *eventstore.Ledger, prefix string, size int) Kind[S] {
	apply := func(s S, r *eventstore.Recorded) S {
		return s.Apply(r.Event, events.Envelope{Organisation: r.OrganisationID, Workspace: r.WorkspaceID, At: r.OccurredAt})
	}
	return Kind[S]{prefix, eventstore.NewAggregateLoader(l, size, apply), apply}
}

// maxStreamLength is more than the length of any stream's name.
const maxStreamLength = 100

// plausible reports whether a stream can be of this kind. Ids come from callers; an id that cannot be one is not read.
func (k Kind[S]) plausible(stream string) bool {
	return strings.HasPrefix(stream, k.prefix) && len(stream) <= maxStreamLength &&
		!strings.ContainsFunc(stream, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Find gives the state of a stream outside of a command: the remembered one, or with fresh the ledger's. A stream that
// does not exist has the zero state.
func (k Kind[S]) Find(ctx context.Context, stream string, fresh bool) (S, error) {
	found, err := k.Read(ctx, stream, fresh)
	return found.State, err
}

// FindMany gives the ledger's present states of several streams in one round trip, in their order.
func (k Kind[S]) FindMany(ctx context.Context, streams []string) ([]S, error) {
	found, err := k.folder.LoadMany(ctx, streams)
	if err != nil {
		return nil, Unreadable(err)
	}
	states := make([]S, len(found))
	for i := range found {
		states[i] = found[i].State
	}
	return states, nil
}

// Read gives a stream's state with its version, outside of a command; see Find.
func (k Kind[S]) Read(ctx context.Context, stream string, fresh bool) (eventstore.Aggregate[S], error) {
	if !k.plausible(stream) {
		return eventstore.Aggregate[S]{Stream: stream}, nil
	}
	read := k.folder.LoadCached
	if fresh {
		read = k.folder.Load
	}
	found, err := read(ctx, stream)
	if err != nil {
		return found, Unreadable(err)
	}
	return found, nil
}

// Aggregate is one aggregate within a unit of work. State includes the events that the unit has recorded.
type Aggregate[S any] struct {
	State S

	unit      *Unit
	kind      Kind[S]
	base      eventstore.Aggregate[S]
	workspace uuid.UUID // in place of the request's, when not uuid.Nil
	recorded  []events.Event
	guarded   bool
}

// Load gives an aggregate to decide by, and guards it: the append fails if the stream has moved since. The first try
// uses the remembered state, later tries the ledger's.
func Load[S any](ctx context.Context, u *Unit, k Kind[S], stream string) (*Aggregate[S], error) {
	g, err := Peek(ctx, u, k, stream)
	if err == nil && k.plausible(stream) {
		g.Guard()
	}
	return g, err
}

// Peek gives an aggregate without guarding it: its state may be old, and the append does not depend on it unless Guard
// is called or events are recorded.
func Peek[S any](ctx context.Context, u *Unit, k Kind[S], stream string) (*Aggregate[S], error) {
	if known, ok := u.aggregates[aggregateName{k.folder, stream}].(*Aggregate[S]); ok {
		return known, nil
	}
	base, err := k.Read(ctx, stream, u.Fresh)
	if err != nil {
		return nil, err
	}
	u.cached = u.cached || base.Cached
	return add(u, k, base), nil
}

// LoadMany reads several aggregates from the ledger in one round trip; Load and Peek then find them.
func LoadMany[S any](ctx context.Context, u *Unit, k Kind[S], streams []string) error {
	var missing []string
	seen := map[string]bool{}
	for _, stream := range streams {
		if u.aggregates[aggregateName{k.folder, stream}] == nil && !seen[stream] && k.plausible(stream) {
			seen[stream] = true
			missing = append(missing, stream)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := k.folder.LoadMany(ctx, missing)
	if err != nil {
		return Unreadable(err)
	}
	for _, base := range found {
		add(u, k, base)
	}
	return nil
}

// Begin gives an aggregate that does not exist yet, under an id that was just made.
func Begin[S any](u *Unit, k Kind[S], stream string) *Aggregate[S] {
	return add(u, k, eventstore.Aggregate[S]{Stream: stream})
}

func add[S any](u *Unit, k Kind[S], base eventstore.Aggregate[S]) *Aggregate[S] {
	g := &Aggregate[S]{unit: u, kind: k, base: base, State: base.State}
	u.aggregates[aggregateName{k.folder, base.Stream}] = g
	u.OnAppended(func(a *eventstore.Append) {
		if len(g.recorded) > 0 && (!u.SkipCache || k.folder.IsCached(base.Stream)) {
			k.folder.CacheAppended(g.base, g.wrap(a, g.recorded))
		}
	})
	return g
}

func (g *Aggregate[S]) wrap(a *eventstore.Append, list []events.Event) []eventstore.Recorded {
	recorded := eventstore.AsRecorded(a, g.base.Stream, list)
	if g.workspace != uuid.Nil {
		for i := range recorded {
			recorded[i].WorkspaceID = g.workspace
		}
	}
	return recorded
}

// InWorkspace puts the aggregate's events into another workspace than the request's, and gives the aggregate.
func (g *Aggregate[S]) InWorkspace(workspace uuid.UUID) *Aggregate[S] {
	g.workspace = workspace
	return g
}

// Record adds events to the append and folds them into State.
func (g *Aggregate[S]) Record(list ...events.Event) {
	u := g.unit
	as := &eventstore.Append{Organisation: u.Request.Organisation, Workspace: u.Request.Workspace, Actor: u.Request.Actor, At: u.Now}
	for _, r := range g.wrap(as, list) {
		g.State = g.kind.apply(g.State, &r)
	}
	for _, e := range list {
		u.changes = append(u.changes, change{g.base.Stream, g.base.Version, g.workspace, e})
	}
	g.recorded = append(g.recorded, list...)
}

// Guard makes the append fail if the stream has moved since it was read. Recording events implies it.
func (g *Aggregate[S]) Guard() {
	if g.guarded {
		return
	}
	g.guarded = true
	g.unit.guards = append(g.unit.guards, func() (eventstore.Guard, bool) {
		return g.base.Guard(), len(g.recorded) == 0
	})
}

// GuardAfter is a guard on the stream as it is after this unit's append.
func (g *Aggregate[S]) GuardAfter() eventstore.Guard {
	return eventstore.Guard{Stream: g.base.Stream, Version: g.base.Version + len(g.recorded)}
}

// Stream is the name of the aggregate's stream.
func (g *Aggregate[S]) Stream() string { return g.base.Stream }

// Before is the state before this unit recorded anything.
func (g *Aggregate[S]) Before() S { return g.base.State }

// IsNew reports whether the stream has no events but those that this unit records.
func (g *Aggregate[S]) IsNew() bool { return g.base.Version == 0 }

// Recorded is the number of events that this unit has recorded on the aggregate.
func (g *Aggregate[S]) Recorded() int { return len(g.recorded) }
