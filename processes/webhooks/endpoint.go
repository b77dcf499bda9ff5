package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/processes/peers"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// endpoint is an endpoint at one version of its stream: the consumer's row and the state in the ledger.
type endpoint struct {
	*endpointRow
	state webhook.Endpoint
}

const endpointSQL = `select ` + endpointColumns + ` from webhook_endpoints where endpoint_id = $1`

// loadEndpoint reads an endpoint, and waits until the consumer's row has the version of the ledger. It returns nil when
// the endpoint does not exist any more and has nothing to remove.
func (p *Process) loadEndpoint(ctx context.Context, task tasks.Leased) (*endpoint, error) {
	for range 3 {
		state, version, err := p.app.FindWebhook(ctx, task.Key)
		if fault.Is(err, fault.NotFound) {
			return nil, nil //nolint:nilnil // nothing is left
		}
		if err != nil {
			return nil, err
		}
		rows, err := p.ledger.Pool().Query(ctx, endpointSQL, task.Key)
		if err != nil {
			return nil, fmt.Errorf("webhooks: read endpoint: %w", err)
		}
		row, err := pgx.CollectExactlyOneRow(rows, scanEndpoint)
		switch {
		case errors.Is(err, pgx.ErrNoRows) && !state.Exists():
			return nil, nil //nolint:nilnil // as above
		case err != nil && !errors.Is(err, pgx.ErrNoRows):
			return nil, fmt.Errorf("webhooks: read endpoint: %w", err)
		case err == nil && row.Version == version:
			return &endpoint{row, state}, nil
		}
		if err := p.store.WaitForHeadByName(ctx, task.Shard, projections.DeliveriesConsumer); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("webhooks: the endpoint keeps changing")
}

// runTask runs the task of an endpoint, or the cleanup.
func (p *Process) runTask(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	if task.Key == cleanupKey {
		return p.cleanup(ctx)
	}
	e, err := p.loadEndpoint(ctx, task)
	if e == nil || err != nil {
		return tasks.Finished, err
	}
	if e.Status == webhook.Deleted {
		return tasks.Finished, p.removeEndpoint(ctx, task.Key)
	}
	if err := p.recordInterrupted(ctx, task, e); err != nil {
		return tasks.Finished, err
	}
	now := p.clock.Now()
	if e.Status == webhook.Active && (e.Gone || e.Window.MustDisable(now)) {
		return p.disable(ctx, e)
	}
	switch e.Status {
	case webhook.Disabled:
		return tasks.Finished, p.giveUpDue(ctx, e, now.Add(forever), webhook.ErrorDisabled)
	case webhook.Paused:
		return p.giveUpPaused(ctx, e, now)
	case webhook.Active, webhook.Deleted:
	}
	gone, err := p.deliverDue(ctx, task, e)
	if refused := (*peers.Refused)(nil); errors.As(err, &refused) {
		return tasks.Postpone(refused.Pause), nil
	}
	if err != nil {
		return tasks.Finished, err
	}
	if gone {
		e.Gone = true
		return p.disable(ctx, e)
	}
	return p.nextRun(ctx, e)
}

// forever is longer than any delivery waits.
const forever = 100 * 365 * 24 * time.Hour

func (p *Process) request(e *endpoint) commands.Request {
	return commands.Request{Organisation: e.Organisation, Workspace: e.Workspace, Actor: events.Actor{Type: "system", ID: processName}}
}

// disable disables the endpoint. Its pending deliveries fail when the event comes back through the consumer.
func (p *Process) disable(ctx context.Context, e *endpoint) (tasks.Result, error) {
	reason := webhook.ReasonFailing
	if e.Gone {
		reason = webhook.ReasonGone
	}
	_, err := p.app.DisableWebhook(ctx, p.request(e), e.ID, reason)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return tasks.Finished, err
	}
	p.log.Info("webhooks: endpoint disabled", "endpoint", e.ID, "reason", reason)
	return tasks.Finished, nil
}

// giveUpPaused fails the deliveries that have waited too long for a paused endpoint (rule WHK-4). The task runs again
// when the next delivery has waited too long. A delivery waits from its due time, or from the pause if that was later.
func (p *Process) giveUpPaused(ctx context.Context, e *endpoint, now time.Time) (tasks.Result, error) {
	if first := e.ChangedAt.Add(webhook.MaxPausedWait); !now.Before(first) {
		if err := p.giveUpDue(ctx, e, now.Add(-webhook.MaxPausedWait), webhook.ErrorPaused); err != nil {
			return tasks.Finished, err
		}
	}
	due, found, err := p.earliestDue(ctx, e.ID)
	if err != nil || !found {
		return tasks.Finished, err
	}
	if due.Before(e.ChangedAt) {
		due = e.ChangedAt
	}
	return tasks.RunAgain(due.Add(webhook.MaxPausedWait)), nil
}

const (
	earliestDueSQL = `select next_attempt_at from webhook_deliveries d where endpoint_id = $1 and status = 'pending'
		and not exists (select from webhook_started_attempts b where b.endpoint_id = d.endpoint_id and b.delivery_id = d.id)
		order by next_attempt_at limit 1`
	pendingSQL = `select id from webhook_deliveries where endpoint_id = $1 and status = 'pending' and next_attempt_at <= $2
		order by next_attempt_at limit $3`
	interruptedSQL = `select b.delivery_id, b.number, b.started_at, d.event_id, ` + singleSQL + `
		from webhook_started_attempts b join webhook_deliveries d on d.id = b.delivery_id where b.endpoint_id = $1`
	removeDeliveriesSQL = `with removed as (delete from webhook_deliveries where id = any(array(
			select id from webhook_deliveries where endpoint_id = $1 limit 5000)) returning event_id)
		select count(*) from removed`
	removeStartsSQL   = `delete from webhook_started_attempts where endpoint_id = $1`
	removeRatesSQL    = `delete from webhook_rates where endpoint_id = $1`
	removeEndpointSQL = `delete from webhook_endpoints where endpoint_id = $1`
)

