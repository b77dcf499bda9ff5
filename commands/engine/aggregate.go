package engine

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// Kind is one kind of aggregate: the prefix of its streams, the function that folds its events into a state, and the
// cache of its states.
type Kind[S any] struct {
	prefix string
	loader *eventstore.AggregateLoader[S]
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

// isValidStream reports whether a name can be that of a stream of this kind. Ids come from callers; an invalid id is
// not looked up in the database.
func (k Kind[S]) isValidStream(stream string) bool {
	return strings.HasPrefix(stream, k.prefix) && len(stream) <= maxStreamLength &&
		!strings.ContainsFunc(stream, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Find returns the state of a stream outside of a command. It uses the cache, which may be old; with fresh it reads the
// ledger. A stream that does not exist has the zero state.
func (k Kind[S]) Find(ctx context.Context, stream string, fresh bool) (S, error) {
	found, err := k.Read(ctx, stream, fresh)
	return found.State, err
}

// FindMany returns the states of several streams, in their order. It reads the ledger in one round trip.
func (k Kind[S]) FindMany(ctx context.Context, streams []string) ([]S, error) {
	found, err := k.loader.LoadMany(ctx, streams)
	if err != nil {
		return nil, Unreadable(err)
	}
	states := make([]S, len(found))
	for i := range found {
		states[i] = found[i].State
	}
	return states, nil
}

// Read returns a stream's state with its version, outside of a command; see Find.
func (k Kind[S]) Read(ctx context.Context, stream string, fresh bool) (eventstore.Aggregate[S], error) {
	if !k.isValidStream(stream) {
		return eventstore.Aggregate[S]{Stream: stream}, nil
	}
	read := k.loader.LoadCached
	if fresh {
		read = k.loader.Load
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
	workspace uuid.UUID // workspace of the recorded events; uuid.Nil: the request's
	recorded  []events.Event
	guarded   bool
}

// Load returns an aggregate that the decision depends on, and guards it: the append fails if the stream has another
// version by then. The first try of a command uses the cache, later tries read the ledger.
func Load[S any](ctx context.Context, u *Unit, k Kind[S], stream string) (*Aggregate[S], error) {
	g, err := Peek(ctx, u, k, stream)
	if err == nil && k.isValidStream(stream) {
		g.Guard()
	}
	return g, err
}

// Peek returns an aggregate without guarding it. Its state may be old. The append does not depend on it unless Guard is
// called or events are recorded.
func Peek[S any](ctx context.Context, u *Unit, k Kind[S], stream string) (*Aggregate[S], error) {
	if known, ok := u.aggregates[aggregateName{k.loader, stream}].(*Aggregate[S]); ok {
		return known, nil
	}
	base, err := k.Read(ctx, stream, u.Fresh)
	if err != nil {
		return nil, err
	}
	u.cached = u.cached || base.Cached
	return add(u, k, base), nil
}

// LoadMany reads several aggregates from the ledger in one round trip, so that later calls of Load and Peek need no
// query for them.
func LoadMany[S any](ctx context.Context, u *Unit, k Kind[S], streams []string) error {
	var missing []string
	seen := map[string]bool{}
	for _, stream := range streams {
		if u.aggregates[aggregateName{k.loader, stream}] == nil && !seen[stream] && k.isValidStream(stream) {
			seen[stream] = true
			missing = append(missing, stream)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := k.loader.LoadMany(ctx, missing)
	if err != nil {
		return Unreadable(err)
	}
	for _, base := range found {
		add(u, k, base)
	}
	return nil
}

// Begin returns an aggregate that does not exist yet, under a new id. Called again, it returns the same one.
func Begin[S any](u *Unit, k Kind[S], stream string) *Aggregate[S] {
	if known, ok := u.aggregates[aggregateName{k.loader, stream}].(*Aggregate[S]); ok {
		return known
	}
	return add(u, k, eventstore.Aggregate[S]{Stream: stream})
}

func add[S any](u *Unit, k Kind[S], base eventstore.Aggregate[S]) *Aggregate[S] {
	g := &Aggregate[S]{unit: u, kind: k, base: base, State: base.State}
	u.aggregates[aggregateName{k.loader, base.Stream}] = g
	u.OnAppended(func(a *eventstore.Append) {
		if len(g.recorded) > 0 && (!u.SkipCache || k.loader.IsCached(base.Stream)) {
			k.loader.CacheAppended(g.base, g.asRecorded(a, g.recorded), u.generation)
		}
	})
	return g
}

func (g *Aggregate[S]) asRecorded(a *eventstore.Append, list []events.Event) []eventstore.Recorded {
	recorded := eventstore.AsRecorded(a, g.base.Stream, list)
	if g.workspace != uuid.Nil {
		for i := range recorded {
			recorded[i].WorkspaceID = g.workspace
		}
	}
	return recorded
}

// InWorkspace makes Record put the aggregate's events into this workspace. If it is not the request's, they do not name
// the request: see eventstore.StreamEvents. It returns the aggregate.
func (g *Aggregate[S]) InWorkspace(workspace uuid.UUID) *Aggregate[S] {
	g.workspace = workspace
	return g
}

// Record adds events to the append and folds them into State.
func (g *Aggregate[S]) Record(list ...events.Event) {
	u := g.unit
	as := &eventstore.Append{Organisation: u.Request.Organisation, Workspace: u.Request.Workspace, Actor: u.Request.Actor, At: u.Now}
	for _, r := range g.asRecorded(as, list) {
		g.State = g.kind.apply(g.State, &r)
	}
	for _, e := range list {
		u.changes = append(u.changes, change{g.base.Stream, g.base.Version, g.workspace, e})
	}
	g.recorded = append(g.recorded, list...)
}

// Guard makes the append fail if the stream has another version than the one that was read. Recording events has the
// same effect.
func (g *Aggregate[S]) Guard() {
	if g.guarded {
		return
	}
	g.guarded = true
	g.unit.guards = append(g.unit.guards, func() (eventstore.Guard, bool) {
		return g.base.Guard(), len(g.recorded) == 0
	})
}

// GuardAfter returns a guard on the version that the stream has after this unit's append.
func (g *Aggregate[S]) GuardAfter() eventstore.Guard {
	return eventstore.Guard{Stream: g.base.Stream, Version: g.base.Version + len(g.recorded)}
}

// Stream returns the name of the aggregate's stream.
func (g *Aggregate[S]) Stream() string { return g.base.Stream }

// Before returns the state before this unit recorded events.
func (g *Aggregate[S]) Before() S { return g.base.State }

// IsNew reports whether the stream has no events but those that this unit records.
func (g *Aggregate[S]) IsNew() bool { return g.base.Version == 0 }

// Events returns the events that this unit has recorded on the aggregate.
func (g *Aggregate[S]) Events() []events.Event { return g.recorded }

// Recorded returns the number of events that this unit has recorded on the aggregate.
func (g *Aggregate[S]) Recorded() int { return len(g.recorded) }
