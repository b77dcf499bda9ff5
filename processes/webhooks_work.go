package processes

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
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// standing is an endpoint as the ledger and the consumer agree that it is.
type standing struct {
	*subscriber
	endpoint webhook.Endpoint
}

const oneSubscriberSQL = `select ` + subscriberColumns + ` from webhook_endpoints where endpoint_id = $1`

// stands looks an endpoint up; nil when nothing is left of it.
func (w *Webhooks) stands(ctx context.Context, task tasks.Leased) (*standing, error) {
	for range 3 {
		endpoint, version, err := w.app.FindWebhook(ctx, task.Key)
		if fault.Is(err, fault.NotFound) {
			return nil, nil //nolint:nilnil // nothing is left
		}
		if err != nil {
			return nil, err
		}
		rows, err := w.ledger.Pool().Query(ctx, oneSubscriberSQL, task.Key)
		if err != nil {
			return nil, fmt.Errorf("processes: endpoint: %w", err)
		}
		s, err := pgx.CollectExactlyOneRow(rows, scanSubscriber)
		switch {
		case errors.Is(err, pgx.ErrNoRows) && !endpoint.Exists():
			return nil, nil //nolint:nilnil // as above
		case err != nil && !errors.Is(err, pgx.ErrNoRows):
			return nil, fmt.Errorf("processes: endpoint: %w", err)
		case err == nil && s.Version == version:
			return &standing{s, endpoint}, nil
		}
		if err := w.store.CurrentOf(ctx, task.Shard, projections.DeliveriesBy); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("processes: the endpoint keeps changing")
}

// serve does what there is to do for one endpoint, or tidies up.
func (w *Webhooks) serve(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	if task.Key == tidyKey {
		return w.tidy(ctx)
	}
	s, err := w.stands(ctx, task)
	if s == nil || err != nil {
		return tasks.Finished, err
	}
	if s.Status == webhook.Deleted {
		return tasks.Finished, w.purge(ctx, task.Key)
	}
	if err := w.interrupted(ctx, task, s); err != nil {
		return tasks.Finished, err
	}
	now := w.clock.Now()
	if s.Status == webhook.Active && (s.Gone || s.Window.MustDisable(now)) {
		return w.disable(ctx, s)
	}
	switch s.Status {
	case webhook.Disabled:
		return tasks.Finished, w.giveUp(ctx, s, now.Add(endless), webhook.ErrorDisabled)
	case webhook.Paused:
		return w.hold(ctx, s, now)
	case webhook.Active, webhook.Deleted:
	}
	gone, err := w.drain(ctx, task, s)
	if err != nil {
		return tasks.Finished, err
	}
	if gone {
		s.Gone = true
		return w.disable(ctx, s)
	}
	return w.next(ctx, s)
}

// endless is later than anything is due.
const endless = 100 * 365 * 24 * time.Hour

func (w *Webhooks) request(s *standing) commands.Request {
	return commands.Request{Organisation: s.Organisation, Workspace: s.Workspace, Actor: events.Actor{Type: "system", ID: webhooksProcess}}
}

// disable takes the endpoint out of service. What waits for it is given up when that comes back through the consumer.
func (w *Webhooks) disable(ctx context.Context, s *standing) (tasks.Result, error) {
	reason := webhook.ReasonFailing
	if s.Gone {
		reason = webhook.ReasonGone
	}
	_, err := w.app.DisableWebhook(ctx, w.request(s), s.ID, reason)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return tasks.Finished, err
	}
	w.log.Info("webhook endpoint disabled", "endpoint", s.ID, "reason", reason)
	return tasks.Finished, nil
}

// hold fails what has waited too long for a paused endpoint, and says when to look again. A delivery waits from when it
// was due, or from the pause.
func (w *Webhooks) hold(ctx context.Context, s *standing, now time.Time) (tasks.Result, error) {
	if first := s.ChangedAt.Add(webhook.MaxPausedWait); !now.Before(first) {
		if err := w.giveUp(ctx, s, now.Add(-webhook.MaxPausedWait), webhook.ErrorPaused); err != nil {
			return tasks.Finished, err
		}
	}
	due, found, err := w.earliest(ctx, s.ID)
	if err != nil || !found {
		return tasks.Finished, err
	}
	if due.Before(s.ChangedAt) {
		due = s.ChangedAt
	}
	return tasks.RunAgain(due.Add(webhook.MaxPausedWait)), nil
}

const (
	earliestSQL = `select next_attempt_at from webhook_deliveries d where endpoint_id = $1 and status = 'pending'
		and not exists (select from webhook_begun b where b.endpoint_id = d.endpoint_id and b.delivery_id = d.id)
		order by next_attempt_at limit 1`
	waitingSQL = `select id from webhook_deliveries where endpoint_id = $1 and status = 'pending' and next_attempt_at <= $2
		order by next_attempt_at limit $3`
	leftOverSQL = `select b.delivery_id, b.number, b.begun_at, d.event_id, d.test or d.replays > 0
		from webhook_begun b join webhook_deliveries d on d.id = b.delivery_id where b.endpoint_id = $1`
	purgeSQL = `with gone as (delete from webhook_deliveries where id = any(array(
			select id from webhook_deliveries where endpoint_id = $1 limit 5000)) returning event_id)
		select count(*) from gone`
	purgeBegunSQL    = `delete from webhook_begun where endpoint_id = $1`
	purgeRatesSQL    = `delete from webhook_rates where endpoint_id = $1`
	purgeEndpointSQL = `delete from webhook_endpoints where endpoint_id = $1`
)

