package eventstore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/eventstore"
)

// TestAfterRotationOldCopiesOfAnErasedKeyAreUseless takes the place of somebody who has the pages, the write-ahead log
// or a backup of the database from before an erasure, and the present keys file.
func TestAfterRotationOldCopiesOfAnErasedKeyAreUseless(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h, shard := filledLedger(t, 1, 4)
	first, err := eventstore.ParseKeyring(h.text)
	require.NoError(t, err)
	require.Equal(t, h.ring.HeadKey(), first.HeadKey())
	a := h.write(one("team_1", 0, team("a")))
	a.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp, Key: "key_1", Fingerprint: []byte{1}, Body: []byte("answer"), Subject: "ctc_3"}
	_, err = h.Append(ctx, a)
	require.NoError(t, err)
	var leaked []byte
	require.NoError(t, h.pool.QueryRow(ctx, `select wrapped from ledger_keys where subject = 'ctc_2'`).Scan(&leaked))
	erase := h.write(one("ctc_2", 1, team("erased")))
	erase.EraseSubjects = []string{"ctc_2"}
	_, err = h.Append(ctx, erase)
	require.NoError(t, err)

	rotated, err := eventstore.RotateSubjectKeys(h.text)
	require.NoError(t, err)
	h.ring, err = eventstore.ParseKeyring(rotated)
	require.NoError(t, err)
	next, _ := h.open(t, 1)
	_, err = next.Append(ctx, h.write(one("ctc_9", 0, contact("ctc_9", "+12025550123"))))
	require.NoError(t, err, "between the two steps both keys are in use")
	n, err := next.RewrapKeys(ctx)
	require.NoError(t, err)
	require.Equal(t, 4, n, "three contacts and the check key; the key of ctc_9 is new")
	n, err = next.RewrapKeys(ctx)
	require.NoError(t, err)
	require.Zero(t, n)

	restore := `update ledger_keys set wrapped = $1, destroyed_at = null where subject = 'ctc_2'`
	_, err = h.pool.Exec(ctx, restore, leaked)
	require.NoError(t, err)
	open, _ := h.open(t, 1)
	got, err := open.Load(ctx, "ctc_2", 0)
	require.NoError(t, err)
	require.False(t, got[0].Erased, "with the old key of the keyset, a leaked copy opens the data of an erased contact")

	finished, err := eventstore.DropOldSubjectKeys(rotated)
	require.NoError(t, err)
	h.ring, err = eventstore.ParseKeyring(finished)
	require.NoError(t, err)
	done, _ := h.open(t, 1)
	_, err = done.Load(ctx, "ctc_2", 0)
	require.ErrorContains(t, err, "cannot decrypt the key of ctc_2")
	for _, id := range []string{"ctc_1", "ctc_9"} {
		got, err = done.Load(ctx, id, 0)
		require.NoError(t, err)
		require.Equal(t, contact(id, "+12025550123"), got[0].Event)
	}
	kept, err := done.FindIdempotencyRecord(ctx, h.wsp, "key_1")
	require.NoError(t, err)
	require.Equal(t, "answer", string(kept.Body))
	_, err = done.Verify(ctx, shard, eventstore.VerifyOptions{})
	require.NoError(t, err)
	_, err = eventstore.Open(ctx, eventstore.Config{Pool: h.pool, Keyring: first, Clock: clock.System()})
	require.ErrorContains(t, err, "the keys file does not belong to this database", "a node with the old file does not start")
}
