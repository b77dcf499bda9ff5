// Package recovery keeps messages from leaving after the history of the ledger went back, by a restored backup or by
// a failover that lost commits. The service may have sent messages, and contacts may have opted out, without the
// database remembering it.
//
// [Start] begins a recovery. Until [Release] no message leaves on any node. Carriers are read again from the given time
// on, so that opt-outs are recorded first. After the release each message that was accepted before the recovery began
// is looked up at its carrier before an attempt.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ledgerline/eventstore"
	"ledgerline/processes/carrier"
)

// State is the latest recovery.
type State struct {
	StartedAt  time.Time  `json:"started_at"` // by the database's clock
	Since      time.Time  `json:"since"`
	Reason     string     `json:"reason"`
	Heads      []int64    `json:"heads"`
	ReleasedAt *time.Time `json:"released_at"`
}

// Active reports whether messages must not leave. The nil State is no recovery.
func (s *State) Active() bool { return s != nil && s.ReleasedAt == nil }

// Suspects reports whether the message accepted at a position may have been sent without the ledger knowing it.
func (s *State) Suspects(shard int, position int64) bool {
	return s != nil && shard < len(s.Heads) && position <= s.Heads[shard]
}

// Querier is a pool or a connection.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

const (
	startSQL = `insert into recoveries (since, reason, heads) values ($1, $2,
		(select coalesce(array_agg(position order by shard), '{}') from ledger_heads))`
	releaseSQL = `update recoveries set released_at = now() where released_at is null`
)

// LatestSQL selects the columns that Scan reads.
const LatestSQL = `select started_at, since, reason, heads, released_at from recoveries order by id desc limit 1`

// Scan reads a row with some columns and then those of LatestSQL, which are null when there was no recovery.
func Scan(row pgx.Row, before ...any) (*State, error) {
	var startedAt, since *time.Time
	var reason *string
	var s State
	if err := row.Scan(append(before, &startedAt, &since, &reason, &s.Heads, &s.ReleasedAt)...); err != nil {
		return nil, err
	}
	if startedAt == nil || since == nil || reason == nil {
		return nil, nil //nolint:nilnil // there was none
	}
	s.StartedAt, s.Since, s.Reason = *startedAt, *since, *reason
	return &s, nil
}

// The errors of Start and Release.
var (
	ErrActive    = errors.New("recovery: a recovery is under way: release it first")
	ErrNotActive = errors.New("recovery: no recovery is under way")
)

// Start begins a recovery: no message leaves from now on. since is the last time up to which the database is known to
// be complete. It returns ErrActive when a recovery is under way.
func Start(ctx context.Context, ledger *eventstore.Ledger, carriers map[string]carrier.Carrier, since time.Time, reason string) error {
	_, err := ledger.Pool().Exec(ctx, startSQL, since, reason)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == "23505" {
		return ErrActive
	}
	if err != nil {
		return fmt.Errorf("recovery: start: %w", err)
	}
	for name, via := range carriers {
		if reader, ok := via.(carrier.Reader); ok {
			if err := reader.ReadAgain(ctx, since); err != nil {
				return fmt.Errorf("recovery: %s: %w", name, err)
			}
		}
	}
	return nil
}

// Latest returns the latest recovery; nil when there was none.
func Latest(ctx context.Context, db Querier) (*State, error) {
	s, err := Scan(db.QueryRow(ctx, LatestSQL))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there was none
	}
	if err != nil {
		return nil, fmt.Errorf("recovery: read: %w", err)
	}
	return s, nil
}

// Report says what a recovery has done and what is missing before it can be released.
type Report struct {
	*State
	// OpenMessages are the messages that no carrier has, as far as the ledger knows. Each is looked up before it leaves.
	OpenMessages int64 `json:"open_messages"`
	// OptOuts are the opt-outs that were recorded since the recovery began.
	OptOuts int64 `json:"opt_outs_recorded"`
	// Reconciled are the messages that were found at their carriers since then, and were not sent again.
	Reconciled int64 `json:"found_at_carriers"`
	// UnreadLines are the lines whose messages since then were not read again yet.
	UnreadLines []string `json:"unread_lines"`
	// Unreadable are the carriers that report only once, so that what they reported after the backup is lost.
	Unreadable []string `json:"carriers_that_cannot_be_read"`
}

const reportSQL = `select
	(select count(*) from sending_outbox o where o.position <= ($1::bigint[])[o.shard + 1]),
	(select count(*) from generate_subscripts($1::bigint[], 1) i join ledger_events e on e.shard = i - 1 and e.position > ($1::bigint[])[i] and e.type = 'contact.opted_out'),
	(select count(*) from generate_subscripts($1::bigint[], 1) i join ledger_events e on e.shard = i - 1 and e.position > ($1::bigint[])[i] and e.type = 'message.sent'
		and e.data->>'reconciled' = 'true')`

// ReadReport returns the report of the latest recovery; nil when there was none.
func ReadReport(ctx context.Context, ledger *eventstore.Ledger, carriers map[string]carrier.Carrier) (*Report, error) {
	state, err := Latest(ctx, ledger.Pool())
	if state == nil || err != nil {
		return nil, err
	}
	r := &Report{State: state, UnreadLines: []string{}, Unreadable: []string{}}
	if err := ledger.Pool().QueryRow(ctx, reportSQL, state.Heads).Scan(&r.OpenMessages, &r.OptOuts, &r.Reconciled); err != nil {
		return nil, fmt.Errorf("recovery: report: %w", err)
	}
	for name, via := range carriers {
		reader, ok := via.(carrier.Reader)
		if !ok {
			r.Unreadable = append(r.Unreadable, name)
			continue
		}
		unread, err := reader.Unread(ctx, state.StartedAt)
		if err != nil {
			return nil, fmt.Errorf("recovery: %s: %w", name, err)
		}
		r.UnreadLines = append(r.UnreadLines, unread...)
	}
	slices.Sort(r.UnreadLines)
	slices.Sort(r.Unreadable)
	return r, nil
}

// Release ends the recovery: messages leave again. It returns ErrNotActive when none is under way.
func Release(ctx context.Context, ledger *eventstore.Ledger) error {
	tag, err := ledger.Pool().Exec(ctx, releaseSQL)
	if err != nil {
		return fmt.Errorf("recovery: release: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNotActive
	}
	return nil
}
