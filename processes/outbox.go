package processes

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/message"
	"ledgerline/domain/rules"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/processes/tasks"
)

const (
	openSQL = `insert into sending_outbox (message_id, contact_id, workspace_id, organisation_id, shard, position, automatic)
		select * from unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[], $5::smallint[], $6::bigint[], $7::boolean[]) on conflict do nothing`
	heldSQL    = `update sending_outbox o set held = u.reason from unnest($1::text[], $2::text[]) u (message_id, reason) where o.message_id = u.message_id`
	closeSQL   = `delete from sending_outbox where message_id = any($1)`
	unwatchSQL = `select scheduled_tasks_delete('` + receiptProcess + `', $1)`
	// What was accepted before an opt-out or a deletion is canceled; the answer to the opt-out is not.
	cancelSQL = `update sending_outbox o set cancel = u.code from unnest($1::text[], $2::bigint[], $3::text[]) u (contact_id, position, code)
		where o.contact_id = u.contact_id and o.position < u.position and (not o.automatic or u.code <> '` + message.CodeOptedOut + `')`
	// When lines change, the queues for them look whether there is room.
	linesChangedSQL = `update scheduled_tasks set due_at = least(due_at, $2), scheduled_at_position = greatest(scheduled_at_position, $3)
		where process = '` + releaseProcess + `' and key >= $1 || '/' and key < $1 || '0'`
	// Automatic texts stand in no queue, since they need no room: those that wait for a line are looked at again.
	automaticSQL = `update scheduled_tasks t set due_at = least(t.due_at, $2), scheduled_at_position = greatest(t.scheduled_at_position, $3)
		where t.process = '` + sendingProcess + `' and t.key in (select o.contact_id from sending_outbox o where o.workspace_id = $1 and o.automatic)`
	// When a rule is loosened, those whom it held are looked at again, in an organisation or in one workspace of it.
	loosenedSQL = `update scheduled_tasks t set due_at = least(t.due_at, $2), scheduled_at_position = greatest(t.scheduled_at_position, $3)
		where t.process = '` + sendingProcess + `' and t.key in
			(select o.contact_id from sending_outbox o where o.organisation_id = $1 and o.held = any($4) and ($5::uuid is null or o.workspace_id = $5))`
)

// headStart is how much earlier than now the answers to a contact are due: a confirmation, and what somebody writes by hand, do not
// stand behind a hundred thousand others for whom the quiet hours end this second. What is due longest is taken first.
const headStart = 24 * time.Hour

// Write implements feed.Consumer.
func (s *Sending) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	w := outboxChanges{
		opened: map[string]*opening{}, closed: map[string]bool{}, heard: map[string]bool{}, watches: map[string]tasks.Task{}, lines: map[string]*eventstore.Recorded{},
		answers: map[uuid.UUID]*eventstore.Recorded{}, held: map[string]string{}, fresh: map[string]bool{},
	}
	for i := range recorded {
		w.take(&recorded[i])
	}
	w.queue(b, s.wakeups)
	return nil
}

// outboxChanges is the net effect of a batch of events.
type outboxChanges struct {
	opened   map[string]*opening
	order    []*opening
	closed   map[string]bool
	heard    map[string]bool // had a receipt, or needs none
	canceled []canceling
	asks     []tasks.Task
	watches  map[string]tasks.Task
	lines    map[string]*eventstore.Recorded // by what the keys of their queues begin with
	// Changes of lines that automatic texts may wait for, by workspace.
	answers map[uuid.UUID]*eventstore.Recorded
	held    map[string]string // what messages are held for now, by their id
	fresh   map[string]bool   // lines that were provisioned
	// Changes of what may hold a message.
	loosened []loosening
}

// opening is a message that needs sending.
type opening struct {
	ref       events.MessageRef
	at        *eventstore.Recorded
	automatic bool
}

// loosening is a change after which what was held for some reasons may go.
type loosening struct {
	by        *eventstore.Recorded
	workspace *uuid.UUID // nil: in all of the organisation
	reasons   []string
}

// canceling ends what a contact was to get.
type canceling struct {
	contactID string
	position  int64
	code      string
}

