package eventstore

import (
	"context"
	"errors"
	"fmt"

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
	typedSQL = `select ` + eventColumns + ` from ledger_events e where e.shard = $1 and e.position > greatest($2, 0) and e.position <= least($3, (select position from ledger_heads where shard = $1))
		and e.type = any($4) order by e.position`
	afterSQL = `select ` + eventColumns + ` from ledger_events e where e.shard = $1 and e.position > greatest($2, 0) and e.position <= (select position from ledger_heads where shard = $1)
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
	found, err := l.query(ctx, loadSQL, stream, after)
	if err != nil {
		return nil, err
	}
	return found, l.Decode(ctx, found)
}

// LoadMany is Load for several streams in one round trip: the events of each stream after its version, stream by stream
// in the given order.
func (l *Ledger) LoadMany(ctx context.Context, streams []string, after []int) ([]Recorded, error) {
	found, err := l.query(ctx, manySQL, streams, after)
	if err != nil {
		return nil, err
	}
	return found, l.Decode(ctx, found)
}

// ReadRange reads the events of a shard with after < position <= upto, at most to the head, in order of position and
// not decoded. With types it reads only events of these types.
func (l *Ledger) ReadRange(ctx context.Context, shard int, after, upto int64, types ...string) ([]Recorded, error) {
	if len(types) == 0 {
		return l.query(ctx, rangeSQL, shard, after, upto)
	}
	return l.query(ctx, typedSQL, shard, after, upto, types)
}

// ReadAfter reads the next events of a shard after a position, up to limit, in order of position and not decoded.
func (l *Ledger) ReadAfter(ctx context.Context, shard int, position int64, limit int) ([]Recorded, error) {
	return l.query(ctx, afterSQL, shard, position, limit)
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
