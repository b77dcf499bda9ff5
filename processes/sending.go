package processes

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes/tasks"
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
	send     *tasks.Runner
	watch    *tasks.Runner
	release  *tasks.Runner
	wakeups  *tasks.Wakeups
}

const (
	sendingProcess = "sending"
	receiptProcess = "receipt" // one key per message that waits for its first receipt
	// receiptDue is when a message without any receipt is told to miss it (decisions, section 7).
	receiptDue = 24 * time.Hour
	// releaseProcess has one key for each queue for room on lines.
	releaseProcess = "release"
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
	Lease    time.Duration // of a contact that is served, see tasks.RunnerConfig
	Logger   *slog.Logger
}

// NewSending prepares the process. Run it beside a feed that carries its Consumer.
func NewSending(cfg SendingConfig) (*Sending, error) {
	s := &Sending{app: cfg.App, ledger: cfg.Ledger, clock: cfg.Clock, carriers: cfg.Carriers, log: cfg.Logger}
	var err error
	s.send, err = tasks.NewRunner(tasks.RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: sendingProcess, Work: s.serve, Workers: cfg.Workers, Batch: 2 * cfg.Workers, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.watch, err = tasks.NewRunner(tasks.RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: receiptProcess, Work: s.miss, Workers: 8, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.release, err = tasks.NewRunner(tasks.RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: releaseProcess, Work: s.letGo, Workers: 2, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.wakeups = tasks.NewWakeups(s.send, s.watch, s.release)
	return s, nil
}

// Run works until ctx ends.
func (s *Sending) Run(ctx context.Context) error {
	return runAll(ctx, s.send, s.watch, s.release)
}

// Name implements feed.Consumer.
func (s *Sending) Name() string { return "process_sending" }

// Types implements feed.Consumer.
func (s *Sending) Types() []string {
	return events.NamesOf((*events.MessageQueued)(nil), (*events.MessageSent)(nil), (*events.MessageDelivered)(nil), (*events.MessageRead)(nil),
		(*events.MessageFailed)(nil), (*events.MessageFellBack)(nil), (*events.MessageReceived)(nil),
		(*events.MessageDeferred)(nil), (*events.ContactOptedOut)(nil), (*events.ContactUpdated)(nil), (*events.ContactDeleted)(nil),
		(*events.LineProvisioned)(nil), (*events.LineStateChanged)(nil), (*events.LineCarrierConfigured)(nil), (*events.PoolLineAdded)(nil),
		(*events.PoolLineRemoved)(nil), (*events.PoolUpdated)(nil), (*events.SendingLimitsSet)(nil), (*events.ComplianceChanged)(nil), (*events.OrganisationResumed)(nil),
		(*events.IdentityUpdated)(nil))
}

// Committed implements feed.Consumer.
func (s *Sending) Committed(b *feed.Batch) { s.wakeups.Send(b.Shard) }

// miss tells that a message's receipt is missing.
func (s *Sending) miss(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	if s.clock.Now().Before(task.DueAt) {
		return tasks.RunAgain(task.DueAt), nil
	}
	m, _, err := s.app.Sending.ReceiptMissing(ctx, s.request(uuid.Nil), task.Key)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return tasks.Finished, err
	}
	if due := m.SentAt.Add(receiptDue); m.Status == message.Sent && due.After(s.clock.Now()) { // it went on by SMS since
		return tasks.RunAgain(due), nil
	}
	return tasks.Finished, nil
}
