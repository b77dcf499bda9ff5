package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ledgerline/domain/fault"
	"ledgerline/eventstore"
)

const (
	// maxTries bounds how often a command decides again because other commands have changed its aggregates. Stream locks
	// serialise the commands of this process; commands of other nodes may still make every second try fail.
	maxTries = 24
	// backoff is the longest pause before the third try; it doubles with every further try, up to maxBackoff.
	backoff    = 8 * time.Millisecond
	maxBackoff = 64 * time.Millisecond
)

// ErrInconsistent makes a command decide again: the states that it read are of different positions of the ledger and
// contradict each other.
var ErrInconsistent = errors.New("commands: the states that were read contradict each other")

// Run runs a command: it decides, appends, and decides again when a precondition of the append failed because of
// another command. Its errors are a *fault.Fault, ErrCredentialChanged, an error that wraps
// *eventstore.IdempotencyRecordExists, or an unexpected one.
func (e *Engine) Run(ctx context.Context, req Request, decide func(context.Context, *Unit) error) (Result, error) {
	var lock streamLock
	defer lock.release()
	var last error
	for try := range maxTries {
		if try > 1 {
			if err := pause(ctx, min(backoff<<(try-2), maxBackoff)); err != nil {
				return Result{}, err
			}
		}
		copied := req
		result, err := e.try(ctx, e.unit(&copied, try > 0), decide)
		if err == nil {
			return result, nil
		}
		retry := (*retryError)(nil)
		if !errors.As(err, &retry) {
			return Result{}, err
		}
		last = retry.cause
		if retry.stream != "" {
			if err := lock.acquire(ctx, &e.locks, retry.stream); err != nil {
				return Result{}, err
			}
		}
	}
	return Result{}, Unavailable(fmt.Errorf("commands: gave up after %d tries: %w", maxTries, last))
}

// retryError wraps the cause of a failed try after which another try may succeed.
type retryError struct {
	cause  error
	stream string // the stream that another command has changed; "" for none
}

func (r *retryError) Error() string { return r.cause.Error() }

func (e *Engine) try(ctx context.Context, u *Unit, decide func(context.Context, *Unit) error) (Result, error) {
	if err := decide(ctx, u); err != nil {
		switch {
		case errors.Is(err, ErrInconsistent):
			return Result{}, &retryError{cause: err}
		case fault.Of(err) == nil || fault.Is(err, fault.Unavailable):
			return Result{}, err
		case u.cached:
			return Result{}, &retryError{cause: err}
		}
		return Result{}, e.refusal(ctx, u, err)
	}
	if u.pending() == 0 && u.Request.Idempotency == nil {
		return e.unchanged(ctx, u)
	}
	if u.cached && u.pending() == 0 && len(u.aggregates) > 0 {
		return Result{}, &retryError{cause: ErrInconsistent} // that nothing changes must be decided on the ledger's present state
	}
	if err := e.mayAppend(); err != nil {
		return Result{}, Unavailable(err)
	}
	appended := u.build()
	result, err := e.Ledger.Append(ctx, *appended)
	if err != nil {
		return Result{}, e.appendRefused(ctx, u, err)
	}
	for _, f := range u.onAppended {
		f(appended)
	}
	return Result{Ref: u.Ref, Shard: result.Shard, Position: result.Last, At: u.Now}, nil
}

// unchanged returns the result of a command that has nothing to append. The command read its states one after the
// other; VerifyGuards checks that all of them are current at one position.
func (e *Engine) unchanged(ctx context.Context, u *Unit) (Result, error) {
	if u.cached {
		return Result{}, &retryError{cause: ErrInconsistent}
	}
	shard := e.Ledger.ShardOf(u.Request.Organisation)
	head, err := e.Ledger.VerifyGuards(ctx, shard, slices.Concat(u.Request.Guards, u.neededGuards()))
	if conflict := (*eventstore.VersionConflict)(nil); errors.As(err, &conflict) {
		return Result{}, e.appendRefused(ctx, u, err)
	}
	if err != nil {
		return Result{}, Unreadable(err)
	}
	return Result{Ref: u.Ref, Shard: shard, Position: head, At: u.Now}, nil
}

