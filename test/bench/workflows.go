package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/workflow"
	"ledgerline/service"
)

const (
	// liveWorkflows is how many workflows of a workspace have keywords while messages come in.
	liveWorkflows = 200
	// segmentContacts is the largest segment that a schedule starts runs for.
	segmentContacts = 100_000
)

const (
	activeRunsSQL = `select count(*) from workflow_active_runs`
	startedSQL    = `select count(*) from ledger_events where type = 'run.started'`
	finishedSQL   = `select count(*) from ledger_events where type = 'run.finished'`
	// Rows of runs that wait until the year 2100, as the consumer writes them.
	restingRunsSQL = `insert into workflow_active_runs (run_id, workflow_id, contact_id, shard, started_position, resume_at)
		select gen_random_uuid(), $1, 'ctc_resting' || n, 0, 0, '2100-01-01' from generate_series(1, $2::integer) n`
	restingTasksSQL = `insert into scheduled_tasks (process, key, shard, due_at, scheduled_at_position)
		select 'workflow_runs', run_id::text, 0, resume_at, 0 from workflow_active_runs where resume_at = '2100-01-01' order by run_id::text collate "C"`
)

// measureWorkflows measures what live workflows cost an inbound message, how fast a schedule starts its runs, what
// waiting runs cost at rest, and how fast runs that are due at the same moment are taken up.
func measureWorkflows(ctx context.Context, b *bench) error {
	if err := b.measureTriggers(ctx); err != nil {
		return err
	}
	raw, how, err := b.singleRowInserts(ctx)
	if err != nil {
		return err
	}
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	count := min(b.Events, segmentContacts)
	id, err := s.scheduled(ctx, b, count)
	if err != nil {
		return err
	}
	node, server := cpu(os.Getpid()), b.serverCPU()
	took, err := s.until(ctx, startedSQL, count, 2*time.Hour)
	if err != nil {
		return err
	}
	node, server = cpu(os.Getpid())-node, b.serverCPU()-server
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(count) }
	b.report(Figure{Measurement: "workflows", What: fmt.Sprintf("a schedule starts runs for %d contacts", count), Value: float64(count) / took.Seconds(), Unit: "runs/s", Goal: "1000"})
	b.report(Figure{Measurement: "workflows", What: "processor time of a start and its first steps, node / all", Value: each(node), Unit: "µs"})
	b.report(Figure{Measurement: "workflows", What: "the same, PostgreSQL", Value: each(server), Unit: "µs"})
	if _, err := s.until(ctx, `select count(*) from workflow_active_runs where resume_at is not null`, count, 0); err != nil {
		return err
	}
	if err := s.rest(ctx, b, id, max(b.Events-count, 0)); err != nil {
		return err
	}
	return s.drainRuns(ctx, b, count, raw, how)
}

// measureTriggers receives messages without workflows and with liveWorkflows of them.
func (b *bench) measureTriggers(ctx context.Context) error {
	rates, costs := [2]float64{}, [2]float64{}
	for i := range rates {
		s, err := b.site(ctx, service.All)
		if err != nil {
			return err
		}
		for n := range liveWorkflows * i {
			config := map[string]any{"keywords": []any{fmt.Sprintf("word%d", n), fmt.Sprintf("two words %d", n)}, "match": "contains"}
			if _, err := s.publish(ctx, workflow.Draft{Trigger: string(workflow.MessageReceived), TriggerConfig: config, Graph: triggerOnly()}); err != nil {
				s.Stop()
				return err
			}
		}
		var n atomic.Int64
		node, server := cpu(os.Getpid()), b.serverCPU()
		began := time.Now()
		rates[i], err = during(ctx, max(b.For, 10*time.Second), b.Callers, func(ctx context.Context) error {
			from := n.Add(1)
			_, err := s.App.ReceiveMessage(ctx, commands.Request{}, commands.InboundMessage{
				LinePhone: "+12125551000", From: fmt.Sprintf("+1415%07d", 2_000_000+from%5000), Body: "Hello, I would like to know when my order number 12345 arrives, thank you very much",
			})
			return err
		})
		if err != nil {
			s.Stop()
			return err
		}
		if err := s.waitForConsumers(ctx); err != nil {
			s.Stop()
			return err
		}
		used := cpu(os.Getpid()) - node + b.serverCPU() - server
		costs[i] = float64(used.Microseconds()) / float64(n.Load())
		b.say(fmt.Sprintf("%d messages in %s", n.Load(), time.Since(began)))
		s.Stop()
	}
	b.report(Figure{Measurement: "workflows", What: fmt.Sprintf("inbound messages with %d live workflows, against none", liveWorkflows), Value: rates[1], Unit: "messages/s", Baseline: rates[0]})
	b.report(Figure{Measurement: "workflows", What: "the same, processor time of a message, everything on", Value: costs[1], Unit: "µs", Baseline: costs[0], Goal: "under 1.05"})
	return nil
}

// waitForConsumers waits until all consumers have applied the ledger.
func (s *site) waitForConsumers(ctx context.Context) error {
	for {
		behind := int64(0)
		for _, at := range s.Runner.Lag() {
			behind = max(behind, at.Behind)
		}
		if behind == 0 {
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) {
			return ctx.Err()
		}
	}
}

func triggerOnly() workflow.Graph {
	return workflow.Graph{Nodes: []workflow.Node{{ID: "start", Type: workflow.NodeTrigger}}}
}

// publish makes a workflow live and returns its id.
func (s *site) publish(ctx context.Context, d workflow.Draft) (uuid.UUID, error) {
	made, err := s.App.CreateWorkflow(ctx, s.request(), "bench", d)
	if err != nil {
		return uuid.Nil, err
	}
	id := uuid.MustParse(made.Ref)
	_, err = s.App.PublishWorkflow(ctx, s.request(), id)
	return id, err
}

