package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ledgerline/service"
)

// maxOpen is how many messages may be undelivered at once. The load waits for the service, so that the measured rate is
// sustainable.
const maxOpen = 600

// askOpen is how often the load queries the number of undelivered messages. In between it adds the messages that it
// sends.
const askOpen = 100 * time.Millisecond

const (
	openSQL      = `select count(*) from sending_outbox`
	deliveredSQL = `select count(*) from ledger_events where type = 'message.delivered'`
	// The time from acceptance to sending of the messages accepted since $1, in milliseconds of the service's clock.
	sentAfterSQL = `select percentile_cont(array[0.5, 0.99]) within group (order by extract(epoch from s.occurred_at - q.occurred_at) * 1000), count(*)
		from ledger_events q join ledger_events s on s.stream = q.stream and s.type = 'message.sent'
		where q.type = 'message.queued' and q.occurred_at >= $1`
)

// measureDelivery sends messages with POST /v1/messages through the simulator, with all components running: first at
// the maximum rate, then at half of it.
func measureDelivery(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	address, done, err := listen(ctx, s.Handler())
	if err != nil {
		return err
	}
	defer done()
	d := &delivery{bench: b, site: s, address: address}
	if _, err := d.run(ctx, b.For/3, 0); err != nil { // warm-up: afterwards no contact is new to its line
		return err
	}
	var before, after int
	if err := s.pool.QueryRow(ctx, deliveredSQL).Scan(&before); err != nil {
		return err
	}
	took := max(b.For, 10*time.Second)
	node, server := cpu(os.Getpid()), b.serverCPU()
	open, err := d.run(ctx, took, 0)
	if err != nil {
		return err
	}
	if err := s.pool.QueryRow(ctx, deliveredSQL).Scan(&after); err != nil {
		return err
	}
	node, server = cpu(os.Getpid())-node, b.serverCPU()-server
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(after-before, 1)) }
	b.report(Figure{Measurement: "delivery", What: "processor time of a message, node and load generator", Value: each(node), Unit: "µs"})
	b.report(Figure{Measurement: "delivery", What: "processor time of a message, PostgreSQL", Value: each(server), Unit: "µs"})
	rate := float64(after-before) / took.Seconds()
	b.report(Figure{Measurement: "delivery", What: fmt.Sprintf("accepted to delivered through the simulator, everything on, for %s", took), Value: rate, Unit: "messages/s", Goal: "800"})
	b.report(Figure{Measurement: "delivery", What: "messages on their way at the end (at most 600 are let in)", Value: float64(open), Unit: ""})
	if err := d.drain(ctx); err != nil {
		return err
	}
	began := s.Clock.Now()
	if _, err := d.run(ctx, took, rate/2); err != nil {
		return err
	}
	if err := d.drain(ctx); err != nil {
		return err
	}
	return d.reportSent(ctx, "delivery", "accepted to sent at half that", began)
}

// reportSent reports the time from acceptance to sending of the messages accepted since a moment.
func (d *delivery) reportSent(ctx context.Context, measurement, what string, began time.Time) error {
	var percentiles []float64
	var sent int
	if err := d.site.pool.QueryRow(ctx, sentAfterSQL, began).Scan(&percentiles, &sent); err != nil {
		return err
	}
	if sent == 0 {
		return errors.New("nothing was sent")
	}
	d.report(Figure{Measurement: measurement, What: fmt.Sprintf("%s, %d messages, p50", what, sent), Value: percentiles[0], Unit: "ms"})
	d.report(Figure{Measurement: measurement, What: "the same, p99", Value: percentiles[1], Unit: "ms", Goal: "under 1000"})
	return nil
}

type delivery struct {
	*bench
	site    *site
	address string
	sent    atomic.Int64
}

// run sends messages for a time, at a pace, or with pace 0 as many as maxOpen allows. It returns how many are
// undelivered at the end.
func (d *delivery) run(ctx context.Context, lasts time.Duration, pace float64) (open int64, err error) {
	run, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	var waiting, slot atomic.Int64
	var failure atomic.Pointer[error]
	var group sync.WaitGroup
	started := time.Now()
	for range d.Callers {
		c, err := dial(d.address)
		if err != nil {
			return 0, err
		}
		group.Go(func() {
			defer func() { _ = c.conn.Close() }()
			for run.Err() == nil {
				if pace > 0 {
					due := started.Add(time.Duration(float64(slot.Add(1)) / pace * float64(time.Second)))
					if !sleepUntil(run, due) {
						return
					}
				} else if waiting.Load() >= maxOpen {
					if !sleepUntil(run, time.Now().Add(5*time.Millisecond)) {
						return
					}
					continue
				}
				waiting.Add(1)
				i := d.sent.Add(1)
				body := fmt.Sprintf(`{"to":"+1415%07d","body":"Your order %d has shipped."}`, 2000000+i%2000, i)
				if err := c.post("/v1/messages", d.site.secret, "delivery-"+strconv.FormatInt(i, 10), body); err != nil {
					failure.Store(&err)
					stop()
					return
				}
			}
		})
	}
	for pace == 0 && run.Err() == nil {
		if err := d.site.pool.QueryRow(ctx, openSQL).Scan(&open); err != nil {
			return 0, err
		}
		waiting.Store(open)
		sleepUntil(run, time.Now().Add(askOpen))
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	return open, ctx.Err()
}

// drain waits until every message has left the outbox.
func (d *delivery) drain(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var open int
		if err := d.site.pool.QueryRow(ctx, openSQL).Scan(&open); err != nil || open == 0 {
			return err
		}
		sleepUntil(ctx, time.Now().Add(20*time.Millisecond))
	}
	return fmt.Errorf("messages are still on their way after a minute")
}

// sleepUntil sleeps until a time. It returns false if ctx ends before.
func sleepUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
