package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands/sending"
	"ledgerline/events"
)

// outreachRank is added to the position of a message of an outreach. Its rank is then behind those of all other
// messages, and outreaches are served among each other first come, first served (rule SND-22).
const outreachRank = int64(1) << 62

// A group is all entries of a workspace that want the same capacity from the same moment on. Entries of a group are
// equal but for their ranks, so a task that needs the queue reads one row of each group, and the first rows of the
// groups that matter. A million entries of one group cost no more than ten.
type group struct {
	Key       []byte
	Wants     *events.WantedCapacity
	NotBefore time.Time
	First     int64 // the lowest rank
}

const (
	// One step of the index for each group, whatever the number of its entries.
	groupsSQL = `with recursive g as (
			(select wants_key, not_before, rank, wants from capacity_queue where workspace_id = $1
				order by wants_key, not_before, rank limit 1)
		union all
			select n.* from g, lateral (select wants_key, not_before, rank, wants from capacity_queue
				where workspace_id = $1 and (wants_key, not_before) > (g.wants_key, g.not_before)
				order by wants_key, not_before, rank limit 1) n
		)
		select wants_key, wants, not_before, rank from g`
	// The next entries of some groups, each after a rank of its own.
	entriesSQL = `select g.nth::int, e.message_id, e.rank
		from unnest($2::bytea[], $3::timestamptz[], $4::bigint[]) with ordinality g (wants_key, not_before, after, nth), lateral (
			select message_id, rank from capacity_queue
			where workspace_id = $1 and wants_key = g.wants_key and not_before = g.not_before and rank > g.after
			order by rank limit $5) e`
	// How many entries of some groups are before a rank, up to $5 of each group.
	countSQL = `select coalesce(sum(n), 0) from unnest($2::bytea[], $3::timestamptz[]) g (wants_key, not_before), lateral (
			select count(*) n from (select from capacity_queue
				where workspace_id = $1 and wants_key = g.wants_key and not_before = g.not_before and rank < $4
				order by rank limit $5) e) c`
)

// groups reads the groups of a workspace.
func (p *Process) groups(ctx context.Context, workspace uuid.UUID) ([]group, error) {
	rows, err := p.ledger.Pool().Query(ctx, groupsSQL, workspace)
	if err != nil {
		return nil, fmt.Errorf("dispatch: queue: %w", err)
	}
	groups, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g group, err error) {
		var wants []byte
		if err := row.Scan(&g.Key, &wants, &g.NotBefore, &g.First); err != nil {
			return g, err
		}
		return g, json.Unmarshal(wants, &g.Wants)
	})
	if err != nil {
		return nil, fmt.Errorf("dispatch: queue: %w", err)
	}
	return groups, nil
}

// queued is an entry of a group.
type queued struct {
	group     int // index among the groups that were asked for
	messageID string
	rank      int64
}

// entries reads up to n entries of each of these groups, after a rank of each.
func (p *Process) entries(ctx context.Context, workspace uuid.UUID, groups []*group, after []int64, n int) ([]queued, error) {
	keys, notBefore := make([][]byte, len(groups)), make([]time.Time, len(groups))
	for i, g := range groups {
		keys[i], notBefore[i] = g.Key, g.NotBefore
	}
	rows, err := p.ledger.Pool().Query(ctx, entriesSQL, workspace, keys, notBefore, after, n)
	if err != nil {
		return nil, fmt.Errorf("dispatch: queue: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q queued, err error) {
		err = row.Scan(&q.group, &q.messageID, &q.rank)
		q.group-- // ordinality counts from 1
		return q, err
	})
	if err != nil {
		return nil, fmt.Errorf("dispatch: queue: %w", err)
	}
	return found, nil
}

// queueView is the queue as one message sees it: the entries with lower ranks that may use capacity now. It
// implements sending.Queue, and reads the groups once.
type queueView struct {
	process   *Process
	workspace uuid.UUID
	rank      int64
	groups    []group
	read      bool
}

var _ sending.Queue = (*queueView)(nil)

func (v *queueView) earlier(ctx context.Context) ([]group, error) {
	if v.read {
		return v.groups, nil
	}
	all, err := v.process.groups(ctx, v.workspace)
	if err != nil {
		return nil, err
	}
	now := v.process.clock.Now()
	for _, g := range all {
		if g.First < v.rank && !g.NotBefore.After(now) {
			v.groups = append(v.groups, g)
		}
	}
	v.read = true
	return v.groups, nil
}

// Blocked implements sending.Queue.
func (v *queueView) Blocked(ctx context.Context, lineIDs []string) (map[string]bool, error) {
	groups, err := v.earlier(ctx)
	if err != nil {
		return nil, err
	}
	blocked := map[string]bool{}
	for _, id := range lineIDs {
		for i := range groups {
			if blocked[id], err = v.process.app.Sending.CompetesForNew(ctx, groups[i].Wants, id); err != nil {
				return nil, err
			}
			if blocked[id] {
				break
			}
		}
	}
	return blocked, nil
}

// CountBefore implements sending.Queue.
func (v *queueView) CountBefore(ctx context.Context, lineIDs []string, most int) (int, error) {
	groups, err := v.earlier(ctx)
	if err != nil {
		return 0, err
	}
	var keys [][]byte
	var notBefore []time.Time
	for i := range groups {
		for _, id := range lineIDs {
			competes, err := v.process.app.Sending.CompetesForNew(ctx, groups[i].Wants, id)
			if err != nil {
				return 0, err
			}
			if competes {
				keys, notBefore = append(keys, groups[i].Key), append(notBefore, groups[i].NotBefore)
				break
			}
		}
	}
	if len(keys) == 0 {
		return 0, nil
	}
	var n int
	err = v.process.ledger.Pool().QueryRow(ctx, countSQL, v.workspace, keys, notBefore, v.rank, most).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("dispatch: queue: %w", err)
	}
	return n, nil
}
