package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	receiptSQL = `select workspace_id, key, fingerprint, ref, status, body, coalesce(subject, ''), shard, position, created_at
		from ledger_idempotency_records where workspace_id = $1 and key = $2`
	// A body never replaces one that is there, and never comes back after an erasure emptied it: the subject's key is
	// a tombstone then.
	finishReceiptSQL = `update ledger_idempotency_records r set body = $3, subject = coalesce(r.subject, nullif($4, ''))
		where workspace_id = $1 and key = $2 and body is null
		and not exists (select from ledger_keys k where k.subject = coalesce(r.subject, nullif($4, '')) and k.wrapped is null)`
	pruneReceiptsSQL = `delete from ledger_idempotency_records where ctid = any(array(select ctid from ledger_idempotency_records where created_at < $1 limit 5000))`
	pruneQuotasSQL   = `delete from ledger_quotas where ctid = any(array(select ctid from ledger_quotas where bucket < $1 limit 5000))`
)

func scanReceipt(row pgx.CollectableRow) (IdempotencyRecord, error) {
	var r IdempotencyRecord
	err := row.Scan(&r.Workspace, &r.Key, &r.Fingerprint, &r.Ref, &r.Status, &r.Body, &r.Subject, &r.Shard, &r.Position, &r.CreatedAt)
	return r, err
}

func receiptAD(r *IdempotencyRecord) []byte { return append(r.Workspace[:], r.Key...) }

func (l *Ledger) sealReceipt(r *IdempotencyRecord, body []byte) ([]byte, error) {
	sealed, err := l.keyring.wrap.Encrypt(body, receiptAD(r))
	if err != nil {
		return nil, fmt.Errorf("eventstore: seal receipt: %w", err)
	}
	return sealed, nil
}

// openReceipt opens the body in place.
func (l *Ledger) openReceipt(r *IdempotencyRecord) error {
	if r.Body == nil {
		return nil
	}
	body, err := l.keyring.wrap.Decrypt(r.Body, receiptAD(r))
	if err != nil {
		return fmt.Errorf("eventstore: open receipt: %w", err)
	}
	r.Body = body
	return nil
}

// FindIdempotencyRecord gives the receipt of an idempotency key while it holds; nil when there is none.
func (l *Ledger) FindIdempotencyRecord(ctx context.Context, workspace uuid.UUID, key string) (*IdempotencyRecord, error) {
	rows, err := l.pool.Query(ctx, receiptSQL, workspace, key)
	if err != nil {
		return nil, fmt.Errorf("eventstore: find receipt: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanReceipt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nothing found is an answer here
	}
	if err != nil {
		return nil, fmt.Errorf("eventstore: find receipt: %w", err)
	}
	if l.clock.Now().Sub(r.CreatedAt) >= IdempotencyRecordLifetime {
		return nil, nil //nolint:nilnil // expired
	}
	return &r, l.openReceipt(&r)
}

// CompleteIdempotencyRecord adds the answer's body to a receipt that was committed without it. Subject is the contact whose
// erasure empties the body, "" for none.
func (l *Ledger) CompleteIdempotencyRecord(ctx context.Context, workspace uuid.UUID, key, subject string, body []byte) error {
	sealed, err := l.sealReceipt(&IdempotencyRecord{Workspace: workspace, Key: key}, body)
	if err != nil {
		return err
	}
	if _, err := l.pool.Exec(ctx, finishReceiptSQL, workspace, key, sealed, subject); err != nil {
		return fmt.Errorf("eventstore: finish receipt: %w", err)
	}
	return nil
}

const oldestQuotaSQL = `select bucket from ledger_quotas where key = $1 and bucket >= $2 and used > 0 order by bucket limit 1`

// OldestQuotaBucket is the oldest bucket of a counter, from a moment on, that anything was added to; found is false when there is none.
func (l *Ledger) OldestQuotaBucket(ctx context.Context, key string, from time.Time) (bucket time.Time, found bool, err error) {
	err = l.pool.QueryRow(ctx, oldestQuotaSQL, key, from).Scan(&bucket)
	if errors.Is(err, pgx.ErrNoRows) {
		return bucket, false, nil
	}
	if err != nil {
		return bucket, false, fmt.Errorf("eventstore: quota: %w", err)
	}
	return bucket, true, nil
}

// Prune removes receipts and quota buckets that count no more. It returns how many rows went; call it again while
// that is not 0.
func (l *Ledger) Prune(ctx context.Context, quotaLife time.Duration) (int64, error) {
	now := l.clock.Now()
	receipts, err := l.pool.Exec(ctx, pruneReceiptsSQL, now.Add(-IdempotencyRecordLifetime))
	if err != nil {
		return 0, fmt.Errorf("eventstore: prune receipts: %w", err)
	}
	quotas, err := l.pool.Exec(ctx, pruneQuotasSQL, now.Add(-quotaLife))
	if err != nil {
		return 0, fmt.Errorf("eventstore: prune quotas: %w", err)
	}
	return receipts.RowsAffected() + quotas.RowsAffected(), nil
}
