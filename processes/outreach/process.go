// Package outreach carries out outreaches: one message to each contact of an audience (rules OUT-4 to OUT-11).
//
// The key of a task is an outreach. Its first run fixes the audience in a table, in one statement, so that no part of
// the service holds all of it. The next runs accept the messages page by page; a contact gets one message at most,
// because the append that accepts it begins a stream that only one append can begin. The messages then go the way of
// all messages; the sending process lets the others go first.
//
// The consumer keeps the messages that have not left, and schedules the task again when none is left.
package outreach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/domain/outreach"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// ProcessName is the name under which the process follows the feed.
const ProcessName = "process_outreach"

const outreachProcess = "outreach" // key: outreach id

const (
	// acceptPage is how many messages are accepted before the progress is recorded, acceptAtOnce how many at the same
	// time, and acceptPages how many pages a task run accepts.
	acceptPage   = 500
	acceptAtOnce = 32
	acceptPages  = 10
	// cancelPage is how many messages of a cancelled outreach are read at a time.
	cancelPage = 500
	// estimateEvery is how often the end of a running outreach is estimated anew.
	estimateEvery = time.Hour
)

// Process implements processes.Process.
type Process struct {
	app     *commands.App
	store   *projections.Store
	ledger  *eventstore.Ledger
	clock   clock.Clock
	runners []*tasks.Runner
	wakeups *tasks.Wakeups
}

var _ processes.Process = (*Process)(nil)

// New makes the process.
func New(cfg processes.Config) (*Process, error) {
	p := &Process{app: cfg.App, store: cfg.Store, ledger: cfg.Ledger, clock: cfg.Clock}
	var err error
	p.runners, p.wakeups, err = cfg.NewRunners(tasks.RunnerConfig{Process: outreachProcess, Work: p.run, Workers: 8})
	return p, err
}

// Name implements feed.Consumer.
func (*Process) Name() string { return ProcessName }

// Types implements feed.Consumer.
func (*Process) Types() []string { return handlers.Types() }

// Run implements processes.Process.
func (p *Process) Run(ctx context.Context) error { return tasks.RunAll(ctx, p.runners...) }

// Committed implements feed.Consumer.
func (p *Process) Committed(b *feed.Batch) { p.wakeups.Send(b.Shard) }

// changes is the net effect of a batch of events.
type changes struct {
	opened map[string]uuid.UUID // outreaches by message
	closed map[string]bool      // messages that have left or failed
	tasks  []tasks.Task
	last   *eventstore.Recorded
}

const (
	openSQL = `insert into outreach_open (message_id, outreach_id) select * from unnest($1::text[], $2::uuid[]) on conflict do nothing`
	// An outreach without a message that has not left is looked at again.
	closeSQL = `with closed as (delete from outreach_open where message_id = any($1) returning outreach_id)
		insert into scheduled_tasks as t (process, key, shard, due_at, scheduled_at_position)
		select distinct '` + outreachProcess + `', c.outreach_id::text, $2::smallint, $3::timestamptz, $4::bigint from closed c
		where not exists (select from outreach_open o where o.outreach_id = c.outreach_id and o.message_id <> all($1)) order by 2
		on conflict (process, key) do update set due_at = least(t.due_at, excluded.due_at),
			scheduled_at_position = greatest(t.scheduled_at_position, excluded.scheduled_at_position)`
)

// Write implements feed.Consumer.
func (p *Process) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	c := &changes{opened: map[string]uuid.UUID{}, closed: map[string]bool{}}
	handlers.Handle(c, recorded)
	if len(c.opened) > 0 {
		var messages []string
		var outreaches []uuid.UUID
		for _, id := range slices.Sorted(maps.Keys(c.opened)) {
			messages, outreaches = append(messages, id), append(outreaches, c.opened[id])
		}
		b.Queue(openSQL, messages, outreaches)
	}
	p.wakeups.Schedule(b, c.tasks...)
	if len(c.closed) > 0 {
		b.Queue(closeSQL, slices.Sorted(maps.Keys(c.closed)), c.last.Shard, c.last.OccurredAt, c.last.Position)
		p.wakeups.Add(c.last.Shard, outreachProcess, c.last.OccurredAt)
	}
	return nil
}

