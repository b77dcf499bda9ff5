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

// tamper executes statements as somebody who can write to the database and switches its own checks off.
func (h *testLedger) tamper(t *testing.T, sql string) {
	t.Helper()
	_, err := h.pool.Exec(context.Background(), `begin; set local session_replication_role = replica; `+sql+`; commit`)
	require.NoError(t, err)
}

// dropConstraints removes the checks of the tables, which an owner of the database can do.
func (h *testLedger) dropConstraints(t *testing.T) {
	t.Helper()
	h.tamper(t, `alter table ledger_events drop constraint ledger_events_check; alter table ledger_events drop constraint ledger_events_pkey;
		drop index ledger_events_stream; alter table ledger_blocks drop constraint ledger_blocks_check`)
}

// insertCopySQL inserts a copy of the event at position 1 with another place in the ledger.
func insertCopySQL(shard, position int) string {
	return fmt.Sprintf(`insert into ledger_events select %d, %d, gen_random_uuid(), 'ctc_x', 1, type, schema, organisation_id, workspace_id, occurred_at, actor_type, actor_id,
		request_id, causation_id, correlation_id, data, subject, sealed, tag from ledger_events where position = 1`, shard, position)
}

func TestVerifyAcceptsAnUnchangedLedger(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		h, shard := filledLedger(t, shards, 30)
		v, err := h.Verify(context.Background(), shard, eventstore.VerifyOptions{})
		require.NoError(t, err)
		require.Equal(t, int64(30), v.Events)
		again, err := h.Verify(context.Background(), shard, eventstore.VerifyOptions{})
		require.NoError(t, err)
		require.Equal(t, v, again)
		for other := range shards {
			_, err := h.Verify(context.Background(), other, eventstore.VerifyOptions{})
			require.NoError(t, err)
		}
	}
}

func TestVerifyNamesTheFirstPositionThatWasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql   string
		first int64
	}{
		"a byte of the data":            {`update ledger_events set data = replace(data::text, '"origin":"api"', '"origin":"apj"')::json where position = 17`, 17},
		"a byte of sealed data":         {`update ledger_events set sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1) where position = 9`, 9},
		"the actor":                     {`update ledger_events set actor_type = 'user' where position = 12`, 12},
		"the time":                      {`update ledger_events set occurred_at = occurred_at + interval '1 microsecond' where position = 30`, 30},
		"the time to infinity":          {`update ledger_events set occurred_at = 'infinity' where position = 30`, 30},
		"the tag":                       {`update ledger_events set tag = (select tag from ledger_events where position = 4) where position = 5`, 5},
		"a null to an empty text":       {`update ledger_events set subject = '' where position = 8; update ledger_events set subject = null, sealed = null where position = 9`, 8},
		"a null to an id of zeros":      {`update ledger_events set causation_id = '00000000-0000-0000-0000-000000000000' where position = 14`, 14},
		"an id to null":                 {`update ledger_events set workspace_id = null where position = 14`, 14},
		"a row deleted":                 {`delete from ledger_events where position = 21`, 21},
		"the last row deleted":          {`delete from ledger_events where position = 30`, 30},
		"two rows swapped":              {`update ledger_events set position = 1030 - position where position in (11, 19); update ledger_events set position = position - 1000 where position > 1000`, 11},
		"a row added":                   {insertCopySQL(0, 31), 31},
		"a row far after the head":      {insertCopySQL(0, 1000), 1000},
		"a row before the first":        {insertCopySQL(0, 0), 0},
		"a row at a negative position":  {insertCopySQL(0, -7) + `; ` + insertCopySQL(0, -5), -7},
		"a row twice":                   {insertCopySQL(0, 25), 25},
		"a leaf of a block":             {`update ledger_blocks set leaves = overlay(leaves placing '\x00'::bytea from 40) where number = 2`, 3},
		"the events' root of a block":   {`update ledger_blocks set events_root = root where number = 3`, 9},
		"the root of a block":           {`update ledger_blocks set root = events_root where number = 3`, 9},
		"a node of the tree":            {`update ledger_blocks set nodes = overlay(nodes placing '\x00'::bytea from 40) where number = 4`, 16},
		"the time of a block":           {`update ledger_blocks set closed_at = closed_at + interval '1 hour' where number = 3`, 9},
		"a block removed":               {`delete from ledger_blocks where number = 2`, 2},
		"the last block removed":        {`delete from ledger_blocks where number = (select max(number) from ledger_blocks)`, 0},
		"the head moved back":           {`update ledger_heads set position = 12`, 13},
		"the head moved forward":        {`update ledger_heads set position = 40`, 31},
		"the head removed":              {`delete from ledger_heads`, 1},
		"the key of personal data gone": {`delete from ledger_keys where subject = 'ctc_10'`, 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			h, shard := filledLedger(t, 1, 30)
			_, err := h.Verify(ctx, shard, eventstore.VerifyOptions{})
			require.NoError(t, err)
			h.dropConstraints(t)
			h.tamper(t, c.sql)
			_, err = h.Verify(ctx, shard, eventstore.VerifyOptions{})
			if c.first == 0 && name == "the last block removed" {
				require.NoError(t, err, "it is closed again with the same events; a published head tells the two blocks apart")
				return
			}
			touched := (*eventstore.Tampering)(nil)
			require.ErrorAs(t, err, &touched)
			require.Equal(t, shard, touched.Shard)
			require.Equal(t, c.first, touched.Position, touched.Problem)
		})
	}
}

