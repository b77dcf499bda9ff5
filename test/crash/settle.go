package crash

import (
	"context"
	"fmt"
	"time"

	"ledgerline/projections"
	"ledgerline/service"
)

// settledSQL reports, in one snapshot, whether anything can still change without a request: scheduled tasks that are
// due or leased, steps of the simulator's scripts that are due, and events that a consumer has not applied. $2 and $3
// are pairs of a consumer and an event type that it handles. It also returns the number of open messages and the next
// due time.
const settledSQL = `select
	not exists (select from scheduled_tasks where due_at <= $1 or lease_until > now())
	and not exists (select from simulator.messages where due_at <= $1 and sends > 0)
	and not exists (select from feed_consumers f join feed_checkpoints c on c.name = f.name and c.revision = f.revision
		join ledger_events e on e.shard = c.shard and e.position > c.position
		join unnest($2::text[], $3::text[]) w (consumer, type) on w.consumer = f.name and w.type = e.type),
	(select count(*) from sending_outbox),
	least((select min(due_at) from scheduled_tasks where process = 'sending' and due_at > $1),
		(select min(due_at) from scheduled_tasks where process = 'assign' and due_at > $1 and due_at < $1 + interval '1 hour'),
		(select min(due_at) from simulator.messages where due_at > $1 and sends > 0))`

// consumers returns pairs of a consumer and an event type that it handles, for all consumers of a node.
func consumers() (names, types []string) {
	all := service.ProcessConsumers()
	for _, p := range projections.All() {
		all = append(all, p)
	}
	for _, c := range all {
		for _, wanted := range c.Types() {
			names, types = append(names, c.Name()), append(types, wanted)
		}
	}
	return names, types
}

const (
	settleLimit = 5 * time.Minute // real time
	settlePause = 25 * time.Millisecond
	// settleStep is how far the clock moves past the next due time, so that retries of many contacts become due
	// together.
	settleStep = 20 * time.Second
	// horizon bounds how far settle moves the service's clock: idempotency records are kept for 24 hours only.
	horizon = 20 * time.Hour
)

// settle waits until no work is due, and moves the clock to the next due time, until nothing is scheduled any more.
func (t *trial) settle(ctx context.Context) error {
	deadline := time.Now().Add(settleLimit)
	lastLogged := time.Now()
	names, types := consumers()
	for {
		now := time.Now().Add(t.ahead)
		var settled bool
		var open int
		var next *time.Time
		if err := t.pool.QueryRow(ctx, settledSQL, now, names, types).Scan(&settled, &open, &next); err != nil {
			return fmt.Errorf("check whether work is due: %w", err)
		}
		switch {
		case settled && next == nil:
			return nil
		case time.Now().After(deadline):
			t.violations.add("the service does not finish its work", "%d messages are open after %s, see %s", open, settleLimit, t.logFile())
			return nil
		case settled && t.moved > horizon:
			t.violations.add("the service does not finish its work", "%d messages are open after %s of its clock", open, horizon)
			return nil
		case settled:
			if err := t.advance(ctx, max(next.Sub(now), 0)+settleStep); err != nil {
				return err
			}
		}
		if time.Since(lastLogged) > 15*time.Second {
			lastLogged = time.Now()
			t.say("%d messages are open, the clock is %s ahead", open, t.ahead.Round(time.Second))
		}
		if err := t.wait(ctx, settlePause); err != nil {
			return err
		}
	}
}
