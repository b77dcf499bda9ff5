package simulator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/adapters/simulator"
	"ledgerline/clock"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/processes/carrier"
	"ledgerline/test/testpg"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const line = "+12025550000"

// inbox records reports, each one once, and can refuse reports.
type inbox struct {
	mu       sync.Mutex
	seen     map[string]bool
	reports  map[string][]string // by message id, or by sender for what came in
	replies  []carrier.Inbound
	repeated int // repeated reports
	refuse   func() error
}

func (b *inbox) take(key, about, text string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		if err := b.refuse(); err != nil {
			return err
		}
	}
	if b.seen[key] {
		b.repeated++
		return nil
	}
	b.seen[key] = true
	b.reports[about] = append(b.reports[about], text)
	return nil
}

func (b *inbox) Receipt(_ context.Context, r carrier.Receipt) error {
	text := r.Kind + " +" + r.At.Sub(noon).String()
	if r.Code != "" {
		text += " " + r.Code
	}
	return b.take(r.MessageID+r.Kind, r.MessageID, text)
}

func (b *inbox) Message(_ context.Context, in carrier.Inbound) (string, error) {
	if err := b.take(in.CarrierID, in.From, fmt.Sprintf("%s %q", in.Channel, in.Body)); err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replies = append(b.replies, in)
	return "msg_" + in.CarrierID, nil
}

func (b *inbox) of(about string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.reports[about]...)
}

type world struct {
	pool  *pgxpool.Pool
	aead  simulator.AEAD
	clock *clock.Movable
	inbox *inbox
	sim   *simulator.Simulator
	close func()
}

func newWorld(t testing.TB) *world {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), testpg.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	keyring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	w := &world{
		pool: pool, aead: keyring.AEAD(), clock: clock.Frozen(noon),
		inbox: &inbox{seen: map[string]bool{}, reports: map[string][]string{}},
	}
	w.start(t)
	return w
}

func (w *world) start(t testing.TB) {
	t.Helper()
	sim, err := simulator.Open(simulator.Config{Pool: w.pool, AEAD: w.aead, Clock: w.clock, Inbox: w.inbox, Poll: 50 * time.Millisecond})
	require.NoError(t, err)
	w.sim, w.close = sim, sync.OnceFunc(sim.Close)
	t.Cleanup(w.close)
}

func number(last int) string { return fmt.Sprintf("+1202555%04d", 100+last) }

func to(last int) carrier.Outbound {
	return carrier.Outbound{
		MessageID: fmt.Sprintf("msg_%02d", last), LineID: "ln_1", From: line, To: number(last), Body: "hello there", Channel: "chat",
	}
}

func (w *world) send(t testing.TB, out carrier.Outbound) carrier.Accepted {
	t.Helper()
	accepted, err := w.sim.Send(t.Context(), out)
	require.NoError(t, err)
	require.NotEmpty(t, accepted.CarrierID)
	return accepted
}

func (w *world) eventually(t testing.TB, about string, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(w.inbox.of(about)) >= len(want) }, 20*time.Second, 2*time.Millisecond,
		"%s: only %v", about, w.inbox.of(about))
	require.Equal(t, want, w.inbox.of(about))
}

// waitForScripts waits until the script of a message that is sent now is over: everything that was due earlier is over
// then, too.
func (w *world) waitForScripts(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		var due int
		err := w.pool.QueryRow(t.Context(), `select count(*) from simulator.messages where due_at <= $1 and sends > 0`, w.clock.Now()).Scan(&due)
		return err == nil && due == 0
	}, 20*time.Second, 2*time.Millisecond)
}

func (w *world) advance(t testing.TB, d time.Duration) {
	t.Helper()
	_, err := w.clock.Advance(d)
	require.NoError(t, err)
}

func TestReachableReportsWhetherANumberIsOnChat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for last := range 100 {
		got, err := w.sim.Reachable(t.Context(), carrier.Line{}, number(last))
		require.NoError(t, err)
		require.Equal(t, (last < 80 || last > 84) && last != 88, got, "%02d", last)
	}
	for _, other := range []string{"+12025550280", "+14155552688", "+493012345684", "+1202555018"} { // not sandbox numbers
		got, err := w.sim.Reachable(t.Context(), carrier.Line{}, other)
		require.NoError(t, err)
		require.True(t, got, other)
	}
}

