package model_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/service"
)

func lineState(s string) line.State { return line.State(s) }

func conflict(err error) bool { return fault.Is(err, fault.Conflict) }

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// rare are the situations that every full run must have met.
var rare = []string{
	"kills", "reconciled", "receipts missed", "fallbacks", "opt-outs", "failed contact_opted_out", "failed consent_required",
	"limits changed", "quiet hours changed", "consent required", "organisations paused", "deferred while paused", "rotations changed", "lines moved",
	"by hand", "by identities", "identities changed", "deferred identity_daily_limit", "deferred line_unavailable",
	"erased with a message that waits", "erased with a message in flight", "numbers changed", "canceled for another number",
}

const (
	callers = 24
	bursts  = 4 // a day
)

func TestSendingRulesHoldWithKilledNodesTimeoutsAndAHostileCarrier(t *testing.T) {
	seed := setting(t, "MODEL_SEED", 1)
	messages, days := setting(t, "MODEL_MESSAGES", 5_000), setting(t, "MODEL_DAYS", 9)
	if testing.Short() {
		messages, days = 1_000, 4
	}
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Logf("MODEL_SEED=%d", seed)
			run(t, shards, messages, days, uint64(seed)) //nolint:gosec // a seed
		})
	}
}

// run simulates days: bursts of concurrent requests while the clock jumps and nodes are killed, and a comparison of
// everything with the model after each day.
func run(t *testing.T, shards, messages, days int, seed uint64) {
	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	// On the third morning daylight saving time has begun or ended.
	starts := []time.Time{time.Date(2026, 3, 6, 9, 0, 0, 0, newYork), time.Date(2026, 10, 30, 9, 0, 0, 0, newYork)}
	start := starts[(seed+uint64(shards))%2] //nolint:gosec // small
	r := rand.New(rand.NewPCG(seed, 0))      //nolint:gosec // repeatable on purpose
	people := 400
	if messages < 5000 {
		people = 150
	}
	s := open(t, shards, people, seed, start.UTC())
	began := time.Now()
	for day := range days {
		for burst, at := range []time.Duration{20 * time.Minute, 3 * time.Hour, 6 * time.Hour, 10*time.Hour + 40*time.Minute} {
			morning := start.AddDate(0, 0, day)
			s.jumpTo(morning.Add(at + time.Duration(r.IntN(40))*time.Minute))
			s.sendReceipts(r)
			quota := (messages-len(s.model.Accepted))/(bursts*(days-day)-burst) + 1
			s.burst(seed, day*bursts+burst, quota, burst == 1 && day%2 == 0)
		}
		if day%4 == 2 {
			s.pauseOrganisation(r, s.workspaces[0])
		}
		s.waitUntilIdle(r, day == days-1)
		t.Logf("day %d: %d accepted, %v", day+1, len(s.model.Accepted), time.Since(began).Round(time.Second/10))
		if day%3 == 1 { // compare in the night too, just after the usage day has changed
			s.jumpTo(start.AddDate(0, 0, day+1).Add(-6*time.Hour + time.Second))
			s.app.Settle() // Idle is not called: the assign task works through a long queue in steps of five seconds
			require.NoError(t, s.model.Walk(t.Context(), s.nodes[0].Ledger))
		}
		if t.Failed() || len(s.model.Violations) > 0 {
			break
		}
	}
	for _, step := range []time.Duration{14 * time.Hour, 12 * time.Hour, 6 * time.Hour, 26 * time.Hour} {
		s.advance(step)
		s.sendReceipts(r)
		s.app.Settle()
	}
	s.waitUntilIdle(r, true)
	s.compare()
	ends := s.model.Ends()
	for _, kind := range slices.Sorted(maps.Keys(s.model.Kinds())) {
		t.Errorf("MODEL_SEED=%d: %d × %s", seed, s.model.Kinds()[kind], kind)
	}
	for _, v := range s.model.Violations {
		t.Error(v)
	}
	t.Logf("%v: %d accepted, %v, %v", time.Since(began).Round(time.Second), len(s.model.Accepted), ends, s.model.Counted)
	if !testing.Short() {
		require.GreaterOrEqual(t, len(s.model.Accepted), messages)
		for _, kind := range rare {
			require.Positive(t, s.model.Counted[kind], kind)
		}
	}
}

func (s *site) jumpTo(at time.Time) {
	if at.After(s.clock.Now()) {
		_, err := s.clock.Set(at)
		require.NoError(s.t, err)
	}
}

func (s *site) advance(d time.Duration) {
	_, err := s.clock.Advance(d)
	require.NoError(s.t, err)
}

