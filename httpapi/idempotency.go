package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"
	maxKey               = 255
)

// reservedKeys are prefixes that the service uses for its own writes (interface, section 4.5).
var reservedKeys = []string{"outreach:", "workflow:", "agent:"}

// ErrIdempotencyKeyUsed is what a command returns, wrapped, when its append was refused because the idempotency key has been
// used already. The answer of the first use then takes the place of its own.
var ErrIdempotencyKeyUsed = errors.New("the idempotency key has been used")

// Idempotency is what a write with an idempotency key is to be remembered under. The command appends it as the receipt of its
// events, so that the events and the promise to answer a retry alike commit together.
type Idempotency struct {
	Key         string
	Fingerprint []byte // SHA-256 of method, path and canonical body
	Status      int    // of a success
}

// IdempotencyRecord is what a receipt remembers.
type IdempotencyRecord struct {
	Fingerprint []byte
	Status      int
	Ref         string
	Body        []byte // nil while it is not known, or when it is not kept
	Position    int64
	Shard       int
}

// IdempotencyRecords remembers the answers of writes for 24 hours, per workspace and key (interface, section 8).
type IdempotencyRecords interface {
	// Find returns nil, nil when the key has not been used.
	Find(ctx context.Context, workspace uuid.UUID, key string) (*IdempotencyRecord, error)
	// Keep remembers a refusal. It returns an error that wraps ErrReceiptExists when the key has been used meanwhile.
	Keep(ctx context.Context, caller auth.Caller, key string, fingerprint []byte, answer IdempotencyRecord) error
	// Finish adds the body to the receipt of a success. A failure costs nothing but a view at the retry, so there is no
	// error to return.
	Finish(ctx context.Context, workspace uuid.UUID, key string, body []byte)
}

// checkIdempotencyKey reads the header. A key of the wrong form is told with all other issues.
func (q *request) checkIdempotencyKey() {
	values, sent := q.gin.Request.Header[headerIdempotencyKey]
	if !sent {
		return
	}
	if len(values) != 1 {
		q.issue("header", "/idempotency-key", "invalid_format", "Expected the header once.")
		return
	}
	if values[0] == "" {
		q.issue("header", "/idempotency-key", "too_short", "Expected at least 1 character.")
		return
	}
	q.useKey(values[0], "header", "/idempotency-key")
}

// useKey checks a key and makes the call's intent of it. An empty one is none.
func (q *request) useKey(key, location, path string) {
	if key == "" {
		return
	}
	switch {
	case len(key) > maxKey:
		q.issue(location, path, "too_long", "Expected at most 255 characters.")
		return
	case !visible(key):
		q.issue(location, path, "invalid_characters", "Expected printable ASCII characters without spaces.")
		return
	}
	for _, prefix := range reservedKeys {
		if strings.HasPrefix(key, prefix) {
			q.issue(location, path, "reserved", "Keys that begin with "+prefix+" are reserved.")
			return
		}
	}
	q.call.Idempotency = &Idempotency{Key: key}
}

// fingerprint tells two requests under the same key apart.
func (q *request) fingerprint() []byte {
	hash := sha256.New()
	hash.Write([]byte(q.gin.Request.Method))
	hash.Write([]byte{'\n'})
	hash.Write([]byte(q.gin.Request.URL.Path))
	hash.Write([]byte{'\n'})
	hash.Write(q.body.canonical)
	return hash.Sum(nil)
}

// writeOnce runs a write. Without a key it just answers. With one it runs first and asks later: nearly every key is new,
// and a command that meets a used one is refused by the ledger itself. Only a refusal has to look for an earlier answer,
// because it may be the first request's own success that stands in the way of the second.
func (a *API) writeOnce(q *request, e *endpoint, do func() (WriteResult, error), bodyOf func(*request, WriteResult) ([]byte, error)) {
	intent := q.call.Idempotency
	if intent == nil {
		done, err := do()
		a.finish(q, e, done, err, bodyOf)
		return
	}
	intent.Fingerprint, intent.Status = q.fingerprint(), e.status()
	flight := flight{q.call.WorkspaceID, intent.Key}
	if !a.flights.enter(flight) {
		a.refuse(q.gin, fault.New(fault.IdempotencyConflict, "A request with this idempotency key is still running."))
		return
	}
	defer a.flights.leave(flight)

	done, err := do()
	if err != nil {
		a.settle(q, e, err, bodyOf)
		return
	}
	if body := a.finish(q, e, done, nil, bodyOf); body != nil && !done.BodyStored && !e.OmitStoredBody {
		a.later.add(finishing{q.call.WorkspaceID, intent.Key, body})
	}
}

