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

// SubjectErased refuses an append with personal data of a subject that was erased.
type SubjectErased struct{ Subject string }

func (e *SubjectErased) Error() string {
	return "eventstore: the personal data of " + e.Subject + " is erased"
}

// keyStore holds the keys of subjects. Keys are cached for a short time only, so that an erasure on one node soon takes
// effect on all.
type keyStore struct {
	db    func(context.Context) *pgxpool.Pool
	wrap  tink.AEAD
	cache *expirable.LRU[cachedKey, tink.AEAD]

	generation func() uint64
}

// cachedKey names a key in the cache. A key that was created in a history that no longer exists may not be in the
// database, so personal data that is encrypted with it could never be read.
type cachedKey struct {
	generation uint64
	subject    string
}

const (
	keyCacheSize = 50_000
	// A reader of the whole ledger meets the events of a subject close together and needs few keys at a time.
	readerKeyCacheSize = 5_000
	keyCacheLifetime   = time.Minute
	// The key of checkSubject is decrypted at the start, to prove that the keyring is the installation's.
	checkSubject = "installation"

	// The lateral join makes the planner look up subject by subject, whatever the statistics of the table say.
	keysSelectSQL = `select u.subject, k.wrapped from unnest($1::text[]) u (subject)
		cross join lateral (select wrapped from ledger_keys k where k.subject = u.subject offset 0) k`
	keyInsertSQL = `insert into ledger_keys (subject, wrapped) values ($1, $2) on conflict do nothing`
)

func newKeyStore(db func(context.Context) *pgxpool.Pool, wrap tink.AEAD, size int) *keyStore {
	return &keyStore{db: db, wrap: wrap, cache: expirable.NewLRU[cachedKey, tink.AEAD](size, nil, keyCacheLifetime), generation: func() uint64 { return 0 }}
}

// create returns a new key and its stored form. It does not store the key.
func (s *keyStore) create(subject string) (key tink.AEAD, wrapped []byte, err error) {
	raw := make([]byte, 32)
	if _, err = rand.Read(raw); err != nil {
		return nil, nil, fmt.Errorf("eventstore: create key: %w", err)
	}
	if key, err = subtle.NewAESGCM(raw); err != nil {
		return nil, nil, fmt.Errorf("eventstore: create key: %w", err)
	}
	if wrapped, err = s.wrap.Encrypt(raw, []byte(subject)); err != nil {
		return nil, nil, fmt.Errorf("eventstore: wrap key: %w", err)
	}
	return key, wrapped, nil
}

func (s *keyStore) unwrap(subject string, wrapped []byte) (tink.AEAD, error) {
	raw, err := s.wrap.Decrypt(wrapped, []byte(subject))
	if err != nil {
		return nil, fmt.Errorf("%w: its keyset cannot decrypt the key of %s", ErrForeignKeyring, subject)
	}
	key, err := subtle.NewAESGCM(raw)
	if err != nil {
		return nil, fmt.Errorf("eventstore: decrypt key: %w", err)
	}
	return key, nil
}

// find returns the keys of subjects. A destroyed key is nil; a subject without a key is not in the map.
func (s *keyStore) find(ctx context.Context, subjects []string) (map[string]tink.AEAD, error) {
	found := make(map[string]tink.AEAD, len(subjects))
	var missing []string
	generation := s.generation()
	for _, subject := range subjects {
		if _, seen := found[subject]; seen {
			continue
		}
		if key, ok := s.cache.Get(cachedKey{generation, subject}); ok {
			found[subject] = key
		} else {
			missing = append(missing, subject)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	rows, err := s.db(ctx).Query(ctx, keysSelectSQL, missing)
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
		s.cache.Add(cachedKey{generation, subject}, key)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("eventstore: read keys: %w", err)
	}
	return found, nil
}

// ErrForeignKeyring refuses a keyring other than the one that the database was first used with. With its root, opt-outs
// would not be found and API keys would not be recognised; with its keyset, personal data could not be read.
var ErrForeignKeyring = errors.New("eventstore: the keys file does not belong to this database")

// checkKeyset returns ErrForeignKeyring for a keyring with another keyset, before anything is encrypted with it.
func checkKeyset(ctx context.Context, pool *pgxpool.Pool, keyring *Keyring) error {
	s := newKeyStore(func(context.Context) *pgxpool.Pool { return pool }, keyring.wrap, 1)
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
		return fmt.Errorf("eventstore: store check key: %w", err)
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

const (
	ledgerTableSQL = `select to_regclass('ledger_keys') is not null`
	anyKeySQL      = `select exists (select from ledger_keys)`
)

// IsUsed reports whether a database holds a ledger that was opened before, so that it belongs to a keyring.
func IsUsed(ctx context.Context, pool *pgxpool.Pool) (used bool, err error) {
	for _, sql := range []string{ledgerTableSQL, anyKeySQL} {
		if err := pool.QueryRow(ctx, sql).Scan(&used); err != nil {
			return false, fmt.Errorf("eventstore: look for a ledger: %w", err)
		}
		if !used {
			return false, nil
		}
	}
	return true, nil
}
