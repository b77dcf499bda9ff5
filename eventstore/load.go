package eventstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	eventColumns = `shard, position, id, stream, version, type, schema, organisation_id,
		coalesce(workspace_id, '00000000-0000-0000-0000-000000000000'), occurred_at, actor_type, actor_id, request_id,
		coalesce(causation_id, '00000000-0000-0000-0000-000000000000'), correlation_id, data::text, coalesce(subject, ''), sealed`
	loadSQL = `select ` + eventColumns + ` from ledger_events where stream = $1 and version > $2 order by version`
	// The lateral join makes the planner look up stream by stream, whatever the statistics of the table say.
	manySQL = `select e.* from unnest($1::text[], $2::int[]) with ordinality u (name, since, i)
		cross join lateral (select ` + eventColumns + ` from ledger_events where stream = u.name and version > u.since order by version offset 0) e
		order by u.i, e.version`
	rangeSQL = `select ` + eventColumns + ` from ledger_events where shard = $1 and position > $2 and position <= $3 order by position`
	typedSQL = `select ` + eventColumns + ` from ledger_events where shard = $1 and position > $2 and position <= $3 and type = any($4) order by position`
	afterSQL = `select ` + eventColumns + ` from ledger_events where shard = $1 and position > $2 order by position limit $3`
	claimSQL = `select owner from ledger_claims where scope = $1 and key = $2`
)

func scanEvent(row pgx.CollectableRow) (Recorded, error) {
	var r Recorded
	var data string
	err := row.Scan(&r.Shard, &r.Position, &r.ID, &r.Stream, &r.Version, &r.Type, &r.Schema, &r.OrganisationID,
		&r.WorkspaceID, &r.OccurredAt, &r.Actor.Type, &r.Actor.ID, &r.RequestID,
		&r.CausationID, &r.CorrelationID, &data, &r.Subject, &r.Sealed)
	r.Data, r.OccurredAt = []byte(data), r.OccurredAt.UTC()
	return r, err
}

func (l *Ledger) query(ctx context.Context, sql string, args ...any) ([]Recorded, error) {
	rows, err := l.pool.Query(ctx, sql, args...)
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

// ReadRange reads the events of a shard with after < position <= upto, in order of position and
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

// Decode sets Event and Erased of events and decrypts their personal data. At the first event that cannot be decoded it
// stops with an *UndecodableError.
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

// UndecodableError names an event that cannot be decoded: a newer version of the program wrote it, or it is damaged.
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
	err = l.pool.QueryRow(ctx, claimSQL, scope, key).Scan(&owner)
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
