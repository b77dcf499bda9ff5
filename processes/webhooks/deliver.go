package webhooks

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/processes/peers"
	"ledgerline/processes/tasks"
)

// dueDelivery is a delivery that is to be attempted.
type dueDelivery struct {
	ID       uuid.UUID
	EventID  uuid.UUID
	Single   bool   // a test or a replay: it is attempted once
	Attempts int    // made so far
	Body     []byte // nil when it was erased
}

// singleSQL tells whether delivery d is attempted once only, since it is a test or a replay.
const singleSQL = `(d.test or d.replays > 0 or d.range_replays > 0)`

const dueSQL = `select d.id, d.event_id, ` + singleSQL + `, d.attempt, e.body
	from webhook_deliveries d left join webhook_events e on e.id = d.event_id
	where d.endpoint_id = $1 and d.status = 'pending' and d.next_attempt_at <= $2
	and not exists (select from webhook_started_attempts b where b.endpoint_id = d.endpoint_id and b.delivery_id = d.id)
	order by d.next_attempt_at limit $3`

const (
	// duePage is how many deliveries are read at a time.
	duePage = 64
	// After failuresInARow failures without a success, the run pauses for failurePause in real time before it reads the
	// next, smaller page (rule WHK-13): a hundred thousand deliveries to a receiver that refuses each at once must not
	// keep the node busy.
	failuresInARow = 32
	failurePause   = time.Second
	failingPage    = 8
)

// deliveryRun is the run of an endpoint's task that attempts its due deliveries.
type deliveryRun struct {
	*Process
	task tasks.Leased
	e    *endpoint

	slots    chan struct{}  // holds a value for each attempt in progress
	ended    chan struct{}  // signals that an attempt has ended
	attempts sync.WaitGroup // attempts in progress
	unsaved  sync.WaitGroup // results that are not in the ledger yet

	mu       sync.Mutex
	started  map[uuid.UUID]bool // deliveries with an attempt in progress
	failures int                // in a row
	stopped  bool               // no further attempt is made
	gone     bool               // the receiver answered 410
	err      error              // the first error
}

// deliverDue attempts everything that is due, and returns when every result is in the ledger. gone says that the
// receiver answered 410.
func (p *Process) deliverDue(ctx context.Context, task tasks.Leased, e *endpoint) (gone bool, err error) {
	d := &deliveryRun{
		Process: p, task: task, e: e, slots: make(chan struct{}, webhook.MaxInFlight), ended: make(chan struct{}, 1), started: map[uuid.UUID]bool{},
	}
	woken := make(chan struct{}, 1)
	p.mu.Lock()
	p.delivering[woken] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.delivering, woken)
		p.mu.Unlock()
	}()
	err = d.run(ctx, woken)
	tasks.Outside(ctx, d.attempts.Wait)
	d.unsaved.Wait()
	if err == nil {
		err = d.err
	}
	return d.gone, err
}

func (d *deliveryRun) run(ctx context.Context, woken <-chan struct{}) error {
	for !d.isStopped(ctx) {
		page, err := d.readDue(ctx)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			if d.isIdle() {
				return nil
			}
			tasks.Outside(ctx, func() {
				select { // new deliveries need not wait for a slow attempt
				case <-woken:
				case <-d.ended:
				case <-ctx.Done():
				}
			})
			continue
		}
		var erased []uuid.UUID
		for _, one := range page {
			if one.Body == nil {
				erased = append(erased, one.ID)
				continue
			}
			tasks.Outside(ctx, func() {
				select {
				case d.slots <- struct{}{}:
				case <-ctx.Done():
				}
			})
			if d.isStopped(ctx) {
				return nil
			}
			d.start(ctx, one)
		}
		if len(erased) > 0 {
			if err := d.giveUp(ctx, d.e, erased, webhook.ErrorErased); err != nil {
				return err
			}
		}
		if d.isFailing() {
			tasks.Outside(ctx, d.attempts.Wait)
			if !sleep(ctx, failurePause) {
				return nil
			}
		}
	}
	return nil
}

// isStopped reports whether no further attempt may be made.
func (d *deliveryRun) isStopped(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopped || ctx.Err() != nil
}

// isIdle reports whether no attempt is in progress. Deliveries that become due later schedule the task again.
func (d *deliveryRun) isIdle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.started) == 0
}

func (d *deliveryRun) isFailing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failures >= failuresInARow
}