// scheduled creates contacts and a workflow whose schedule has all of them, and moves the clock to its time.
func (s *site) scheduled(ctx context.Context, b *bench, count int) (uuid.UUID, error) {
	b.say(fmt.Sprintf("creating %d contacts", count))
	var n atomic.Int64
	var failure atomic.Pointer[error]
	var creating sync.WaitGroup
	for range b.Callers {
		creating.Go(func() {
			for i := n.Add(1); i <= int64(count) && failure.Load() == nil; i = n.Add(1) {
				if _, err := s.App.CreateContact(ctx, s.request(), commands.CreateContact{Phone: fmt.Sprintf("+1415%07d", 2_000_000+i)}); err != nil {
					failure.Store(&err)
				}
			}
		})
	}
	creating.Wait()
	if err := failure.Load(); err != nil {
		return uuid.Nil, *err
	}
	segment, err := s.App.CreateSegment(ctx, s.request(), "all", map[string]any{"field": "phone", "op": "exists", "value": true})
	if err != nil {
		return uuid.Nil, err
	}
	at := s.Clock.Now().Add(time.Hour)
	id, err := s.publish(ctx, workflow.Draft{
		Trigger: string(workflow.OnSchedule), TriggerConfig: map[string]any{"at": at.Format(time.RFC3339), "segment_id": segment.Ref},
		Graph: workflow.Graph{
			Nodes: []workflow.Node{
				{ID: "start", Type: workflow.NodeTrigger}, {ID: "pause", Type: workflow.NodeWait, Config: map[string]any{"duration": "P1D"}},
				{ID: "tell", Type: workflow.NodeWebhook, Config: map[string]any{"name": "bench"}},
			},
			Edges: []workflow.Edge{{From: "start", To: "pause"}, {From: "pause", To: "tell"}},
		},
	})
	if err != nil {
		return uuid.Nil, err
	}
	if err := s.waitForConsumers(ctx); err != nil {
		return uuid.Nil, err
	}
	return id, s.advance(2 * time.Hour)
}

func (s *site) advance(d time.Duration) error {
	movable, ok := s.Clock.(*clock.Movable)
	if !ok {
		return errors.New("bench: the clock cannot be moved")
	}
	_, err := movable.Advance(d)
	return err
}

// until waits until a count has reached a number, and returns how long that took. A longest of 0 is ten minutes.
func (s *site) until(ctx context.Context, sql string, want int, longest time.Duration) (time.Duration, error) {
	if longest == 0 {
		longest = 10 * time.Minute
	}
	started := time.Now()
	for {
		var count int
		if err := s.pool.QueryRow(ctx, sql).Scan(&count); err != nil {
			return 0, err
		}
		if count >= want {
			return time.Since(started), nil
		}
		if time.Since(started) > longest {
			return 0, fmt.Errorf("bench: %d of %d after %s", count, want, longest)
		}
		if !sleepUntil(ctx, time.Now().Add(200*time.Millisecond)) {
			return 0, ctx.Err()
		}
	}
}

// rest measures what waiting runs cost while nothing happens, with more of them in the tables.
func (s *site) rest(ctx context.Context, b *bench, id uuid.UUID, more int) error {
	for _, step := range []struct {
		sql  string
		args []any
	}{{restingRunsSQL, []any{id, more}}, {restingTasksSQL, nil}, {"vacuum analyze", nil}, {"checkpoint", nil}} {
		if _, err := s.pool.Exec(ctx, step.sql, step.args...); err != nil {
			return err
		}
	}
	var waiting int
	if err := s.pool.QueryRow(ctx, activeRunsSQL).Scan(&waiting); err != nil {
		return err
	}
	if err := s.waitForBlocks(ctx); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	b.report(Figure{Measurement: "workflows", What: "runs that wait while nothing happens", Value: float64(waiting), Unit: ""})
	return b.idle(ctx, "workflows", s.pool, "")
}

// drainRuns makes all runs due at the same moment, while messages are accepted at a steady pace.
func (s *site) drainRuns(ctx context.Context, b *bench, count int, raw float64, how string) error {
	address, done, err := listen(ctx, s.Handler())
	if err != nil {
		return err
	}
	defer done()
	var sent atomic.Int64
	alone, err := s.sends(ctx, address, b.Callers, max(b.For, 10*time.Second), &sent)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	var meanwhile []time.Duration
	var failed error
	var sender sync.WaitGroup
	sender.Go(func() { meanwhile, failed = s.sends(run, address, b.Callers, time.Hour, &sent) })
	if err := s.advance(25 * time.Hour); err != nil {
		stop()
		return err
	}
	took, err := s.until(ctx, finishedSQL, count, time.Hour)
	stop()
	sender.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	var steps int
	if err := s.pool.QueryRow(ctx, `select count(*) from ledger_events where type = 'run.step_completed' and data->>'node_id' <> 'start'`).Scan(&steps); err != nil {
		return err
	}
	b.report(Figure{Measurement: "workflows", What: fmt.Sprintf("%d runs due at once, until all have ended", count), Value: took.Seconds(), Unit: "s"})
	b.report(Figure{
		Measurement: "workflows", What: "steps meanwhile, 100 messages/s beside them, against " + how, Value: float64(steps) / took.Seconds(), Unit: "steps/s", Baseline: raw,
		Goal: "at least 0.25",
	})
	for _, p := range []float64{0.5, 0.99} {
		b.report(Figure{Measurement: "workflows", What: fmt.Sprintf("p%.0f of POST /v1/messages meanwhile, against the same before", 100*p), Value: percentile(meanwhile, p), Unit: "ms", Baseline: percentile(alone, p)})
	}
	return nil
}
