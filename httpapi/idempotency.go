package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
	"ledgerline/httpapi/input"
)

const (
	headerIdempotencyKey    = "Idempotency-Key"
	headerIdempotencyReplay = "Idempotent-Replayed"
	maxIdempotencyKey       = 255
)

// reservedKeyPrefixes are prefixes of keys that the service uses for its own writes (rule API-13).
var reservedKeyPrefixes = []string{"outreach:", "workflow:", "agent:"}

// ErrIdempotencyKeyUsed is what a command returns, wrapped, when its append was refused because the idempotency key has
// been used already. The request is then answered with the idempotency record of that key.
var ErrIdempotencyKeyUsed = errors.New("the idempotency key has been used")

// Idempotency describes the idempotency record of a write with a key. The command appends the record together with its
// events, so that both commit or neither does (rule API-17).
type Idempotency struct {
	Key         string
	Fingerprint []byte // SHA-256 of method, path and canonical body
	Status      int    // of the answer when the write succeeds
}

// IdempotencyRecord is the stored answer of an idempotency key.
type IdempotencyRecord struct {
	Actor       string // auth.Caller.Actor of the caller that used the key; nobody else gets the answer
	Fingerprint []byte
	Status      int
	Ref         string // WriteResult.Ref
	Body        []byte // nil while it is not known, and when it must not be stored
	Position    int64
	Shard       int
}

// IdempotencyRecords stores idempotency records for 24 hours, per scope (auth.Caller.KeyScope, for most callers the
// workspace) and key (rule API-14), each with the actor that used the key. It is safe for concurrent use.
type IdempotencyRecords interface {
	// Find returns nil, nil when the key has not been used.
	Find(ctx context.Context, scope uuid.UUID, key string) (*IdempotencyRecord, error)
	// SaveRefusal stores the answer to a write that appended nothing. It returns an error that wraps
	// ErrIdempotencyKeyUsed when the key has been used meanwhile.
	SaveRefusal(ctx context.Context, caller auth.Caller, key string, fingerprint []byte, record IdempotencyRecord) error
	// AddBody adds the body to the actor's record of a success. It returns no error: without the body, a retry is
	// answered from the view.
	AddBody(ctx context.Context, scope uuid.UUID, actor, key string, body []byte)
}

// readIdempotencyKey reads the header. A malformed key is an issue of the request.
func (q *request) readIdempotencyKey() {
	values, sent := q.gin.Request.Header[headerIdempotencyKey]
	if !sent {
		return
	}
	if len(values) != 1 {
		q.addIssue("header", "/idempotency-key", "invalid_format", "Expected the header once.")
		return
	}
	if values[0] == "" {
		q.addIssue("header", "/idempotency-key", "too_short", "Expected at least 1 character.")
		return
	}
	q.useIdempotencyKey(values[0], "header", "/idempotency-key")
}

// useIdempotencyKey checks a key and puts it into the call. An empty key means that there is none.
func (q *request) useIdempotencyKey(key, location, path string) {
	if key == "" {
		return
	}
	switch {
	case len(key) > maxIdempotencyKey:
		q.addIssue(location, path, "too_long", "Expected at most 255 characters.")
		return
	case !input.IsVisibleASCII(key):
		q.addIssue(location, path, "invalid_characters", "Expected printable ASCII characters without spaces.")
		return
	}
	for _, prefix := range reservedKeyPrefixes {
		if strings.HasPrefix(key, prefix) {
			q.addIssue(location, path, "reserved", "Keys that begin with "+prefix+" are reserved.")
			return
		}
	}
	q.call.Idempotency = &Idempotency{Key: key}
}

// fingerprint returns a hash that differs between different requests with the same key (rule API-15).
func (q *request) fingerprint() []byte {
	hash := sha256.New()
	hash.Write([]byte(q.gin.Request.Method))
	hash.Write([]byte{'\n'})
	hash.Write([]byte(q.gin.Request.URL.Path))
	hash.Write([]byte{'\n'})
	hash.Write(q.body.Canonical)
	return hash.Sum(nil)
}

// bodyFunc renders the answer of a successful write.
type bodyFunc func(*request, WriteResult) ([]byte, error)

// writeOnce runs a write and answers it. With an idempotency key the write runs first, without looking for a record:
// nearly every key is new, and the ledger refuses the append of a used key. A record is searched only after a refusal.
// The refusal may be caused by the success of an earlier request with the same key.
func (a *API) writeOnce(q *request, e *endpoint, write func() (WriteResult, error), body bodyFunc) {
	key := q.call.Idempotency
	if key == nil {
		result, err := write()
		a.answerWrite(q, e, result, err, body)
		return
	}
	key.Fingerprint, key.Status = q.fingerprint(), e.status()
	running := scopedKey{q.call.KeyScope(), key.Key}
	if !a.runningKeys.enter(running) {
		a.refuse(q.gin, fault.New(fault.IdempotencyConflict, "A request with this idempotency key is still running."))
		return
	}
	defer a.runningKeys.leave(running)

	result, err := write()
	if err != nil {
		a.answerRefusal(q, e, err, body)
		return
	}
	if answer := a.answerWrite(q, e, result, nil, body); answer != nil && !result.BodyStored && !e.OmitStoredBody {
		a.recordBodies.add(recordBody{q.call.KeyScope(), q.call.Actor(), key.Key, answer})
	}
}

