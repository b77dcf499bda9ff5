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

const (
	waitSQL = `insert into sending_waiting (contact_id, queue, position) values ($1, $2, $3)
		on conflict (contact_id) do update set queue = excluded.queue, position = excluded.position`
	waitNoMoreSQL = `delete from sending_waiting where contact_id = $1`
	// The first of the queue, and not whether there is one: for that the planner may read a table of a million who stand in
	// another queue.
	aheadSQL = `select coalesce((select position from sending_waiting where queue = $1 order by position limit 1) < $2, false)`
	letGoSQL = `delete from sending_waiting where contact_id in
		(select contact_id from sending_waiting where queue = $1 order by position limit $2 for update skip locked) returning contact_id`
	// A deadline that has changed is noticed by whoever works on the key just now.
	wakeSQL   = `update process_todo set due_at = least(due_at, $2) - interval '1 microsecond' where process = '` + sendingProcess + `' and key = any($1)`
	anyoneSQL = `select (select position from sending_waiting where queue = $1 order by position limit 1) is not null`
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

// wait puts a contact into the queue in which its message waits, until there may be room.
func (s *Sending) wait(ctx context.Context, task Task, o opened, t *commands.Attempt) error {
	key := queueKey(t.Queue)
	due := t.Until
	if hold := t.Message.Held; hold != nil && hold.Until != nil && hold.Until.Before(due) {
		due = *hold.Until
	}
	var b pgx.Batch
	b.Queue(waitSQL, task.Key, key, o.Position)
	QueueAsks(&b, Ask{Process: releaseProcess, Key: key, Shard: task.Shard, DueAt: due, Position: t.Position})
	if err := s.ledger.Pool().SendBatch(ctx, &b).Close(); err != nil {
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

// ahead tells whether somebody waits in a queue who came before.
func (s *Sending) ahead(o opened) func(context.Context, commands.Queue) (bool, error) {
	return func(ctx context.Context, q commands.Queue) (others bool, err error) {
		if err := s.ledger.Pool().QueryRow(ctx, aheadSQL, queueKey(&q), o.Position).Scan(&others); err != nil {
			return false, fmt.Errorf("processes: queue: %w", err)
		}
		return others, nil
	}
}

// lookAgain is after what time a queue is looked at again from which some were let go: one that turned out not to go,
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
	released, left, err := s.releaseSome(ctx, task.Key, most)
	if err != nil {
		return Done, err
	}
	if released > 0 {
		s.send.Wake()
	}
	switch soon := s.clock.Now().Add(lookAgain); {
	case !left:
		return Done, nil
	case released > 0 && soon.Before(room.More):
		return Again(soon), nil
	}
	return Again(room.More), nil
}

func (s *Sending) releaseSome(ctx context.Context, key string, most int) (released int, left bool, err error) {
	err = pgx.BeginFunc(ctx, s.ledger.Pool(), func(tx pgx.Tx) error {
		if most > 0 {
			rows, err := tx.Query(ctx, letGoSQL, key, most)
			if err != nil {
				return err
			}
			contacts, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			released = len(contacts)
			if released > 0 {
				if _, err := tx.Exec(ctx, todoLockSQL, sendingProcess, contacts); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, wakeSQL, contacts, s.clock.Now()); err != nil {
					return err
				}
			}
		}
		return tx.QueryRow(ctx, anyoneSQL, key).Scan(&left)
	})
	if err != nil {
		return 0, false, fmt.Errorf("processes: queue: %w", err)
	}
	return released, left, nil
}
