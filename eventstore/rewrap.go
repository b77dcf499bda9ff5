package eventstore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	rewrapPageSQL = `select subject, wrapped from ledger_keys where subject > $1 and wrapped is not null and substring(wrapped for 5) <> $2 order by subject limit 1000`
	// A key that was destroyed meanwhile stays destroyed.
	rewrapSQL            = `update ledger_keys k set wrapped = u.after from unnest($1::text[], $2::bytea[], $3::bytea[]) u (subject, before, after) where k.subject = u.subject and k.wrapped = u.before`
	rewrapRecordsPageSQL = `select workspace_id, key, body from ledger_idempotency_records
		where (workspace_id, key) > ($1, $2) and body is not null and substring(body for 5) <> $3 order by workspace_id, key limit 1000`
	// An answer that was emptied meanwhile stays empty.
	rewrapRecordSQL = `update ledger_idempotency_records set body = $4 where workspace_id = $1 and key = $2 and body = $3`
	vacuumKeysSQL   = `vacuum ledger_keys`
)

// RewrapKeys encrypts the stored keys of all subjects and the stored answers again, with the newest key of the
// keyring's keyset, and returns how many keys. Afterwards nothing in the database needs the older keys of the keyset.
// All other processes must use the same keyring, because one with an older keyring could not read the keys. It may be
// interrupted and repeated.
func (l *Ledger) RewrapKeys(ctx context.Context) (int, error) {
	prefix := binary.BigEndian.AppendUint32([]byte{1}, l.keyring.wrapID) // with which tink begins what the key encrypts
	rewrapped := 0
	for after := ""; ; {
		var subjects []string
		var before, now [][]byte
		rows, err := l.pool.Query(ctx, rewrapPageSQL, after, prefix)
		if err != nil {
			return rewrapped, fmt.Errorf("eventstore: rewrap keys: %w", err)
		}
		var subject string
		var wrapped []byte
		_, err = pgx.ForEachRow(rows, []any{&subject, &wrapped}, func() error {
			raw, err := l.keyring.wrap.Decrypt(wrapped, []byte(subject))
			if err != nil {
				return fmt.Errorf("the keyring cannot decrypt the key of %s", subject)
			}
			again, err := l.keyring.wrap.Encrypt(raw, []byte(subject))
			subjects, before, now, wrapped = append(subjects, subject), append(before, wrapped), append(now, again), nil
			return err
		})
		if err != nil {
			return rewrapped, fmt.Errorf("eventstore: rewrap keys: %w", err)
		}
		if len(subjects) == 0 {
			break
		}
		after = subject
		tag, err := l.pool.Exec(ctx, rewrapSQL, subjects, before, now)
		if err != nil {
			return rewrapped, fmt.Errorf("eventstore: rewrap keys: %w", err)
		}
		rewrapped += int(tag.RowsAffected())
	}
	if err := l.rewrapRecords(ctx, prefix); err != nil {
		return rewrapped, err
	}
	if _, err := l.pool.Exec(ctx, vacuumKeysSQL); err != nil {
		return rewrapped, fmt.Errorf("eventstore: vacuum keys: %w", err)
	}
	return rewrapped, nil
}

// rewrapRecords encrypts the bodies of idempotency records again.
func (l *Ledger) rewrapRecords(ctx context.Context, prefix []byte) error {
	for after := (IdempotencyRecord{}); ; {
		rows, err := l.pool.Query(ctx, rewrapRecordsPageSQL, after.Workspace, after.Key, prefix)
		if err != nil {
			return fmt.Errorf("eventstore: rewrap idempotency records: %w", err)
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r IdempotencyRecord, err error) {
			err = row.Scan(&r.Workspace, &r.Key, &r.Body)
			return r, err
		})
		if err != nil {
			return fmt.Errorf("eventstore: rewrap idempotency records: %w", err)
		}
		if len(found) == 0 {
			return nil
		}
		for _, r := range found {
			stored := r.Body
			if err := l.decryptRecord(&r); err != nil {
				return err
			}
			again, err := l.encryptRecordBody(&r, r.Body)
			if err != nil {
				return err
			}
			if _, err := l.pool.Exec(ctx, rewrapRecordSQL, r.Workspace, r.Key, stored, again); err != nil {
				return fmt.Errorf("eventstore: rewrap idempotency records: %w", err)
			}
		}
		after = found[len(found)-1]
	}
}