func (w *outboxChanges) take(r *eventstore.Recorded) {
	askAt := func(contactID string, due time.Time) {
		w.asks = append(w.asks, tasks.Task{Process: sendingProcess, Key: contactID, Shard: r.Shard, DueAt: due, Position: r.Position})
	}
	ask := func(contactID string) { askAt(contactID, r.OccurredAt) }
	open := func(ref events.MessageRef, automatic bool) {
		o := &opening{ref, r, automatic}
		w.opened[ref.MessageID], w.order = o, append(w.order, o)
		ask(ref.ContactID)
	}
	switch e := r.Event.(type) {
	case *events.MessageQueued:
		open(e.MessageRef, e.Automatic != "")
		if e.Automatic != "" || e.ByStaff {
			askAt(e.ContactID, r.OccurredAt.Add(-headStart))
		}
	case *events.MessageFellBack:
		open(e.MessageRef, e.Automatic != "")
	case *events.MessageSent:
		w.close(e.MessageID)
		if r.Actor.ID != sendingProcess { // a receipt told it: nobody who serves the contact goes on to what waited behind it
			ask(e.ContactID)
		}
		w.watches[e.MessageID] = tasks.Task{Process: receiptProcess, Key: e.MessageID, Shard: r.Shard, DueAt: r.OccurredAt.Add(receiptDue), Position: r.Position}
	case *events.MessageDelivered:
		w.settled(e.MessageID)
	case *events.MessageRead:
		w.settled(e.MessageID)
	case *events.MessageFailed: // whatever ended it, what waited behind it, or for its place, may go
		w.settled(e.MessageID)
		ask(e.ContactID)
	case *events.MessageReceived: // what the first-message rules held may go
		ask(e.ContactID)
	case *events.ContactOptedOut:
		w.canceled = append(w.canceled, canceling{e.ContactID, r.Position, message.CodeOptedOut})
		ask(e.ContactID)
	case *events.ContactDeleted:
		w.canceled = append(w.canceled, canceling{e.ContactID, r.Position, message.CodeCanceled})
		ask(e.ContactID)
	case *events.LineStateChanged, *events.LineCarrierConfigured:
		w.lines[queuesOf(r.OrganisationID, r.WorkspaceID)] = r
		w.answers[r.WorkspaceID] = r
	case *events.LineProvisioned:
		w.lines[queuesOf(r.OrganisationID, r.WorkspaceID)] = r
		w.fresh[e.LineID] = true
	case *events.PoolLineAdded:
		w.lines[queuesOf(r.OrganisationID, r.WorkspaceID)] = r
		if !w.fresh[e.LineID] { // else nobody knows it
			w.chosenAnew(r)
		}
	case *events.OrganisationResumed:
		w.lines[r.OrganisationID.String()] = r
	case *events.SendingLimitsSet:
		w.lines[r.OrganisationID.String()] = r
		w.loosened = append(w.loosened, loosening{r, nil, []string{rules.ReasonFirstMessage}})
	case *events.ComplianceChanged:
		w.loosened = append(w.loosened, loosening{r, nil, []string{rules.ReasonQuietHours}})
	case *events.IdentityUpdated:
		w.lines[queuesOf(r.OrganisationID, r.WorkspaceID)] = r
		w.loosened = append(w.loosened, loosening{r, &r.WorkspaceID, []string{rules.ReasonIdentity}})
		if slices.Contains(e.Changed, "allowed_line_ids") {
			w.chosenAnew(r)
		}
	case *events.PoolUpdated:
		if slices.Contains(e.Changed, "rotation") {
			w.chosenAnew(r)
		}
	case *events.PoolLineRemoved:
		w.chosenAnew(r)
	case *events.ContactUpdated:
		if slices.Contains(e.Changed, "phone") { // what was meant for the old number ends
			ask(e.ContactID)
		}
	case *events.MessageDeferred:
		w.held[e.MessageID] = e.Reason
	}
}

// chosenAnew looks again at what waits for lines, and may go by other ones now.
func (w *outboxChanges) chosenAnew(r *eventstore.Recorded) {
	w.loosened = append(w.loosened, loosening{r, &r.WorkspaceID, []string{
		rules.ReasonLineUnavailable, rules.ReasonNewHour, rules.ReasonNewDay, rules.ReasonSendsDay,
	}})
}

func (w *outboxChanges) close(messageID string) {
	w.closed[messageID] = true
	delete(w.opened, messageID)
	delete(w.held, messageID)
}

func (w *outboxChanges) settled(messageID string) {
	w.close(messageID)
	w.heard[messageID] = true
	delete(w.watches, messageID)
}

func (w *outboxChanges) queue(b *pgx.Batch, wakeups *tasks.Wakeups) {
	if closed := keys(w.closed); len(closed) > 0 {
		b.Queue(closeSQL, closed)
	}
	w.queueOpened(b)
	if len(w.held) > 0 {
		messages, reasons := make([]string, 0, len(w.held)), make([]string, 0, len(w.held))
		for id, reason := range w.held {
			messages, reasons = append(messages, id), append(reasons, reason)
		}
		b.Queue(heldSQL, messages, reasons)
	}
	if len(w.canceled) > 0 {
		contacts, positions, codes := make([]string, len(w.canceled)), make([]int64, len(w.canceled)), make([]string, len(w.canceled))
		for i, c := range w.canceled {
			contacts[i], positions[i], codes[i] = c.contactID, c.position, c.code
		}
		b.Queue(cancelSQL, contacts, positions, codes)
	}
	if heard := keys(w.heard); len(heard) > 0 {
		b.Queue(unwatchSQL, heard)
	}
	asks := w.asks
	for _, a := range w.watches {
		asks = append(asks, a)
	}
	wakeups.Schedule(b, asks...)
	for queues, r := range w.lines {
		b.Queue(linesChangedSQL, queues, r.OccurredAt, r.Position)
		wakeups.Add(r.Shard, releaseProcess, r.OccurredAt)
	}
	for workspace, r := range w.answers {
		b.Queue(automaticSQL, workspace, r.OccurredAt, r.Position)
		wakeups.Add(r.Shard, sendingProcess, r.OccurredAt)
	}
	for _, l := range w.loosened {
		b.Queue(loosenedSQL, l.by.OrganisationID, l.by.OccurredAt, l.by.Position, l.reasons, l.workspace)
		wakeups.Add(l.by.Shard, sendingProcess, l.by.OccurredAt)
	}
}

func (w *outboxChanges) queueOpened(b *pgx.Batch) {
	var messages, contacts []string
	var workspaces, organisations []uuid.UUID
	var shards []int16
	var positions []int64
	var automatic []bool
	for _, o := range w.order {
		if w.opened[o.ref.MessageID] != o {
			continue
		}
		messages, contacts, workspaces = append(messages, o.ref.MessageID), append(contacts, o.ref.ContactID), append(workspaces, o.at.WorkspaceID)
		shards, positions = append(shards, int16(o.at.Shard)), append(positions, o.at.Position) //nolint:gosec // at most 1,024 shards
		automatic, organisations = append(automatic, o.automatic), append(organisations, o.at.OrganisationID)
	}
	if len(messages) > 0 {
		b.Queue(openSQL, messages, contacts, workspaces, organisations, shards, positions, automatic)
	}
}

func keys(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for k := range set {
		list = append(list, k)
	}
	return list
}
