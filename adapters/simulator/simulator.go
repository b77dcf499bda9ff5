// Package simulator is the carrier of sandbox lines and of the dev mode: numbers behave as decisions section 14 scripts
// them. It stands for an outside system. What it has taken it remembers in tables of its own, so that it goes on where it
// was when its process is killed, and it sends whatever it is given: a message that is sent twice arrives twice, is
// counted, and shows.
package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/clock"
	"ledgerline/processes/carrier"
)

// AEAD seals the numbers and texts that scripts need later. A tink.AEAD is one.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Config says what a simulator needs. Zero values are filled in where a default is stated.
type Config struct {
	Pool   *pgxpool.Pool // one connection is held while reports are under way
	AEAD   AEAD
	Clock  clock.Clock   // by which scripts run
	Inbox  carrier.Inbox // takes receipts and replies
	Logger *slog.Logger  // default: slog.Default()

	// Passive leaves the scripts of what was taken to the simulators of other nodes.
	Passive bool
	Reports int           // to the Inbox at once; default 64
	Poll    time.Duration // real time; the net under wake-ups; default 5 s
}

// Simulator implements carrier.Carrier. It is safe for concurrent use, and several may run on the same database.
type Simulator struct {
	cfg    Config
	queue  chan *call
	wake   chan struct{}
	closed chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup
}

var _ carrier.Carrier = (*Simulator)(nil)

// Open starts a simulator, which goes on with the scripts that it finds. Close it with Close.
func Open(cfg Config) (*Simulator, error) {
	if cfg.Pool == nil || cfg.AEAD == nil || cfg.Clock == nil || cfg.Inbox == nil {
		return nil, errors.New("simulator: a pool, an AEAD, a clock and an inbox are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Reports <= 0 {
		cfg.Reports = 64
	}
	if cfg.Poll <= 0 {
		cfg.Poll = 5 * time.Second
	}
	run, stop := context.WithCancel(context.Background())
	s := &Simulator{
		cfg: cfg, queue: make(chan *call), wake: make(chan struct{}, 1), closed: make(chan struct{}), stop: stop,
	}
	s.done.Go(func() { s.commit(run) })
	if !cfg.Passive {
		s.done.Go(func() { s.play(run) })
	}
	return s, nil
}

// Close ends the simulator: what it has taken is committed, and reports under way come to their end. It must be called
// once. What Send is called with afterwards is not taken.
func (s *Simulator) Close() {
	close(s.closed)
	s.stop()
	s.done.Wait()
}

// Reachable implements carrier.Carrier.
func (s *Simulator) Reachable(_ context.Context, _ carrier.Line, phone string) (bool, error) {
	return onChat(phone), nil
}

const (
	outcomeSQL = `select carrier_id from simulator.messages where message_id = $1 and channel = $2 and sends > 0`
	sendsSQL   = `select coalesce(sum(sends), 0), coalesce(sum(sends - 1) filter (where sends > 1), 0) from simulator.messages`
	listSQL    = `
select message_id, channel, carrier_id, script, calls, sends, due_at is null and sends > 0
from simulator.messages order by accepted_at, message_id, channel`
)

// Lookup implements carrier.Carrier.
func (s *Simulator) Lookup(ctx context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	var accepted carrier.Accepted
	err := s.cfg.Pool.QueryRow(ctx, outcomeSQL, out.MessageID, out.Channel).Scan(&accepted.CarrierID)
	if errors.Is(err, pgx.ErrNoRows) {
		return carrier.Accepted{}, false, nil
	}
	if err != nil {
		return carrier.Accepted{}, false, fmt.Errorf("simulator: outcome: %w", err)
	}
	return accepted, true, nil
}

// Sends counts the calls of Send that were taken, on all nodes and ever, and how many of them sent a message that had
// been sent before.
func (s *Simulator) Sends(ctx context.Context) (total, duplicates int64, err error) {
	if err := s.cfg.Pool.QueryRow(ctx, sendsSQL).Scan(&total, &duplicates); err != nil {
		return 0, 0, fmt.Errorf("simulator: count sends: %w", err)
	}
	return total, duplicates, nil
}

// Seen is what the simulator knows of a message.
type Seen struct {
	MessageID string
	Channel   string
	CarrierID string
	Script    string
	Calls     int  // of Send, those that were refused for now included
	Sends     int  // those that were taken
	Over      bool // nothing more will be reported
}

// List gives all messages that the simulator has seen, oldest first; those rejected for good are not among them.
func (s *Simulator) List(ctx context.Context) ([]Seen, error) {
	rows, err := s.cfg.Pool.Query(ctx, listSQL)
	if err != nil {
		return nil, fmt.Errorf("simulator: list: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Seen])
	if err != nil {
		return nil, fmt.Errorf("simulator: list: %w", err)
	}
	return list, nil
}
