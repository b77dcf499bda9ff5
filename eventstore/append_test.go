package eventstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/migrations"
	"ledgerline/test/testpg"
)

// testLedger is a ledger in a database of its own, with an organisation and a workspace to append for.
type testLedger struct {
	*eventstore.Ledger
	pool *pgxpool.Pool
	ring *eventstore.Keyring
	text []byte // of the keyring
	org  uuid.UUID
	wsp  uuid.UUID
	dsn  string
}

func newTestLedger(t *testing.T, shards int) *testLedger {
	t.Helper()
	ctx := context.Background()
	dsn := testpg.Database(t)
	require.NoError(t, migrations.Up(ctx, dsn))
	ring, text, err := eventstore.NewKeyring()
	require.NoError(t, err)
	h := &testLedger{ring: ring, text: text, org: uuid.Must(uuid.NewV7()), wsp: uuid.Must(uuid.NewV7()), dsn: dsn}
	h.Ledger, h.pool = h.open(t, shards)
	return h
}

// open opens the ledger of the same database again, as another process does.
func (h *testLedger) open(t *testing.T, shards int) (*eventstore.Ledger, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), h.dsn)
	require.NoError(t, err)
	l, err := eventstore.Open(context.Background(), eventstore.Config{Pool: pool, Keyring: h.ring, Clock: clock.System(), Shards: shards})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close(); pool.Close() })
	return l, pool
}

func (h *testLedger) write(streams ...eventstore.StreamEvents) eventstore.Append {
	return eventstore.Append{
		Organisation: h.org, Workspace: h.wsp, Actor: events.Actor{Type: "system"}, RequestID: "req_test",
		At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Streams: streams,
	}
}

func one(stream string, expected int, e ...events.Event) eventstore.StreamEvents {
	return eventstore.StreamEvents{Stream: stream, Expected: expected, Events: e}
}

func team(name string) *events.TeamCreated {
	return &events.TeamCreated{TeamID: uuid.New(), Name: name}
}

func contact(id, phone string) *events.ContactCreated {
	name := "Ada"
	return &events.ContactCreated{ContactID: id, NumberHash: "h", Origin: "api", Person: events.ContactPersonal{Phone: phone, FirstName: &name}}
}

// withShards runs a test with 1 and with 4 shards.
func withShards(t *testing.T, test func(t *testing.T, h *testLedger)) {
	t.Helper()
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			test(t, newTestLedger(t, shards))
		})
	}
}

func TestAppendedEventsAreLoadedInOrderWithTheirMetadata(t *testing.T) {
	t.Parallel()
	withShards(t, func(t *testing.T, h *testLedger) {
		ctx := context.Background()
		a := h.write(one("ctc_1", eventstore.NoStream, contact("ctc_1", "+12025550123")), one("team_1", eventstore.AnyVersion, team("a"), team("b")))
		a.Actor, a.CausationID = events.Actor{Type: "key", ID: "key_1"}, uuid.New()
		result, err := h.Append(ctx, a)
		require.NoError(t, err)
		require.Equal(t, h.ShardOf(h.org), result.Shard)
		require.Equal(t, int64(1), result.First)
		require.Equal(t, int64(3), result.Last)

		got, err := h.Load(ctx, "ctc_1", 0)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, contact("ctc_1", "+12025550123"), got[0].Event)
		require.Equal(t, a.Actor, got[0].Actor)
		require.Equal(t, a.CausationID, got[0].CausationID)
		require.NotEqual(t, uuid.Nil, got[0].CorrelationID)
		require.Equal(t, a.At, got[0].OccurredAt)
		require.Equal(t, h.wsp, got[0].WorkspaceID)
		require.NotContains(t, string(got[0].Data), "+12025550123")

		later, err := h.Load(ctx, "team_1", 1)
		require.NoError(t, err)
		require.Len(t, later, 1)
		require.Equal(t, 2, later[0].Version)
	})
}

func TestAppendAtAnotherVersionIsRefusedAndNamesTheStream(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	ctx := context.Background()
	_, err := h.Append(ctx, h.write(one("s", eventstore.NoStream, team("a"))))
	require.NoError(t, err)
	for _, expected := range []int{eventstore.NoStream, 2} {
		_, err = h.Append(ctx, h.write(one("s", expected, team("b"))))
		conflict := (*eventstore.VersionConflict)(nil)
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, "s", conflict.Stream)
		require.Equal(t, 1, conflict.Actual)
	}
	a := h.write(one("t", eventstore.NoStream, team("c")))
	a.Guards = []eventstore.Guard{{Stream: "s", Version: 0}}
	_, err = h.Append(ctx, a)
	conflict := (*eventstore.VersionConflict)(nil)
	require.ErrorAs(t, err, &conflict)
	require.True(t, conflict.Guard)
	_, err = h.Append(ctx, h.write(one("s", 1, team("d"))))
	require.NoError(t, err)
	head, err := h.Head(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, int64(2), head, "a refused append uses no position")
}

