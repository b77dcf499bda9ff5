package processes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands/sending"
	"ledgerline/processes/tasks"
)

// What is held because lines have no room stands in a queue: of a line, or of a pool, apart for contacts that are new to
// the lines. A queue is a key of the release process, which is due when there may be room, and lets go as many as there is room
// for. A million that wait are a million rows that nobody touches.

// A contact keeps its place in a queue until it has left it. Who was let go is not overtaken by those who came later. Who was let go
// and cannot go rests: in quiet hours, or because the room is on lines that will not do for it. It takes no room meanwhile,
// and comes before those who joined later when it is over.
const (
	stageWaiting = "waiting"
	stageGoing   = "going"
	stageQuiet   = "quiet"
	stageUnfit   = "unfit"
)

// place is where a contact stands in a queue for room.
type place struct {
	Queue, Stage string
}

const (
	// Who was let go while it was looked at is looked at again, and stays let go until then: $4 is the stage it was seen in.
	waitSQL = `insert into sending_waiting as w (contact_id, queue, position, elsewhere) values ($1, $2, $3, $5)
		on conflict (contact_id) do update set queue = excluded.queue, stage = '` + stageWaiting + `', position = excluded.position, not_before = null,
			elsewhere = excluded.elsewhere
		where w.queue <> excluded.queue or w.stage <> '` + stageGoing + `' or $4 = '` + stageGoing + `'`
	restSQL       = `update sending_waiting set stage = $4, position = $5, not_before = $6, judged_at = $7, elsewhere = coalesce($8, elsewhere) where contact_id = $1 and queue = $2 and stage = $3`
	waitNoMoreSQL = `delete from sending_waiting where contact_id = $1 returning queue, stage`
	// The first of the queue, and not whether there is one: for that the planner may read a table of a million who stand in
	// another queue.
	aheadSQL = `select coalesce((select position from sending_waiting where queue = $1 and stage = '` + stageWaiting + `' order by position limit 1) < $2, false)
		or $3 and coalesce((select position from sending_waiting where queue = $1 and stage = '` + stageGoing + `' order by position limit 1) < $2, false)`
	// For the same reason in the order of the queue, though only the number counts. Who rests keeps its place, but no room.
	beforeSQL = `select (select count(*) from (select from sending_waiting where queue = $1 and stage = '` + stageWaiting + `' and position < $2 order by position limit $3) x)
		+ (select count(*) from (select from sending_waiting where queue = $1 and stage = '` + stageGoing + `' and position < $2 order by position limit $3) x)`
	restedSQL = `update sending_waiting set stage = '` + stageWaiting + `', not_before = null where queue = $1 and not_before <= $2`
	// Those to whom a line was of no use look again when lines have changed since: $2 is where they last did.
	judgedSQL = `update sending_waiting set stage = '` + stageWaiting + `', not_before = null where queue = $1 and stage = '` + stageUnfit + `' and judged_at < $2`
	goingSQL  = `select count(*) from sending_waiting where queue = $1 and stage = '` + stageGoing + `'`
	letGoSQL  = `update sending_waiting set stage = '` + stageGoing + `' where contact_id in
		(select contact_id from sending_waiting where queue = $1 and stage = '` + stageWaiting + `' order by position limit $2 for update) returning contact_id`
	// Each of those that are named, found by a step over all who name the same.
	othersSQL = `with recursive other (named) as (
			(select elsewhere from sending_waiting where queue = $1 and stage = '` + stageWaiting + `' and elsewhere <> '' order by elsewhere limit 1)
		union all
			select (select elsewhere from sending_waiting where queue = $1 and stage = '` + stageWaiting + `' and elsewhere <> '' and elsewhere > named
				order by elsewhere limit 1) from other where named is not null)
		select named from other where named is not null limit 1000`
	letGoElsewhereSQL = `update sending_waiting set stage = '` + stageGoing + `' where contact_id in (
		select first.contact_id from unnest($3::text[]) named, lateral (select contact_id, position from sending_waiting
			where queue = $1 and stage = '` + stageWaiting + `' and elsewhere <> '' and elsewhere = named order by position limit $2 for update) first
		order by first.position limit $2) returning contact_id`
	// A deadline that has changed is noticed by whoever works on the key just now; a position may be an older one than it
	// knows of, since these asks do not come in the order of events.
	askReleaseSQL = `insert into scheduled_tasks as t (process, key, shard, due_at, scheduled_at_position) values ('` + releaseProcess + `', $1, $2, $3, $4)
		on conflict (process, key) do update set due_at = least(t.due_at, excluded.due_at) - interval '1 microsecond'`
	wakeSQL = `update scheduled_tasks set due_at = least(due_at, $2) - interval '1 microsecond' where process = '` + sendingProcess + `' and key = any($1)`
	leftSQL = `select (select position from sending_waiting where queue = $1 and stage = '` + stageWaiting + `' order by position limit 1) is not null,
		(select min(not_before) from sending_waiting where queue = $1 and not_before is not null)`
)

