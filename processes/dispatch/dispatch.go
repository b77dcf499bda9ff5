// Package dispatch brings accepted messages to their carriers. It is the process behind the rules of sending
// (docs/reference/sending.md); docs/sending-internals.md draws how its parts work together.
//
// The consumer (outbox.go) follows the ledger and writes three things with its checkpoint: the outbox, with the
// messages that still have to be brought to a carrier; the capacity queue, with those of them that wait for the
// capacity of lines; and scheduled tasks:
//
//   - "sending", one task for each contact: takes the contact's open messages in the order in which they were accepted,
//     evaluates the rules, and calls the carrier (deliver.go);
//   - "sending_sms", one task for each contact: the same for messages that go by an SMS connection. They have tasks and
//     workers of their own, so that an SMS provider that is slow or down delays no chat message;
//   - "assign", one task for each workspace: gives free capacity to the entries of the queue, first come first served
//     (assign.go);
//   - "receipt", one task for each sent message: records that no receipt came within 24 hours.
//
// The rows only tell the tasks which messages to look at. The state of a message is loaded from the ledger when its
// task runs.
package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes"
	"ledgerline/processes/carrier"
	"ledgerline/processes/peers"
	"ledgerline/processes/recovery"
	"ledgerline/processes/tasks"
)

// The processes of the scheduled tasks.
const (
	sendingProcess = "sending"     // key: contact id
	smsProcess     = "sending_sms" // key: contact id; messages that go by an SMS connection
	assignProcess  = "assign"      // key: organisation id/workspace id
	receiptProcess = "receipt"     // key: message id
)

// smsWorkers is how many contacts get SMS at the same time.
const smsWorkers = 16

// outboxPage is how many open messages of a contact are read at a time.
const outboxPage = 100

// Config configures the process.
type Config struct {
	processes.Config
	Carriers processes.Carriers
	SMS      carrier.Carrier       // sends the messages of SMS connections
	Workers  int                   // contacts whose messages are sent at the same time; default 32
	Metrics  prometheus.Registerer // nil: no metrics
}

// Process sends messages. It implements processes.Process.
type Process struct {
	app      *commands.App
	ledger   *eventstore.Ledger
	clock    clock.Clock
	carriers processes.Carriers
	sms      carrier.Carrier
	log      *slog.Logger
	runners  []*tasks.Runner
	wakeups  *tasks.Wakeups
	servers  *peers.Peers // the carriers' servers, by line

	recovery atomic.Pointer[recovery.State] // the latest one, nil if there was none

	assignFailures prometheus.Counter
}

// New prepares the process.
func New(cfg Config) (*Process, error) {
	p := &Process{app: cfg.App, ledger: cfg.Ledger, clock: cfg.Clock, carriers: cfg.Carriers, sms: cfg.SMS, log: cfg.Logger}
	if p.log == nil {
		p.log = slog.Default()
	}
	p.servers = cfg.NewPeers(peers.Config{Kind: "carrier"})
	p.assignFailures = newAssignFailures()
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(p.assignFailures); err != nil {
			return nil, fmt.Errorf("dispatch: metrics: %w", err)
		}
	}
	var err error
	p.runners, p.wakeups, err = cfg.NewRunners(
		tasks.RunnerConfig{Process: sendingProcess, Work: p.deliver, Workers: cfg.Workers, Batch: 2 * cfg.Workers},
		tasks.RunnerConfig{Process: smsProcess, Work: p.deliverSMS, Workers: smsWorkers, Batch: 2 * smsWorkers},
		tasks.RunnerConfig{Process: assignProcess, Work: p.assign, Workers: 2},
		tasks.RunnerConfig{Process: receiptProcess, Work: p.recordMissingReceipt, Workers: 8},
	)
	return p, err
}

func newAssignFailures() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerline_assign_failures_total", Help: "Evaluations of messages waiting for capacity that failed with an error.",
	})
}

// Run runs the due tasks until ctx ends.
func (p *Process) Run(ctx context.Context) error {
	if err := p.readRecovery(ctx); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { p.watchRecovery(watching) })
	err := tasks.RunAll(ctx, p.runners...)
	stop()
	watch.Wait()
	return err
}

// Name implements feed.Consumer.
func (*Process) Name() string { return "process_sending" }

// Types implements feed.Consumer.
func (*Process) Types() []string { return handlers.Types() }

// Committed implements feed.Consumer.
func (p *Process) Committed(b *feed.Batch) { p.wakeups.Send(b.Shard) }

// request is the process as the actor of a command.
func request(process string) engine.Request {
	return engine.Request{Actor: events.Actor{Type: "system", ID: process}}
}

// recordMissingReceipt records that a sent message has had no receipt for 24 hours (rule SND-37).
func (p *Process) recordMissingReceipt(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	if p.clock.Now().Before(task.DueAt) {
		return tasks.RunAgain(task.DueAt), nil
	}
	m, _, err := p.app.Sending.RecordReceiptMissing(ctx, request(sendingProcess), task.Key)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return tasks.Finished, err
	}
	due := m.SentAt.Add(message.ReceiptTimeout)
	if m.Status == message.Sent && due.After(p.clock.Now()) { // the message was sent again meanwhile, by SMS
		return tasks.RunAgain(due), nil
	}
	return tasks.Finished, nil
}

// workspaceKey is the key of the assign task of a workspace.
func workspaceKey(organisation, workspace uuid.UUID) string {
	return organisation.String() + "/" + workspace.String()
}

// farAhead is later than any due time.
var farAhead = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
