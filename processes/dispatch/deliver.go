package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/processes/carrier"
	"ledgerline/processes/peers"
	"ledgerline/processes/tasks"
)

const outboxSQL = `select o.message_id, o.position, o.automatic, o.outreach, o.cancel, o.workspace_id, coalesce(o.line_id, ''),
		exists (select from capacity_queue q where q.workspace_id = o.workspace_id) as queued
	from sending_outbox o where o.contact_id = $1 and o.position > $2 and o.by_sms = $4 order by o.position limit $3`

// openMessage is a message that still has to be brought to a carrier.
type openMessage struct {
	MessageID   string
	Position    int64 // of the event that accepted it
	Automatic   bool
	Outreach    bool    // a message of an outreach
	Cancel      *string // the error code with which the message is to fail
	WorkspaceID uuid.UUID
	LineID      string // "" until the message was routed
	QueueInUse  bool   // the capacity queue of the workspace has entries
}

func (p *Process) outbox(ctx context.Context, contactID string, after int64, bySMS bool) ([]openMessage, error) {
	rows, err := p.ledger.Pool().Query(ctx, outboxSQL, contactID, after, outboxPage, bySMS)
	if err != nil {
		return nil, fmt.Errorf("dispatch: outbox: %w", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[openMessage])
	if err != nil {
		return nil, fmt.Errorf("dispatch: outbox: %w", err)
	}
	return open, nil
}

// contactRun is one run of a contact's task.
type contactRun struct {
	bySMS   bool       // of the messages that go by an SMS connection
	next    *time.Time // when the task runs again
	blocked bool       // a message cannot leave: only automatic texts pass it
	// outreachBlocked: a message of an outreach has no line yet. Messages of outreaches wait behind it, all others pass
	// it: they go before outreach where both wait for the same capacity (rule SND-21).
	outreachBlocked bool
	behind          []string // messages that wait behind another one, and for which that is not recorded yet

	postponed time.Duration // in real time: the server of a line cannot be called; 0 for no
}

// runAgain has the task run again at a time, at the latest; the zero time asks for nothing.
func (r *contactRun) runAgain(at time.Time) {
	if !at.IsZero() && (r.next == nil || at.Before(*r.next)) {
		r.next = &at
	}
}

// deliver takes the open messages of a contact in the order in which they were accepted (rule SND-20).
func (p *Process) deliver(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	return p.deliverTo(ctx, &task, contactRun{})
}

// deliverSMS is deliver for the messages that go by an SMS connection (rule SMS-23).
func (p *Process) deliverSMS(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	return p.deliverTo(ctx, &task, contactRun{bySMS: true})
}

func (p *Process) deliverTo(ctx context.Context, task *tasks.Leased, run contactRun) (tasks.Result, error) {
	for after := int64(0); ; {
		open, err := p.outbox(ctx, task.Key, after, run.bySMS)
		if err != nil {
			return tasks.Finished, err
		}
		for i := range open {
			if err := p.deliverOne(ctx, task, &run, &open[i]); err != nil {
				return tasks.Finished, err
			}
		}
		if err := p.deferBehind(ctx, &run); err != nil {
			return tasks.Finished, err
		}
		if len(open) < outboxPage {
			break
		}
		after = open[len(open)-1].Position
	}
	if run.postponed > 0 {
		return tasks.Postpone(run.postponed), nil
	}
	if run.next != nil {
		return tasks.RunAgain(*run.next), nil
	}
	return tasks.Finished, nil
}

func (p *Process) deliverOne(ctx context.Context, task *tasks.Leased, run *contactRun, o *openMessage) error {
	if o.Cancel != nil {
		_, _, err := p.app.Sending.Cancel(ctx, request(sendingProcess), o.MessageID, *o.Cancel, nil)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	if (run.blocked || run.outreachBlocked && o.Outreach) && !o.Automatic {
		run.behind = append(run.behind, o.MessageID)
		return nil
	}
	t, err := p.attempt(ctx, task, o, run.bySMS)
	if refused := (*peers.Refused)(nil); errors.As(err, &refused) {
		run.postponed = max(run.postponed, refused.Pause)
		run.blocked = run.blocked || !o.Automatic
		return nil
	}
	if err != nil || t.Step != sending.StepWait {
		return err
	}
	if o.Outreach && t.Message.LineID == "" {
		if !t.Until.IsZero() {
			t.Until = t.Until.Add(outreachPause)
		}
		run.runAgain(t.Until)
		run.outreachBlocked = run.outreachBlocked || !t.MayBeOvertaken
		return nil
	}
	run.runAgain(t.Until)
	// An automatic text answers what the contact just wrote: it waits for its line, and no message waits for it.
	run.blocked = run.blocked || !t.MayBeOvertaken && !o.Automatic
	return nil
}

// deferBehind records which messages wait behind another one, and looks up attempts of them without a result.
func (p *Process) deferBehind(ctx context.Context, run *contactRun) error {
	if len(run.behind) == 0 {
		return nil
	}
	due, inFlight, err := p.app.Sending.DeferBehindEarlier(ctx, request(sendingProcess), run.behind)
	run.runAgain(due)
	run.behind = run.behind[:0]
	if err != nil {
		return err
	}
	for _, id := range inFlight {
		err := p.lookUpBehind(ctx, id, run.bySMS)
		if refused := (*peers.Refused)(nil); errors.As(err, &refused) {
			run.postponed = max(run.postponed, refused.Pause)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookUpBehind looks up the attempt of a message that waits behind another one, and begins no new attempt.
func (p *Process) lookUpBehind(ctx context.Context, messageID string, bySMS bool) error {
	by := request(sendingProcess)
	t, err := p.begin(ctx, messageID, nil, bySMS, nil)
	if err != nil || t.Step != sending.StepLookup {
		return err
	}
	access := p.newAccess()
	defer access.release()
	result, err := p.lookUp(ctx, access, nil, &t)
	if err != nil {
		return err
	}
	_, _, err = p.app.Sending.CompleteAttempt(context.WithoutCancel(ctx), by, messageID, t.Number, result)
	return err
}

// begin begins an attempt on the channel of the task.
func (p *Process) begin(ctx context.Context, messageID string, queue sending.Queue, bySMS bool, callable func(*line.Line) bool) (sending.Attempt, error) {
	if bySMS {
		return p.app.Sending.BeginSMSAttempt(ctx, request(sendingProcess), messageID)
	}
	return p.app.Sending.BeginAttempt(ctx, request(sendingProcess), messageID, queue, callable)
}

// attempt takes one message as far as it goes now on the channel of the task. It returns a *peers.Refused when the
// server of the message's line cannot be called.
func (p *Process) attempt(ctx context.Context, task *tasks.Leased, o *openMessage, bySMS bool) (sending.Attempt, error) {
	by := request(sendingProcess)
	queue := &queueView{process: p, workspace: o.WorkspaceID, rank: o.Position, read: !o.QueueInUse}
	if o.Outreach {
		queue.rank += outreachRank
	}
	if o.LineID != "" {
		if err := p.servers.Check(o.LineID); err != nil {
			return sending.Attempt{}, err
		}
	}
	access := p.newAccess()
	defer access.release()
	for {
		if err := p.checkRecovery(); err != nil {
			return sending.Attempt{}, err
		}
		t, err := p.begin(ctx, o.MessageID, queue, bySMS, access.try)
		if fault.Is(err, fault.NotFound) {
			return sending.Attempt{}, nil
		}
		if err != nil {
			return t, err
		}
		var result sending.AttemptResult
		switch t.Step {
		case sending.StepNone, sending.StepWait:
			return t, nil
		case sending.StepBusy:
			if err := access.wait(ctx, &t.Line); err != nil {
				return t, err
			}
			continue
		case sending.StepSend:
			if result, err = p.send(ctx, task, access, o, &t); err != nil {
				return t, err // it is unknown whether the carrier has the message: the next run looks it up
			}
		case sending.StepLookup:
			if result, err = p.lookUp(ctx, access, o, &t); err != nil {
				return t, err
			}
		}
		if result.Failed != nil && result.Failed.Code == sending.SMSOptedOut {
			if err := p.app.OptOutMessage(context.WithoutCancel(ctx), by, o.MessageID, sending.SourceSMSProvider); err != nil {
				return t, err
			}
		}
		// What the carrier did is recorded even when this worker is being stopped.
		after, _, err := p.app.Sending.CompleteAttempt(context.WithoutCancel(ctx), by, o.MessageID, t.Number, result)
		if err != nil || after.Final() || after.ByConnection() != bySMS { // it goes on by SMS, in another task
			return sending.Attempt{}, err
		}
	}
}

// outbound is the message as its carrier gets it, to send it or to look it up.
func outbound(t *sending.Attempt) carrier.Outbound {
	m := &t.Message
	if m.ByConnection() {
		return carrier.Outbound{
			MessageID: m.MessageID, ConnectionID: m.SMS.ConnectionID, From: m.SMS.From, To: m.Content.To, Body: m.SMS.Prefix + m.Content.Body,
			Media: m.Content.Media, Channel: m.Channel, Automatic: m.Automatic != "",
		}
	}
	return carrier.Outbound{
		MessageID: m.MessageID, LineID: t.Line.ID, From: m.FromNumber, To: m.Content.To, Body: m.Content.Body, Media: m.Content.Media,
		Channel: m.Channel, Attempt: t.Number, Automatic: m.Automatic != "", IsTest: m.IsTest,
	}
}

// send hands the message to the carrier of its line. An error means that it is unknown whether the carrier has it.
func (p *Process) send(ctx context.Context, task *tasks.Leased, a *access, o *openMessage, t *sending.Attempt) (sending.AttemptResult, error) {
	via, err := p.carrierOf(t)
	if err != nil {
		return sending.AttemptResult{}, err
	}
	var chat *bool
	if t.Message.Channel == message.Chat {
		reachable, asked, err := p.onChat(ctx, via, t)
		if err != nil {
			a.ended(ctx, err)
			return sending.AttemptResult{Retry: "reachability_unknown"}, nil //nolint:nilerr // nothing was sent: retry
		}
		if asked {
			chat = &reachable
		}
		if !reachable {
			return sending.AttemptResult{Chat: chat, Failed: &sending.RejectedByCarrier{Code: message.CodeNotOnChat}}, nil
		}
	}
	if may, err := p.app.Sending.MayStillSend(ctx, t); err != nil || !may {
		return sending.AttemptResult{Chat: chat, Lost: true}, err
	}
	var accepted carrier.Accepted
	out := outbound(t)
	mayCall := p.mayCall(ctx, task)
	if mayCall == nil && p.forgotten(&out, t.Shard, o) {
		out.Attempt-- // the attempts before this one
		var found bool
		tasks.Outside(ctx, func() { accepted, found, err = via.Lookup(ctx, out) })
		if err != nil {
			a.ended(ctx, err)
			return sending.AttemptResult{}, fmt.Errorf("dispatch: look up: %w", err)
		}
		if found {
			a.ended(ctx, nil)
			return sending.AttemptResult{Chat: chat, Sent: &sending.AcceptedByCarrier{CarrierID: accepted.CarrierID, Reconciled: true}}, nil
		}
		out.Attempt, out.ForgottenSince = t.Number, time.Time{}
		mayCall = p.mayCall(ctx, task)
	}
	switch {
	case errors.Is(mayCall, tasks.ErrLeaseLost): // another worker has the contact, and looks the attempt up
		return sending.AttemptResult{}, mayCall
	case mayCall != nil: // nothing was sent, and the next try meets the same obstacle
		return sending.AttemptResult{Chat: chat, Lost: true}, nil //nolint:nilerr // see above
	}
	tasks.Outside(ctx, func() { accepted, err = via.Send(ctx, out) })
	a.ended(ctx, err)
	rejected, postponed := (*carrier.Rejected)(nil), (*carrier.Postponed)(nil)
	switch {
	case err == nil:
		return sending.AttemptResult{Chat: chat, Sent: &sending.AcceptedByCarrier{CarrierID: accepted.CarrierID, From: accepted.From}}, nil
	case errors.As(err, &postponed):
		return sending.AttemptResult{Chat: chat, Retry: "carrier_unavailable", Pause: postponed.After}, nil
	case errors.As(err, &rejected):
		if rejected.Code == message.CodeNotOnChat {
			off := false
			chat = &off
		}
		return sending.AttemptResult{Chat: chat, Failed: &sending.RejectedByCarrier{Code: rejected.Code}}, nil
	case errors.Is(err, carrier.ErrTransient):
		return sending.AttemptResult{Chat: chat, Retry: "carrier_unavailable"}, nil
	case t.Message.ByConnection() && ctx.Err() == nil: // the next attempt begins with a lookup (rule SMS-20)
		return sending.AttemptResult{Retry: "no_answer"}, nil
	}
	return sending.AttemptResult{}, fmt.Errorf("dispatch: send: %w", err)
}

// carrierOf returns the carrier of a message's line, or the SMS provider.
func (p *Process) carrierOf(t *sending.Attempt) (carrier.Carrier, error) {
	switch {
	case !t.Message.ByConnection():
		return p.carriers.Named(t.Line.Carrier)
	case p.sms == nil:
		return nil, errors.New("dispatch: this node has no SMS provider")
	}
	return p.sms, nil
}

// onChat reports whether the message's number is on the chat channel: from the memory that lookups share, or by asking
// the carrier. With a carrier that cannot tell, the send itself shows it.
func (p *Process) onChat(ctx context.Context, via carrier.Carrier, t *sending.Attempt) (reachable, asked bool, err error) {
	m := &t.Message
	known, found, err := p.app.Sending.Capability(ctx, m.Organisation, m.Content.To)
	if err != nil || found {
		return known.OnChat, false, err
	}
	tasks.Outside(ctx, func() {
		reachable, err = via.Reachable(ctx, carrier.Line{ID: t.Line.ID, Phone: m.FromNumber}, m.Content.To)
	})
	if errors.Is(err, carrier.ErrReachabilityUnknown) {
		return true, false, nil
	}
	return reachable, true, err
}

// lookUp finds out from the carrier what became of an attempt without a result.
func (p *Process) lookUp(ctx context.Context, a *access, o *openMessage, t *sending.Attempt) (sending.AttemptResult, error) {
	via, err := p.carrierOf(t)
	if err != nil {
		return sending.AttemptResult{}, err
	}
	if !t.Message.ByConnection() { // the SMS provider bounds the calls of each connection itself
		if err := a.wait(ctx, &t.Line); err != nil {
			return sending.AttemptResult{}, err
		}
	}
	var accepted carrier.Accepted
	var found bool
	out := outbound(t)
	p.forgotten(&out, t.Shard, o)
	tasks.Outside(ctx, func() { accepted, found, err = via.Lookup(ctx, out) })
	a.ended(ctx, err)
	if err != nil {
		return sending.AttemptResult{}, fmt.Errorf("dispatch: look up: %w", err)
	}
	if !found && t.Message.ByConnection() { // repeated after a pause: a provider that is down would lose one attempt after the other
		return sending.AttemptResult{Retry: "carrier_unavailable"}, nil
	}
	if !found {
		return sending.AttemptResult{Lost: true}, nil
	}
	return sending.AttemptResult{Sent: &sending.AcceptedByCarrier{CarrierID: accepted.CarrierID, From: accepted.From, Reconciled: true}}, nil
}