// queuesOf is what the keys of all queues of a workspace begin with; those of an organisation begin with its id.
func queuesOf(organisation, workspace uuid.UUID) string {
	return organisation.String() + "/" + workspace.String()
}

func queueKey(q *sending.Queue) string {
	kind := "any"
	switch {
	case q.Taken:
		kind = "taken"
	case q.New:
		kind = "new"
	}
	key := queuesOf(q.Organisation, q.Workspace) + "/" + q.Group + "/" + kind
	if q.Sender+q.Text != "" {
		key += "/" + q.Sender + "." + q.Text
	}
	return key
}

func queueNamed(key string) (q sending.Queue, err error) {
	parts := strings.Split(key, "/")
	const four = 4
	switch len(parts) {
	case four:
	case four + 1:
		q.Sender, q.Text, _ = strings.Cut(parts[four], ".")
	default:
		return q, fmt.Errorf("processes: %q is not the key of a queue", key)
	}
	if q.Organisation, err = uuid.Parse(parts[0]); err == nil {
		q.Workspace, err = uuid.Parse(parts[1])
	}
	q.Group, q.New, q.Taken = parts[2], parts[3] == "new", parts[3] == "taken"
	return q, err
}

// wait puts a contact into the queue in which its message waits, until there may be room.
func (s *Sending) wait(ctx context.Context, turn *serving, o opened, t *sending.Attempt) error {
	key, due := queueKey(t.Queue), t.Until
	task, seen := turn.task, turn.place
	if seen.Queue != key {
		seen = place{}
	}
	ends := !t.Queue.Until.IsZero() && t.Queue.Until.Before(due)
	if ends {
		due = t.Queue.Until
	}
	if seen.Stage == stageGoing && !t.Queue.Behind { // it was its turn, and what room there is does it no good
		return s.rest(ctx, turn, o, t, stageUnfit, due)
	}
	// What is waited for may have come before this place is there to be seen: the queue is looked at, and where there is most likely
	// no room before a time that is known, not by each who joins.
	now := s.clock.Now()
	switch {
	case seen.Stage == stageGoing:
		due = t.Until // the queue is looked at again soon
	case seen.Stage == "" && ends && !t.Queue.Behind:
		due = earlier(due, now.Add(lookAgain))
	case seen.Stage != stageWaiting:
		due = now
	case len(t.Queue.Elsewhere) > 0:
		due = earlier(due, now.Add(lookAgain))
	}
	var b pgx.Batch
	b.Queue(waitSQL, task.Key, key, o.Position, seen.Stage, elsewhere(t.Queue))
	return s.askRelease(ctx, &b, tasks.Task{Process: releaseProcess, Key: key, Shard: task.Shard, DueAt: due, Position: t.Position})
}

