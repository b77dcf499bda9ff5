package processes

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// due is a delivery that is to be attempted.
type due struct {
	ID      uuid.UUID
	EventID uuid.UUID
	Test    bool
	Replays int
	Attempt int    // made so far
	Body    []byte // nil when it was erased
}

const dueSQL = `select d.id, d.event_id, d.test, d.replays, d.attempt, e.body
	from webhook_deliveries d left join webhook_events e on e.id = d.event_id
	where d.endpoint_id = $1 and d.status = 'pending' and d.next_attempt_at <= $2
	and not exists (select from webhook_begun b where b.endpoint_id = d.endpoint_id and b.delivery_id = d.id)
	order by d.next_attempt_at limit $3`

const (
	// duePage is how many deliveries are read at a time.
	duePage = 64
	// After so many failures in a row, and no success, an endpoint that has more to get is left alone for a moment, in
	// real time: a hundred thousand deliveries to a receiver that refuses them at once are not to keep a node busy.
	failuresInARow = 32
	failureRest    = time.Second
	failingPage    = 8
)

// drain is one worker's run through what is due for an endpoint.
type drain struct {
	*Webhooks
	task tasks.Leased
	s    *standing

	free  chan struct{} // one for each delivery that may be under way
	ended chan struct{} // one has ended
	posts sync.WaitGroup
	told  sync.WaitGroup // outcomes on their way to the ledger

	mu       sync.Mutex
	taken    map[uuid.UUID]bool // read, and not begun yet
	running  int
	failures int // in a row
	stopped  bool
	gone     bool
	failed   error
}

// drain attempts everything that is due, and returns when every outcome is in the ledger. gone tells that the receiver
// answered 410.
func (w *Webhooks) drain(ctx context.Context, task tasks.Leased, s *standing) (gone bool, err error) {
	d := &drain{
		Webhooks: w, task: task, s: s, free: make(chan struct{}, webhook.MaxInFlight), ended: make(chan struct{}, 1), taken: map[uuid.UUID]bool{},
	}
	woken := make(chan struct{}, 1)
	w.mu.Lock()
	w.draining[woken] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.draining, woken)
		w.mu.Unlock()
	}()
	err = d.run(ctx, woken)
	d.posts.Wait()
	d.told.Wait()
	if err == nil {
		err = d.failed
	}
	return d.gone, err
}

func (d *drain) run(ctx context.Context, woken <-chan struct{}) error {
	for !d.over(ctx) {
		page, err := d.read(ctx)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			if d.idle() {
				return nil
			}
			select { // what comes in meanwhile need not wait for a slow one
			case <-woken:
			case <-d.ended:
			case <-ctx.Done():
			}
			continue
		}
		var erased []uuid.UUID
		for _, one := range page {
			if one.Body == nil {
				erased = append(erased, one.ID)
				continue
			}
			select {
			case d.free <- struct{}{}:
			case <-ctx.Done():
			}
			if d.over(ctx) {
				return nil
			}
			d.start(ctx, one)
		}
		if len(erased) > 0 {
			if err := d.abandon(ctx, d.s, erased, webhook.ErrorErased); err != nil {
				return err
			}
		}
		if d.failing() {
			d.posts.Wait()
			if !rest(ctx, failureRest) {
				return nil
			}
		}
	}
	return nil
}

// over tells that nothing more is to be begun.
func (d *drain) over(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopped || ctx.Err() != nil
}

// idle tells that nothing is under way; there may be more to do right after, which whoever asks for it says.
func (d *drain) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running == 0
}

func (d *drain) failing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failures >= failuresInARow
}

// read gives the next deliveries that are due and nobody has taken.
func (d *drain) read(ctx context.Context) ([]due, error) {
	var list []due
	var q pgx.Batch
	most := duePage
	if d.failing() {
		most = failingPage
	}
	q.Queue(dueSQL, d.s.ID, d.clock.Now(), most+webhook.MaxInFlight).Query(func(rows pgx.Rows) (err error) {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[due])
		return err
	})
	d.mu.Lock()
	before := make(map[uuid.UUID]bool, len(d.taken)) // begun or not, they were read before this
	for id := range d.taken {
		before[id] = true
	}
	d.mu.Unlock()
	if err := d.byIndex(ctx, &q); err != nil {
		return nil, err
	}
	fresh := list[:0]
	for _, one := range list {
		if !before[one.ID] {
			fresh = append(fresh, one)
		}
	}
	return fresh, nil
}