// readDue reads the next due deliveries without an attempt in progress.
func (d *deliveryRun) readDue(ctx context.Context) ([]dueDelivery, error) {
	var list []dueDelivery
	var b pgx.Batch
	limit := duePage
	if d.isFailing() {
		limit = failingPage
	}
	b.Queue(dueSQL, d.e.ID, d.clock.Now(), limit+webhook.MaxInFlight).Query(func(rows pgx.Rows) (err error) {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[dueDelivery])
		return err
	})
	d.mu.Lock()
	inProgress := make(map[uuid.UUID]bool, len(d.started)) // before the query, because an attempt may end during it
	for id := range d.started {
		inProgress[id] = true
	}
	d.mu.Unlock()
	if err := d.execByIndex(ctx, &b); err != nil {
		return nil, err
	}
	fresh := list[:0]
	for _, one := range list {
		if !inProgress[one.ID] {
			fresh = append(fresh, one)
		}
	}
	return fresh, nil
}

func (d *deliveryRun) start(ctx context.Context, one dueDelivery) {
	d.mu.Lock()
	d.started[one.ID] = true
	d.mu.Unlock()
	d.attempts.Go(func() {
		d.attempt(ctx, one)
		d.mu.Lock()
		delete(d.started, one.ID)
		d.mu.Unlock()
		<-d.slots
		select {
		case d.ended <- struct{}{}:
		default:
		}
	})
}

// stop prevents further attempts. err becomes the error of the run, unless it is nil or the run has an error already.
func (d *deliveryRun) stop(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if d.err == nil {
		d.err = err
	}
}

// attempt makes one attempt, if it may still be made, and hands its result to the writer of results.
func (d *deliveryRun) attempt(ctx context.Context, one dueDelivery) {
	call, err := d.hosts.Enter(ctx, d.host(), callsPerHost)
	if err != nil {
		d.stop(err) // nothing was attempted
		return
	}
	defer call.Release()
	number := one.Attempts + 1
	start := d.recordStart(ctx, startRequest{endpoint: d.e.ID, delivery: one.ID, number: number, fence: d.task.Fence})
	if start.err != nil {
		d.stop(start.err)
		return
	}
	if !start.ok {
		d.stop(nil) // the endpoint has changed: the next task run reads it again
		return
	}
	state, err := d.currentState(ctx, start.version)
	if err != nil {
		d.stop(err) // the next run counts the attempt as interrupted
		return
	}
	at := d.clock.Now()
	id := webhook.FormatEventID(one.EventID)
	signature, err := webhook.Sign(id, at, one.Body, state.SigningSecrets(at)...)
	if err != nil {
		d.stop(err)
		return
	}
	posted := d.poster.Post(ctx, Post{URL: state.URL, ID: id, At: at, Signature: signature, Body: one.Body})
	call.Ended(answerOf(&posted))
	result := d.resultOf(&one, number, at, &posted)
	d.mu.Lock()
	if posted.Error == "" {
		d.failures = 0
	} else {
		d.failures++
	}
	if result.Gone {
		d.gone, d.stopped = true, true
	}
	d.mu.Unlock()
	d.unsaved.Add(1)
	d.results <- attemptResult{endpoint: &state, attempt: result, done: d.unsaved.Done}
}

// host is the receiver's host and port.
func (d *deliveryRun) host() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	receiver, err := url.Parse(d.e.state.URL)
	if err != nil {
		return d.e.ID
	}
	return strings.ToLower(receiver.Host)
}

// errNoAnswer is the error of an attempt that got no answer and did not wait for one until the end.
var errNoAnswer = errors.New("webhooks: no answer")

// answerOf says whether the receiver's host answered, for its circuit. Any status is an answer.
func answerOf(posted *PostResult) error {
	switch {
	case posted.Status != 0:
		return nil
	case posted.TimedOut && !posted.Canceled:
		return peers.ErrTimeout
	}
	return errNoAnswer
}

// currentState returns the state of the endpoint. It reads the endpoint again if this run knows only a state before the
// given version.
func (d *deliveryRun) currentState(ctx context.Context, version int) (webhook.Endpoint, error) {
	d.mu.Lock()
	state, known := d.e.state, d.e.Version
	d.mu.Unlock()
	if version <= known {
		return state, nil
	}
	state, version, err := d.app.FindWebhook(ctx, d.e.ID)
	if err != nil {
		return state, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if version > d.e.Version {
		d.e.state, d.e.Version = state, version
	}
	return state, nil
}

// resultOf is the result of an attempt, with the time of the next one (rule WHK-11).
func (d *deliveryRun) resultOf(one *dueDelivery, number int, at time.Time, posted *PostResult) events.WebhookAttempt {
	if posted.Canceled {
		return d.interrupted(startedAttempt{DeliveryID: one.ID, Number: number, At: at, EventID: one.EventID, Single: one.Single})
	}
	a := events.WebhookAttempt{
		DeliveryID: one.ID, EventID: one.EventID, Number: number, At: at, StatusCode: posted.Status, LatencyMS: int(posted.Latency.Milliseconds()),
		Error: posted.Error, Uncounted: one.Single,
	}
	if a.Error == "" || one.Single {
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

// retryAfter parses a Retry-After header, which has seconds or a date; 0 for anything else.
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
