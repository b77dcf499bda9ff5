package processes

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

// What the workers of all endpoints write is gathered: beginnings into one statement, outcomes into one append. A batch
// is whatever has come in while the one before was written, so that nobody waits for a timer.

const (
	scribes    = 2 // that write beginnings, one of them while the other gathers
	maxBegins  = 512
	maxReports = 1024
	// maxTold is how many attempts one event tells of, at most.
	maxTold = 256
)

// beginning asks to begin an attempt.
type beginning struct {
	endpoint string
	delivery uuid.UUID
	number   int
	fence    int64
	answer   chan<- begun
}

// begun answers a beginning.
type begun struct {
	// ok is false when there is nothing to attempt any more: the endpoint is not active, or the delivery has moved on.
	ok bool
	// version is that of the endpoint's stream as far as it is known here.
	version int
	err     error
}

const (
	beginSQL = `insert into webhook_begun (endpoint_id, delivery_id, number, fence, begun_at)
		select u.endpoint, u.delivery, u.number, u.fence, $5 from unnest($1::text[], $2::uuid[], $3::int[], $4::bigint[]) u (endpoint, delivery, number, fence)
		join webhook_endpoints e on e.endpoint_id = u.endpoint and e.status = 'active'
		join webhook_deliveries d on d.id = u.delivery and coalesce(d.status, '') = 'pending' and d.attempt = u.number - 1
		on conflict do nothing returning delivery_id`
	endpointVersionsSQL = `select endpoint_id, version from webhook_endpoints where endpoint_id = any($1)`
)

// begin writes down that an attempt is about to be made. It returns when that is durable.
func (w *Webhooks) begin(ctx context.Context, asked beginning) begun {
	answer := make(chan begun, 1)
	asked.answer = answer
	select {
	case w.begins <- asked:
	case <-ctx.Done():
		return begun{err: context.Cause(ctx)}
	}
	return <-answer // whoever took it answers within the database's bound
}

// writeBegins works until ctx ends and nobody asks any more.
func (w *Webhooks) writeBegins(ctx context.Context) {
	for {
		batch := gather(ctx, w.begins, maxBegins)
		if len(batch) == 0 {
			return
		}
		if err := w.writeBegun(ctx, batch); err != nil {
			for _, asked := range batch {
				asked.answer <- begun{err: err}
			}
		}
	}
}

// gather waits for one, and takes what else is there. Nothing is what it gives when ctx has ended.
func gather[T any](ctx context.Context, from <-chan T, most int) []T {
	var batch []T
	select {
	case one := <-from:
		batch = append(batch, one)
	case <-ctx.Done():
	}
	for len(batch) < most {
		select {
		case one := <-from:
			batch = append(batch, one)
		default:
			return batch
		}
	}
	return batch
}

// writeFor bounds a visit to the database.
const writeFor = 10 * time.Second

func (w *Webhooks) writeBegun(ctx context.Context, batch []beginning) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeFor)
	defer cancel()
	var endpoints []string
	var ids []uuid.UUID
	var numbers []int32
	var fences []int64
	for _, asked := range batch {
		endpoints, ids = append(endpoints, asked.endpoint), append(ids, asked.delivery)
		numbers, fences = append(numbers, int32(asked.number)), append(fences, asked.fence) //nolint:gosec // small
	}
	began, versions := map[uuid.UUID]bool{}, map[string]int{}
	var q pgx.Batch
	q.Queue(beginSQL, endpoints, ids, numbers, fences, w.clock.Now()).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		for _, id := range found {
			began[id] = true
		}
		return err
	})
	q.Queue(endpointVersionsSQL, endpoints).Query(func(rows pgx.Rows) error {
		var id string
		var version int
		_, err := pgx.ForEachRow(rows, []any{&id, &version}, func() error {
			versions[id] = version
			return nil
		})
		return err
	})
	if err := w.byIndex(ctx, &q); err != nil {
		return err
	}
	for _, asked := range batch {
		asked.answer <- begun{ok: began[asked.delivery], version: versions[asked.endpoint]}
	}
	return nil
}

// byIndex runs statements in a transaction that looks every row up by its index, whatever the statistics say.
func (w *Webhooks) byIndex(ctx context.Context, q *pgx.Batch) error {
	err := pgx.BeginFunc(ctx, w.ledger.Pool(), func(tx pgx.Tx) error {
		all := pgx.Batch{}
		all.Queue(eventstore.ForceIndexScansSQL)
		all.QueuedQueries = append(all.QueuedQueries, q.QueuedQueries...)
		return tx.SendBatch(ctx, &all).Close()
	})
	if err != nil {
		return fmt.Errorf("processes: webhooks: %w", err)
	}
	return nil
}

// report is what came of one attempt.
type report struct {
	endpoint *webhook.Endpoint
	attempt  events.WebhookAttempt
	done     func()
}

// tell has an outcome written to the ledger, and calls done when it is there, or when the service stops without having
// reached it.
func (w *Webhooks) tell(r report) { w.reports <- r }

// writeReports works until ctx ends and nothing is left to tell.
func (w *Webhooks) writeReports(ctx context.Context) {
	for {
		batch := gather(ctx, w.reports, maxReports)
		if len(batch) == 0 {
			return
		}
		var all sync.WaitGroup
		for organisation, list := range byOrganisation(batch) {
			all.Go(func() { w.record(ctx, organisation, list) })
		}
		all.Wait()
		for _, r := range batch {
			r.done()
		}
	}
}

// byOrganisation makes one event of the outcomes of an endpoint, or a few when there are many.
func byOrganisation(batch []report) map[uuid.UUID][]commands.WebhookResult {
	told := map[string]*events.WebhookAttempted{}
	all := map[uuid.UUID][]commands.WebhookResult{}
	for _, r := range batch {
		e := told[r.endpoint.ID]
		if e == nil || len(e.Attempts) == maxTold {
			e = &events.WebhookAttempted{EndpointID: r.endpoint.ID}
			told[r.endpoint.ID] = e
			all[r.endpoint.Organisation] = append(all[r.endpoint.Organisation], commands.WebhookResult{Workspace: r.endpoint.Workspace, Event: e})
		}
		e.Attempts = append(e.Attempts, r.attempt)
	}
	return all
}

// record appends, and tries again while the database is away. Told twice does no harm.
func (w *Webhooks) record(ctx context.Context, organisation uuid.UUID, list []commands.WebhookResult) {
	for failures := 1; ; failures++ {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeFor)
		_, err := w.app.RecordWebhookResults(bounded, organisation, list)
		cancel()
		if err == nil {
			return
		}
		w.log.Warn("outcomes of webhooks were not written", "failures", failures, "events", len(list), "error", err)
		if !rest(ctx, min(time.Duration(failures)*100*time.Millisecond, 2*time.Second)) {
			return // stopping: the attempts count as interrupted
		}
	}
}

// rest waits in real time; false when ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
