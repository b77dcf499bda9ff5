// Package simulator is the carrier of sandbox lines and of the dev mode. What becomes of a message is decided by a
// script, which the last two digits of the recipient's number choose (docs/reference).
//
// It stands for an outside system: it keeps accepted messages in tables of its own and goes on with their scripts after
// its process was killed. It does not recognise messages that it was given before: a message that is sent twice arrives
// twice, and is counted.
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

// AEAD encrypts the numbers and texts that scripts need later. tink.AEAD implements it.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Config configures a Simulator. A zero value is replaced by the default where one is stated.
type Config struct {
	Pool   *pgxpool.Pool // one connection is in use while reports are made
	AEAD   AEAD
	Clock  clock.Clock   // decides when the steps of scripts are due
	Inbox  carrier.Inbox // gets receipts and replies
	Logger *slog.Logger  // default: slog.Default()

	// Passive makes the simulator accept messages and leave their scripts to the simulators of other nodes.
	Passive bool
	Reports int           // reports to the Inbox at the same time; default 64
	Poll    time.Duration // real time; finds due steps without a wake-up; default 5 s
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

// Open starts a simulator. It also runs the scripts that it finds in the database. End it with Close.
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

// Close ends the simulator, after it has committed what it has accepted and made the reports in progress. Call it once.
// Send accepts nothing afterwards.
func (s *Simulator) Close() {
	close(s.closed)
	s.stop()
	s.done.Wait()
}

// CallsPerLine implements carrier.Concurrent: the simulator commits many calls at once.
func (*Simulator) CallsPerLine() int { return 1024 }

// Reachable implements carrier.Carrier.
func (s *Simulator) Reachable(_ context.Context, _ carrier.Line, phone string) (bool, error) {
	return onChat(phone), nil
}

const (
	lookupSQL = `select carrier_id, sends > 0 from simulator.messages where message_id = $1 and channel = $2`
	// giveUpSQL waits for a commit in progress that accepts the message. If the message was not accepted, it never will be
	// by an attempt up to this one, even if its call is still under way on a node that stands still.
	giveUpSQL = `
insert into simulator.messages as m (message_id, channel, carrier_id, script, calls, refuses, sends, accepted_at, given_up)
values ($1, $2, '', '', 0, 0, 0, now(), $3)
on conflict (message_id, channel) do update set
    given_up = case when m.sends = 0 then greatest(m.given_up, excluded.given_up) else m.given_up end
returning carrier_id, sends > 0`
	sendsSQL = `select coalesce(sum(sends), 0), coalesce(sum(sends - 1) filter (where sends > 1), 0) from simulator.messages`
	listSQL  = `
select message_id, channel, carrier_id, script, calls, sends, due_at is null and sends > 0
from simulator.messages where calls > 0 order by accepted_at, message_id, channel`
)

// Lookup implements carrier.Carrier.
func (s *Simulator) Lookup(ctx context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	sql, args := lookupSQL, []any{out.MessageID, out.Channel}
	if out.Attempt > 0 {
		sql, args = giveUpSQL, append(args, out.Attempt)
	}
	var accepted carrier.Accepted
	var found bool
	err := s.cfg.Pool.QueryRow(ctx, sql, args...).Scan(&accepted.CarrierID, &found)
	if errors.Is(err, pgx.ErrNoRows) {
		return carrier.Accepted{}, false, nil
	}
	if err != nil {
		return carrier.Accepted{}, false, fmt.Errorf("simulator: lookup: %w", err)
	}
	if !found {
		return carrier.Accepted{}, false, nil
	}
	return accepted, true, nil
}

// Sends counts the accepted calls of Send, on all nodes since the installation, and how many of them sent a message
// again.
func (s *Simulator) Sends(ctx context.Context) (total, duplicates int64, err error) {
	if err := s.cfg.Pool.QueryRow(ctx, sendsSQL).Scan(&total, &duplicates); err != nil {
		return 0, 0, fmt.Errorf("simulator: count sends: %w", err)
	}
	return total, duplicates, nil
}

// Seen is a message that the simulator has seen.
type Seen struct {
	MessageID string
	Channel   string
	CarrierID string
	Script    string
	Calls     int  // of Send, with those that were refused for now
	Sends     int  // accepted calls of Send
	Over      bool // nothing more is reported
}

// List lists the messages that the simulator has seen, oldest first, without those that it rejected for good.
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
