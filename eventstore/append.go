package eventstore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/tink-crypto/tink-go/v2/tink"

	"ledgerline/events"
)

// ErrClosed refuses an append to a ledger that is closing. Nothing was written.
var ErrClosed = errors.New("eventstore: the ledger is closed")

// ErrUnavailable refuses an append because the database could not be reached for reconnectFor. Nothing was written.
var ErrUnavailable = errors.New("eventstore: the database cannot be reached")

// ErrUnknownOutcome is the answer to an append whose connection broke during the commit, when the committer could not
// find out whether it was committed, or whose caller stopped waiting.
var ErrUnknownOutcome = errors.New("eventstore: it is not known whether the append was written")

// pendingAppend is one append in the queue of a committer. The caller of Append encodes and encrypts the events before
// it queues the append, so that this work runs in parallel and the committer only writes bytes.
type pendingAppend struct {
	append     *Append
	rows       []row        // the events of all streams, in order
	newKeys    []subjectKey // keys of subjects that have none yet
	recordBody []byte       // the body of the idempotency record, encrypted
	reply      chan reply
	ctx        context.Context //nolint:containedctx // the committer skips appends whose caller has given up
}

// reply is the committer's answer to one append.
type reply struct {
	result Result
	err    error
}

// subjectKey is a new key for the personal data of a subject.
type subjectKey struct {
	subject string
	wrapped []byte // encrypted by the keyring, as stored
	key     tink.AEAD
}

// row is one encoded event. The committer fills in position and version.
type row struct {
	position  int64
	version   int
	id        uuid.UUID
	stream    string
	name      string // wire name
	schema    int
	workspace uuid.UUID
	cause     cause
	data      []byte
	subject   *string
	sealed    []byte
	content   [sha256.Size]byte // hash, see hash.go
}

// recorded is the event of a row as it will be loaded, without its place in the ledger.
func (r *row) recorded(a *Append) *Recorded {
	recorded := &Recorded{
		ID: r.id, Stream: r.stream, Type: r.name, Schema: r.schema, OrganisationID: a.Organisation, WorkspaceID: r.workspace,
		OccurredAt: a.At, Actor: r.cause.actor, RequestID: r.cause.requestID, CausationID: r.cause.causation, CorrelationID: r.cause.correlation,
		Data: r.data, Sealed: r.sealed,
	}
	if r.subject != nil {
		recorded.Subject = *r.subject
	}
	return recorded
}

// cause is who caused an event, and which request or event.
type cause struct {
	actor                  events.Actor
	requestID              string
	causation, correlation uuid.UUID
}

// errKeyRace is the committer's reply when another append created the key of a subject first. Append then encrypts the
// events again, under that key.
var errKeyRace = errors.New("eventstore: another append created the subject's key")

// keyRaceTries bounds how often Append encrypts again after errKeyRace. One retry finds the other append's key.
const keyRaceTries = 3

// Append writes an append and returns when it is durable, or refuses it and writes nothing. It is safe for concurrent
// use.
//
// It returns *VersionConflict, *ClaimTaken, *QuotaExceeded, *IdempotencyRecordExists or *SubjectErased when a
// precondition does not hold, ErrRewound when the history of the ledger went back since the append was decided, and
// ErrUnavailable or ErrClosed when the append could not be tried. Nothing was written in these cases. ErrUnknownOutcome
// says that the append may have been written.
func (l *Ledger) Append(ctx context.Context, a Append) (Result, error) {
	if a.CorrelationID == uuid.Nil {
		a.CorrelationID = newID()
	}
	if a.Generation == 0 {
		a.Generation = l.Generation()
	}
	for range keyRaceTries {
		p, err := l.prepare(ctx, &a)
		if err != nil {
			return Result{}, err
		}
		c := l.committers[l.ShardOf(a.Organisation)]
		select {
		case c.queue <- p:
		case <-l.closed:
			return Result{}, ErrClosed
		case <-ctx.Done():
			return Result{}, fmt.Errorf("eventstore: append: %w", ctx.Err())
		}
		select {
		case answer := <-p.reply:
			if exists := (*IdempotencyRecordExists)(nil); errors.As(answer.err, &exists) {
				if err := l.decryptRecord(&exists.Record); err != nil {
					return Result{}, err
				}
			}
			if errors.Is(answer.err, errKeyRace) {
				continue
			}
			if answer.err == nil {
				for _, k := range p.newKeys {
					l.keys.cache.Add(cachedKey{a.Generation, k.subject}, k.key)
				}
				for _, subject := range a.EraseSubjects {
					l.keys.cache.Remove(cachedKey{a.Generation, subject})
				}
			}
			return answer.result, answer.err
		case <-c.stopped: // the append may have entered the queue after the committer emptied it
			select {
			case answer := <-p.reply:
				return answer.result, answer.err
			default:
				return Result{}, ErrClosed
			}
		case <-ctx.Done():
			return Result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
		}
	}
	return Result{}, fmt.Errorf("eventstore: append: %w", errKeyRace)
}