func TestSandboxNumbersFollowTheirScriptsOnChat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		numbers           []int
		first, after, all []string // receipts: at once, after 2 s, after an hour
		replies           []string
	}{
		"delivered at once, read after 2 s": {
			numbers: []int{0, 42, 79}, first: []string{"delivered +0s"}, after: []string{"delivered +0s", "read +2s"}, all: []string{"delivered +0s", "read +2s"},
		},
		"delivery fails": {
			numbers: []int{85}, first: []string{"failed +0s carrier_rejected"}, after: []string{"failed +0s carrier_rejected"}, all: []string{"failed +0s carrier_rejected"},
		},
		"no receipt ever": {numbers: []int{87}, first: []string{}, after: []string{}, all: []string{}},
		"delivered late": {
			numbers: []int{89}, first: []string{}, after: []string{}, all: []string{"delivered +30s", "read +32s"},
		},
		"replies STOP": {
			numbers: []int{90}, first: []string{"delivered +0s"}, after: []string{"delivered +0s", "read +2s"}, all: []string{"delivered +0s", "read +2s"},
			replies: []string{`chat "STOP"`},
		},
		"replies HELP": {
			numbers: []int{91}, first: []string{"delivered +0s"}, after: []string{"delivered +0s", "read +2s"}, all: []string{"delivered +0s", "read +2s"},
			replies: []string{`chat "HELP"`},
		},
		"replies yes": {
			numbers: []int{92}, first: []string{"delivered +0s"}, after: []string{"delivered +0s", "read +2s"}, all: []string{"delivered +0s", "read +2s"},
			replies: []string{`chat "yes"`},
		},
		"replies with an echo": {
			numbers: []int{93, 99}, first: []string{"delivered +0s"}, after: []string{"delivered +0s", "read +2s"}, all: []string{"delivered +0s", "read +2s"},
			replies: []string{`chat "hello there"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			check := func(want []string) {
				t.Helper()
				w.waitForScripts(t)
				for _, n := range c.numbers {
					require.Equal(t, want, w.inbox.of(to(n).MessageID), "%02d", n)
					require.Equal(t, append([]string{}, c.replies...), w.inbox.of(number(n)), "%02d", n)
				}
			}
			for _, n := range c.numbers {
				w.send(t, to(n))
			}
			check(c.first)
			w.advance(t, 2*time.Second-time.Millisecond)
			check(c.first)
			w.advance(t, time.Millisecond)
			check(c.after)
			w.advance(t, 28*time.Second-time.Millisecond)
			check(c.after)
			w.advance(t, time.Hour)
			check(c.all)
			for _, in := range w.inbox.replies {
				require.Equal(t, line, in.LinePhone)
				require.NotEmpty(t, in.CarrierID)
			}
			list, err := w.sim.List(t.Context())
			require.NoError(t, err)
			require.Len(t, list, len(c.numbers))
			for _, seen := range list {
				require.True(t, seen.Over)
				require.Equal(t, 1, seen.Sends)
			}
		})
	}
}

func TestANumberOffChatIsRejectedOnChatAndReachedBySMS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, n := range []int{80, 84, 88} {
		_, err := w.sim.Send(t.Context(), to(n))
		var rejected *carrier.Rejected
		require.ErrorAs(t, err, &rejected)
		require.Equal(t, "not_on_chat", rejected.Code)
		_, found, err := w.sim.Lookup(t.Context(), to(n))
		require.NoError(t, err)
		require.False(t, found)
	}
	out := to(80)
	out.Channel = "sms"
	w.send(t, out)
	w.advance(t, time.Hour)
	w.eventually(t, out.MessageID, "delivered +0s") // and no SMS is reported as read
	w.waitForScripts(t)
	require.Equal(t, []string{"delivered +0s"}, w.inbox.of(out.MessageID))

	out = to(88)
	out.Channel = "sms"
	_, err := w.sim.Send(t.Context(), out)
	var rejected *carrier.Rejected
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, "sms_undeliverable", rejected.Code)
}

func TestRepliesComeOnTheSameChannel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := to(90)
	out.Channel = "sms"
	w.send(t, out)
	w.eventually(t, number(90), `sms "STOP"`)
}

func TestAFlakyNumberRefusesTwiceAndThenAccepts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		_, err := w.sim.Send(t.Context(), to(86))
		require.ErrorIs(t, err, carrier.ErrTransient)
		_, found, err := w.sim.Lookup(t.Context(), to(86))
		require.NoError(t, err)
		require.False(t, found, "a message that is refused for now is not accepted")
		w.advance(t, time.Minute)
	}
	require.Empty(t, w.inbox.of(to(86).MessageID))
	accepted := w.send(t, to(86))
	w.advance(t, time.Minute)
	w.eventually(t, to(86).MessageID, "delivered +2m0s", "read +2m2s")
	lookedUp, found, err := w.sim.Lookup(t.Context(), to(86))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, accepted, lookedUp)
	list, err := w.sim.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, list[0].Calls)
	require.Equal(t, 1, list[0].Sends)
}

func TestAutomaticTextsGetNoReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := 90; n < 100; n++ {
		out := to(n)
		out.Automatic = true
		w.send(t, out)
	}
	w.advance(t, time.Hour)
	for n := 90; n < 100; n++ {
		w.eventually(t, to(n).MessageID, "delivered +0s", "read +2s")
		require.Empty(t, w.inbox.of(number(n)))
	}
}

func TestAnyOtherNumberBehavesLikeASandboxNumberWith00(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, other := range []string{"+14155552690", "+12025550285", "+493012345687"} {
		out := to(0)
		out.MessageID, out.To = "to "+other, other
		w.send(t, out)
		w.eventually(t, out.MessageID, "delivered +0s")
	}
	w.advance(t, 2*time.Second)
	w.waitForScripts(t)
	require.Empty(t, w.inbox.replies)
}

func TestMessageSentTwiceIsCountedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.send(t, to(0))
	w.send(t, to(1))
	total, duplicates, err := w.sim.Sends(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, total)
	require.Zero(t, duplicates)
	var all sync.WaitGroup
	for range 3 { // also within one commit
		all.Go(func() {
			accepted, err := w.sim.Send(t.Context(), to(0))
			if err != nil || accepted != first {
				t.Errorf("%v %v", accepted, err)
			}
		})
	}
	all.Wait()
	total, duplicates, err = w.sim.Sends(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 5, total)
	require.EqualValues(t, 3, duplicates)
}

func TestEchoHasMediaAndPersonalDataIsStoredEncrypted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.inbox.refuse = func() error { return errors.New("not yet") } // so that the script stands where it needs the data
	out := to(93)
	out.Body, out.Media = "a very private word", []events.Media{{URL: "https://example.com/private.png"}}
	w.send(t, out)
	rows := func() (text string, sealed bool) {
		require.NoError(t, w.pool.QueryRow(t.Context(), `select m::text, sealed is not null from simulator.messages m`).Scan(&text, &sealed))
		return text, sealed
	}
	text, sealed := rows()
	require.True(t, sealed)
	for _, secret := range []string{"private", number(93)[1:], line[1:]} {
		require.NotContains(t, text, secret)
		require.NotContains(t, text, fmt.Sprintf("%x", secret), "bytea shows as hex")
	}
	w.inbox.mu.Lock()
	w.inbox.refuse = nil
	w.inbox.mu.Unlock()
	w.eventually(t, number(93), `chat "a very private word"`)
	require.Equal(t, out.Media, w.inbox.replies[0].Media)
	w.waitForScripts(t)
	_, sealed = rows()
	require.False(t, sealed, "no longer needed")
}

func TestScriptsContinueAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 100 {
		if out := to(n); (n < 80 || n > 84) && n != 86 && n != 88 {
			w.send(t, out)
		}
	}
	w.close() // wherever it is
	_, err := w.sim.Send(t.Context(), to(1))
	require.Error(t, err)
	require.NotErrorIs(t, err, carrier.ErrTransient)
	w.start(t)
	w.eventually(t, number(99), `chat "hello there"`)
	w.close()
	w.advance(t, 31*time.Second)
	w.start(t)
	w.eventually(t, to(89).MessageID, "delivered +30s")
	w.advance(t, time.Second)
	w.eventually(t, to(89).MessageID, "delivered +30s", "read +32s")
	w.waitForScripts(t)
	require.Equal(t, []string{"delivered +0s", "read +2s"}, w.inbox.of(to(0).MessageID))
	require.Len(t, w.inbox.replies, 10+w.repeats())
	list, err := w.sim.List(t.Context())
	require.NoError(t, err)
	for _, seen := range list {
		require.True(t, seen.Over, seen.MessageID)
	}
}

func (w *world) repeats() int {
	w.inbox.mu.Lock()
	defer w.inbox.mu.Unlock()
	distinct := map[string]bool{}
	for _, in := range w.inbox.replies {
		distinct[in.CarrierID] = true
	}
	return len(w.inbox.replies) - len(distinct)
}

func TestRefusedReportsAreRepeatedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var n int
	w.inbox.refuse = func() error {
		if n++; n%2 == 1 {
			return errors.New("not now")
		}
		return nil
	}
	w.send(t, to(93))
	w.eventually(t, number(93), `chat "hello there"`)
	w.advance(t, 2*time.Second)
	w.eventually(t, to(93).MessageID, "delivered +0s", "read +2s")
}

func TestReportsThatWereNotStoredAreRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cut := sync.OnceFunc(func() { // the simulator's connection breaks while a report is in progress
		_, err := w.pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
		if err != nil {
			t.Errorf("cut: %v", err)
		}
	})
	w.inbox.refuse = func() error { cut(); return nil }
	w.send(t, to(93))
	w.eventually(t, number(93), `chat "hello there"`)
	w.advance(t, 2*time.Second)
	w.eventually(t, to(93).MessageID, "delivered +0s", "read +2s")
	w.waitForScripts(t)
	require.Len(t, w.inbox.replies, 1+w.repeats())
	require.Positive(t, w.inbox.repeated)
}

func TestConcurrentSendsThroughTwoSimulatorsAreEachAcceptedOnce(t *testing.T) {
	t.Parallel()
	const each = 1000
	w := newWorld(t)
	other, err := simulator.Open(simulator.Config{Pool: w.pool, AEAD: w.aead, Clock: w.clock, Inbox: w.inbox, Poll: 50 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(other.Close)
	var all sync.WaitGroup
	for i, sim := range []*simulator.Simulator{w.sim, other} {
		for worker := range 50 {
			all.Go(func() {
				for m := worker; m < each; m += 50 {
					out := to(93)
					out.MessageID = fmt.Sprintf("%d-%d", i, m)
					if _, err := sim.Send(t.Context(), out); err != nil {
						t.Errorf("send: %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	w.advance(t, 2*time.Second)
	require.Eventually(t, func() bool {
		var open int
		err := w.pool.QueryRow(t.Context(), `select count(*) from simulator.messages where due_at is not null`).Scan(&open)
		return err == nil && open == 0
	}, 30*time.Second, 10*time.Millisecond)
	total, duplicates, err := w.sim.Sends(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2*each, total)
	require.Zero(t, duplicates)
	require.Len(t, w.inbox.of(number(93)), 2*each)
	require.Zero(t, w.inbox.repeated, "no report was repeated")
	for i := range 2 {
		for m := range each {
			require.Equal(t, []string{"delivered +0s", "read +2s"}, w.inbox.of(fmt.Sprintf("%d-%d", i, m)))
		}
	}
}

func TestACanceledSendIsNotAcceptedOrReturnsTheTrueResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 50 {
		_, err := w.sim.Send(ctx, to(n))
		_, found, outcome := w.sim.Lookup(t.Context(), to(n))
		require.NoError(t, outcome)
		require.Equal(t, err == nil, found)
	}
}

func TestOpenRefusesAnIncompleteConfiguration(t *testing.T) {
	t.Parallel()
	_, err := simulator.Open(simulator.Config{})
	require.Error(t, err)
}

func BenchmarkSend(b *testing.B) {
	w := newWorld(b)
	work := make(chan int)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := range work {
				out := to(i % 80)
				out.MessageID = fmt.Sprint(i)
				if _, err := w.sim.Send(b.Context(), out); err != nil {
					b.Errorf("send: %v", err)
				}
			}
		})
	}
	b.ResetTimer()
	for i := range b.N {
		work <- i
	}
	close(work)
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}

func TestAnAttemptThatALookupDidNotFindIsNeverAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := carrier.Outbound{MessageID: "msg_late", LineID: "ln_1", From: "+12025550100", To: "+12025550100", Body: "Hello", Channel: "sms", Attempt: 1}
	_, found, err := w.sim.Lookup(t.Context(), out)
	require.NoError(t, err)
	require.False(t, found)
	_, err = w.sim.Send(t.Context(), out) // the call of a node that stood still meanwhile
	require.Error(t, err)
	total, _, err := w.sim.Sends(t.Context())
	require.NoError(t, err)
	require.Zero(t, total)
	out.Attempt = 2
	accepted, err := w.sim.Send(t.Context(), out)
	require.NoError(t, err)
	require.NotEmpty(t, accepted.CarrierID)
	again, found, err := w.sim.Lookup(t.Context(), out)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, accepted, again)
	total, duplicates, err := w.sim.Sends(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0}, []int64{total, duplicates})
}
