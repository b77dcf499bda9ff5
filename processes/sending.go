package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

// Sending brings accepted messages to their carriers. A contact is the key: what is for one contact leaves in the order
// in which it was accepted (decisions, section 7). It also watches for receipts that do not come.
//
// The outbox only says which messages are still open; what is true of each is asked of the ledger when its turn comes.
type Sending struct {
	app      *commands.App
	ledger   *eventstore.Ledger
	clock    clock.Clock
	carriers Carriers
	log      *slog.Logger
	send     *Runner
	watch    *Runner
}

const (
	sendingProcess = "sending"
	receiptProcess = "receipt" // one key per message that waits for its first receipt
	// receiptDue is when a message without any receipt is told to miss it (decisions, section 7).
	receiptDue = 24 * time.Hour
	// outboxPage is how many open messages of a contact are read at a time.
	outboxPage = 100
)

// SendingConfig says what the process needs. Carriers are by the name that lines give.
type SendingConfig struct {
	App      *commands.App
	Ledger   *eventstore.Ledger
	Clock    clock.Clock
	Carriers Carriers
	Workers  int           // contacts served at once; default 32
	Lease    time.Duration // of a contact that is served, see RunnerConfig
	Logger   *slog.Logger
}

// NewSending prepares the process. Run it beside a feed that carries its Consumer.
func NewSending(cfg SendingConfig) (*Sending, error) {
	s := &Sending{app: cfg.App, ledger: cfg.Ledger, clock: cfg.Clock, carriers: cfg.Carriers, log: cfg.Logger}
	var err error
	s.send, err = NewRunner(RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: sendingProcess, Work: s.serve, Workers: cfg.Workers, Batch: 2 * cfg.Workers, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.watch, err = NewRunner(RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: receiptProcess, Work: s.miss, Workers: 8, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	return s, err
}

// Run works until ctx ends.
func (s *Sending) Run(ctx context.Context) error {
	watched := make(chan error, 1)
	go func() { watched <- s.watch.Run(ctx) }()
	return errors.Join(s.send.Run(ctx), <-watched)
}

// Name implements feed.Consumer.
func (s *Sending) Name() string { return "process_sending" }

// Types implements feed.Consumer.
func (s *Sending) Types() []string {
	return events.NamesOf((*events.MessageQueued)(nil), (*events.MessageSent)(nil), (*events.MessageDelivered)(nil), (*events.MessageRead)(nil),
		(*events.MessageFailed)(nil), (*events.ContactOptedOut)(nil), (*events.ContactDeleted)(nil),
		(*events.LineProvisioned)(nil), (*events.LineStateChanged)(nil))
}

// Committed implements feed.Consumer.
func (s *Sending) Committed(*feed.Batch) {
	s.send.Wake()
	s.watch.Wake()
}

const (
	openSQL = `insert into sending_outbox (message_id, contact_id, workspace_id, shard, position)
		select * from unnest($1::text[], $2::text[], $3::uuid[], $4::smallint[], $5::bigint[]) on conflict do nothing`
	closeSQL   = `delete from sending_outbox where message_id = any($1)`
	unwatchSQL = `delete from process_todo where process = '` + receiptProcess + `' and key = any($1)`
	// What waits for a line looks again when a line of its workspace changes.
	linesChangedSQL = `update process_todo set due_at = least(due_at, $2), asked_at_position = greatest(asked_at_position, $3)
		where process = '` + sendingProcess + `' and key in (select contact_id from sending_outbox where workspace_id = $1 order by contact_id)`
)

// Write implements feed.Consumer.
func (s *Sending) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	var w outboxChanges
	for i := range recorded {
		w.take(&recorded[i])
	}
	w.queue(b)
	return nil
}

// outboxChanges is the net effect of a batch of events.
type outboxChanges struct {
	opened  []*eventstore.Recorded
	closed  map[string]bool
	heard   map[string]bool // had a receipt, or needs none
	asks    []Ask
	watches map[string]Ask
	lines   map[uuid.UUID]*eventstore.Recorded
}

func (w *outboxChanges) take(r *eventstore.Recorded) {
	if w.closed == nil {
		w.closed, w.heard, w.watches, w.lines = map[string]bool{}, map[string]bool{}, map[string]Ask{}, map[uuid.UUID]*eventstore.Recorded{}
	}
	ask := func(contactID string) {
		w.asks = append(w.asks, Ask{Process: sendingProcess, Key: contactID, Shard: r.Shard, DueAt: r.OccurredAt, Position: r.Position})
	}
	switch e := r.Event.(type) {
	case *events.MessageQueued:
		w.opened = append(w.opened, r)
		ask(e.ContactID)
	case *events.MessageSent:
		w.closed[e.MessageID] = true
		w.watches[e.MessageID] = Ask{Process: receiptProcess, Key: e.MessageID, Shard: r.Shard, DueAt: r.OccurredAt.Add(receiptDue), Position: r.Position}
	case *events.MessageDelivered:
		w.settled(e.MessageID)
	case *events.MessageRead:
		w.settled(e.MessageID)
	case *events.MessageFailed:
		w.settled(e.MessageID)
	case *events.ContactOptedOut:
		ask(e.ContactID)
	case *events.ContactDeleted:
		ask(e.ContactID)
	case *events.LineProvisioned, *events.LineStateChanged:
		w.lines[r.WorkspaceID] = r
	}
}

func (w *outboxChanges) settled(messageID string) {
	w.closed[messageID], w.heard[messageID] = true, true
	delete(w.watches, messageID)
}

func (w *outboxChanges) queue(b *pgx.Batch) {
	var messages, contacts []string
	var workspaces []uuid.UUID
	var shards []int16
	var positions []int64
	for _, r := range w.opened {
		e, ok := r.Event.(*events.MessageQueued)
		if !ok || w.closed[e.MessageID] {
			continue
		}
		messages, contacts, workspaces = append(messages, e.MessageID), append(contacts, e.ContactID), append(workspaces, r.WorkspaceID)
		shards, positions = append(shards, int16(r.Shard)), append(positions, r.Position) //nolint:gosec // at most 1,024 shards
	}
	if len(messages) > 0 {
		b.Queue(openSQL, messages, contacts, workspaces, shards, positions)
	}
	if closed := keys(w.closed); len(closed) > 0 {
		b.Queue(closeSQL, closed)
	}
	if heard := keys(w.heard); len(heard) > 0 {
		b.Queue(unwatchSQL, heard)
	}
	asks := w.asks
	for _, a := range w.watches {
		asks = append(asks, a)
	}
	QueueAsks(b, asks...)
	for workspace, r := range w.lines {
		b.Queue(linesChangedSQL, workspace, r.OccurredAt, r.Position)
	}
}

func keys(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for k := range set {
		list = append(list, k)
	}
	return list
}

const outboxSQL = `select message_id, position from sending_outbox where contact_id = $1 and position > $2 order by position limit $3`

// opened is a message that is still open, and where it was accepted.
type opened struct {
	MessageID string
	Position  int64
}

func (s *Sending) outbox(ctx context.Context, contactID string, after int64) ([]opened, error) {
	rows, err := s.ledger.Pool().Query(ctx, outboxSQL, contactID, after, outboxPage)
	if err != nil {
		return nil, fmt.Errorf("processes: outbox: %w", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[opened])
	if err != nil {
		return nil, fmt.Errorf("processes: outbox: %w", err)
	}
	return open, nil
}

// serve drains one contact's open messages in order.
func (s *Sending) serve(ctx context.Context, task Task) (Outcome, error) {
	open, err := s.outbox(ctx, task.Key, 0)
	if err != nil || len(open) == 0 {
		return Done, err
	}
	c, err := s.app.FindContact(ctx, task.Key)
	gone := fault.Is(err, fault.NotFound)
	if err != nil && !gone {
		return Done, err
	}
	optedOut := !gone && c.Consent == consent.OptedOut
	var next *time.Time
	for len(open) > 0 {
		for _, o := range open {
			t, err := s.bring(ctx, o.MessageID, optedOut)
			if err != nil {
				return Done, err
			}
			if t.Step != commands.Wait {
				continue
			}
			if next == nil || t.Until.Before(*next) {
				next = &t.Until
			}
			if t.Message.Status != message.Scheduled {
				return Again(*next), nil // a hold of the contact or the line, or a retry, keeps the order; a message's own send_at steps aside
			}
		}
		if len(open) < outboxPage {
			break
		}
		if open, err = s.outbox(ctx, task.Key, open[len(open)-1].Position); err != nil {
			return Done, err
		}
	}
	if next != nil {
		return Again(*next), nil
	}
	return Done, nil
}

// bring takes one message as far as it goes now.
func (s *Sending) bring(ctx context.Context, id string, optedOut bool) (commands.Attempt, error) {
	by := s.request(uuid.Nil)
	if optedOut { // also what is scheduled for later ends now, which BeginAttempt would only see when it is due
		m, err := s.app.FindMessage(ctx, id)
		if err == nil && m.Automatic == "" {
			_, _, err = s.app.CancelMessage(ctx, by, id, message.CodeOptedOut, nil)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return commands.Attempt{}, err
		}
	}
	for {
		t, err := s.app.BeginAttempt(ctx, by, id)
		if fault.Is(err, fault.NotFound) {
			return commands.Attempt{}, nil
		}
		if err != nil {
			return t, err
		}
		var outcome commands.AttemptOutcome
		switch t.Step {
		case commands.Done, commands.Wait:
			return t, nil
		case commands.Send:
			if outcome, err = s.hand(ctx, &t); err != nil {
				return t, err // it is unknown whether the carrier has it: the next turn asks
			}
		case commands.Reconcile:
			if outcome, err = s.ask(ctx, &t); err != nil {
				return t, err
			}
		}
		// What the carrier did must be told even if this worker is being stopped.
		if _, _, err := s.app.CompleteAttempt(context.WithoutCancel(ctx), by, id, t.Number, outcome); err != nil {
			return t, err
		}
	}
}

func (s *Sending) request(cause uuid.UUID) commands.Request {
	return commands.Request{Actor: events.Actor{Type: "system", ID: sendingProcess}, Causation: cause}
}

// outgoing is what a message's carrier is told, whenever it is asked about it.
func outgoing(t *commands.Attempt) Outgoing {
	m := &t.Message
	return Outgoing{
		MessageID: m.MessageID, LineID: t.Line.ID, From: m.From, To: m.Content.To, Body: m.Content.Body, Media: m.Content.Media,
		Channel: m.Channel, Automatic: m.Automatic != "", IsTest: m.IsTest,
	}
}

// hand gives the message to the carrier of its line.
func (s *Sending) hand(ctx context.Context, t *commands.Attempt) (commands.AttemptOutcome, error) {
	carrier, err := s.carriers.Of(t.Line.Carrier)
	if err != nil {
		return commands.AttemptOutcome{}, err
	}
	m := &t.Message
	if m.Channel == "chat" {
		reachable, err := carrier.Reachable(ctx, Via{LineID: t.Line.ID, Phone: m.From}, m.Content.To)
		switch {
		case errors.Is(err, ErrCannotTell):
			reachable = true // sending shows it
		case err != nil:
			return commands.AttemptOutcome{Retry: "reachability_unknown"}, nil //nolint:nilerr // nothing was sent: it is tried again
		}
		if !reachable {
			return commands.AttemptOutcome{Failed: &commands.AttemptFailed{Code: message.CodeNotOnChat}}, nil
		}
	}
	accepted, err := carrier.Send(ctx, outgoing(t))
	rejected := (*Rejected)(nil)
	switch {
	case err == nil:
		return commands.AttemptOutcome{Sent: &commands.AttemptSent{CarrierID: accepted.CarrierID}}, nil
	case errors.As(err, &rejected):
		return commands.AttemptOutcome{Failed: &commands.AttemptFailed{Code: rejected.Code}}, nil
	case errors.Is(err, ErrTransient):
		return commands.AttemptOutcome{Retry: "carrier_unavailable"}, nil
	}
	return commands.AttemptOutcome{}, fmt.Errorf("processes: send: %w", err)
}

// ask finds out from the carrier what became of an attempt whose outcome was never told.
func (s *Sending) ask(ctx context.Context, t *commands.Attempt) (commands.AttemptOutcome, error) {
	carrier, err := s.carriers.Of(t.Line.Carrier)
	if err != nil {
		return commands.AttemptOutcome{}, err
	}
	accepted, found, err := carrier.Outcome(ctx, outgoing(t))
	if err != nil {
		return commands.AttemptOutcome{}, fmt.Errorf("processes: reconcile: %w", err)
	}
	if !found {
		return commands.AttemptOutcome{Lost: true}, nil
	}
	return commands.AttemptOutcome{Sent: &commands.AttemptSent{CarrierID: accepted.CarrierID, Reconciled: true}}, nil
}

// miss tells that a message's receipt is missing.
func (s *Sending) miss(ctx context.Context, task Task) (Outcome, error) {
	if s.clock.Now().Before(task.DueAt) {
		return Again(task.DueAt), nil
	}
	_, _, err := s.app.ReceiptMissing(ctx, s.request(uuid.Nil), task.Key)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Done, err
	}
	return Done, nil
}
