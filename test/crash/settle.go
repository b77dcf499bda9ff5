package crash

import (
	"context"
	"fmt"
	"time"

	"ledgerline/projections"
	"ledgerline/service"
)

// settledSQL looks at everything that can still move without a request, in one snapshot: keys that are due or worked
// on, steps of the simulator's scripts that are due, and events that a consumer wants and has not written. $2 and $3
// are the consumers and the events that they want, in pairs. It also tells how many messages are open and what is due
// next.
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

// consumers pairs all consumers of a node with the events that they want.
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
	// settleStep is how far the clock moves past what is due next, so that retries of many contacts come due together.
	settleStep = 20 * time.Second
	// horizon bounds the service's time that coming to rest takes. Receipts of idempotency keys hold for 24 hours.
	horizon = 20 * time.Hour
)

// settle lets everything come to rest, and moves the clock on to whatever is due next until nothing is.
func (t *trial) settle(ctx context.Context) error {
	deadline := time.Now().Add(settleLimit)
	told := time.Now()
	names, types := consumers()
	for {
		now := time.Now().Add(t.ahead)
		var settled bool
		var open int
		var next *time.Time
		if err := t.pool.QueryRow(ctx, settledSQL, now, names, types).Scan(&settled, &open, &next); err != nil {
			return fmt.Errorf("see whether everything rests: %w", err)
		}
		switch {
		case settled && next == nil:
			return nil
		case time.Now().After(deadline):
			t.violations.add("the service does not come to rest", "%d messages are open after %s, see %s", open, settleLimit, t.logFile())
			return nil
		case settled && t.moved > horizon:
			t.violations.add("the service does not come to rest", "%d messages are open after %s of its clock", open, horizon)
			return nil
		case settled:
			if err := t.advance(ctx, max(next.Sub(now), 0)+settleStep); err != nil {
				return err
			}
		}
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			t.say("%d messages are open, the clock is %s ahead", open, t.ahead.Round(time.Second))
		}
		if err := t.wait(ctx, settlePause); err != nil {
			return err
		}
	}
}