// elsewhere names the other queues whose room would do, by their keys; nil when nothing is known of them.
func elsewhere(q *sending.Queue) *string {
	if q == nil {
		return nil
	}
	keys := make([]string, len(q.Elsewhere))
	for i := range q.Elsewhere {
		keys[i] = queueKey(&q.Elsewhere[i])
	}
	named := strings.Join(keys, " ")
	return &named
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// rest keeps a contact's place in its queue while it cannot use the room that there is. Who was let go leaves it to the next.
func (s *Sending) rest(ctx context.Context, turn *serving, o opened, t *sending.Attempt, stage string, until time.Time) error {
	task, from := turn.task, turn.place
	var b pgx.Batch
	b.Queue(restSQL, task.Key, from.Queue, from.Stage, stage, o.Position, until, t.Position, elsewhere(t.Queue))
	due := until
	if from.Stage == stageGoing {
		due = s.clock.Now()
	}
	return s.askRelease(ctx, &b, tasks.Task{Process: releaseProcess, Key: from.Queue, Shard: task.Shard, DueAt: due, Position: t.Position})
}

func (s *Sending) askRelease(ctx context.Context, b *pgx.Batch, task tasks.Task) error {
	b.Queue(askReleaseSQL, task.Key, task.Shard, task.DueAt, task.Position)
	if err := s.ledger.Pool().SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("processes: queue: %w", err)
	}
	s.release.Wake()
	return nil
}

// leaveQueue takes a contact out of the queue that it stood in. Who was let go and sends nothing leaves its room to the next.
func (s *Sending) leaveQueue(ctx context.Context, turn *serving, sends bool) error {
	var was place
	turn.place = place{}
	err := s.ledger.Pool().QueryRow(ctx, waitNoMoreSQL, turn.task.Key).Scan(&was.Queue, &was.Stage)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("processes: queue: %w", err)
	case was.Stage != stageGoing || sends:
		return nil
	}
	ask := tasks.Task{Process: releaseProcess, Key: was.Queue, Shard: turn.task.Shard, DueAt: s.clock.Now(), Position: turn.task.Position}
	return s.askRelease(ctx, &pgx.Batch{}, ask)
}

// ahead tells whether somebody who came before waits in a queue. Who has a place in it goes when it is let go.
func (s *Sending) ahead(turn *serving, o opened) func(context.Context, sending.Queue) (bool, error) {
	return func(ctx context.Context, q sending.Queue) (others bool, err error) {
		key := queueKey(&q)
		here := turn.place.Queue == key
		if here && turn.place.Stage != stageGoing {
			return true, nil
		}
		// Nor do those matter who were let go with it.
		if err := s.ledger.Pool().QueryRow(ctx, aheadSQL, key, o.Position, !here).Scan(&others); err != nil {
			return false, fmt.Errorf("processes: queue: %w", err)
		}
		return others, nil
	}
}

// before counts those who came before and have a place in a queue, up to most of those who wait and of those who were let go.
func (s *Sending) before(o opened) func(context.Context, sending.Queue, int) (int, error) {
	return func(ctx context.Context, q sending.Queue, most int) (before int, err error) {
		if err = s.ledger.Pool().QueryRow(ctx, beforeSQL, queueKey(&q), o.Position, most).Scan(&before); err != nil {
			return 0, fmt.Errorf("processes: queue: %w", err)
		}
		return before, nil
	}
}

// lookAgain is after what time a queue is looked at again while some are on their way from it (one that turned out not to go,
// for its contact's sake, leaves its room to the next), and when somebody has joined it.
const lookAgain = 5 * time.Second

