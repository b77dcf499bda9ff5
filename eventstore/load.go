package eventstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	eventColumns = `e.shard, e.position, e.id, e.stream, e.version, e.type, e.schema, e.organisation_id, e.workspace_id, e.occurred_at,
		e.actor_type, e.actor_id, e.request_id, e.causation_id, e.correlation_id, e.data::text, e.subject, e.sealed, e.tag`
	// Every read but that of Verify is bounded by the heads: an event outside of the positions that are verified has no
	// effect.
	upToHead = ` join ledger_heads h on h.shard = e.shard and e.position between 1 and h.position `
	loadSQL  = `select ` + eventColumns + ` from ledger_events e` + upToHead + `where e.stream = $1 and e.version > $2 order by e.version`
	// The lateral join makes the planner look up stream by stream, whatever the statistics of the table say.
	manySQL = `select x.* from unnest($1::text[], $2::int[]) with ordinality u (name, since, i)
		cross join lateral (select ` + eventColumns + ` from ledger_events e` + upToHead + `where e.stream = u.name and e.version > u.since order by e.version offset 0) x
		order by u.i, x.version`
	rangeSQL = `select ` + eventColumns + ` from ledger_events e where e.shard = $1 and e.position > greatest($2, 0) and e.position <= least($3, (select position from ledger_heads where shard = $1))
		order by e.position`
	// Both begin with the event at the position after which they read, and end with the last one that they have read.
	typedSQL = `select ` + eventColumns + ` from ledger_events e cross join (select through.position as through from ledger_heads h
			cross join lateral (select position from ledger_events where shard = $1 and position <= least($3, h.position) order by position desc limit 1) through where h.shard = $1) h
		where e.shard = $1 and e.position >= greatest($2, 1) and e.position <= h.through and (coalesce(cardinality($4::text[]), 0) = 0 or e.type = any($4) or e.position in ($2, h.through)) order by e.position`
	afterSQL = `select ` + eventColumns + ` from ledger_events e where e.shard = $1 and e.position >= greatest($2, 1) and e.position <= (select position from ledger_heads where shard = $1)
		order by e.position limit $3`
	claimSQL = `select owner from ledger_claims where scope = $1 and key = $2`
)

func scanEvent(row pgx.CollectableRow) (Recorded, error) {
	var r Recorded
	var data string
	var workspace, causation pgtype.UUID
	var occurred pgtype.Timestamptz
	var subject pgtype.Text
	err := row.Scan(&r.Shard, &r.Position, &r.ID, &r.Stream, &r.Version, &r.Type, &r.Schema, &r.OrganisationID,
		&workspace, &occurred, &r.Actor.Type, &r.Actor.ID, &r.RequestID,
		&causation, &r.CorrelationID, &data, &subject, &r.Sealed, &r.Tag)
	r.Data, r.OccurredAt = []byte(data), occurred.Time.UTC()
	r.WorkspaceID, r.CausationID, r.Subject = workspace.Bytes, causation.Bytes, subject.String
	mark := func(is bool, value unusual) {
		if is {
			r.unusual |= value
		}
	}
	mark(workspace.Valid && r.WorkspaceID == uuid.Nil, zeroWorkspace)
	mark(causation.Valid && r.CausationID == uuid.Nil, zeroCausation)
	mark(subject.Valid && r.Subject == "", emptySubject)
	mark(occurred.InfinityModifier == pgtype.Infinity, infiniteFuture)
	mark(occurred.InfinityModifier == pgtype.NegativeInfinity, infinitePast)
	return r, err
}

func (l *Ledger) query(ctx context.Context, sql string, args ...any) ([]Recorded, error) {
	rows, err := l.DB(ctx).Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("eventstore: read events: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("eventstore: read events: %w", err)
	}
	return found, nil
}

// Load reads the events of a stream after a version, oldest first, decoded. A stream that does not exist has none.
func (l *Ledger) Load(ctx context.Context, stream string, after int) ([]Recorded, error) {
	generation := l.Generation()
	found, err := l.query(ctx, loadSQL, stream, after)
	if err != nil {
		return nil, err
	}
	l.addSeen(generation, found)
	return found, l.Decode(ctx, found)
}

// LoadMany is Load for several streams in one round trip: the events of each stream after its version, stream by stream
// in the given order.
func (l *Ledger) LoadMany(ctx context.Context, streams []string, after []int) ([]Recorded, error) {
	generation := l.Generation()
	found, err := l.query(ctx, manySQL, streams, after)
	if err != nil {
		return nil, err
	}
	l.addSeen(generation, found)
	return found, l.Decode(ctx, found)
}

// addSeen stores the newest of loaded events, so that the next append verifies that it is still in the ledger.
func (l *Ledger) addSeen(generation uint64, loaded []Recorded) {
	newest := map[int]Point{} // by shard
	for i := range loaded {
		if r := &loaded[i]; r.Position > newest[r.Shard].Position {
			newest[r.Shard] = Point{r.Position, r.ID}
		}
	}
	for shard, p := range newest {
		l.heads.add(shard, generation, p)
	}
}