var handlers = feed.NewHandlers(
	feed.On(func(c *changes, e *events.OutreachCreated, r *eventstore.Recorded) {
		due := r.OccurredAt
		if e.SendAt != nil {
			due = *e.SendAt
		}
		c.schedule(e.OutreachID, due, r)
	}),
	feed.On(func(c *changes, e *events.OutreachCancelled, r *eventstore.Recorded) {
		c.schedule(e.OutreachID, r.OccurredAt, r)
	}),
	feed.On(func(c *changes, e *events.OutreachMessageAccepted, _ *eventstore.Recorded) {
		c.opened[e.MessageID] = e.OutreachID
	}),
	feed.On(func(c *changes, e *events.MessageSent, r *eventstore.Recorded) {
		c.closed[e.MessageID], c.last = true, r
	}),
	feed.On(func(c *changes, e *events.MessageFailed, r *eventstore.Recorded) {
		c.closed[e.MessageID], c.last = true, r
	}),
)

func (c *changes) schedule(id uuid.UUID, due time.Time, r *eventstore.Recorded) {
	c.tasks = append(c.tasks, tasks.Task{Process: outreachProcess, Key: id.String(), Shard: r.Shard, DueAt: due, Position: r.Position})
}

// run takes an outreach as far as it goes now.
func (p *Process) run(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	id, err := uuid.Parse(task.Key)
	if err != nil {
		return tasks.Finished, fmt.Errorf("outreach: the key of an outreach: %w", err)
	}
	o, err := p.app.FindOutreach(ctx, id)
	if err != nil {
		return tasks.Finished, err
	}
	now := p.clock.Now()
	switch {
	case o.Status == outreach.Cancelled:
		return tasks.Finished, p.cancel(ctx, task.Shard, id)
	case o.Ended():
		return tasks.Finished, nil
	case !o.Started && o.SendAt != nil && now.Before(*o.SendAt):
		return tasks.RunAgain(*o.SendAt), nil
	case !o.Started:
		if err := p.start(ctx, task.Shard, &o); err != nil {
			return tasks.Finished, err
		}
	}
	more, err := p.acceptPages(ctx, id)
	switch {
	case err != nil:
		return tasks.Finished, err
	case more:
		return tasks.RunAgain(now), nil
	}
	return p.completeOrEstimate(ctx, task.Shard, &o, now)
}

const (
	emptySQL    = `delete from outreach_recipients where outreach_id = $1`
	fillListSQL = `insert into outreach_recipients (outreach_id, number, contact_id)
		select $1::uuid, number, contact_id from unnest($2::text[]) with ordinality u (contact_id, number)`
	fillSegmentSQL = `insert into outreach_recipients (outreach_id, number, contact_id)
		select $%d::uuid, row_number() over (order by s.position desc), s.id from (%s) s`
	recipientsSQL = `select number, contact_id from outreach_recipients where outreach_id = $1 order by number limit $2`
	reachedSQL    = `delete from outreach_recipients where outreach_id = $1 and number <= $2`
	waitingSQL    = `select contact_id from outreach_recipients where outreach_id = $1`
	// A message that has a line uses its capacity already.
	unsentSQL = `select s.contact_id from outreach_open o join sending_outbox s on s.message_id = o.message_id
		where o.outreach_id = $1 and s.line_id is null`
	anyOpenSQL  = `select exists (select from outreach_open where outreach_id = $1)`
	openPageSQL = `select message_id from outreach_open where outreach_id = $1 and message_id > $2 order by message_id limit $3`
)

// start fixes the audience (rule OUT-4). A run that is repeated after a crash fixes it anew, as long as the start is
// not in the ledger.
func (p *Process) start(ctx context.Context, shard int, o *outreach.Outreach) error {
	if err := p.store.WaitForHead(ctx, shard, projections.Contacts, projections.Segments); err != nil {
		return err
	}
	fill, args := fillListSQL, []any{o.ID}
	if o.SegmentID == nil {
		contacts, err := p.app.FindOutreachContacts(ctx, o.ID)
		if err != nil {
			return err
		}
		args = append(args, contacts)
	} else {
		v := projections.Viewer{Workspace: o.Workspace, Shard: shard}
		audience, values, found, err := p.store.SegmentAudienceSQL(ctx, v, o.SegmentID.String())
		if err != nil {
			return err
		}
		fill, args = "", nil
		if found {
			fill, args = fmt.Sprintf(fillSegmentSQL, len(values)+1, audience), slices.Concat(values, []any{o.ID})
		}
	}
	var total int
	err := pgx.BeginFunc(ctx, p.ledger.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, emptySQL, o.ID); err != nil || fill == "" {
			return err
		}
		filled, err := tx.Exec(ctx, fill, args...)
		total = int(filled.RowsAffected())
		return err
	})
	if err != nil {
		return fmt.Errorf("outreach: fix the audience: %w", err)
	}
	groups, err := p.groups(ctx, waitingSQL, o.ID)
	if err != nil {
		return err
	}
	return p.app.StartOutreach(ctx, o, commands.Audience{Total: total, Groups: groups})
}