// earliest is when the first pending delivery is due that is not under way.
func (w *Webhooks) earliest(ctx context.Context, id string) (due time.Time, found bool, err error) {
	var q pgx.Batch
	q.Queue(earliestSQL, id).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if len(list) > 0 {
			due, found = list[0], true
		}
		return err
	})
	return due, found, w.byIndex(ctx, &q)
}

// next says when there is something to do for an active endpoint again: a retry, or the end of its failure window.
func (w *Webhooks) next(ctx context.Context, s *standing) (tasks.Result, error) {
	due, found, err := w.earliest(ctx, s.ID)
	if err != nil {
		return tasks.Finished, err
	}
	if end, enough := s.Window.DisableAt(); enough && (!found || end.Before(due)) {
		due, found = end, true
	}
	if !found {
		return tasks.Finished, nil
	}
	return tasks.RunAgain(due), nil
}

// giveUpPage is how many deliveries one event gives up.
const giveUpPage = 500

// giveUp ends the pending deliveries that were due by a time.
func (w *Webhooks) giveUp(ctx context.Context, s *standing, by time.Time, reason string) error {
	for {
		var ids []uuid.UUID
		var q pgx.Batch
		q.Queue(waitingSQL, s.ID, by, giveUpPage).Query(func(rows pgx.Rows) (err error) {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
		if err := w.byIndex(ctx, &q); err != nil || len(ids) == 0 {
			return err
		}
		if err := w.abandon(ctx, s, ids, reason); err != nil {
			return err
		}
	}
}

// abandon gives deliveries up, and returns when they show it.
func (w *Webhooks) abandon(ctx context.Context, s *standing, ids []uuid.UUID, reason string) error {
	told, err := w.app.RecordWebhookResults(ctx, s.Organisation, []commands.WebhookResult{{
		Workspace: s.Workspace, Event: &events.WebhookGivenUp{EndpointID: s.ID, DeliveryIDs: ids, Reason: reason},
	}})
	if err != nil {
		return err
	}
	return w.store.ReachedBy(ctx, told.Shard, told.Position, projections.DeliveriesBy)
}

// leftOver is an attempt that another worker has begun and not told the outcome of.
type leftOver struct {
	DeliveryID uuid.UUID
	Number     int
	At         time.Time
	EventID    uuid.UUID
	Single     bool
}

// interrupted counts attempts that were cut off: whoever had the endpoint before has died, or has lost it. Attempts whose
// outcome is on its way through the consumer are waited for.
func (w *Webhooks) interrupted(ctx context.Context, task tasks.Leased, s *standing) error {
	for try := range 2 {
		rows, err := w.ledger.Pool().Query(ctx, leftOverSQL, s.ID)
		if err != nil {
			return fmt.Errorf("processes: begun attempts: %w", err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[leftOver])
		if err != nil {
			return fmt.Errorf("processes: begun attempts: %w", err)
		}
		if len(list) == 0 {
			return nil
		}
		if try == 0 {
			if err := w.store.CurrentOf(ctx, task.Shard, projections.DeliveriesBy); err != nil {
				return err
			}
			continue
		}
		told := &events.WebhookAttempted{EndpointID: s.ID}
		for _, l := range list {
			told.Attempts = append(told.Attempts, w.cutOff(l))
		}
		result, err := w.app.RecordWebhookResults(ctx, s.Organisation, []commands.WebhookResult{{Workspace: s.Workspace, Event: told}})
		if err != nil {
			return err
		}
		return w.store.ReachedBy(ctx, result.Shard, result.Position, projections.DeliveriesBy)
	}
	return nil
}

// cutOff is an attempt whose outcome nobody knows. It is made up for at once, within the number of attempts.
func (w *Webhooks) cutOff(l leftOver) events.WebhookAttempt {
	a := events.WebhookAttempt{
		DeliveryID: l.DeliveryID, EventID: l.EventID, Number: l.Number, At: l.At, Error: webhook.ErrorInterrupted, Uncounted: true,
	}
	if now := w.clock.Now(); !l.Single && l.Number < webhook.MaxAttempts {
		a.Next = &now
	}
	return a
}

// purge removes what is left of a deleted endpoint.
func (w *Webhooks) purge(ctx context.Context, id string) error {
	for {
		var n int
		var q pgx.Batch
		q.Queue(purgeSQL, id).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		if err := w.byIndex(ctx, &q); err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		for _, sql := range []string{purgeBegunSQL, purgeRatesSQL, purgeEndpointSQL} {
			if _, err := w.ledger.Pool().Exec(ctx, sql, id); err != nil {
				return fmt.Errorf("processes: remove endpoint: %w", err)
			}
		}
		return nil
	}
}