func TestConcurrentAppendsFromTwoNodesLeaveNoGapAndCommitInOrder(t *testing.T) {
	t.Parallel()
	withShards(t, func(t *testing.T, h *testLedger) {
		ctx := context.Background()
		second, _ := h.open(t, 0)
		nodes := []*eventstore.Ledger{h.Ledger, second}
		shard := h.ShardOf(h.org)

		stop := make(chan struct{})
		var tail []int64
		var tailing sync.WaitGroup
		tailing.Go(func() { // reads during the appends: no event may appear later at a position that was read
			var after int64
			for last := false; ; {
				found, err := h.ReadRange(ctx, shard, after, after+1000)
				if err != nil {
					return
				}
				for _, r := range found {
					tail, after = append(tail, r.Position), r.Position
				}
				if last && len(found) == 0 {
					return
				}
				select {
				case <-stop:
					last = true
				default:
				}
			}
		})
		var writers sync.WaitGroup
		for w := range 16 {
			writers.Go(func() {
				for i := range 25 {
					_, err := nodes[w%2].Append(ctx, h.write(one(fmt.Sprintf("s%d", w), eventstore.AnyVersion, team("x")), one(fmt.Sprintf("t%d-%d", w, i), 0, team("y"))))
					require.NoError(t, err)
				}
			})
		}
		writers.Wait()
		close(stop)
		tailing.Wait()
		require.Len(t, tail, 16*25*2)
		for i, p := range tail {
			require.Equal(t, int64(i+1), p)
		}
		for w := range 16 {
			got, err := h.Load(ctx, fmt.Sprintf("s%d", w), 0)
			require.NoError(t, err)
			require.Len(t, got, 25)
			for i, r := range got {
				require.Equal(t, i+1, r.Version)
			}
		}
	})
}

func TestOfConcurrentAppendsOneTakesAClaim(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	ctx := context.Background()
	var won, lost sync.Map
	var racers sync.WaitGroup
	for i := range 32 {
		racers.Go(func() {
			owner := fmt.Sprintf("owner%d", i)
			a := h.write(one(owner, 0, team("x")))
			a.Claims = []eventstore.Claim{{Scope: "name", Key: "red", Owner: owner}}
			_, err := h.Append(ctx, a)
			taken := (*eventstore.ClaimTaken)(nil)
			switch {
			case err == nil:
				won.Store(owner, true)
			case errors.As(err, &taken):
				lost.Store(owner, taken.Owner)
			default:
				require.NoError(t, err)
			}
		})
	}
	racers.Wait()
	owner, found, err := h.ClaimOwner(ctx, "name", "red")
	require.NoError(t, err)
	require.True(t, found)
	_, ok := won.Load(owner)
	require.True(t, ok)
	n := 0
	lost.Range(func(_, by any) bool { n++; require.Equal(t, owner, by); return true })
	require.Equal(t, 31, n)

	release := h.write()
	release.Claims = []eventstore.Claim{{Scope: "name", Key: "red", Owner: owner, Release: true}}
	_, err = h.Append(ctx, release)
	require.NoError(t, err)
	_, found, err = h.ClaimOwner(ctx, "name", "red")
	require.NoError(t, err)
	require.False(t, found)

	// An append can release a claim and take it for another owner, in this order only, and only if the first owner held
	// it.
	moves := func(from, to string, takeFirst bool) error {
		move := h.write()
		move.Claims = []eventstore.Claim{{Scope: "name", Key: "blue", Owner: from, Release: true}, {Scope: "name", Key: "blue", Owner: to}}
		if takeFirst {
			slices.Reverse(move.Claims)
		}
		_, err := h.Append(ctx, move)
		return err
	}
	taken := (*eventstore.ClaimTaken)(nil)
	require.NoError(t, moves("nobody", "a", false))
	require.NoError(t, moves("a", "b", false))
	require.ErrorAs(t, moves("a", "c", false), &taken)
	require.ErrorAs(t, moves("b", "c", true), &taken)
	owner, _, err = h.ClaimOwner(ctx, "name", "blue")
	require.NoError(t, err)
	require.Equal(t, "b", owner)
}

