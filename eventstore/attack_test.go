package eventstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/eventstore"
)

// publisher keeps what is published in memory.
type publisher struct {
	heads   strings.Builder
	fails   int
	arrived chan int64
}

func (p *publisher) String() string { return "memory" }

func (p *publisher) Publish(_ context.Context, _ int, size int64, note string) error {
	if p.fails > 0 {
		p.fails--
		return errors.New("no connection")
	}
	p.heads.WriteString(note)
	p.arrived <- size
	return nil
}

// publish publishes the newest head of the ledger as a node does, and returns what was published.
func (h *testLedger) publish(t *testing.T) []eventstore.TreeHead {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &publisher{fails: 1, arrived: make(chan int64, 8)}
	done := make(chan struct{})
	go func() {
		h.PublishHeads(ctx, time.Millisecond, []eventstore.HeadPublisher{p})
		close(done)
	}()
	<-p.arrived
	stop()
	<-done
	heads, err := eventstore.ReadHeads(p.heads.String(), h.ring.HeadKey())
	require.NoError(t, err)
	require.Len(t, heads, 1, "a head is published once")
	return heads
}

// TestAttackerWithTheDatabaseIsFound states which attack on the ledger is found by the signatures alone, and which one
// only by published heads. docs/security.md has the same table.
func TestAttackerWithTheDatabaseIsFound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const rewrite = `update ledger_events set data = replace(data::text, '"origin":"api"', '"origin":"apj"')::json where position = 17`
	const cut = `delete from ledger_blocks where to_position > 22; delete from ledger_events where position > 22; update ledger_heads set position = 22`
	const cutKeys = `; delete from ledger_keys where subject <> 'installation' and substr(subject, 5)::int >= 22`
	recompute := func(t *testing.T, h *testLedger, ring *eventstore.Keyring, tags bool) {
		t.Helper()
		require.NoError(t, h.RecomputeBlocks(ctx, 0, ring, tags))
	}
	stranger, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		attack        func(t *testing.T, h *testLedger)
		without, with int64  // the position that is named without and with published heads; 0: the attack is not found
		references    string // what VerifyReferences names
	}{
		"an event is rewritten": {func(t *testing.T, h *testLedger) { h.tamper(t, rewrite) }, 17, 17, ""},
		"an event is rewritten and all hashes recomputed": {func(t *testing.T, h *testLedger) {
			h.tamper(t, rewrite)
			recompute(t, h, stranger, false)
		}, 1, 1, ""},
		"an event is rewritten and all hashes and tags recomputed with another key": {func(t *testing.T, h *testLedger) {
			h.tamper(t, rewrite)
			recompute(t, h, stranger, true)
		}, 1, 1, ""},
		"an event is rewritten and all hashes and tags recomputed with the stolen key": {func(t *testing.T, h *testLedger) {
			h.tamper(t, rewrite)
			recompute(t, h, h.ring, true)
		}, 0, 9, ""},
		"an event is forged at the end and the head moved": {func(t *testing.T, h *testLedger) {
			h.tamper(t, `update ledger_heads set position = 31; `+insertCopySQL(0, 31))
		}, 31, 31, ""},
		"an event is forged and its block recomputed": {func(t *testing.T, h *testLedger) {
			h.tamper(t, `update ledger_heads set position = 31; `+insertCopySQL(0, 31)+`; insert into ledger_blocks select shard, number + 1, 31, 31, leaves, events_root, nodes, root, closed_at, signature
				from ledger_blocks where number = 6; update ledger_blocks set leaves = substring(leaves for 32) where to_position = 31`)
			recompute(t, h, stranger, false)
		}, 1, 1, ""},
		"the end is cut off": {func(t *testing.T, h *testLedger) { h.tamper(t, cut) }, 0, 23, "ctc_22"},
		"the end is cut off, with everything that refers to it": {func(t *testing.T, h *testLedger) { h.tamper(t, cut+cutKeys) }, 0, 23, ""},
		"the end is cut off and other events appended": {func(t *testing.T, h *testLedger) {
			h.tamper(t, cut+cutKeys)
			// Another process starts after the attack: this one would find that the head is not where it left it.
			other, _ := h.open(t, 1)
			for i := range 20 {
				_, err := other.Append(ctx, h.write(one("team", i, team("x"))))
				require.NoError(t, err)
			}
			for range 2 {
				_, err := other.Append(ctx, h.write(one("team", eventstore.AnyVersion, team("x"))))
				require.NoError(t, err)
				_, err = other.CloseBlocks(ctx, 0)
				require.NoError(t, err)
			}
		}, 0, 9, ""},
		"the head is moved back": {func(t *testing.T, h *testLedger) { h.tamper(t, `update ledger_heads set position = 22`) }, 23, 23, ""},
		"the head is moved back and blocks removed": {func(t *testing.T, h *testLedger) {
			h.tamper(t, `delete from ledger_blocks where to_position > 22; update ledger_heads set position = 22`)
		}, 23, 23, ""},
		"blocks are removed and closed again by the service": {func(t *testing.T, h *testLedger) {
			h.tamper(t, `delete from ledger_blocks where to_position > 15`)
		}, 0, 9, ""},
		"everything is removed": {func(t *testing.T, h *testLedger) {
			h.tamper(t, `delete from ledger_blocks; delete from ledger_events; update ledger_heads set position = 0; delete from ledger_keys where subject <> 'installation'`)
		}, 0, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestLedger(t, 1)
			var heads []eventstore.TreeHead
			for i := range 30 { // blocks end at 1, 8, 15, 22, 29 and 30
				id := contactID(i)
				_, err := h.Append(ctx, h.write(one(id, 0, contact(id, "+12025550123"))))
				require.NoError(t, err)
				if i%7 == 0 {
					_, err := h.CloseBlocks(ctx, 0)
					require.NoError(t, err)
				}
				if i == 7 {
					heads = append(heads, h.publish(t)...)
				}
			}
			v, err := h.Verify(ctx, 0, eventstore.VerifyOptions{})
			require.NoError(t, err)
			heads = append(heads, h.publish(t)...)
			require.Equal(t, int64(6), v.Blocks)
			v, err = h.Verify(ctx, 0, eventstore.VerifyOptions{Heads: heads})
			require.NoError(t, err)
			require.Equal(t, 2, v.Heads)
			problems, err := h.VerifyReferences(ctx)
			require.NoError(t, err)
			require.Empty(t, problems)

			c.attack(t, h)
			other, _ := h.open(t, 1) // an auditor's process, which knows nothing from before
			for expected, options := range map[int64]eventstore.VerifyOptions{c.without: {}, c.with: {Heads: heads}} {
				if c.with == c.without {
					options = eventstore.VerifyOptions{Heads: heads}
				}
				_, err = other.Verify(ctx, 0, options)
				if expected == 0 {
					require.NoError(t, err)
					continue
				}
				touched := (*eventstore.Tampering)(nil)
				require.ErrorAs(t, err, &touched)
				require.Equal(t, expected, touched.Position, touched.Problem)
			}
			if c.with == c.without {
				_, err = other.Verify(ctx, 0, eventstore.VerifyOptions{})
				require.Error(t, err)
			}
			problems, err = other.VerifyReferences(ctx)
			require.NoError(t, err)
			require.Contains(t, strings.Join(problems, "\n"), c.references)
		})
	}
}

