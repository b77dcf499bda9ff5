package eventstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	findRecordSQL = `select workspace_id, key, actor, fingerprint, ref, status, body, coalesce(subject, ''), shard, position, created_at
		from ledger_idempotency_records where workspace_id = $1 and key = $2`
	// A body never replaces one that is there. It is not stored either after the erasure of its subject, whose key is then
	// destroyed.
	completeRecordSQL = `update ledger_idempotency_records r set body = $3, subject = coalesce(r.subject, nullif($4, ''))
		where workspace_id = $1 and key = $2 and actor = $5 and body is null
		and not exists (select from ledger_keys k where k.subject = coalesce(r.subject, nullif($4, '')) and k.wrapped is null)`
)

func scanRecord(row pgx.CollectableRow) (IdempotencyRecord, error) {
	var r IdempotencyRecord
	err := row.Scan(&r.Workspace, &r.Key, &r.Actor, &r.Fingerprint, &r.Ref, &r.Status, &r.Body, &r.Subject, &r.Shard, &r.Position, &r.CreatedAt)
	return r, err
}

// recordContext binds an encrypted body to its record and to the record's actor: it cannot be decrypted as the body of
// another one. Neither an actor nor a key has line breaks.
func recordContext(r *IdempotencyRecord) []byte {
	return slices.Concat(r.Workspace[:], []byte(r.Actor+"\n"+r.Key))
}

func (l *Ledger) encryptRecordBody(r *IdempotencyRecord, body []byte) ([]byte, error) {
	sealed, err := l.keyring.wrap.Encrypt(body, recordContext(r))
	if err != nil {
		return nil, fmt.Errorf("eventstore: encrypt idempotency record: %w", err)
	}
	return sealed, nil
}

// decryptRecord decrypts the body of a record in place.
func (l *Ledger) decryptRecord(r *IdempotencyRecord) error {
	if r.Body == nil {
		return nil
	}
	body, err := l.keyring.wrap.Decrypt(r.Body, recordContext(r))
	if err != nil {
		return fmt.Errorf("eventstore: decrypt idempotency record: %w", err)
	}
	r.Body = body
	return nil
}

// FindIdempotencyRecord returns the record of an idempotency key; nil when the key was not used, or not within
// IdempotencyRecordLifetime.
func (l *Ledger) FindIdempotencyRecord(ctx context.Context, workspace uuid.UUID, key string) (*IdempotencyRecord, error) {
	rows, err := l.DB(ctx).Query(ctx, findRecordSQL, workspace, key)
	if err != nil {
		return nil, fmt.Errorf("eventstore: find idempotency record: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRecord)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nothing found is an answer here
	}
	if err != nil {
		return nil, fmt.Errorf("eventstore: find idempotency record: %w", err)
	}
	if l.clock.Now().Sub(r.CreatedAt) >= IdempotencyRecordLifetime {
		return nil, nil //nolint:nilnil // expired
	}
	return &r, l.decryptRecord(&r)
}

// CompleteIdempotencyRecord adds the answer's body to a record of the actor that was committed without it. subject is
// the contact whose erasure empties the body, "" for none. It changes nothing when the record has a body or another
// actor, or when its subject is erased.
func (l *Ledger) CompleteIdempotencyRecord(ctx context.Context, workspace uuid.UUID, actor, key, subject string, body []byte) error {
	sealed, err := l.encryptRecordBody(&IdempotencyRecord{Workspace: workspace, Actor: actor, Key: key}, body)
	if err != nil {
		return err
	}
	if _, err := l.DB(ctx).Exec(ctx, completeRecordSQL, workspace, key, sealed, subject, actor); err != nil {
		return fmt.Errorf("eventstore: complete idempotency record: %w", err)
	}
	return nil
}