func TestConcurrentAppendsNeverExceedAQuota(t *testing.T) {
	t.Parallel()
	withShards(t, func(t *testing.T, h *testLedger) {
		ctx := context.Background()
		second, _ := h.open(t, 0)
		nodes := []*eventstore.Ledger{h.Ledger, second}
		minute := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		var accepted, refused sync.Map
		var racers sync.WaitGroup
		for i := range 60 {
			racers.Go(func() {
				a := h.write(one(fmt.Sprintf("m%d", i), 0, team("x")))
				a.Quotas = []eventstore.Quota{{Key: "line", Bucket: minute.Add(time.Duration(i%3) * time.Minute), From: minute.Add(-57 * time.Minute), Add: 1, Limit: 20}}
				_, err := nodes[i%2].Append(ctx, a)
				exceeded := (*eventstore.QuotaExceeded)(nil)
				switch {
				case err == nil:
					accepted.Store(i, true)
				case errors.As(err, &exceeded):
					require.Equal(t, int64(20), exceeded.Used)
					refused.Store(i, true)
				default:
					require.NoError(t, err)
				}
			})
		}
		racers.Wait()
		require.Equal(t, 20, size(&accepted))
		require.Equal(t, 40, size(&refused))

		back := h.write()
		back.Quotas = []eventstore.Quota{{Key: "line", Bucket: minute, From: minute, Add: -1, Limit: 20}}
		_, err := h.Append(ctx, back)
		require.NoError(t, err)
		again := h.write(one("again", 0, team("x")))
		again.Quotas = []eventstore.Quota{{Key: "line", Bucket: minute, From: minute.Add(-57 * time.Minute), Add: 1, Limit: 20}}
		_, err = h.Append(ctx, again)
		require.NoError(t, err)
		later := h.write(one("later", 0, team("x")))
		later.Quotas = []eventstore.Quota{{Key: "line", Bucket: minute.Add(2 * time.Hour), From: minute.Add(time.Hour), Add: 20, Limit: 20}}
		_, err = h.Append(ctx, later)
		require.NoError(t, err, "buckets before the window do not count")
	})
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func TestAnIdempotencyKeyIsUsedOnceAndReturnsItsRecord(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	ctx := context.Background()
	a := h.write(one("s", eventstore.AnyVersion, team("a")))
	a.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp, Key: "k1", Actor: "key:key_1", Fingerprint: []byte("f"), Ref: "ctc_1", Status: 201, Subject: "ctc_1"}
	result, err := h.Append(ctx, a)
	require.NoError(t, err)

	_, err = h.Append(ctx, a)
	exists := (*eventstore.IdempotencyRecordExists)(nil)
	require.ErrorAs(t, err, &exists)
	require.Equal(t, result.Last, exists.Record.Position)
	require.Equal(t, "ctc_1", exists.Record.Ref)
	require.Nil(t, exists.Record.Body)

	require.NoError(t, h.CompleteIdempotencyRecord(ctx, h.wsp, "key:key_1", "k1", "", []byte(`{"phone":"+12025550123"}`)))
	found, err := h.FindIdempotencyRecord(ctx, h.wsp, "k1")
	require.NoError(t, err)
	require.JSONEq(t, `{"phone":"+12025550123"}`, string(found.Body))
	var raw []byte
	require.NoError(t, h.pool.QueryRow(ctx, `select body from ledger_idempotency_records`).Scan(&raw))
	require.NotContains(t, string(raw), "12025550123", "answers are encrypted at rest")

	require.NoError(t, h.CompleteIdempotencyRecord(ctx, h.wsp, "key:key_2", "k1", "", []byte(`{}`)))
	_, err = h.pool.Exec(ctx, `update ledger_idempotency_records set actor = 'key:key_2'`)
	require.NoError(t, err)
	_, err = h.FindIdempotencyRecord(ctx, h.wsp, "k1")
	require.Error(t, err, "an answer belongs to its actor")

	other, err := h.FindIdempotencyRecord(ctx, uuid.New(), "k1")
	require.NoError(t, err)
	require.Nil(t, other, "a key belongs to its workspace")
}

func TestARefusedAppendDoesNotAffectOthersInTheBatch(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	ctx := context.Background()
	var callers sync.WaitGroup
	var bad, good sync.Map
	for i := range 200 {
		callers.Go(func() {
			a := h.write(one(fmt.Sprintf("n%d", i), 0, team("x")))
			switch i % 10 {
			case 3:
				a.Streams[0].Expected = 7
			case 7:
				a.RequestID = "not\x00storable" // the database refuses this one
			}
			if _, err := h.Append(ctx, a); err != nil {
				bad.Store(i, err)
			} else {
				good.Store(i, true)
			}
		})
	}
	callers.Wait()
	require.Equal(t, 160, size(&good))
	for i := 3; i < 200; i += 10 {
		found, _ := bad.Load(i)
		err, _ := found.(error)
		conflict := (*eventstore.VersionConflict)(nil)
		require.ErrorAs(t, err, &conflict)
	}
	head, err := h.Head(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, int64(160), head)
}

func TestAnAppendWhoseConnectionBreaksIsWrittenExactlyOnce(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	ctx := context.Background()
	stop := make(chan struct{})
	var killer sync.WaitGroup
	admin, err := pgxpool.New(ctx, h.dsn)
	require.NoError(t, err)
	defer admin.Close()
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				_, _ = admin.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like any (array['%ledger_head%', 'commit%', 'insert into ledger_events%'])`)
			}
		}
	})
	var callers sync.WaitGroup
	for w := range 16 {
		callers.Go(func() {
			for i := range 30 {
				_, err := h.Append(ctx, h.write(one(fmt.Sprintf("c%d-%d", w, i), 0, team("x"))))
				require.NoError(t, err)
			}
		})
	}
	callers.Wait()
	close(stop)
	killer.Wait()
	h.pool.Reset() // the killer may have left broken connections
	head, err := h.Head(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, int64(16*30), head)
	found, err := h.ReadRange(ctx, 0, 0, head)
	require.NoError(t, err)
	streams := map[string]bool{}
	for _, r := range found {
		require.False(t, streams[r.Stream])
		streams[r.Stream] = true
	}
	require.Len(t, streams, 16*30)
}
