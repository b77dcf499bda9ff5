package eventstore

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"ledgerline/events"
)

// Aggregate is an aggregate's state at a version of its stream.
type Aggregate[S any] struct {
	Stream  string
	Version int // 0: the stream does not exist
	State   S
	// Cached tells that the state comes from memory and was not compared with the ledger. An append that expects
	// Version is refused if it is old, so it is safe to decide on; a refusal of the domain's is only to be told after
	// a decision on a fresh state.
	Cached bool
}

// Guard expects that the aggregate is still at this version.
func (f Aggregate[S]) Guard() Guard { return Guard{f.Stream, f.Version} }

// AggregateLoader loads aggregates by folding their events, and keeps what it folded, by version.
type AggregateLoader[S any] struct {
	ledger *Ledger
	cache  *lru.Cache[string, Aggregate[S]]
	apply  func(S, *Recorded) S
}

// NewAggregateLoader makes a folder that keeps up to size states. apply must return a new state and leave the old one as it was.
func NewAggregateLoader[S any](l *Ledger, size int, apply func(S, *Recorded) S) *AggregateLoader[S] {
	cache, err := lru.New[string, Aggregate[S]](size)
	if err != nil {
		panic(err) // only for size < 1
	}
	return &AggregateLoader[S]{ledger: l, cache: cache, apply: apply}
}

// LoadCached gives the state in memory without asking the ledger, and loads it when there is none.
func (f *AggregateLoader[S]) LoadCached(ctx context.Context, stream string) (Aggregate[S], error) {
	if known, ok := f.cache.Get(stream); ok {
		known.Cached = true
		return known, nil
	}
	return f.Load(ctx, stream)
}

// Load gives the state at the ledger's present: what is in memory, and the events since.
func (f *AggregateLoader[S]) Load(ctx context.Context, stream string) (Aggregate[S], error) {
	state, _ := f.cache.Get(stream)
	state.Stream = stream
	since, err := f.ledger.Load(ctx, stream, state.Version)
	if err != nil {
		return Aggregate[S]{}, err
	}
	for i := range since {
		state.State, state.Version = f.apply(state.State, &since[i]), since[i].Version
	}
	f.keep(state)
	return state, nil
}

// LoadMany is Load for several streams in one round trip. It gives the states in the order of the streams. What it did not
// remember before it does not remember afterwards: who works through many must not push out what others need all the time.
func (f *AggregateLoader[S]) LoadMany(ctx context.Context, streams []string) ([]Aggregate[S], error) {
	states, after, place := make([]Aggregate[S], len(streams)), make([]int, len(streams)), make(map[string]int, len(streams))
	for i, stream := range streams {
		states[i], _ = f.cache.Get(stream)
		states[i].Stream, after[i], place[stream] = stream, states[i].Version, i
	}
	since, err := f.ledger.LoadMany(ctx, streams, after)
	if err != nil {
		return nil, err
	}
	for i := range since {
		s := &states[place[since[i].Stream]]
		s.State, s.Version = f.apply(s.State, &since[i]), since[i].Version
	}
	for i := range states {
		if after[i] > 0 {
			f.keep(states[i])
		}
	}
	return states, nil
}

// IsCached tells whether a state of the stream is in memory.
func (f *AggregateLoader[S]) IsCached(stream string) bool { return f.cache.Contains(stream) }

// CacheAppended folds events that were just appended after the version of base, so that the next Peek knows them.
func (f *AggregateLoader[S]) CacheAppended(base Aggregate[S], appended []Recorded) {
	base.Cached = false
	for i := range appended {
		base.State = f.apply(base.State, &appended[i])
		base.Version++
	}
	f.keep(base)
}

// keep remembers a state; a stream that does not exist yet is not worth a place.
func (f *AggregateLoader[S]) keep(state Aggregate[S]) {
	if state.Version == 0 {
		return
	}
	if known, ok := f.cache.Peek(state.Stream); !ok || known.Version <= state.Version {
		f.cache.Add(state.Stream, state)
	}
}

// AsRecorded wraps events that were appended by this process as far as a fold needs them.
func AsRecorded(a *Append, stream string, appended []events.Event) []Recorded {
	recorded := make([]Recorded, len(appended))
	for i, e := range appended {
		recorded[i] = Recorded{
			Stream: stream, OrganisationID: a.Organisation, WorkspaceID: a.Workspace, OccurredAt: a.At, Actor: a.Actor, Event: e,
		}
	}
	return recorded
}
