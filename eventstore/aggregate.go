package eventstore

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"ledgerline/events"
)

// Aggregate is the state that the events of a stream lead to, at a version of the stream.
type Aggregate[S any] struct {
	Stream  string
	Version int // 0: the stream does not exist
	State   S
	// Cached is true when the state comes from the cache and may be out of date. It is safe to accept a command by such a
	// state, because the append that expects Version is refused then. Before a command is refused by it, load it again.
	Cached bool
}

// cachedAggregate is an aggregate with the generation of the ledger in which it was read, see Ledger.Generation.
type cachedAggregate[S any] struct {
	Aggregate[S]
	generation uint64
}

// Guard returns the guard that the aggregate is still at this version.
func (a Aggregate[S]) Guard() Guard { return Guard{a.Stream, a.Version} }

// AggregateLoader loads aggregates by folding their events, and caches them. It is safe for concurrent use.
type AggregateLoader[S any] struct {
	ledger *Ledger
	cache  *lru.Cache[string, cachedAggregate[S]]
	apply  func(S, *Recorded) S
}

// NewAggregateLoader returns a loader that caches up to size aggregates. apply returns the state after an event; it
// must not change the state that it is given. NewAggregateLoader panics for a size below 1.
func NewAggregateLoader[S any](l *Ledger, size int, apply func(S, *Recorded) S) *AggregateLoader[S] {
	cache, err := lru.New[string, cachedAggregate[S]](size)
	if err != nil {
		panic(err) // only for size < 1
	}
	return &AggregateLoader[S]{ledger: l, cache: cache, apply: apply}
}

// LoadCached returns the cached aggregate without asking the database. If it is not cached, LoadCached loads it.
func (l *AggregateLoader[S]) LoadCached(ctx context.Context, stream string) (Aggregate[S], error) {
	if known, ok := l.cached(stream, l.ledger.Generation()); ok {
		known.Cached = true
		return known, nil
	}
	return l.Load(ctx, stream)
}

// cached returns the cached aggregate unless it is of another generation of the ledger.
func (l *AggregateLoader[S]) cached(stream string, generation uint64) (Aggregate[S], bool) {
	known, ok := l.cache.Get(stream)
	if !ok || known.generation != generation {
		return Aggregate[S]{Stream: stream}, false
	}
	return known.Aggregate, true
}

// Load returns the aggregate at the stream's newest version. It reads only the events that the cached aggregate lacks.
func (l *AggregateLoader[S]) Load(ctx context.Context, stream string) (Aggregate[S], error) {
	generation := l.ledger.Generation()
	a, _ := l.cached(stream, generation)
	since, err := l.ledger.Load(ctx, stream, a.Version)
	if err != nil {
		return Aggregate[S]{}, err
	}
	for i := range since {
		a.State, a.Version = l.apply(a.State, &since[i]), since[i].Version
	}
	l.keep(a, generation)
	return a, nil
}

// LoadMany is Load for several streams in one round trip. It returns the aggregates in the order of the streams.
// Aggregates that were not cached before are not cached afterwards, so that a bulk read does not push others out of the
// cache.
func (l *AggregateLoader[S]) LoadMany(ctx context.Context, streams []string) ([]Aggregate[S], error) {
	loaded, after, index := make([]Aggregate[S], len(streams)), make([]int, len(streams)), make(map[string]int, len(streams))
	generation := l.ledger.Generation()
	for i, stream := range streams {
		loaded[i], _ = l.cached(stream, generation)
		after[i], index[stream] = loaded[i].Version, i
	}
	since, err := l.ledger.LoadMany(ctx, streams, after)
	if err != nil {
		return nil, err
	}
	for i := range since {
		a := &loaded[index[since[i].Stream]]
		a.State, a.Version = l.apply(a.State, &since[i]), since[i].Version
	}
	for i := range loaded {
		if after[i] > 0 {
			l.keep(loaded[i], generation)
		}
	}
	return loaded, nil
}

// IsCached tells whether the aggregate of a stream is in the cache.
func (l *AggregateLoader[S]) IsCached(stream string) bool { return l.cache.Contains(stream) }

// CacheAppended caches an aggregate with the events that were just appended after the version of base. generation is
// that of the append.
func (l *AggregateLoader[S]) CacheAppended(base Aggregate[S], appended []Recorded, generation uint64) {
	base.Cached = false
	for i := range appended {
		base.State = l.apply(base.State, &appended[i])
		base.Version++
	}
	l.keep(base, generation)
}

// keep caches an aggregate unless the cache has a newer version. A stream that does not exist is not cached.
func (l *AggregateLoader[S]) keep(a Aggregate[S], generation uint64) {
	if a.Version == 0 {
		return
	}
	if known, ok := l.cache.Peek(a.Stream); !ok || known.generation < generation || known.generation == generation && known.Version <= a.Version {
		l.cache.Add(a.Stream, cachedAggregate[S]{a, generation})
	}
}

// AsRecorded returns the events that an append adds to a stream in the form in which apply functions take them.
// Positions, ids and versions are not set.
func AsRecorded(a *Append, stream string, appended []events.Event) []Recorded {
	recorded := make([]Recorded, len(appended))
	for i, e := range appended {
		recorded[i] = Recorded{
			Stream: stream, OrganisationID: a.Organisation, WorkspaceID: a.Workspace, OccurredAt: a.At, Actor: a.Actor, Event: e,
		}
	}
	return recorded
}