func newID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // the system has no randomness
	}
	return id
}

// prepare encodes the events of an append and encrypts their personal data.
func (l *Ledger) prepare(ctx context.Context, a *Append) (*pendingAppend, error) {
	p := &pendingAppend{append: a, reply: make(chan reply, 1), ctx: ctx}
	keys, err := l.encryptionKeys(ctx, a, p)
	if err != nil {
		return nil, err
	}
	for _, s := range a.Streams {
		workspace, by := a.Workspace, cause{a.Actor, a.RequestID, a.CausationID, a.CorrelationID}
		if s.Workspace != uuid.Nil && s.Workspace != a.Workspace {
			workspace = s.Workspace
		}
		if a.Workspace != uuid.Nil && workspace != a.Workspace {
			by = cause{actor: events.Actor{Type: "system"}, correlation: newID()}
		}
		for _, event := range s.Events {
			r := row{id: newID(), stream: s.Stream, workspace: workspace, cause: by}
			r.name, r.schema = l.registry.Name(event)
			if r.data, err = json.Marshal(event); err != nil {
				return nil, fmt.Errorf("eventstore: encode %s: %w", r.name, err)
			}
			if sealed, ok := event.(events.Sealed); ok {
				subject := sealed.Subject()
				plain, err := json.Marshal(sealed.Personal())
				if err != nil {
					return nil, fmt.Errorf("eventstore: encode personal data of %s: %w", r.name, err)
				}
				if r.sealed, err = keys[subject].Encrypt(plain, r.id[:]); err != nil {
					return nil, fmt.Errorf("eventstore: encrypt personal data of %s: %w", r.name, err)
				}
				r.subject = &subject
			}
			r.content = hashContent(contentColumns(r.recorded(a)))
			p.rows = append(p.rows, r)
		}
	}
	if a.Idempotency != nil && a.Idempotency.Body != nil {
		if p.recordBody, err = l.encryptRecordBody(a.Idempotency, a.Idempotency.Body); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// encryptionKeys returns the keys for the personal data of an append's events, by subject. It creates the keys of
// subjects that have none and lists them in p.newKeys.
func (l *Ledger) encryptionKeys(ctx context.Context, a *Append, p *pendingAppend) (map[string]tink.AEAD, error) {
	var subjects []string
	created := map[string]bool{} // subjects whose own stream begins with this append: no key of them is stored yet
	for _, s := range a.Streams {
		if s.Expected == NoStream {
			created[s.Stream] = true
		}
		for _, event := range s.Events {
			if sealed, ok := event.(events.Sealed); ok && !slices.Contains(subjects, sealed.Subject()) {
				subjects = append(subjects, sealed.Subject())
			}
		}
	}
	if len(subjects) == 0 {
		return nil, nil
	}
	existing := slices.DeleteFunc(slices.Clone(subjects), func(s string) bool { return created[s] })
	keys, err := l.keys.find(ctx, existing)
	if err != nil {
		return nil, err
	}
	for _, subject := range subjects {
		key, found := keys[subject]
		switch {
		case found && key == nil:
			return nil, &SubjectErased{subject}
		case !found:
			k := subjectKey{subject: subject}
			if k.key, k.wrapped, err = l.keys.create(subject); err != nil {
				return nil, err
			}
			keys[subject] = k.key
			p.newKeys = append(p.newKeys, k)
		}
	}
	return keys, nil
}