// finish answers a write that has run, and returns the body of a success.
func (a *API) finish(q *request, e *endpoint, done WriteResult, err error, bodyOf func(*request, WriteResult) ([]byte, error)) []byte {
	var body []byte
	if err == nil {
		body, err = bodyOf(q, done)
	}
	if err != nil {
		a.refuse(q.gin, err)
		return nil
	}
	answer(q.gin, e.status(), body)
	return body
}

// settle answers a write that failed under a key: with the first answer when there is one, else with the refusal, which
// is kept if its code is one of those that are.
func (a *API) settle(q *request, e *endpoint, refused error, bodyOf func(*request, WriteResult) ([]byte, error)) {
	intent := q.call.Idempotency
	if f := fault.Of(refused); f != nil && denied(f.Code) {
		a.refuse(q.gin, f) // who may not do it any more does not learn what came of it
		return
	}
	for range 2 { // the second time when somebody else got in between
		earlier, err := a.cfg.IdempotencyRecords.Find(q.ctx, q.call.WorkspaceID, intent.Key)
		if err != nil && fault.Is(refused, fault.Unavailable) {
			a.refuse(q.gin, refused) // what is out of reach for the write is so for its receipt
			return
		}
		if err != nil {
			a.refuse(q.gin, fmt.Errorf("find the receipt of a refused write (%v): %w", refused, err)) //nolint:errorlint // err decides
			return
		}
		if earlier != nil {
			if !q.credentials.Fresh { // the ledger tells of the key before it looks at the caller
				if err := a.reenter(q, e); err != nil {
					a.refuse(q.gin, err)
					return
				}
			}
			a.replay(q, earlier, bodyOf)
			return
		}
		f := fault.Of(refused)
		if f == nil || !kept(f.Code) {
			break
		}
		body := errorBody(f, q.call.RequestID)
		err = a.cfg.IdempotencyRecords.Keep(q.ctx, q.call.Caller, intent.Key, intent.Fingerprint, IdempotencyRecord{
			Fingerprint: intent.Fingerprint, Status: statuses[f.Code].status, Body: body,
		})
		if err == nil {
			a.answerFault(q.gin, f, body)
			return
		}
		if !errors.Is(err, ErrIdempotencyKeyUsed) {
			a.refuse(q.gin, err) // a refusal that is not kept must not look as if it were
			return
		}
	}
	if errors.Is(refused, ErrIdempotencyKeyUsed) { // used a moment ago, and expired since
		refused = fault.New(fault.IdempotencyConflict, "The idempotency key has been used. Try another one.")
	}
	a.refuse(q.gin, refused)
}

// denied: the refusal is about the caller and not about the request.
func denied(code fault.Code) bool {
	status := statuses[code].status
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// replay gives the answer of the first request with this key.
func (a *API) replay(q *request, earlier *IdempotencyRecord, bodyOf func(*request, WriteResult) ([]byte, error)) {
	if !bytes.Equal(earlier.Fingerprint, q.call.Idempotency.Fingerprint) {
		a.refuse(q.gin, fault.New(fault.IdempotencyConflict, "This idempotency key was used with a different request."))
		return
	}
	body := earlier.Body
	if body == nil {
		var err error
		if body, err = bodyOf(q, WriteResult{Ref: earlier.Ref, Shard: earlier.Shard, Position: earlier.Position}); err != nil {
			a.refuse(q.gin, err)
			return
		}
	}
	q.gin.Writer.Header()[headerReplayed] = []string{"true"}
	answer(q.gin, earlier.Status, body)
}

// flight is a write that runs now.
type flight struct {
	workspace uuid.UUID
	key       string
}

// flights are the keyed writes that run now on this node. Two nodes meet at the ledger.
type flights struct {
	mu  sync.Mutex
	now map[flight]struct{}
}

func (f *flights) enter(one flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, running := f.now[one]; running {
		return false
	}
	if f.now == nil {
		f.now = map[flight]struct{}{}
	}
	f.now[one] = struct{}{}
	return true
}

func (f *flights) leave(one flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.now, one)
}
