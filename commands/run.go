package commands

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"time"

	"ledgerline/domain/fault"
	"ledgerline/eventstore"
)

const (
	// tries bounds how often a command decides again because others were faster. On one contact, commands of this process
	// take turns, but those of other nodes come in between: about every second try may fail, for as long as they come.
	tries = 24
	// pauseUnit is the longest pause before the third try; it doubles with every further one, up to pauseLimit.
	pauseUnit  = 8 * time.Millisecond
	pauseLimit = 64 * time.Millisecond
)

// errAgain has a decision made again: what it looked at was read at different moments and does not fit together.
var errAgain = errors.New("commands: what was looked at does not fit together")

// run carries a command out: decide, append, and again when somebody else was faster. Errors are *fault.Fault,
// ErrCredentialChanged, an error with *eventstore.ReceiptExists in it, or one that nobody expected.
func (a *App) run(ctx context.Context, req Request, decide func(context.Context, *unit) error) (Result, error) {
	var turn turn
	defer turn.end()
	var last error
	for try := range tries {
		if try > 1 {
			if err := pause(ctx, min(pauseUnit<<(try-2), pauseLimit)); err != nil {
				return Result{}, err
			}
		}
		attempt := req
		u := &unit{
			app: a, req: &attempt, now: a.ledger.Now(), fresh: try > 0,
			aggregates: map[looked]any{}, taken: map[owned]func(string) error{},
		}
		result, err := a.attempt(ctx, u, decide)
		if err == nil {
			return result, nil
		}
		again := (*repeat)(nil)
		if !errors.As(err, &again) {
			return Result{}, err
		}
		last = again.cause
		if again.stream != "" {
			if err := turn.take(ctx, &a.turns, again.stream); err != nil {
				return Result{}, err
			}
		}
	}
	return Result{}, unavailable(fmt.Errorf("commands: gave up after %d tries: %w", tries, last))
}

// repeat says that another attempt may succeed.
type repeat struct {
	cause  error
	stream string // that somebody else has changed meanwhile
}

func (r *repeat) Error() string { return r.cause.Error() }

func (a *App) attempt(ctx context.Context, u *unit, decide func(context.Context, *unit) error) (Result, error) {
	if err := decide(ctx, u); err != nil {
		switch {
		case errors.Is(err, errAgain):
			return Result{}, &repeat{cause: err}
		case fault.Of(err) == nil || fault.Is(err, fault.Unavailable):
			return Result{}, err
		case u.cached:
			return Result{}, &repeat{cause: err}
		}
		return Result{}, a.refuse(ctx, u, err)
	}
	if len(u.changes)+len(u.asides) == 0 && u.req.Receipt == nil {
		return a.nothing(ctx, u)
	}
	if u.cached && len(u.changes)+len(u.asides) == 0 && len(u.aggregates) > 0 {
		return Result{}, &repeat{cause: errAgain} // that nothing is to be done must hold for the present
	}
	appended := u.build()
	result, err := a.ledger.Append(ctx, *appended)
	if err != nil {
		return Result{}, a.refused(ctx, u, err)
	}
	for _, advance := range u.advance {
		advance(appended)
	}
	return Result{Ref: u.ref, Shard: result.Shard, Position: result.Last, At: u.now}, nil
}

// nothing is the result of a command that finds everything as it should be.
func (a *App) nothing(ctx context.Context, u *unit) (Result, error) {
	if u.cached {
		return Result{}, &repeat{cause: errAgain}
	}
	// It was read stream by stream: all of it must hold at the place in the ledger that is given.
	head, err := a.ledger.Present(ctx, a.ledger.ShardOf(u.req.Organisation), slices.Concat(u.req.Guards, u.guards()))
	if moved := (*eventstore.VersionConflict)(nil); errors.As(err, &moved) {
		return Result{}, a.refused(ctx, u, err)
	}
	if err != nil {
		return Result{}, unreadable(err)
	}
	return Result{Ref: u.ref, Shard: a.ledger.ShardOf(u.req.Organisation), Position: head, At: u.now}, nil
}

