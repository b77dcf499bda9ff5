package webhooks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands"
	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// What the workers of all endpoints write is batched: starts of attempts into one statement, results into one append. A
// batch is what has arrived while the batch before it was written, so nothing waits for a timer.

const (
	startWriters = 2 // one writes starts while the other collects them
	maxStarts    = 512
	maxResults   = 1024
	// maxAttemptsPerEvent is how many attempts one event records, at most.
	maxAttemptsPerEvent = 256
	// writeTimeout bounds one write to the database.
	writeTimeout = 10 * time.Second
)

// startRequest asks to record the start of an attempt.
type startRequest struct {
	endpoint string
	delivery uuid.UUID
	number   int
	fence    int64
	answer   chan<- startAnswer
}

// startAnswer is the answer to a startRequest.
type startAnswer struct {
	// ok is false when the attempt must not be made: the endpoint is not active, or the delivery has changed.
	ok bool
	// version is the version of the endpoint's stream that the consumer has seen.
	version int
	err     error
}

const (
	startSQL = `insert into webhook_started_attempts (endpoint_id, delivery_id, number, fence, started_at)
		select u.endpoint, u.delivery, u.number, u.fence, $5 from unnest($1::text[], $2::uuid[], $3::int[], $4::bigint[]) u (endpoint, delivery, number, fence)
		join webhook_endpoints e on e.endpoint_id = u.endpoint and e.status = 'active'
		join webhook_deliveries d on d.id = u.delivery and coalesce(d.status, '') = 'pending' and d.attempt = u.number - 1
		on conflict do nothing returning delivery_id`
	endpointVersionsSQL = `select endpoint_id, version from webhook_endpoints where endpoint_id = any($1)`
)

// recordStart records that an attempt is about to be made. When it returns, the record is durable.
func (p *Process) recordStart(ctx context.Context, start startRequest) startAnswer {
	answer := make(chan startAnswer, 1)
	start.answer = answer
	select {
	case p.starts <- start:
	case <-ctx.Done():
		return startAnswer{err: context.Cause(ctx)}
	}
	return <-answer // the writer answers within writeTimeout
}

// writeStarts writes starts until ctx has ended and none is left.
func (p *Process) writeStarts(ctx context.Context) {
	for {
		batch := collect(ctx, p.starts, maxStarts)
		if len(batch) == 0 {
			return
		}
		if err := p.writeStartBatch(ctx, batch); err != nil {
			for _, start := range batch {
				start.answer <- startAnswer{err: err}
			}
		}
	}
}

// collect waits for one value and takes up to limit values that are there by then. It returns none when ctx has ended
// and no value is there.
func collect[T any](ctx context.Context, from <-chan T, limit int) []T {
	var batch []T
	select {
	case one := <-from:
		batch = append(batch, one)
	case <-ctx.Done():
	}
	for len(batch) < limit {
		select {
		case one := <-from:
			batch = append(batch, one)
		default:
			return batch
		}
	}
	return batch
}

func (p *Process) writeStartBatch(ctx context.Context, batch []startRequest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var endpoints []string
	var ids []uuid.UUID
	var numbers []int32
	var fences []int64
	for _, start := range batch {
		endpoints, ids = append(endpoints, start.endpoint), append(ids, start.delivery)
		numbers, fences = append(numbers, int32(start.number)), append(fences, start.fence) //nolint:gosec // small
	}
	started, versions := map[uuid.UUID]bool{}, map[string]int{}
	var b pgx.Batch
	b.Queue(startSQL, endpoints, ids, numbers, fences, p.clock.Now()).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		for _, id := range found {
			started[id] = true
		}
		return err
	})
	b.Queue(endpointVersionsSQL, endpoints).Query(func(rows pgx.Rows) error {
		var id string
		var version int
		_, err := pgx.ForEachRow(rows, []any{&id, &version}, func() error {
			versions[id] = version
			return nil
		})
		return err
	})
	if err := p.execByIndex(ctx, &b); err != nil {
		return err
	}
	for _, start := range batch {
		start.answer <- startAnswer{ok: started[start.delivery], version: versions[start.endpoint]}
	}
	return nil
}

// execByIndex runs statements in a transaction in which the planner uses indexes, whatever the statistics of the tables
// say.
func (p *Process) execByIndex(ctx context.Context, b *pgx.Batch) error {
	err := pgx.BeginFunc(ctx, p.ledger.Pool(), func(tx pgx.Tx) error {
		all := pgx.Batch{}
		all.Queue(eventstore.ForceIndexScansSQL)
		all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
		return tx.SendBatch(ctx, &all).Close()
	})
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	return nil
}

// attemptResult is the result of one attempt, to be appended to the ledger.
type attemptResult struct {
	endpoint *webhook.Endpoint
	attempt  events.WebhookAttempt
	// done is called when the result is in the ledger, or when the process stops and cannot reach the database.
	done func()
}

// writeResults writes results until ctx has ended and none is left.
func (p *Process) writeResults(ctx context.Context) {
	for {
		batch := collect(ctx, p.results, maxResults)
		if len(batch) == 0 {
			return
		}
		var all sync.WaitGroup
		for organisation, results := range byOrganisation(batch) {
			all.Go(func() { p.appendResults(ctx, organisation, results) })
		}
		all.Wait()
		for _, r := range batch {
			r.done()
		}
	}
}

// byOrganisation makes one event of the results of each endpoint, or several when there are many.
func byOrganisation(batch []attemptResult) map[uuid.UUID][]commands.WebhookResult {
	current := map[string]*events.WebhookAttempted{} // by endpoint
	all := map[uuid.UUID][]commands.WebhookResult{}
	for _, r := range batch {
		e := current[r.endpoint.ID]
		if e == nil || len(e.Attempts) == maxAttemptsPerEvent {
			e = &events.WebhookAttempted{EndpointID: r.endpoint.ID}
			current[r.endpoint.ID] = e
			all[r.endpoint.Organisation] = append(all[r.endpoint.Organisation], commands.WebhookResult{Workspace: r.endpoint.Workspace, Event: e})
		}
		e.Attempts = append(e.Attempts, r.attempt)
	}
	return all
}

// appendResults appends results to the ledger, and retries while the database cannot be reached. A result that is
// appended twice does no harm: the consumer applies an attempt once.
func (p *Process) appendResults(ctx context.Context, organisation uuid.UUID, results []commands.WebhookResult) {
	for failures := 1; ; failures++ {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		_, err := p.app.RecordWebhookResults(bounded, organisation, results)
		cancel()
		if err == nil {
			return
		}
		p.log.Warn("webhooks: results of attempts were not appended", "failures", failures, "events", len(results), "error", err)
		if !sleep(ctx, min(time.Duration(failures)*100*time.Millisecond, 2*time.Second)) {
			return // stopping: the attempts count as interrupted
		}
	}
}

// sleep waits in real time. It returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