// earliestDue returns the earliest due time of the pending deliveries that are not being attempted.
func (p *Process) earliestDue(ctx context.Context, id string) (due time.Time, found bool, err error) {
	var b pgx.Batch
	b.Queue(earliestDueSQL, id).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if len(list) > 0 {
			due, found = list[0], true
		}
		return err
	})
	return due, found, p.execByIndex(ctx, &b)
}

// nextRun runs an active endpoint again for the next retry, or at the end of its failure window (rule WHK-12).
func (p *Process) nextRun(ctx context.Context, e *endpoint) (tasks.Result, error) {
	due, found, err := p.earliestDue(ctx, e.ID)
	if err != nil {
		return tasks.Finished, err
	}
	if end, enough := e.Window.DisableAt(); enough && (!found || end.Before(due)) {
		due, found = end, true
	}
	if !found {
		return tasks.Finished, nil
	}
	return tasks.RunAgain(due), nil
}

// giveUpPage is how many deliveries one event gives up.
const giveUpPage = 500

// giveUpDue gives up the pending deliveries that were due at the time by or before.
func (p *Process) giveUpDue(ctx context.Context, e *endpoint, by time.Time, reason string) error {
	for {
		var ids []uuid.UUID
		var b pgx.Batch
		b.Queue(pendingSQL, e.ID, by, giveUpPage).Query(func(rows pgx.Rows) (err error) {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
		if err := p.execByIndex(ctx, &b); err != nil || len(ids) == 0 {
			return err
		}
		if err := p.giveUp(ctx, e, ids, reason); err != nil {
			return err
		}
	}
}

// giveUp appends that deliveries are given up, and waits until their rows show it.
func (p *Process) giveUp(ctx context.Context, e *endpoint, ids []uuid.UUID, reason string) error {
	return p.appendAndWait(ctx, e, &events.WebhookGivenUp{EndpointID: e.ID, DeliveryIDs: ids, Reason: reason})
}

// appendAndWait appends an event about deliveries of the endpoint, and waits until the consumer has applied it to their
// rows.
func (p *Process) appendAndWait(ctx context.Context, e *endpoint, event events.Event) error {
	r, err := p.app.RecordWebhookResults(ctx, e.Organisation, []commands.WebhookResult{{Workspace: e.Workspace, Event: event}})
	if err != nil {
		return err
	}
	return p.store.WaitForPositionByName(ctx, r.Shard, r.Position, projections.DeliveriesConsumer)
}

// startedAttempt is an attempt whose start is recorded and whose result is not known.
type startedAttempt struct {
	DeliveryID uuid.UUID
	Number     int
	At         time.Time
	EventID    uuid.UUID
	Single     bool // a test or a replay: there is no further attempt
}

// recordInterrupted records the attempts that were interrupted: the worker that had the endpoint before has died or has
// lost its lease (rule WHK-14). It first waits for results that are in the ledger and have not reached the consumer.
func (p *Process) recordInterrupted(ctx context.Context, task tasks.Leased, e *endpoint) error {
	for try := range 2 {
		rows, err := p.ledger.Pool().Query(ctx, interruptedSQL, e.ID)
		if err != nil {
			return fmt.Errorf("webhooks: read started attempts: %w", err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[startedAttempt])
		if err != nil {
			return fmt.Errorf("webhooks: read started attempts: %w", err)
		}
		if len(list) == 0 {
			return nil
		}
		if try == 0 {
			if err := p.store.WaitForHeadByName(ctx, task.Shard, projections.DeliveriesConsumer); err != nil {
				return err
			}
			continue
		}
		event := &events.WebhookAttempted{EndpointID: e.ID}
		for _, started := range list {
			event.Attempts = append(event.Attempts, p.interrupted(started))
		}
		return p.appendAndWait(ctx, e, event)
	}
	return nil
}

// interrupted returns the record of an attempt whose result is not known. The next attempt is due at once, as long as
// the number of attempts allows one.
func (p *Process) interrupted(started startedAttempt) events.WebhookAttempt {
	a := events.WebhookAttempt{
		DeliveryID: started.DeliveryID, EventID: started.EventID, Number: started.Number, At: started.At,
		Error: webhook.ErrorInterrupted, Uncounted: true,
	}
	if now := p.clock.Now(); !started.Single && started.Number < webhook.MaxAttempts {
		a.Next = &now
	}
	return a
}

// removeEndpoint removes the rows of a deleted endpoint.
func (p *Process) removeEndpoint(ctx context.Context, id string) error {
	for {
		var n int
		var b pgx.Batch
		b.Queue(removeDeliveriesSQL, id).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		if err := p.execByIndex(ctx, &b); err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		for _, sql := range []string{removeStartsSQL, removeRatesSQL, removeEndpointSQL} {
			if _, err := p.ledger.Pool().Exec(ctx, sql, id); err != nil {
				return fmt.Errorf("webhooks: remove endpoint: %w", err)
			}
		}
		return nil
	}
}
