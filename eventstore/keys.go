package eventstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// SubjectErased refuses to seal anything more for a subject that was erased.
type SubjectErased struct{ Subject string }

func (e *SubjectErased) Error() string {
	return "eventstore: the personal data of " + e.Subject + " is erased"
}

// keyStore gives each subject's key. Unwrapped keys are kept in memory for a while; the time is short, so that an
// erasure on one node is soon complete on all.
type keyStore struct {
	pool  *pgxpool.Pool
	wrap  tink.AEAD
	cache *expirable.LRU[string, tink.AEAD]
}

const (
	keyCacheSize = 50_000
	// Who reads the ledger from end to end meets a subject's events close together, and needs few keys at a time.
	keyCacheReading = 5_000
	keyCacheLife    = time.Minute
	// checkSubject's key proves at start that the keyring is the one that the data was sealed with.
	checkSubject = "installation"

	// One look-up per subject, whatever the planner believes of the table's size.
	keysSelectSQL = `select u.subject, k.wrapped from unnest($1::text[]) u (subject)
		cross join lateral (select wrapped from ledger_keys k where k.subject = u.subject offset 0) k`
	keyInsertSQL = `insert into ledger_keys (subject, wrapped) values ($1, $2) on conflict do nothing`
)

func newKeyStore(pool *pgxpool.Pool, wrap tink.AEAD, size int) *keyStore {
	return &keyStore{pool: pool, wrap: wrap, cache: expirable.NewLRU[string, tink.AEAD](size, nil, keyCacheLife)}
}

// create makes a key that is not stored yet.
func (s *keyStore) create(subject string) (key tink.AEAD, wrapped []byte, err error) {
	raw := make([]byte, 32)
	if _, err = rand.Read(raw); err != nil {
		return nil, nil, fmt.Errorf("eventstore: make key: %w", err)
	}
	if key, err = subtle.NewAESGCM(raw); err != nil {
		return nil, nil, fmt.Errorf("eventstore: make key: %w", err)
	}
	if wrapped, err = s.wrap.Encrypt(raw, []byte(subject)); err != nil {
		return nil, nil, fmt.Errorf("eventstore: wrap key: %w", err)
	}
	return key, wrapped, nil
}

func (s *keyStore) unwrap(subject string, wrapped []byte) (tink.AEAD, error) {
	raw, err := s.wrap.Decrypt(wrapped, []byte(subject))
	if err != nil {
		return nil, fmt.Errorf("eventstore: the keyring does not open the key of %s: is it this installation's?", subject)
	}
	key, err := subtle.NewAESGCM(raw)
	if err != nil {
		return nil, fmt.Errorf("eventstore: open key: %w", err)
	}
	return key, nil
}

// find gives the keys of the subjects that have one; a destroyed key is there as nil, an unknown one is absent.
func (s *keyStore) find(ctx context.Context, subjects []string) (map[string]tink.AEAD, error) {
	found := make(map[string]tink.AEAD, len(subjects))
	var missing []string
	for _, subject := range subjects {
		if _, seen := found[subject]; seen {
			continue
		}
		if key, ok := s.cache.Get(subject); ok {
			found[subject] = key
		} else {
			missing = append(missing, subject)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	rows, err := s.pool.Query(ctx, keysSelectSQL, missing)
	if err != nil {
		return nil, fmt.Errorf("eventstore: read keys: %w", err)
	}
	var subject string
	var wrapped []byte
	_, err = pgx.ForEachRow(rows, []any{&subject, &wrapped}, func() error {
		if wrapped == nil {
			found[subject] = nil
			return nil
		}
		key, err := s.unwrap(subject, wrapped)
		if err != nil {
			return err
		}
		found[subject] = key
		s.cache.Add(subject, key)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("eventstore: read keys: %w", err)
	}
	return found, nil
}

// checkKeyring refuses a keyring other than the one this database was first used with, before anything is sealed
// with the wrong one.
func checkKeyring(ctx context.Context, pool *pgxpool.Pool, keyring *Keyring) error {
	s := newKeyStore(pool, keyring.wrap, 1)
	found, err := s.find(ctx, []string{checkSubject})
	if err != nil {
		return err
	}
	if found[checkSubject] != nil {
		return nil
	}
	_, wrapped, err := s.create(checkSubject)
	if err != nil {
		return err
	}
	tag, err := pool.Exec(ctx, keyInsertSQL, checkSubject, wrapped)
	if err != nil {
		return fmt.Errorf("eventstore: mark keyring: %w", err)
	}
	if tag.RowsAffected() == 1 {
		return nil
	}
	if found, err = s.find(ctx, []string{checkSubject}); err != nil {
		return err
	}
	if found[checkSubject] == nil {
		return errors.New("eventstore: the installation's key has been destroyed")
	}
	return nil
}