func contactID(i int) string { return "ctc_" + string(rune('0'+i/10)) + string(rune('0'+i%10)) }

func TestVerifyGoesOnFromThePublishedHead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h, shard := filledLedger(t, 1, 20)
	_, err := h.CloseBlocks(ctx, shard)
	require.NoError(t, err)
	heads := h.publish(t)
	for i := range 10 {
		_, err := h.Append(ctx, h.write(one("team_1", i, team("x"))))
		require.NoError(t, err)
	}
	var reached []int64
	v, err := h.Verify(ctx, shard, eventstore.VerifyOptions{Heads: heads, Continue: true, Progress: func(position, last int64) {
		reached = append(reached, position)
		require.Equal(t, int64(30), last)
	}})
	require.NoError(t, err)
	require.Equal(t, int64(30), v.Events)
	require.Equal(t, int64(20), v.After)
	require.Equal(t, []int64{30}, reached)
	_, err = h.Verify(ctx, shard, eventstore.VerifyOptions{Continue: true})
	require.ErrorContains(t, err, "no published head")

	h.tamper(t, `update ledger_events set actor_type = 'user' where position = 12`)
	_, err = h.Verify(ctx, shard, eventstore.VerifyOptions{Heads: heads, Continue: true})
	require.NoError(t, err, "an earlier run has verified the events before the head")
	h.tamper(t, `update ledger_events set actor_type = 'user' where position = 25`)
	touched := (*eventstore.Tampering)(nil)
	_, err = h.Verify(ctx, shard, eventstore.VerifyOptions{Heads: heads, Continue: true})
	require.ErrorAs(t, err, &touched)
	require.Equal(t, int64(25), touched.Position)
	h.tamper(t, `update ledger_blocks set nodes = root where number = 4`)
	_, err = h.Verify(ctx, shard, eventstore.VerifyOptions{Heads: heads, Continue: true})
	require.ErrorAs(t, err, &touched)
	require.Equal(t, int64(12), touched.Position, "when the blocks before the head do not fit it, everything is verified")
}

