package processes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands"
)

// What is held because lines have no room stands in a queue: of a line, or of a pool, apart for contacts that are new to
// the lines. A queue is a key of the release process, which is due when there may be room, and lets go as many as there is room
// for. A million that wait are a million rows that nobody touches.

// A place in a queue is kept until its contact has left it. Who was let go stands apart until it is served, and so does who
// was let go and turned out to rest in quiet hours, until these end: neither is overtaken by those who came later.
const (
	goingPlace   = "/go"
	restingPlace = "/rest"
)

const (
	// Who was let go while it was looked at is looked at again, and stays let go until then: $4 is the place it was seen at.
	waitSQL = `insert into sending_waiting as w (contact_id, queue, position) values ($1, $2, $3)
		on conflict (contact_id) do update set queue = excluded.queue, position = excluded.position, not_before = null
		where w.queue <> excluded.queue || '` + goingPlace + `' or w.queue = $4`
	restSQL       = `update sending_waiting set queue = $2, not_before = $3 where contact_id = $1 and queue = $4`
	waitNoMoreSQL = `delete from sending_waiting where contact_id = $1`
	// The first of the queue, and not whether there is one: for that the planner may read a table of a million who stand in
	// another queue.
	aheadSQL = `select coalesce((select position from sending_waiting where queue = $1 order by position limit 1) < $3, false)
		or coalesce((select position from sending_waiting where queue = $2 order by position limit 1) < $3, false)`
	// For the same reason in the order of the queue, though only the number counts. Who rests in quiet hours keeps its place, but
	// no room.
	beforeSQL = `select (select count(*) from (select from sending_waiting where queue = $1 and position < $3 order by position limit $4) x)
		+ (select count(*) from (select from sending_waiting where queue = $2 and position < $3 order by position limit $4) x)`
	restedSQL = `update sending_waiting set queue = $1, not_before = null where queue = $2 and not_before <= $3`
	goingSQL  = `select count(*) from sending_waiting where queue = $1`
	letGoSQL  = `update sending_waiting set queue = $3 where contact_id in
		(select contact_id from sending_waiting where queue = $1 order by position limit $2 for update) returning contact_id`
	// A deadline that has changed is noticed by whoever works on the key just now; a position may be an older one than it
	// knows of, since these asks do not come in the order of events.
	askReleaseSQL = `insert into process_todo as t (process, key, shard, due_at, asked_at_position) values ('` + releaseProcess + `', $1, $2, $3, $4)
		on conflict (process, key) do update set due_at = least(t.due_at, excluded.due_at) - interval '1 microsecond'`
	wakeSQL = `update process_todo set due_at = least(due_at, $2) - interval '1 microsecond' where process = '` + sendingProcess + `' and key = any($1)`
	leftSQL = `select (select position from sending_waiting where queue = $1 order by position limit 1) is not null,
		(select min(not_before) from sending_waiting where queue = $2 and not_before is not null)`
)

// queuesOf is what the keys of all queues of a workspace begin with; those of an organisation begin with its id.
func queuesOf(organisation, workspace uuid.UUID) string {
	return organisation.String() + "/" + workspace.String()
}

func queueKey(q *commands.Queue) string {
	kind := "any"
	if q.New {
		kind = "new"
	}
	return queuesOf(q.Organisation, q.Workspace) + "/" + q.Group + "/" + kind
}

func queueNamed(key string) (q commands.Queue, err error) {
	parts := strings.Split(key, "/")
	const four = 4
	if len(parts) != four {
		return q, fmt.Errorf("processes: %q is not the key of a queue", key)
	}
	if q.Organisation, err = uuid.Parse(parts[0]); err == nil {
		q.Workspace, err = uuid.Parse(parts[1])
	}
	q.Group, q.New = parts[2], parts[3] == "new"
	return q, err
}

// queueOf is the queue that a place is in.
func queueOf(place string) string {
	return strings.TrimSuffix(strings.TrimSuffix(place, goingPlace), restingPlace)
}

// wait puts a contact into the queue in which its message waits, until there may be room.
func (s *Sending) wait(ctx context.Context, task Task, o opened, t *commands.Attempt) error {
	key, due := queueKey(t.Queue), t.Until
	hold := t.Message.Held
	ends := hold != nil && hold.Until != nil && hold.Until.Before(due)
	joins := o.Place == nil || queueOf(*o.Place) != key
	switch {
	case joins && (t.Queue.Behind || !ends): // what is waited for may have come before this place is there to be seen
		due = s.clock.Now()
	case ends:
		due = *hold.Until
	}
	var b pgx.Batch
	b.Queue(waitSQL, task.Key, key, o.Position, o.Place)
	return s.askRelease(ctx, &b, Ask{Process: releaseProcess, Key: key, Shard: task.Shard, DueAt: due, Position: t.Position})
}