// ReadRange reads the events of a shard with after < position <= upto, at most to the head, in order of position and
// not decoded.
func (l *Ledger) ReadRange(ctx context.Context, shard int, after, upto int64) ([]Recorded, error) {
	return l.query(ctx, rangeSQL, shard, after, upto)
}

// ReadTypes reads the events of some types (none: all) after a point, up to a position or the head, in order of
// position and not decoded. It returns the point up to which the shard was read. It returns ErrRewound when the event
// at after is not in the ledger; a point without an id is not verified.
func (l *Ledger) ReadTypes(ctx context.Context, shard int, after Point, upto int64, types ...string) ([]Recorded, Point, error) {
	found, err := l.query(ctx, typedSQL, shard, after.Position, upto, types)
	if err != nil {
		return nil, after, err
	}
	found, err = continues(found, after)
	if err != nil || len(found) == 0 {
		return nil, after, err
	}
	last := &found[len(found)-1]
	through := Point{last.Position, last.ID}
	if len(types) > 0 && !slices.Contains(types, last.Type) {
		found = found[:len(found)-1]
	}
	return found, through, nil
}

// ReadAfter reads the next events of a shard after a point, up to limit, in order of position and not decoded. It
// returns ErrRewound when the event at after is not in the ledger; a point without an id is not verified.
func (l *Ledger) ReadAfter(ctx context.Context, shard int, after Point, limit int) ([]Recorded, error) {
	found, err := l.query(ctx, afterSQL, shard, after.Position, limit+1)
	if err != nil {
		return nil, err
	}
	found, err = continues(found, after)
	return found[:min(len(found), limit)], err
}

// continues removes the event at a point from the events that were read from there on, and returns ErrRewound when it
// is not the one of the point.
func continues(found []Recorded, after Point) ([]Recorded, error) {
	here := len(found) > 0 && found[0].Position == after.Position
	if after.ID != uuid.Nil && (!here || found[0].ID != after.ID) {
		return nil, ErrRewound
	}
	if here {
		found = found[1:]
	}
	return found, nil
}

// Decode sets Event and Erased of events and decrypts their personal data. At the first event that cannot be decoded,
// or that no holder of the keyring appended (see authentic), it stops with an *UndecodableError.
func (l *Ledger) Decode(ctx context.Context, recorded []Recorded) error {
	var subjects []string
	for i := range recorded {
		if recorded[i].Sealed != nil {
			subjects = append(subjects, recorded[i].Subject)
		}
	}
	keys, err := l.keys.find(ctx, subjects)
	if err != nil {
		return err
	}
	for i := range recorded {
		r := &recorded[i]
		if err := l.authentic(r); err != nil {
			return &UndecodableError{r.Shard, r.Position, r.Type, err}
		}
		var personal []byte
		if r.Sealed != nil {
			if key := keys[r.Subject]; key == nil {
				r.Erased = true
			} else if personal, err = key.Decrypt(r.Sealed, r.ID[:]); err != nil {
				return &UndecodableError{r.Shard, r.Position, r.Type, errors.New("its personal data cannot be decrypted")}
			}
		}
		if r.Event, err = l.registry.Decode(r.Type, r.Schema, r.Data, personal); err != nil {
			return &UndecodableError{r.Shard, r.Position, r.Type, err}
		}
	}
	return nil
}

// authentic returns an error for an event that was changed, or that was written to the database by anybody who does not
// have the keyring, so that it has no effect. It does not find that events were removed; Verify does.
func (l *Ledger) authentic(r *Recorded) error {
	if r.Shard != l.ShardOf(r.OrganisationID) || !l.keyring.hasTag(r, leafHash(r)) {
		return errors.New("the event is not as the service appended it: run audit verify")
	}
	return nil
}

// UndecodableError names an event that cannot be decoded: a newer version of the program wrote it, or it was
// changed.
type UndecodableError struct {
	Shard    int
	Position int64
	Type     string
	Cause    error
}

func (e *UndecodableError) Error() string {
	return fmt.Sprintf("eventstore: event %d of shard %d (%s): %v", e.Position, e.Shard, e.Type, e.Cause)
}

// Unwrap returns the cause.
func (e *UndecodableError) Unwrap() error { return e.Cause }

// ClaimOwner returns the owner of a claim; found is false when it is free.
func (l *Ledger) ClaimOwner(ctx context.Context, scope, key string) (owner string, found bool, err error) {
	err = l.DB(ctx).QueryRow(ctx, claimSQL, scope, key).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("eventstore: claim: %w", err)
	}
	return owner, true, nil
}

// NewID returns a new id, a UUIDv7.
func NewID() uuid.UUID { return newID() }
