package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/domain/rules"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/service"
)

const (
	// The rows that the sending process writes for waiting messages: half of them wait for the end of quiet hours, half
	// for the capacity of a line for new contacts.
	waitOutboxSQL = `insert into sending_outbox (message_id, contact_id, workspace_id, organisation_id, shard, position, deferred)
		select e.data->>'message_id', e.data->>'contact_id', e.workspace_id, e.organisation_id, e.shard, e.position,
			case when e.position % 4 = 1 then 'quiet_hours' else 'line_new_contacts_hour' end from ledger_events e where e.type = 'message.queued'`
	waitTasksSQL = `insert into scheduled_tasks (process, key, shard, due_at, scheduled_at_position)
		select 'sending', o.contact_id, o.shard, case when o.position % 4 = 1 then $1::timestamptz else $2::timestamptz end, o.position from sending_outbox o`
	waitQueueSQL = `insert into capacity_queue (message_id, contact_id, workspace_id, wants_key, wants, not_before, rank)
		select message_id, contact_id, workspace_id, '\x01', $1, '1970-01-01 00:00Z', position from sending_outbox where position % 4 <> 1`
	waitAssignSQL = `insert into scheduled_tasks (process, key, shard, due_at, scheduled_at_position) values ('assign', $1, 0, $2, 0)`
	waitSeenSQL   = `update feed_checkpoints c set position = e.position, event_id = e.id from ledger_heads h join ledger_events e on e.shard = h.shard and e.position = h.position
		where h.shard = c.shard`
	notarizedSQL = `select h.position - coalesce((select max(to_position) from ledger_blocks b where b.shard = h.shard), 0) from ledger_heads h where h.shard = 0`
	walSQL       = `select (pg_current_wal_insert_lsn() - '0/0')::bigint`
)

// measureWaiting measures what as many deferred messages as the ledger of a replay has events cost: when the service
// starts, while it is idle, and while other messages are sent.
func measureWaiting(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All) // registers the consumers of the ledger
	if err != nil {
		return err
	}
	s.Stop()
	if err := s.restart(ctx, b, service.Roles{Write: true}); err != nil {
		return err
	}
	b.say(fmt.Sprintf("writing %d messages that wait", b.Events))
	err = s.insertDeferred(ctx, b)
	s.Stop()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := s.restart(ctx, b, service.All); err != nil {
		return err
	}
	defer s.Stop()
	address, done, err := listen(ctx, s.Handler())
	if err != nil {
		return err
	}
	defer done()
	d := &delivery{bench: b, site: s, address: address}
	b.report(Figure{Measurement: "waiting", What: fmt.Sprintf("start with %d deferred messages", b.Events), Value: time.Since(started).Seconds(), Unit: "s", Goal: "under 10"})
	if err := d.sendOne(ctx, "first"); err != nil {
		return err
	}
	b.report(Figure{Measurement: "waiting", What: "start until a new message has been delivered", Value: time.Since(started).Seconds(), Unit: "s", Goal: "under 10"})
	if err := s.waitForBlocks(ctx); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	if err := b.idle(ctx, "waiting", s.pool, ""); err != nil {
		return err
	}
	const pace = 100
	began := s.Clock.Now()
	if _, err := d.run(ctx, max(b.For, 10*time.Second), pace); err != nil {
		return err
	}
	time.Sleep(time.Second) // until the last messages are delivered
	return d.reportSent(ctx, "waiting", fmt.Sprintf("accepted to sent beside them (%d/s)", pace), began)
}

// restart starts a node that was stopped, in other roles.
func (s *site) restart(ctx context.Context, b *bench, roles service.Roles) (err error) {
	s.Node, err = service.Start(ctx, service.Config{DSN: s.dsn, Keyring: b.ring, Roles: roles, Inside: true, Clock: s.Clock, Logger: s.log})
	if err == nil {
		s.pool = s.Ledger.Pool()
	}
	return err
}

