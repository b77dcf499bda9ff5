package eventstore_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// filledLedger returns a ledger with n events in a few blocks, and the shard of these events.
func filledLedger(t *testing.T, shards, n int) (*testLedger, int) {
	t.Helper()
	h := newTestLedger(t, shards)
	shard := h.ShardOf(h.org)
	for i := range n {
		_, err := h.Append(context.Background(), h.write(one(fmt.Sprintf("ctc_%d", i), 0, contact(fmt.Sprintf("ctc_%d", i), "+12025550123"))))
		require.NoError(t, err)
		if i%7 == 0 {
			_, err := h.CloseBlocks(context.Background(), shard)
			require.NoError(t, err)
		}
	}
	return h, shard
}

func TestVerifyAcceptsAnUnchangedLedger(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		h, shard := filledLedger(t, shards, 30)
		v, err := h.Verify(context.Background(), shard, nil)
		require.NoError(t, err)
		require.Equal(t, int64(30), v.Events)
		again, err := h.Verify(context.Background(), shard, nil)
		require.NoError(t, err)
		require.Equal(t, v, again)
	}
}

func TestVerifyNamesTheFirstPositionThatWasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql   string
		first int64
	}{
		"a byte of the data":        {`update ledger_events set data = replace(data::text, '"origin":"api"', '"origin":"apj"')::json where position = 17`, 17},
		"a byte of sealed data":     {`update ledger_events set sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1) where position = 9`, 9},
		"the actor":                 {`update ledger_events set actor_type = 'user' where position = 12`, 12},
		"the time":                  {`update ledger_events set occurred_at = occurred_at + interval '1 microsecond' where position = 30`, 30},
		"a row deleted":             {`delete from ledger_events where position = 21`, 21},
		"the last row deleted":      {`delete from ledger_events where position = 30`, 30},
		"two rows swapped":          {`update ledger_events set position = case position when 11 then -1 else -2 end where position in (11, 19); update ledger_events set position = case position when -1 then 19 else 11 end where position < 0`, 11},
		"a row added":               {`insert into ledger_events select shard, 31, gen_random_uuid(), 'ctc_x', 1, type, schema, organisation_id, workspace_id, occurred_at, actor_type, actor_id, request_id, causation_id, correlation_id, data, subject, sealed from ledger_events where position = 1`, 31},
		"a leaf of a block":         {`update ledger_blocks set leaves = overlay(leaves placing '\x00'::bytea from 40) where number = 2`, 3},
		"the root of a block":       {`update ledger_blocks set root = previous where number = 3`, 9},
		"a block removed":           {`delete from ledger_blocks where number = 2`, 2},
		"the end cut off, head too": {`delete from ledger_blocks where to_position > 22; delete from ledger_events where position > 22; update ledger_heads set position = 22`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			h, shard := filledLedger(t, 1, 30)
			v, err := h.Verify(ctx, shard, nil)
			require.NoError(t, err)
			var anchor []byte
			require.NoError(t, h.pool.QueryRow(ctx, `select decode($1, 'hex')`, v.Head).Scan(&anchor))

			_, err = h.pool.Exec(ctx, c.sql)
			require.NoError(t, err)
			_, err = h.Verify(ctx, shard, anchor)
			touched := (*eventstore.Tampering)(nil)
			require.ErrorAs(t, err, &touched)
			require.Equal(t, c.first, touched.Position, touched.Problem)
		})
	}
}

func TestErasureDestroysTheKeyAndTheChainStillVerifies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h, shard := filledLedger(t, 1, 8)
	before, err := h.Load(ctx, "ctc_3", 0)
	require.NoError(t, err)
	require.False(t, before[0].Erased)
	a := h.write(one("ctc_3", 1, team("deleted")))
	a.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp, Key: "old", Fingerprint: []byte{1}, Subject: "ctc_3", Body: []byte("+12025550123")}
	_, err = h.Append(ctx, a)
	require.NoError(t, err)

	erase := h.write(one("ctc_3", 2, team("erased")))
	erase.EraseSubjects = []string{"ctc_3"}
	_, err = h.Append(ctx, erase)
	require.NoError(t, err)

	after, err := h.Load(ctx, "ctc_3", 0)
	require.NoError(t, err)
	require.True(t, after[0].Erased)
	erased, ok := after[0].Event.(*events.ContactCreated)
	require.True(t, ok)
	require.Zero(t, erased.Person)
	other, err := h.Load(ctx, "ctc_4", 0)
	require.NoError(t, err)
	require.False(t, other[0].Erased)

	kept, err := h.FindIdempotencyRecord(ctx, h.wsp, "old")
	require.NoError(t, err)
	require.Nil(t, kept.Body, "an erasure empties stored answers about the contact")
	require.NoError(t, h.CompleteIdempotencyRecord(ctx, h.wsp, "", "old", "", []byte("+12025550123")))
	kept, err = h.FindIdempotencyRecord(ctx, h.wsp, "old")
	require.NoError(t, err)
	require.Nil(t, kept.Body, "an emptied answer is not stored again")

	more := h.write(one("ctc_3x", 0, contact("ctc_3", "+12025550123")))
	_, err = h.Append(ctx, more)
	destroyed := (*eventstore.SubjectErased)(nil)
	require.ErrorAs(t, err, &destroyed, "no personal data of an erased subject is appended")
	_, err = h.Verify(ctx, shard, nil)
	require.NoError(t, err)
}

func TestNoTableContainsPersonalDataInClear(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h, _ := filledLedger(t, 1, 5)
	for _, secret := range []string{"+12025550123", "Ada"} {
		require.Empty(t, tablesThatHold(t, ctx, h, secret))
	}
}

// tablesThatHold returns the tables of the database that contain a text.
func tablesThatHold(t *testing.T, ctx context.Context, h *testLedger, secret string) []string {
	t.Helper()
	rows, err := h.pool.Query(ctx, `select format('%I.%I', schemaname, tablename) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	var found []string
	for _, table := range tables {
		rows, err := h.pool.Query(ctx, `select x::text from `+table+` x`)
		require.NoError(t, err)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, text := range texts {
			if bytes.Contains([]byte(text), []byte(secret)) || bytes.Contains([]byte(text), []byte(fmt.Sprintf("%x", secret))) {
				found = append(found, table)
			}
		}
	}
	return found
}
