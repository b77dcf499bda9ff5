package eventstore

import (
	"context"
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

// ErrUnavailable says that the database could not be reached for long, and that the append was not written.
var ErrUnavailable = errors.New("eventstore: the database cannot be reached")

// pending is one append on its way through a committer. It is prepared by its caller, so that encoding and sealing
// run in parallel and the committer only moves bytes.
type pending struct {
	append  *Append
	rows    []row    // all events, in order
	newKeys []newKey // keys that this append introduces
	body    []byte   // the receipt's body, sealed
	done    chan outcome
	ctx     context.Context //nolint:containedctx // the committer skips appends whose caller has gone
}

type outcome struct {
	result Result
	err    error
}

type newKey struct {
	subject string
	wrapped []byte
	key     tink.AEAD
}

// row is one event, encoded; the committer fills in position and version.
type row struct {
	position  int64
	version   int
	id        uuid.UUID
	stream    string
	name      string
	schema    int
	workspace uuid.UUID
	data      []byte
	subject   *string
	sealed    []byte
}

// errKeyRace tells Append that another append introduced a subject's key first: seal again under that one.
var errKeyRace = errors.New("eventstore: key made meanwhile")

// Append writes events together with what must hold for them, all or nothing, and returns when they are durable.
//
// Refusals: *VersionConflict, *ClaimTaken, *QuotaExceeded, *ReceiptExists, *KeyDestroyed; nothing was written then.
// ErrUnavailable and ErrClosed also mean that nothing was written. After a context error the outcome is unknown.
func (l *Ledger) Append(ctx context.Context, a Append) (Result, error) {
	if a.CorrelationID == uuid.Nil {
		a.CorrelationID = newID()
	}
	for range 3 {
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
		case out := <-p.done:
			if exists := (*IdempotencyRecordExists)(nil); errors.As(out.err, &exists) {
				if err := l.openReceipt(&exists.Record); err != nil {
					return Result{}, err
				}
			}
			if errors.Is(out.err, errKeyRace) {
				continue
			}
			if out.err == nil {
				for _, k := range p.newKeys {
					l.keys.cache.Add(k.subject, k.key)
				}
				for _, subject := range a.EraseSubjects {
					l.keys.cache.Remove(subject)
				}
			}
			return out.result, out.err
		case <-c.done: // it may have been queued behind the last look
			select {
			case out := <-p.done:
				return out.result, out.err
			default:
				return Result{}, ErrClosed
			}
		case <-ctx.Done():
			return Result{}, fmt.Errorf("eventstore: append: %w", ctx.Err())
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

// prepare encodes and seals.
func (l *Ledger) prepare(ctx context.Context, a *Append) (*pending, error) {
	p := &pending{append: a, done: make(chan outcome, 1), ctx: ctx}
	keys, err := l.sealingKeys(ctx, a, p)
	if err != nil {
		return nil, err
	}
	for _, s := range a.Streams {
		workspace := a.Workspace
		if s.Workspace != uuid.Nil {
			workspace = s.Workspace
		}
		for _, event := range s.Events {
			r := row{id: newID(), stream: s.Stream, workspace: workspace}
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
					return nil, fmt.Errorf("eventstore: seal %s: %w", r.name, err)
				}
				r.subject = &subject
			}
			p.rows = append(p.rows, r)
		}
	}
	if a.Idempotency != nil && a.Idempotency.Body != nil {
		if p.body, err = l.sealReceipt(a.Idempotency, a.Idempotency.Body); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// sealingKeys finds or makes the keys for the subjects of an append's events.
func (l *Ledger) sealingKeys(ctx context.Context, a *Append, p *pending) (map[string]tink.AEAD, error) {
	var subjects []string
	born := map[string]bool{} // subjects whose own stream begins here: they cannot have a key yet
	for _, s := range a.Streams {
		if s.Expected == NoStream {
			born[s.Stream] = true
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
	unborn := slices.DeleteFunc(slices.Clone(subjects), func(s string) bool { return born[s] })
	keys, err := l.keys.find(ctx, unborn)
	if err != nil {
		return nil, err
	}
	for _, subject := range subjects {
		key, found := keys[subject]
		switch {
		case found && key == nil:
			return nil, &SubjectErased{subject}
		case !found:
			k := newKey{subject: subject}
			if k.key, k.wrapped, err = l.keys.create(subject); err != nil {
				return nil, err
			}
			keys[subject] = k.key
			p.newKeys = append(p.newKeys, k)
		}
	}
	return keys, nil
}