// stands holds what the caller was let in with to the ledger's present, for what is told without an append.
// ErrCredentialChanged when it has changed.
func (a *App) stands(ctx context.Context, req *Request) error {
	_, err := a.ledger.Present(ctx, a.ledger.ShardOf(req.Organisation), req.Guards)
	if conflict := (*eventstore.VersionConflict)(nil); errors.As(err, &conflict) {
		return fmt.Errorf("%w: %w", ErrCredentialChanged, err)
	}
	if err != nil {
		return unreadable(err)
	}
	return nil
}

// refuse tells a refusal, unless the caller would not be let in any more, or the request is a retry of one that was carried
// out: what that one did may be the very reason for the refusal now.
func (a *App) refuse(ctx context.Context, u *unit, refusal error) error {
	if len(u.req.Guards) > 0 {
		if err := a.stands(ctx, u.req); err != nil {
			return err
		}
	}
	r := u.req.Receipt
	if r == nil {
		return refusal
	}
	kept, err := a.ledger.FindReceipt(ctx, r.Workspace, r.Key)
	if err != nil {
		return unreadable(err)
	}
	if kept != nil {
		return fmt.Errorf("commands: %w", &eventstore.ReceiptExists{Receipt: *kept})
	}
	return refusal
}

// refused says what a refusal of the ledger's means for the command.
func (a *App) refused(ctx context.Context, u *unit, err error) error {
	var (
		conflict  *eventstore.VersionConflict
		claim     *eventstore.ClaimTaken
		destroyed *eventstore.KeyDestroyed
		quota     *eventstore.QuotaExceeded
	)
	switch {
	case errors.As(err, &conflict):
		if conflict.Guard {
			for _, g := range u.req.Guards {
				if g.Stream == conflict.Stream && g.Version == conflict.Expected {
					return fmt.Errorf("%w: %w", ErrCredentialChanged, err)
				}
			}
		}
		return &repeat{cause: err, stream: conflict.Stream}
	case errors.As(err, &claim):
		taken := u.taken[owned{claim.Scope, claim.Key}]
		if taken != nil {
			if refusal := taken(claim.Owner); refusal != nil {
				return a.refuse(ctx, u, refusal)
			}
		}
		return &repeat{cause: err}
	case errors.As(err, &quota): // decide again, knowing that it is full
		a.usages.refused(quota)
		if full := u.full[quota.Key]; full != nil {
			return a.refuse(ctx, u, full)
		}
		return &repeat{cause: err}
	case errors.As(err, &destroyed): // a contact was deleted since it was looked at
		return &repeat{cause: err}
	case errors.Is(err, eventstore.ErrUnavailable), errors.Is(err, eventstore.ErrClosed):
		return unavailable(err)
	}
	return fmt.Errorf("commands: %w", err)
}

// pause waits a random time up to limit, so that those who collided do not collide again.
func pause(ctx context.Context, limit time.Duration) error {
	t := time.NewTimer(rand.N(limit)) //nolint:gosec // nobody gains from guessing it
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("commands: %w", ctx.Err())
	}
}

// turns lets commands of this process that collided on a stream go one after the other from then on: many at once on
// one contact would otherwise use up their tries. Commands that do not collide never wait.
type turns struct {
	seed  maphash.Seed
	gates [256]chan struct{}
}

func newTurns() turns {
	t := turns{seed: maphash.MakeSeed()}
	for i := range t.gates {
		t.gates[i] = make(chan struct{}, 1)
	}
	return t
}

// turn is at most one gate that a command holds, so that two commands cannot wait for each other.
type turn struct{ gate chan struct{} }

func (t *turn) take(ctx context.Context, all *turns, stream string) error {
	gate := all.gates[maphash.String(all.seed, stream)%uint64(len(all.gates))]
	if gate == t.gate {
		return nil
	}
	t.end()
	select {
	case gate <- struct{}{}:
		t.gate = gate
		return nil
	case <-ctx.Done():
		return fmt.Errorf("commands: %w", ctx.Err())
	}
}

func (t *turn) end() {
	if t.gate != nil {
		<-t.gate
		t.gate = nil
	}
}