// rest keeps a contact's place in its queue while it may not be written to.
func (s *Sending) rest(ctx context.Context, task Task, o opened, t *commands.Attempt) error {
	key := queueOf(*o.Place)
	var b pgx.Batch
	b.Queue(restSQL, task.Key, key+restingPlace, t.Until, *o.Place)
	return s.askRelease(ctx, &b, Ask{Process: releaseProcess, Key: key, Shard: task.Shard, DueAt: t.Until, Position: t.Position})
}

func (s *Sending) askRelease(ctx context.Context, b *pgx.Batch, ask Ask) error {
	b.Queue(askReleaseSQL, ask.Key, ask.Shard, ask.DueAt, ask.Position)
	if err := s.ledger.Pool().SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("processes: queue: %w", err)
	}
	s.release.Wake()
	return nil
}

// leaveQueue takes a contact out of the queue that it stood in.
func (s *Sending) leaveQueue(ctx context.Context, contactID string) error {
	if _, err := s.ledger.Pool().Exec(ctx, waitNoMoreSQL, contactID); err != nil {
		return fmt.Errorf("processes: queue: %w", err)
	}
	return nil
}

// ahead tells whether somebody who came before waits in a queue. Who has a place in it goes when it is let go.
func (s *Sending) ahead(o opened) func(context.Context, commands.Queue) (bool, error) {
	return func(ctx context.Context, q commands.Queue) (others bool, err error) {
		key := queueKey(&q)
		before := key + goingPlace
		if o.Place != nil && queueOf(*o.Place) == key {
			if *o.Place != key+goingPlace {
				return true, nil
			}
			before = key // nor do those matter who were let go with it
		}
		if err := s.ledger.Pool().QueryRow(ctx, aheadSQL, key, before, o.Position).Scan(&others); err != nil {
			return false, fmt.Errorf("processes: queue: %w", err)
		}
		return others, nil
	}
}

// before counts those who came before and have a place in a queue, up to most of each kind of place.
func (s *Sending) before(o opened) func(context.Context, commands.Queue, int) (int, error) {
	return func(ctx context.Context, q commands.Queue, most int) (before int, err error) {
		key := queueKey(&q)
		err = s.ledger.Pool().QueryRow(ctx, beforeSQL, key, key+goingPlace, o.Position, most).Scan(&before)
		if err != nil {
			return 0, fmt.Errorf("processes: queue: %w", err)
		}
		return before, nil
	}
}

// lookAgain is after what time a queue is looked at again while some are on their way from it: one that turned out not to go,
// for its contact's sake, leaves its room to the next.
const lookAgain = 5 * time.Second

// letGo lets those go that a queue's lines have room for, first come first.
func (s *Sending) letGo(ctx context.Context, task Task) (Outcome, error) {
	q, err := queueNamed(task.Key)
	if err != nil {
		return Done, err
	}
	room, err := s.app.RoomOf(ctx, q)
	if err != nil {
		return Done, err
	}
	most := room.Sends
	if q.New {
		most = room.New
	}
	underway, left, next, err := s.releaseSome(ctx, task.Key, most)
	if err != nil {
		return Done, err
	}
	if underway > 0 {
		s.send.Wake()
	}
	again := room.More
	if soon := s.clock.Now().Add(lookAgain); underway > 0 && soon.Before(again) {
		again = soon
	}
	switch {
	case !left && next == nil:
		return Done, nil
	case !left, next != nil && next.Before(again):
		return Again(*next), nil
	}
	return Again(again), nil
}

// releaseSome lets as many go as there is room for, less those who are on their way already. It tells how many are then,
// whether others are left, and when the first of those who rest may be written to.
func (s *Sending) releaseSome(ctx context.Context, key string, most int) (underway int, left bool, next *time.Time, err error) {
	err = pgx.BeginFunc(ctx, s.ledger.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, restedSQL, key, key+restingPlace, s.clock.Now()); err != nil {
			return err
		}
		var going int
		if err := tx.QueryRow(ctx, goingSQL, key+goingPlace).Scan(&going); err != nil {
			return err
		}
		underway = going
		if most -= going; most > 0 {
			rows, err := tx.Query(ctx, letGoSQL, key, most, key+goingPlace)
			if err != nil {
				return err
			}
			contacts, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			underway += len(contacts)
			if len(contacts) > 0 {
				if _, err := tx.Exec(ctx, todoLockSQL, sendingProcess, contacts); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, wakeSQL, contacts, s.clock.Now()); err != nil {
					return err
				}
			}
		}
		return tx.QueryRow(ctx, leftSQL, key, key+restingPlace).Scan(&left, &next)
	})
	if err != nil {
		return 0, false, nil, fmt.Errorf("processes: queue: %w", err)
	}
	return underway, left, next, nil
}