// letGo lets those go that a queue's lines have room for, first come first.
func (s *Sending) letGo(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	q, err := queueNamed(task.Key)
	if err != nil {
		return tasks.Finished, err
	}
	// First who is on the way, then the room: whoever leaves in between counts twice then, and the other way round not at all.
	going, others, err := s.look(ctx, task)
	if err != nil {
		return tasks.Finished, err
	}
	room, err := s.app.Sending.RoomOf(ctx, q)
	if err != nil {
		return tasks.Finished, err
	}
	most := room.Sends
	switch {
	case room.Gone, room.Stopped && q.Taken: // they look for another line, or learn that they wait in vain
		most = searching
	case q.New:
		most = room.New
	}
	shares, err := s.roomElsewhere(ctx, others, room.Stopped, going)
	if err != nil {
		return tasks.Finished, err
	}
	released, left, next, err := s.releaseSome(ctx, task, append(shares, share{most: most - going}))
	if err != nil {
		return tasks.Finished, err
	}
	if released > 0 {
		s.send.Wake()
	}
	again, underway := room.More, going+released > 0
	if underway {
		again = earlier(again, s.clock.Now().Add(lookAgain))
	}
	idle := !left && !underway // nobody is left but those who rest
	switch {
	case idle && next == nil:
		return tasks.Finished, nil
	case next != nil && (idle || next.Before(again)):
		return tasks.RunAgain(*next), nil
	}
	return tasks.RunAgain(again), nil
}

// look ends the rest of those for whom it is over, and tells how many are on the way from a queue, and which other queues are named by
// those who wait in it.
func (s *Sending) look(ctx context.Context, task tasks.Leased) (going int, others []string, err error) {
	var b pgx.Batch
	b.Queue(restedSQL, task.Key, s.clock.Now())
	b.Queue(judgedSQL, task.Key, task.Position)
	b.Queue(goingSQL, task.Key).QueryRow(func(row pgx.Row) error { return row.Scan(&going) })
	b.Queue(othersSQL, task.Key).Query(func(rows pgx.Rows) (err error) {
		others, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err := s.ledger.Pool().SendBatch(ctx, &b).Close(); err != nil {
		return 0, nil, fmt.Errorf("processes: queue: %w", err)
	}
	return going, others, nil
}

// share is so much room for those of a queue who name another one; for all of them when nothing is named.
type share struct {
	named []string
	most  int
}

// roomElsewhere gives the room of other queues that would do for some of those who wait in one. That of the pool only does for who waits
// for a line that cannot send.
func (s *Sending) roomElsewhere(ctx context.Context, others []string, stopped bool, going int) ([]share, error) {
	naming := map[string][]string{}
	for _, named := range others {
		for _, key := range strings.Fields(named) {
			naming[key] = append(naming[key], named)
		}
	}
	var shares []share
	for _, key := range slices.Sorted(maps.Keys(naming)) {
		other, err := queueNamed(key)
		if err != nil {
			return nil, err
		}
		most := searching // it moves to the pool's queue, if there is no room
		switch {
		case other.IsPool() && !stopped:
			continue
		case !other.IsPool():
			room, err := s.app.Sending.RoomOf(ctx, other)
			if err != nil {
				return nil, err
			}
			most = room.Sends
		}
		shares = append(shares, share{naming[key], most - going})
	}
	return shares, nil
}

// searching is how many who wait for a line that cannot send are let go at a time.
const searching = 500

// releaseSome lets so many go as there is room for. It tells how many did, whether others are left, and when the first of those who rest may go.
func (s *Sending) releaseSome(ctx context.Context, task tasks.Leased, room []share) (released int, left bool, next *time.Time, err error) {
	err = pgx.BeginFunc(ctx, s.ledger.Pool(), func(tx pgx.Tx) error {
		var contacts []string
		for _, r := range room {
			if r.most <= 0 {
				continue
			}
			sql, args := letGoSQL, []any{task.Key, r.most}
			if len(r.named) > 0 {
				sql, args = letGoElsewhereSQL, append(args, r.named)
			}
			rows, err := tx.Query(ctx, sql, args...)
			if err != nil {
				return err
			}
			if contacts, err = pgx.AppendRows(contacts, rows, pgx.RowTo[string]); err != nil {
				return err
			}
		}
		if released = len(contacts); released > 0 {
			if _, err := tx.Exec(ctx, tasks.LockSQL, sendingProcess, contacts); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, wakeSQL, contacts, s.clock.Now()); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, leftSQL, task.Key).Scan(&left, &next)
	})
	if err != nil {
		return 0, false, nil, fmt.Errorf("processes: queue: %w", err)
	}
	return released, left, next, nil
}
