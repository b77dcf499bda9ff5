package dispatch

import (
	"context"
	"fmt"
	"time"

	"ledgerline/processes/carrier"
	"ledgerline/processes/peers"
	"ledgerline/processes/recovery"
	"ledgerline/processes/tasks"
)

// permitSQL asks the database, right before a carrier is called, whether this worker still has the lease of the
// contact's task, and for the latest recovery. A node that stood still for longer than the lease does not notice that
// by itself.
const permitSQL = `select exists (select from scheduled_tasks
		where process = $1 and key = $2 and fence = $3 and lease_until > clock_timestamp()),
	r.* from (select) one left join lateral (` + recovery.LatestSQL + `) r on true`

// mayCall returns an error if the carrier must not be called: tasks.ErrLeaseLost, or a *peers.Refused while a recovery
// is under way.
func (p *Process) mayCall(ctx context.Context, task *tasks.Leased) error {
	var held bool
	latest, err := recovery.Scan(p.ledger.Pool().QueryRow(ctx, permitSQL, task.Process, task.Key, task.Fence), &held)
	if err != nil {
		return fmt.Errorf("dispatch: check the lease: %w", err)
	}
	if !held {
		return tasks.ErrLeaseLost
	}
	p.setRecovery(latest)
	return p.checkRecovery()
}

// recoveryPause is after what real time a contact's task looks again whether the recovery was released.
const recoveryPause = 2 * time.Second

// readRecovery reads the latest recovery.
func (p *Process) readRecovery(ctx context.Context) error {
	latest, err := recovery.Latest(ctx, p.ledger.Pool())
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	p.setRecovery(latest)
	return nil
}

func (p *Process) setRecovery(latest *recovery.State) {
	was := p.recovery.Swap(latest)
	switch {
	case latest.Active() && !was.Active():
		p.log.Warn("dispatch: a recovery is under way: no message leaves until `ledgerline recover --release`", "since", latest.Since, "reason", latest.Reason)
	case was.Active() && !latest.Active():
		p.log.Info("dispatch: the recovery was released: messages leave again")
	}
}

// checkRecovery returns a *peers.Refused while a recovery is under way, as far as this node knows.
func (p *Process) checkRecovery() error {
	if p.recovery.Load().Active() {
		return &peers.Refused{Peer: "every carrier, until the recovery is released,", Open: true, Pause: recoveryPause}
	}
	return nil
}

// watchRecovery reads the latest recovery every few seconds, until ctx ends.
func (p *Process) watchRecovery(ctx context.Context) {
	tick := time.NewTicker(recoveryPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := p.readRecovery(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("dispatch: the state of the recovery could not be read", "error", err)
		}
	}
}

// forgotten marks a message that may have been sent without the ledger knowing it. It returns false for all others, and
// for a nil o.
func (p *Process) forgotten(out *carrier.Outbound, shard int, o *openMessage) bool {
	latest := p.recovery.Load()
	if o == nil || !latest.Suspects(shard, o.Position) {
		return false
	}
	out.ForgottenSince = latest.Since
	return true
}
