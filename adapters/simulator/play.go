package simulator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"ledgerline/processes/carrier"
)

const (
	// maxSteps is how many messages one transaction handles.
	maxSteps = 500
	// reportTimeout bounds one report to the Inbox.
	reportTimeout = 10 * time.Second
	// maxFailures is the number of failed reports in a row after which a script is given up. With the pauses, this takes
	// at least 45 min.
	maxFailures = 50
)

const (
	// stepsSQL locks the messages until their steps are stored. When the process dies, the locks are released at once.
	stepsSQL = `
select message_id, channel, carrier_id, script, accepted_at, step, failures, sealed from simulator.messages
where due_at <= $1 and due_at is not null and sends > 0 and (retry_at is null or retry_at <= now())
order by due_at limit $2 for update skip locked`
	nextSQL = `
select due_at from simulator.messages
where due_at > $1 and due_at is not null and sends > 0 order by due_at limit 1`
	advanceSQL = `select simulator.advance($1, $2, $3, $4, $5, $6, $7)`
)

// dueMessage is a message whose next step is due.
type dueMessage struct {
	MessageID  string
	Channel    string
	CarrierID  string
	Script     string
	AcceptedAt time.Time
	Step       int
	Failures   int
	Sealed     []byte
}

// play reports the steps of scripts when they are due, until ctx ends.
func (s *Simulator) play(ctx context.Context) {
	poll := time.NewTimer(s.cfg.Poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		var due <-chan time.Time
		stopDue := func() {}
		wait := s.cfg.Poll
		messages, failures, next, err := s.steps(ctx)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				s.cfg.Logger.Warn("simulator: due steps were not made", "error", err)
			}
			wait = min(wait, time.Second)
		case messages == maxSteps: // there may be more
			continue
		case failures > 0:
			wait = min(wait, time.Second)
		}
		if next != nil {
			due, stopDue = s.cfg.Clock.Timer(*next)
		}
		poll.Reset(wait)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-due:
		case <-poll.C:
		}
		stopDue()
	}
}

// steps reports the due steps of a batch of messages. It returns how many messages there were, how many reports failed,
// and when the next step is due; nil when no later one is known.
func (s *Simulator) steps(ctx context.Context) (messages, failures int, next *time.Time, err error) {
	now := s.cfg.Clock.Now()
	err = pgx.BeginFunc(context.WithoutCancel(ctx), s.cfg.Pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, stepsSQL, now, maxSteps)
		if err != nil {
			return err
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dueMessage])
		if err != nil {
			return err
		}
		messages = len(list)
		if messages > 0 {
			failures, err = s.report(ctx, tx, list, now)
			if err != nil {
				return err
			}
		}
		var due time.Time
		switch err := tx.QueryRow(context.WithoutCancel(ctx), nextSQL, now).Scan(&due); {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		next = &due
		return nil
	})
	if err != nil {
		return 0, 0, nil, fmt.Errorf("simulator: steps: %w", err)
	}
	return messages, failures, next, nil
}

// report reports the due steps of messages, several messages at a time, and stores how far each script has come.
func (s *Simulator) report(ctx context.Context, tx pgx.Tx, list []dueMessage, now time.Time) (failures int, err error) {
	errs := make([]error, len(list))
	var group errgroup.Group
	group.SetLimit(s.cfg.Reports)
	for i := range list {
		group.Go(func() error {
			errs[i] = s.reportMessage(ctx, &list[i], now)
			return nil
		})
	}
	_ = group.Wait()
	var (
		ids, channels []string
		steps         []int16
		dues          []*time.Time
		keep          []bool
		failed        []int
		pauses        []*time.Duration
	)
	for i, p := range list {
		sc := scriptNamed(p.Script)
		due := sc.next(p.Step, p.AcceptedAt)
		var pause *time.Duration
		if errs[i] != nil && ctx.Err() == nil {
			failures++
			p.Failures++
			in := min(time.Second<<min(p.Failures-1, 10), time.Minute)
			pause = &in
			s.cfg.Logger.Warn("simulator: a report was refused", "message_id", p.MessageID, "failures", p.Failures, "error", errs[i])
			if p.Failures >= maxFailures {
				due = nil
			}
		}
		ids, channels, steps = append(ids, p.MessageID), append(channels, p.Channel), append(steps, int16(p.Step)) //nolint:gosec // scripts are short
		dues, keep = append(dues, due), append(keep, due != nil && sc.repliesFrom(p.Step))
		failed, pauses = append(failed, p.Failures), append(pauses, pause)
	}
	// This must not fail because ctx has ended: otherwise the reports would be made again.
	_, err = tx.Exec(context.WithoutCancel(ctx), advanceSQL, ids, channels, steps, dues, keep, failed, pauses)
	return failures, err
}

// reportMessage reports the due steps of a message in order, and counts them in p.
func (s *Simulator) reportMessage(ctx context.Context, p *dueMessage, now time.Time) error {
	sc := scriptNamed(p.Script)
	for due := sc.next(p.Step, p.AcceptedAt); due != nil && !due.After(now); due = sc.next(p.Step, p.AcceptedAt) {
		if err := s.reportStep(ctx, p, sc.steps[p.Step], *due); err != nil {
			return err
		}
		p.Step++
		p.Failures = 0
	}
	return nil
}

func (s *Simulator) reportStep(ctx context.Context, p *dueMessage, st step, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if !st.replies() {
		return s.cfg.Inbox.Receipt(ctx, carrier.Receipt{MessageID: p.MessageID, CarrierID: p.CarrierID, Kind: st.receipt, Code: st.code, At: at})
	}
	sent, err := s.open(p.MessageID, p.Sealed)
	if err != nil {
		return err
	}
	in := carrier.Inbound{
		CarrierID: p.CarrierID + "_reply", // the same when it is reported again
		LinePhone: sent.Line, From: sent.Contact, Channel: sent.Channel, Body: st.reply,
	}
	if st.echo {
		in.Body, in.Media = sent.Body, sent.Media
	}
	_, err = s.cfg.Inbox.Message(ctx, in)
	return err
}