func (p *Process) groups(ctx context.Context, sql string, id uuid.UUID) ([]sending.Recipients, error) {
	found, err := p.store.AudienceGroups(ctx, sql, id)
	groups := make([]sending.Recipients, len(found))
	for i, g := range found {
		groups[i] = sending.Recipients(g)
	}
	return groups, err
}

// recipient is a contact of the audience that has had no decision yet.
type recipient struct {
	Number    int64
	ContactID string
}

// acceptPages accepts the messages of the next contacts. more is false when everybody has had a decision.
func (p *Process) acceptPages(ctx context.Context, id uuid.UUID) (more bool, err error) {
	pool := p.ledger.Pool()
	for range acceptPages {
		rows, err := pool.Query(ctx, recipientsSQL, id, acceptPage)
		if err != nil {
			return false, fmt.Errorf("outreach: read the audience: %w", err)
		}
		page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[recipient])
		if err != nil {
			return false, fmt.Errorf("outreach: read the audience: %w", err)
		}
		if len(page) == 0 {
			return false, nil
		}
		if err := p.acceptPage(ctx, id, page); err != nil {
			return false, err
		}
		if _, err := pool.Exec(ctx, reachedSQL, id, page[len(page)-1].Number); err != nil {
			return false, fmt.Errorf("outreach: record the progress: %w", err)
		}
	}
	return true, nil
}

// acceptPage accepts the messages of a page, several at the same time.
func (p *Process) acceptPage(ctx context.Context, id uuid.UUID, page []recipient) error {
	return atOnce(page, func(one recipient) error { return p.app.AcceptOutreachMessage(ctx, id, one.ContactID) })
}

// atOnce calls a function for each item, acceptAtOnce at the same time, and joins the errors.
func atOnce[T any](items []T, do func(T) error) error {
	errs := make([]error, acceptAtOnce)
	queue := make(chan T)
	var working sync.WaitGroup
	for i := range errs {
		working.Go(func() {
			for item := range queue {
				if err := do(item); err != nil {
					errs[i] = err
				}
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	working.Wait()
	return errors.Join(errs...)
}

// completeOrEstimate completes an outreach whose messages have all left or failed. Otherwise it estimates anew when
// they will have, and again after estimateEvery.
func (p *Process) completeOrEstimate(ctx context.Context, shard int, o *outreach.Outreach, now time.Time) (tasks.Result, error) {
	if err := p.store.WaitForHeadByName(ctx, shard, ProcessName); err != nil {
		return tasks.Finished, err
	}
	var isOpen bool
	if err := p.ledger.Pool().QueryRow(ctx, anyOpenSQL, o.ID).Scan(&isOpen); err != nil {
		return tasks.Finished, fmt.Errorf("outreach: read open messages: %w", err)
	}
	if !isOpen {
		return tasks.Finished, p.app.CompleteOutreach(ctx, o.ID)
	}
	groups, err := p.groups(ctx, unsentSQL, o.ID)
	if err != nil {
		return tasks.Finished, err
	}
	if err := p.app.EstimateOutreach(ctx, o, groups); err != nil {
		return tasks.Finished, err
	}
	return tasks.RunAgain(now.Add(estimateEvery)), nil
}

// cancel ends the messages of a cancelled outreach that have not left (rule OUT-10). None is accepted after the
// cancellation, so one walk finds all.
func (p *Process) cancel(ctx context.Context, shard int, id uuid.UUID) error {
	if err := p.store.WaitForHeadByName(ctx, shard, ProcessName); err != nil {
		return err
	}
	for after := ""; ; {
		rows, err := p.ledger.Pool().Query(ctx, openPageSQL, id, after, cancelPage)
		if err != nil {
			return fmt.Errorf("outreach: read open messages: %w", err)
		}
		page, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("outreach: read open messages: %w", err)
		}
		if err := p.cancelPage(ctx, page); err != nil {
			return err
		}
		if len(page) < cancelPage {
			break
		}
		after = page[len(page)-1]
	}
	if _, err := p.ledger.Pool().Exec(ctx, emptySQL, id); err != nil {
		return fmt.Errorf("outreach: empty the audience: %w", err)
	}
	return nil
}

func (p *Process) cancelPage(ctx context.Context, messages []string) error {
	by := commands.Request{Actor: commands.Actor{Type: "system", ID: commands.OutreachActor}}
	return atOnce(messages, func(id string) error {
		_, _, err := p.app.Sending.Cancel(ctx, by, id, message.CodeCanceled, map[string]any{"reason": "outreach_cancelled"})
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
}