// VerifyCaller checks the caller's credential again at the head of the ledger, for answers that come without an append.
// It returns ErrCredentialChanged when the credential has changed.
func (e *Engine) VerifyCaller(ctx context.Context, req *Request) error {
	_, err := e.Ledger.VerifyGuards(ctx, e.Ledger.ShardOf(req.Organisation), req.Guards)
	if conflict := (*eventstore.VersionConflict)(nil); errors.As(err, &conflict) {
		return fmt.Errorf("%w: %w", ErrCredentialChanged, err)
	}
	if err != nil {
		return Unreadable(err)
	}
	return nil
}

// isAboutCaller reports whether a refusal says what the caller may not do or see. No stored answer replaces it.
func isAboutCaller(refusal error) bool {
	f := fault.Of(refusal)
	return f != nil && (f.Hidden || f.Code == fault.Forbidden || f.Code == fault.Unauthorized || f.Code == fault.OrgPaused)
}

// refusal returns the command's refusal, with two exceptions. If the caller's credential has changed, it returns
// ErrCredentialChanged. If the idempotency key has a stored answer to the same actor, it returns
// IdempotencyRecordExists, because the effect of the first request may be the reason why the repeated one is refused.
// That does not hold for what the caller may not do or see: the refusal stays (rule API-19).
func (e *Engine) refusal(ctx context.Context, u *Unit, refusal error) error {
	if len(u.Request.Guards) > 0 {
		if err := e.VerifyCaller(ctx, u.Request); err != nil {
			return err
		}
	}
	r := u.Request.Idempotency
	if r == nil || isAboutCaller(refusal) {
		return refusal
	}
	stored, err := e.Ledger.FindIdempotencyRecord(ctx, r.Workspace, r.Key)
	if err != nil {
		return Unreadable(err)
	}
	if stored != nil && stored.Actor == r.Actor {
		return fmt.Errorf("commands: %w", &eventstore.IdempotencyRecordExists{Record: *stored})
	}
	return refusal
}

// appendRefused translates a refusal of the ledger into the command's error, or into a retryError.
func (e *Engine) appendRefused(ctx context.Context, u *Unit, err error) error {
	var (
		conflict *eventstore.VersionConflict
		claim    *eventstore.ClaimTaken
		erased   *eventstore.SubjectErased
		quota    *eventstore.QuotaExceeded
		exists   *eventstore.IdempotencyRecordExists
	)
	switch {
	case errors.As(err, &conflict):
		if conflict.Guard {
			for _, g := range u.Request.Guards {
				if g.Stream == conflict.Stream && g.Version == conflict.Expected {
					return fmt.Errorf("%w: %w", ErrCredentialChanged, err)
				}
			}
		}
		return &retryError{cause: err, stream: conflict.Stream}
	case errors.As(err, &claim):
		if taken := u.onClaimTaken[claimName{claim.Scope, claim.Key}]; taken != nil {
			if refusal := taken(claim.Owner); refusal != nil {
				return e.refusal(ctx, u, refusal)
			}
		}
		return &retryError{cause: err}
	case errors.As(err, &quota):
		for _, f := range e.onQuotaExceeded {
			f(quota)
		}
		if full := u.quotaRefusals[quota.Key]; full != nil {
			return e.refusal(ctx, u, full)
		}
		return &retryError{cause: err}
	case errors.As(err, &exists):
		return e.keyUsed(ctx, u, err)
	case errors.As(err, &erased): // a contact was erased since it was read
		return &retryError{cause: err}
	case errors.Is(err, eventstore.ErrUnknownOutcome):
		return UnknownOutcome(err)
	case errors.Is(err, eventstore.ErrUnavailable), errors.Is(err, eventstore.ErrRewound), errors.Is(err, eventstore.ErrClosed):
		return Unavailable(err)
	}
	return fmt.Errorf("commands: %w", err)
}

// keyUsed returns the refusal of an append whose idempotency key has been used. The ledger looks at the key before the
// guards, and the stored answer must not replace a refusal. So the caller is checked again, and a command that decided
// on states that may be old decides once more.
func (e *Engine) keyUsed(ctx context.Context, u *Unit, err error) error {
	if len(u.Request.Guards) > 0 {
		if err := e.VerifyCaller(ctx, u.Request); err != nil {
			return err
		}
	}
	if u.cached {
		return &retryError{cause: err}
	}
	return fmt.Errorf("commands: %w", err)
}

// pause waits a random time up to limit, so that commands which collided do not collide again.
func pause(ctx context.Context, limit time.Duration) error {
	t := time.NewTimer(rand.N(limit)) //nolint:gosec // no secret depends on it
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("commands: %w", ctx.Err())
	}
}