// burst runs all callers concurrently until so many messages are accepted, while the clock jumps and, if kill is true,
// a node is killed and another one started.
func (s *site) burst(seed uint64, nth, messages int, kill bool) {
	var left, done atomic.Int64
	left.Store(int64(messages))
	s.world.Hang()
	var group sync.WaitGroup
	steps := make(chan struct{}, 1<<16)
	for c := range callers {
		r := rand.New(rand.NewPCG(seed, uint64(nth*100+c+1))) //nolint:gosec // repeatable on purpose
		group.Go(func() {
			for left.Load() > 0 && !s.t.Failed() {
				if s.act(r) {
					left.Add(-1)
				}
				done.Add(1)
				steps <- struct{}{}
			}
		})
	}
	go func() {
		group.Wait()
		close(steps)
	}()
	r := rand.New(rand.NewPCG(seed, uint64(nth*100))) //nolint:gosec // repeatable on purpose
	jump, fatal := 20+r.IntN(60), 30+r.IntN(max(messages/2, 1))
	var starting sync.WaitGroup
	seen := 0
	for range steps {
		seen++
		if seen == jump {
			jump += 30 + r.IntN(120)
			s.advance([]time.Duration{time.Second, 31 * time.Second, 2*time.Minute + time.Second, 11 * time.Minute, time.Hour}[min(r.IntN(20)/4, 4)])
			starting.Go(func() { s.sendReceipts(rand.New(rand.NewPCG(seed, uint64(seen)))) }) //nolint:gosec // repeatable on purpose
		}
		if kill && seen == fatal {
			starting.Go(func() { s.replace(r.IntN(2)) })
		}
	}
	if ws, p := s.hangingRecipient(nil, nil); p != nil && nth%3 == 1 { // erase the contact while the carrier call to it hangs
		s.erase(r, ws, p)
	}
	s.world.Resume()
	starting.Wait()
}

// replace kills a node in the middle of its work and starts another one.
func (s *site) replace(which int) {
	s.mu.Lock()
	n := s.nodes[which]
	s.nodes = slices.Delete(slices.Clone(s.nodes), which, which+1)
	s.mu.Unlock()
	s.app.Kill(n)
	other := s.app.StartNode(service.All)
	s.mu.Lock()
	s.nodes = append(slices.Clone(s.nodes), other)
	s.mu.Unlock()
	s.model.Counted["kills"]++
}

// waitUntilIdle waits until no message can leave any more, and compares the deferrals with the rules.
func (s *site) waitUntilIdle(r *rand.Rand, resume bool) {
	if resume {
		for _, ws := range s.workspaces {
			for _, undo := range ws.org.takeUndos(len(ws.org.undo)) {
				undo(r)
			}
			for _, id := range slices.Sorted(maps.Keys(ws.paused)) {
				if ws.paused[id] {
					s.moveLine(r, ws, id, true)
				}
			}
			clear(ws.paused)
		}
	}
	var stuck []string
	for same := 0; same < 4; { // the assign task works through a queue in steps of five seconds
		s.sendReceipts(r)
		s.app.Settle()
		require.NoError(s.t, s.model.Walk(s.t.Context(), s.nodes[0].Ledger))
		before := stuck
		if stuck = s.model.Idle(s.clock.Now()); len(stuck) == 0 {
			return
		}
		if same++; !slices.Equal(before, stuck) {
			same = 0
		}
		s.advance(5 * time.Second)
	}
	s.logQueues()
	for _, message := range stuck {
		s.model.Wrong("a message is deferred without a valid reason", "%s, at %s", message, s.clock.Now())
	}
}

// logQueues logs the entries of the capacity queues and when the assign tasks are due.
func (s *site) logQueues() {
	rows, err := s.app.Pool.Query(s.t.Context(), `select format('%s at %s from %s wants %s; the task of the workspace is due at %s, failed %s times',
			q.message_id, q.position, q.not_before, q.wants, t.due_at, t.failures)
		from capacity_queue q left join scheduled_tasks t on t.process = 'assign' and t.key like '%/' || q.workspace_id
		order by q.workspace_id, q.position`)
	require.NoError(s.t, err)
	queues, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	s.t.Logf("queues:\n%s", strings.Join(queues, "\n"))
}

// compare compares what readers see, and what the carrier really accepted, with the ledger.
func (s *site) compare() {
	m, ctx := s.model, s.t.Context()
	m.MissedReceipts(s.clock.Now())
	m.Departures(s.world.Departures(), s.ends)
	for _, id := range s.canceled {
		m.Canceled(id)
	}
	statuses := map[string]string{}
	rows, err := s.app.Pool.Query(ctx, `select id, status from read.messages`)
	require.NoError(s.t, err)
	var id, text string
	_, err = pgx.ForEachRow(rows, []any{&id, &text}, func() error { statuses[id] = text; return nil })
	require.NoError(s.t, err)
	m.Statuses(statuses)
	known := m.Contacts()
	rows, err = s.app.Pool.Query(ctx, `select c.id, c.consent_status, c.first_reply_at, coalesce(v.unread_count, 0)
		from read.contacts c left join read.conversations v on v.contact_id = c.id`)
	require.NoError(s.t, err)
	var first *time.Time
	var unread int
	_, err = pgx.ForEachRow(rows, []any{&id, &text, &first, &unread}, func() error {
		c, ok := known[id]
		replied := first != nil
		if !ok || c.Consent != text || c.Unread != unread || replied == c.FirstReply.IsZero() || replied && !first.Equal(c.FirstReply) {
			m.Wrong("a contact that differs in the read model", "%s: %s, %d unread, first reply %v; not %+v", id, text, unread, first, c)
		}
		return nil
	})
	require.NoError(s.t, err)
	var parked int
	s.app.QueryRow(`select count(*) from feed_parked`, nil, &parked)
	if parked > 0 {
		m.Wrong("parked events", "%d", parked)
	}
}