func TestVerifyInParallelFindsTheFirstOfSeveralChanges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newTestLedger(t, 1)
	for i := range 200 {
		_, err := h.Append(ctx, h.write(one("team_1", i, team("x"))))
		require.NoError(t, err)
		_, err = h.CloseBlocks(ctx, 0)
		require.NoError(t, err)
	}
	h.tamper(t, `update ledger_events set actor_type = 'user' where position in (70, 131, 199); update ledger_blocks set root = events_root where number = 150`)
	for _, workers := range []int{1, 2, 8} {
		_, err := h.Verify(ctx, 0, eventstore.VerifyOptions{Workers: workers})
		touched := (*eventstore.Tampering)(nil)
		require.ErrorAs(t, err, &touched)
		require.Equal(t, int64(70), touched.Position)
	}
}

func TestReferencesOfACutOffEndAreFound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for expected, sql := range map[string]string{
		"the key of ctc_2 has no events":               `delete from ledger_events where stream = 'ctc_2'`,
		"the idempotency record key_1":                 `delete from ledger_events where stream = 'team_1'`,
		"stream team_2 has 1 events, and its last one": `delete from ledger_events where stream = 'team_2' and version = 1`,
		"shard 0 has no head":                          `delete from ledger_heads`,
		"the key of ctc_1 is not one that the keyring": `update ledger_keys set wrapped = (select wrapped from ledger_keys where subject = 'ctc_2') where subject = 'ctc_1'`,
	} {
		h := newTestLedger(t, 1)
		for _, id := range []string{"ctc_1", "ctc_2"} {
			_, err := h.Append(ctx, h.write(one(id, 0, contact(id, "+12025550123"))))
			require.NoError(t, err)
		}
		a := h.write(one("team_1", 0, team("a")), one("team_2", 0, team("a"), team("b")), one("team_1", 1, team("c")))
		a.Streams = a.Streams[:2]
		_, err := h.Append(ctx, a)
		require.NoError(t, err)
		b := h.write(one("team_1", 1, team("b")))
		b.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp, Key: "key_1", Fingerprint: []byte{1}}
		_, err = h.Append(ctx, b)
		require.NoError(t, err)
		problems, err := h.VerifyReferences(ctx)
		require.NoError(t, err)
		require.Empty(t, problems)
		h.tamper(t, sql)
		problems, err = h.VerifyReferences(ctx)
		require.NoError(t, err)
		require.Contains(t, strings.Join(problems, "\n"), expected)
	}
}
