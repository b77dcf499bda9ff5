package eventstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// maxProblems bounds how many problems of a kind VerifyReferences returns.
const maxProblems = 10

const (
	// A subject is the name of a stream, whose first event is in the append that creates the subject's key.
	lostSubjectsSQL = `select format('the key of %s has no events: the end was cut off', k.subject) from ledger_keys k
		where k.wrapped is not null and k.subject <> $2 and not exists (select from ledger_events e where e.stream = k.subject) order by k.subject limit $1`
	lostRecordsSQL = `select format('the idempotency record %s of workspace %s names position %s of shard %s, which has no event: the end was cut off', r.key, r.workspace_id, r.position, r.shard)
		from ledger_idempotency_records r
		where r.position > 0 and not exists (select from ledger_events e where e.shard = r.shard and e.position = r.position) order by r.shard, r.position limit $1`
	// The version of a stream is the number of its events.
	lostVersionsSQL = `select format('stream %s has %s events, and its last one has version %s', stream, count(*), max(version)) from ledger_events
		group by stream having count(*) <> max(version) or min(version) <> 1 or min(shard) <> max(shard) order by stream limit $1`
	lostHeadsSQL = `select format('shard %s has no head', s) from generate_series(0, (select shards - 1 from ledger_meta)) s
		where not exists (select from ledger_heads h where h.shard = s) order by s limit $1`
	keyPageSQL = `select subject, wrapped from ledger_keys where subject > $1 and wrapped is not null order by subject limit 5000`
)

// VerifyReferences compares the tables that are written together with events with the events: keys of personal data,
// idempotency records, versions of streams and heads. It returns what does not fit, at most a few problems of each
// kind; nil when everything does. It finds an end that was cut off as long as something still refers to it.
func (l *Ledger) VerifyReferences(ctx context.Context) ([]string, error) {
	var problems []string
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{lostHeadsSQL, []any{maxProblems}}, {lostSubjectsSQL, []any{maxProblems, checkSubject}},
		{lostRecordsSQL, []any{maxProblems}}, {lostVersionsSQL, []any{maxProblems}},
	} {
		rows, err := l.pool.Query(ctx, q.sql, q.args...)
		if err != nil {
			return nil, fmt.Errorf("eventstore: verify references: %w", err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("eventstore: verify references: %w", err)
		}
		problems = append(problems, found...)
	}
	unreadable, err := l.unreadableKeys(ctx)
	return append(problems, unreadable...), err
}

// unreadableKeys returns the subjects whose key the keyring cannot decrypt.
func (l *Ledger) unreadableKeys(ctx context.Context) ([]string, error) {
	var problems []string
	for after := ""; ; {
		rows, err := l.pool.Query(ctx, keyPageSQL, after)
		if err != nil {
			return nil, fmt.Errorf("eventstore: verify keys: %w", err)
		}
		n := 0
		var subject string
		var wrapped []byte
		_, err = pgx.ForEachRow(rows, []any{&subject, &wrapped}, func() error {
			n++
			after = subject
			if _, err := l.keyring.wrap.Decrypt(wrapped, []byte(subject)); err != nil && len(problems) < maxProblems {
				problems = append(problems, "the key of "+subject+" is not one that the keyring encrypted")
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("eventstore: verify keys: %w", err)
		}
		if n == 0 {
			return problems, nil
		}
	}
}