// insertDeferred appends accepted and deferred messages, and writes the rows that the sending process and the read
// models derive from them.
func (s *site) insertDeferred(ctx context.Context, b *bench) error {
	morning := s.Clock.Now().Add(16 * time.Hour).UTC()
	line, hour := "ln_00000000000000000000000001", s.Clock.Now().Add(time.Hour).UTC()
	source := "api"
	var n atomic.Int64
	var writers sync.WaitGroup
	var failure atomic.Pointer[error]
	for range b.Callers {
		writers.Go(func() {
			for i := n.Add(1); i <= int64(b.Events); i = n.Add(1) {
				ref := events.MessageRef{MessageID: fmt.Sprintf("msg_%026d", i), ConversationID: fmt.Sprintf("cnv_%026d", i), ContactID: fmt.Sprintf("ctc_%026d", i)}
				deferred := &events.MessageDeferred{MessageRef: ref, Reason: rules.ReasonQuietHours, Until: &morning}
				if i%2 == 0 {
					deferred = &events.MessageDeferred{MessageRef: ref, Reason: rules.ReasonNewHour, Until: &hour, LineID: &line, Wants: &events.WantedCapacity{LineID: line, NewContact: true}}
				}
				if _, err := s.Ledger.Append(ctx, eventstore.Append{
					Organisation: s.org, Workspace: s.wsp, Actor: events.Actor{Type: "system"}, RequestID: "bench", At: s.Clock.Now(),
					Streams: []eventstore.StreamEvents{{Stream: ref.MessageID, Events: []events.Event{
						&events.MessageQueued{MessageRef: ref, Channel: "chat", Source: &source, Content: events.MessagePersonal{To: fmt.Sprintf("+1415%07d", i), Body: "Your order has shipped."}}, deferred,
					}}},
				}); err != nil {
					failure.Store(&err)
					return
				}
			}
		})
	}
	writers.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	if _, err := readmodel.ReplayAll(ctx, s.Ledger, projections.All(), nil); err != nil {
		return err
	}
	workspace := fmt.Sprintf("%s/%s", s.org, s.wsp)
	wants := fmt.Sprintf(`{"line_id":%q,"new_contact":true}`, line)
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{waitOutboxSQL, nil}, {waitTasksSQL, []any{morning, s.Clock.Now().Add(7 * 24 * time.Hour)}}, {waitQueueSQL, []any{wants}},
		{waitAssignSQL, []any{workspace, hour}}, {waitSeenSQL, nil}, {"vacuum analyze", nil}, {"checkpoint", nil},
	} {
		if _, err := s.pool.Exec(ctx, step.sql, step.args...); err != nil {
			return fmt.Errorf("%s: %w", step.sql, err)
		}
	}
	return nil
}

// sendOne sends a message and waits until it has been delivered.
func (d *delivery) sendOne(ctx context.Context, key string) error {
	c, err := dial(d.address)
	if err != nil {
		return err
	}
	defer func() { _ = c.conn.Close() }()
	body := `{"to":"+12125550100","body":"Good morning.","external_id":"` + key + `"}`
	if err := c.post("/v1/messages", d.site.secret, key, body); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var delivered bool
		err := d.site.pool.QueryRow(ctx, `select exists (select from read.messages where workspace_id = $1 and external_id = $2 and delivered_at is not null)`, d.site.wsp, key).Scan(&delivered)
		if err != nil || delivered {
			return err
		}
		sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
	}
	return fmt.Errorf("the message %q was not delivered within a minute", key)
}

// waitForBlocks waits until the notary has closed the blocks of all events.
func (s *site) waitForBlocks(ctx context.Context) error {
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); {
		var behind int64
		if err := s.pool.QueryRow(ctx, notarizedSQL).Scan(&behind); err != nil || behind == 0 {
			return err
		}
		sleepUntil(ctx, time.Now().Add(100*time.Millisecond))
	}
	return errors.New("the notary did not come to an end")
}

// idle measures the processor time of a node and its server that have nothing to do.
func (b *bench) idle(ctx context.Context, measurement string, pool interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, goal string) error {
	var walBefore, walAfter int64
	if err := pool.QueryRow(ctx, walSQL).Scan(&walBefore); err != nil {
		return err
	}
	nodeBefore, serverBefore := cpu(os.Getpid()), b.serverCPU()
	started := time.Now()
	time.Sleep(max(b.For, 10*time.Second))
	took := time.Since(started)
	node, server := cpu(os.Getpid())-nodeBefore, b.serverCPU()-serverBefore
	if err := pool.QueryRow(ctx, walSQL).Scan(&walAfter); err != nil {
		return err
	}
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	b.report(Figure{Measurement: measurement, What: "node, all roles, nothing happening", Value: share(node), Unit: "% of core", Goal: goal})
	b.report(Figure{Measurement: measurement, What: "PostgreSQL", Value: share(server), Unit: "% of core"})
	b.report(Figure{Measurement: measurement, What: "write-ahead log", Value: float64(walAfter-walBefore) / took.Seconds(), Unit: "bytes/s"})
	return nil
}