// answerWrite answers a write that has run, and returns the body of a success.
func (a *API) answerWrite(q *request, e *endpoint, result WriteResult, err error, body bodyFunc) []byte {
	var rendered []byte
	if err == nil {
		rendered, err = body(q, result)
	}
	if err != nil {
		a.refuse(q.gin, err)
		return nil
	}
	answer(q.gin, e.status(), rendered)
	return rendered
}

// answerRefusal answers a refused write with an idempotency key. If the caller has used the key before, the record is
// the answer. If another caller has, the refusal is, and nothing is stored. Else the refusal is the answer too, and it
// is stored if isStored says so.
func (a *API) answerRefusal(q *request, e *endpoint, refused error, body bodyFunc) {
	key, f := q.call.Idempotency, fault.Of(refused)
	if f != nil && isAboutCaller(f.Code) {
		a.refuse(q.gin, f) // a caller that may not do it does not learn the stored answer (rule API-19)
		return
	}
	for range 2 { // a second time when another node used the key between Find and SaveRefusal
		record, err := a.cfg.IdempotencyRecords.Find(q.ctx, q.call.KeyScope(), key.Key)
		if err != nil && (fault.Is(refused, fault.Unavailable) || fault.Is(refused, fault.UnknownOutcome)) {
			a.refuse(q.gin, refused) // the records are unavailable for the same reason
			return
		}
		if err != nil {
			a.refuse(q.gin, fmt.Errorf("find the idempotency record of a refused write (%v): %w", refused, err)) //nolint:errorlint // err decides
			return
		}
		if record != nil && record.Actor != q.call.Actor() {
			if errors.Is(refused, ErrIdempotencyKeyUsed) {
				refused = fault.New(fault.IdempotencyConflict, "Another caller of the workspace has used this idempotency key.")
			}
			a.refuse(q.gin, refused)
			return
		}
		if record != nil {
			if !q.credentials.Fresh { // the caller came from a cache, and the ledger checks the key before the caller's guards
				if err := a.verifyCaller(q, e); err != nil {
					a.refuse(q.gin, err)
					return
				}
			}
			if f != nil && f.Hidden && isSuccess(record.Status) && bytes.Equal(record.Fingerprint, key.Fingerprint) {
				a.refuse(q.gin, f) // the caller may not see any more what it once wrote (rule API-19)
				return
			}
			a.answerRecord(q, record, body)
			return
		}
		if f == nil || !isStored(f.Code) {
			break
		}
		rendered := errorBody(f, q.call.RequestID)
		err = a.cfg.IdempotencyRecords.SaveRefusal(q.ctx, q.call.Caller, key.Key, key.Fingerprint, IdempotencyRecord{
			Fingerprint: key.Fingerprint, Status: statuses[f.Code].status, Body: rendered,
		})
		if err == nil {
			a.answerFault(q.gin, f, rendered)
			return
		}
		if !errors.Is(err, ErrIdempotencyKeyUsed) {
			a.refuse(q.gin, err) // a refusal that could not be stored must not look final
			return
		}
	}
	if errors.Is(refused, ErrIdempotencyKeyUsed) { // its record has expired since the append was refused
		refused = fault.New(fault.IdempotencyConflict, "The idempotency key has been used. Try another one.")
	}
	a.refuse(q.gin, refused)
}

// answerRecord answers with the record of the first request that used the key.
func (a *API) answerRecord(q *request, record *IdempotencyRecord, body bodyFunc) {
	if !bytes.Equal(record.Fingerprint, q.call.Idempotency.Fingerprint) {
		a.refuse(q.gin, fault.New(fault.IdempotencyConflict, "This idempotency key was used with a different request."))
		return
	}
	rendered := record.Body
	if rendered == nil {
		var err error
		result := WriteResult{Ref: record.Ref, Shard: record.Shard, Position: record.Position}
		if rendered, err = body(q, result); err != nil {
			a.refuse(q.gin, err)
			return
		}
	}
	q.gin.Writer.Header()[headerIdempotencyReplay] = []string{"true"}
	answer(q.gin, record.Status, rendered)
}

// scopedKey is an idempotency key within its scope.
type scopedKey struct {
	scope uuid.UUID
	key   string
}

// runningKeys are the idempotency keys of the writes that run now on this node (rule API-16). Between nodes, the ledger
// refuses the second append of a key.
type runningKeys struct {
	mu   sync.Mutex
	keys map[scopedKey]struct{}
}

// enter reports whether the key was free, and marks it as running.
func (r *runningKeys) enter(key scopedKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.keys[key]; running {
		return false
	}
	if r.keys == nil {
		r.keys = map[scopedKey]struct{}{}
	}
	r.keys[key] = struct{}{}
	return true
}

func (r *runningKeys) leave(key scopedKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, key)
}