func TestVerifyFindsRowsInShardsThatDoNotExist(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{insertCopySQL(99, 5), insertCopySQL(-1, 5), `insert into ledger_heads values (99, 5)`} {
		ctx := context.Background()
		h, shard := filledLedger(t, 1, 3)
		h.dropConstraints(t)
		h.tamper(t, sql)
		_, err := h.Verify(ctx, shard, eventstore.VerifyOptions{})
		touched := (*eventstore.Tampering)(nil)
		require.ErrorAs(t, err, &touched, sql)
		require.NotEqual(t, shard, touched.Shard)
		require.Equal(t, int64(5), touched.Position)
	}
}

func TestDatabaseRefusesEventsOutsideOfTheVerifiedPositions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h, _ := filledLedger(t, 1, 3)
	for _, sql := range []string{
		insertCopySQL(0, 4), insertCopySQL(0, 0), insertCopySQL(0, -1), insertCopySQL(7, 1), insertCopySQL(-1, 1),
		`update ledger_events set request_id = 'x'`, `delete from ledger_events`, `truncate ledger_events`,
		`update ledger_blocks set root = events_root`, `delete from ledger_blocks`, `truncate ledger_blocks`,
	} {
		_, err := h.pool.Exec(ctx, sql)
		require.Error(t, err, sql)
	}
}

func TestInsertedEventsHaveNoEffect(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, forge := range map[string]string{
		"in a shard that does not exist": `insert into ledger_events select 9, 1, gen_random_uuid(), 'ctc_2', 2, type, schema, organisation_id, workspace_id, occurred_at, actor_type, actor_id,
			request_id, causation_id, correlation_id, data, subject, sealed, tag from ledger_events where position = 3`,
		"before the first position": `insert into ledger_events select 0, -1, gen_random_uuid(), 'ctc_2', 2, type, schema, organisation_id, workspace_id, occurred_at, actor_type, actor_id,
			request_id, causation_id, correlation_id, data, subject, sealed, tag from ledger_events where position = 3`,
		"after the head": `insert into ledger_events select 0, 6, gen_random_uuid(), 'ctc_2', 2, type, schema, organisation_id, workspace_id, occurred_at, actor_type, actor_id,
			request_id, causation_id, correlation_id, data, subject, sealed, tag from ledger_events where position = 3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, shard := filledLedger(t, 1, 5)
			h.tamper(t, `alter table ledger_events drop constraint ledger_events_check`)
			h.tamper(t, forge)
			got, err := h.Load(ctx, "ctc_2", 0)
			require.NoError(t, err)
			require.Len(t, got, 1)
			got, err = h.LoadMany(ctx, []string{"ctc_2"}, []int{0})
			require.NoError(t, err)
			require.Len(t, got, 1)
			got, err = h.ReadAfter(ctx, shard, eventstore.Point{Position: -10}, 100)
			require.NoError(t, err)
			require.Len(t, got, 5)
			got, err = h.ReadRange(ctx, shard, 0, 1000)
			require.NoError(t, err)
			require.Len(t, got, 5)
		})
	}
	t.Run("at the end, with the head moved", func(t *testing.T) {
		t.Parallel()
		h, shard := filledLedger(t, 1, 5)
		h.tamper(t, `update ledger_heads set position = 6; insert into ledger_events select 0, 6, gen_random_uuid(), 'ctc_2', 2, type, schema, organisation_id, workspace_id, occurred_at,
			actor_type, actor_id, request_id, causation_id, correlation_id, data, subject, sealed, tag from ledger_events where position = 3`)
		_, err := h.Load(ctx, "ctc_2", 0)
		undecodable := (*eventstore.UndecodableError)(nil)
		require.ErrorAs(t, err, &undecodable)
		require.Equal(t, int64(6), undecodable.Position)
		_, err = h.CloseBlocks(ctx, shard)
		require.ErrorContains(t, err, "the service did not append the event at position 6", "nothing that the service did not append is signed")
	})
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
	_, err = h.Verify(ctx, shard, eventstore.VerifyOptions{})
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