func (d *drain) start(ctx context.Context, one due) {
	d.mu.Lock()
	d.taken[one.ID] = true
	d.running++
	d.mu.Unlock()
	d.posts.Go(func() {
		d.attempt(ctx, one)
		d.mu.Lock()
		delete(d.taken, one.ID)
		d.running--
		d.mu.Unlock()
		<-d.free
		select {
		case d.ended <- struct{}{}:
		default:
		}
	})
}

func (d *drain) stop(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if d.failed == nil {
		d.failed = err
	}
}

// attempt makes one attempt, if it may still be made, and has its outcome told.
func (d *drain) attempt(ctx context.Context, one due) {
	number := one.Attempt + 1
	b := d.begin(ctx, beginning{endpoint: d.s.ID, delivery: one.ID, number: number, fence: d.task.Fence})
	if b.err != nil {
		d.stop(b.err)
		return
	}
	if !b.ok {
		d.stop(nil) // the endpoint has changed: it is looked at anew
		return
	}
	endpoint, err := d.current(ctx, b.version)
	if err != nil {
		d.stop(err) // the next turn counts the attempt as cut off
		return
	}
	at := d.clock.Now()
	id := projections.EventID(one.EventID)
	signature, err := webhook.Sign(id, at, one.Body, endpoint.SigningSecrets(at)...)
	if err != nil {
		d.stop(err)
		return
	}
	posted := d.poster.Post(ctx, Post{URL: endpoint.URL, ID: id, At: at, Signature: signature, Body: one.Body})
	outcome := d.outcome(&one, number, at, &posted)
	d.mu.Lock()
	if posted.Error == "" {
		d.failures = 0
	} else {
		d.failures++
	}
	if outcome.Gone {
		d.gone, d.stopped = true, true
	}
	d.mu.Unlock()
	d.told.Add(1)
	d.tell(report{endpoint: &endpoint, attempt: outcome, done: d.told.Done})
}

// current is the endpoint, read again when it has changed since it was read.
func (d *drain) current(ctx context.Context, version int) (webhook.Endpoint, error) {
	d.mu.Lock()
	endpoint, known := d.s.endpoint, d.s.Version
	d.mu.Unlock()
	if version <= known {
		return endpoint, nil
	}
	endpoint, version, err := d.app.FindWebhook(ctx, d.s.ID)
	if err != nil {
		return endpoint, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if version > d.s.Version {
		d.s.endpoint, d.s.Version = endpoint, version
	}
	return endpoint, nil
}

// outcome is what an attempt has come to, and when the next one is due.
func (d *drain) outcome(one *due, number int, at time.Time, posted *Posted) events.WebhookAttempt {
	single := one.Test || one.Replays > 0
	if posted.Canceled {
		return d.cutOff(leftOver{DeliveryID: one.ID, Number: number, At: at, EventID: one.EventID, Single: single})
	}
	a := events.WebhookAttempt{
		DeliveryID: one.ID, EventID: one.EventID, Number: number, At: at, StatusCode: posted.Status, LatencyMS: int(posted.Latency.Milliseconds()),
		Error: posted.Error, Uncounted: single,
	}
	if a.Error == "" || single {
		return a
	}
	if posted.Status == http.StatusGone {
		a.Gone = true
		return a
	}
	var after time.Duration
	if posted.Status == http.StatusTooManyRequests || posted.Status == http.StatusServiceUnavailable {
		after = retryAfter(posted.RetryAfter, at)
	}
	if delay, again := webhook.RetryDelay(number, rand.Float64(), after); again { //nolint:gosec // jitter is no secret
		next := at.Add(delay).Truncate(time.Millisecond)
		a.Next = &next
	}
	return a
}

// retryAfter reads the header, seconds or a date; 0 for anything else.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
