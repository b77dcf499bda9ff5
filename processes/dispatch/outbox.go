package dispatch

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/message"
	"ledgerline/domain/rules"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes"
	"ledgerline/processes/tasks"
)

const (
	openSQL = `insert into sending_outbox (message_id, contact_id, workspace_id, organisation_id, shard, position, automatic, outreach, by_sms)
		select * from unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[], $5::smallint[], $6::bigint[], $7::boolean[], $8::boolean[], $9::boolean[])
		on conflict (message_id) do update set by_sms = true, deferred = null, line_id = null where excluded.by_sms`
	closeSQL    = `delete from sending_outbox where message_id = any($1)`
	deferredSQL = `update sending_outbox o set deferred = u.reason from unnest($1::text[], $2::text[]) u (message_id, reason)
		where o.message_id = u.message_id`
	routedSQL = `update sending_outbox o set line_id = u.line_id from unnest($1::text[], $2::text[]) u (message_id, line_id)
		where o.message_id = u.message_id`
	// An entry whose quiet hours are over stays in its group when it is deferred again: the assign task reads one group
	// after the other, and must not miss an entry that moves between them.
	enqueueSQL = `insert into capacity_queue as q (message_id, contact_id, workspace_id, wants_key, wants, not_before, rank)
		select o.message_id, o.contact_id, o.workspace_id, u.wants_key, u.wants,
			case when e.wants_key = u.wants_key and e.not_before <= u.deferred_at and u.not_before <= u.deferred_at then e.not_before
				when o.outreach and u.not_before > u.deferred_at and u.not_before < $7 then u.not_before + $6::interval
				else u.not_before end, o.position + case when o.outreach then $8::bigint else 0 end
		from unnest($1::text[], $2::bytea[], $3::text[], $4::timestamptz[], $5::timestamptz[])
			u (message_id, wants_key, wants, not_before, deferred_at)
		join sending_outbox o on o.message_id = u.message_id left join capacity_queue e on e.message_id = u.message_id
		on conflict (message_id) do update set wants_key = excluded.wants_key, wants = excluded.wants, not_before = excluded.not_before`
	dequeueSQL         = `delete from capacity_queue where message_id = any($1)`
	dropReceiptTaskSQL = `select scheduled_tasks_delete('` + receiptProcess + `', $1)`
	// What was accepted before an opt-out or an erasure is canceled, but not the confirmation of the opt-out.
	cancelSQL = `update sending_outbox o set cancel = u.code from unnest($1::text[], $2::bigint[], $3::text[]) u (contact_id, position, code)
		where o.contact_id = u.contact_id and o.position < u.position and (not o.automatic or u.code <> '` + message.CodeOptedOut + `')`
	// The assign tasks of an organisation: '0' follows '/' in the order of the keys.
	assignOrganisationSQL = `update scheduled_tasks set due_at = least(due_at, $2), scheduled_at_position = greatest(scheduled_at_position, $3)
		where process = '` + assignProcess + `' and key >= $1 || '/' and key < $1 || '0'`
	// A pause after a failure ends too: what has changed may be its cause.
	runContactsSQL = `update scheduled_tasks t set due_at = least(t.due_at, $1), retry_at = null, scheduled_at_position = greatest(t.scheduled_at_position, $2)
		where t.process in ('` + sendingProcess + `', '` + smsProcess + `') and t.key in `
	runSMSSQL = `update scheduled_tasks t set due_at = least(t.due_at, $1), retry_at = null, scheduled_at_position = greatest(t.scheduled_at_position, $2)
		where t.process = '` + smsProcess + `' and t.key = $3`
	// Automatic texts wait for a line without an entry in the queue, since they need no capacity.
	runAutomaticSQL = runContactsSQL + `(select o.contact_id from sending_outbox o where o.workspace_id = $3 and o.automatic)`
	// A message that was routed waits for its line without an entry in the queue, since its capacity is reserved.
	runRoutedSQL = runContactsSQL + `(select o.contact_id from sending_outbox o where o.line_id = $3)`
	// Messages that were deferred for one of these reasons, in an organisation or in one workspace of it.
	runDeferredSQL = runContactsSQL + `(select o.contact_id from sending_outbox o
		where o.organisation_id = $3 and o.deferred = any($4) and ($5::uuid is null or o.workspace_id = $5) and (not $6 or o.line_id is not null))`
)

// priority is how much earlier than now the tasks for automatic texts and for messages of staff are due. The earliest
// due time is taken first, so these messages do not wait behind a hundred thousand others whose quiet hours have just
// ended (rule SND-23).
const priority = 24 * time.Hour

const (
	// aheadOfOutreach is how much earlier the tasks for messages that were just accepted are due, except for outreaches.
	aheadOfOutreach = 12 * time.Hour
	// outreachPause is how much later than other messages those of outreaches are evaluated when their quiet hours end.
	outreachPause = time.Minute
)

// changes is the net effect of a batch of events on the outbox, the queue and the scheduled tasks.
type changes struct {
	opened      map[string]*openedMessage
	order       []*openedMessage
	closed      map[string]bool
	receiptDone map[string]bool // messages that had a receipt, or need none
	deferred    map[string]string
	routed      map[string]string // line ids by message
	entries     map[string]*entry // nil: the message has no entry any more
	canceled    []cancellation
	tasks       []tasks.Task
	receipts    map[string]tasks.Task
	reruns      []rerun
	// Lines that were provisioned in this batch.
	provisioned map[string]bool
}

// openedMessage is a message that has to be brought to a carrier.
type openedMessage struct {
	ref       events.MessageRef
	at        *eventstore.Recorded
	automatic bool
	outreach  bool
	bySMS     bool // it goes by an SMS connection
}

// entry is an entry of the capacity queue.
type entry struct {
	wants      *events.WantedCapacity
	notBefore  time.Time
	deferredAt time.Time
}

// cancellation ends the messages that a contact was to get.
type cancellation struct {
	contactID string
	position  int64
	code      string
}

// rerun is a statement that makes existing tasks of a process due.
type rerun struct {
	by      *eventstore.Recorded
	process string
	sql     string
	args    []any
}

func newChanges() *changes {
	return &changes{
		opened: map[string]*openedMessage{}, closed: map[string]bool{}, receiptDone: map[string]bool{}, deferred: map[string]string{},
		routed: map[string]string{}, entries: map[string]*entry{}, receipts: map[string]tasks.Task{}, provisioned: map[string]bool{},
	}
}

// Write implements feed.Consumer.
func (p *Process) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	c := newChanges()
	handlers.Handle(c, recorded)
	return c.addTo(b, p.wakeups)
}

// handlers say what an event changes. The table "what wakes what" of docs/sending-internals.md lists them.
var handlers = feed.NewHandlers(
	feed.On(func(c *changes, e *events.MessageQueued, r *eventstore.Recorded) {
		isOutreach := e.Source != nil && *e.Source == "outreach"
		c.open(&openedMessage{ref: e.MessageRef, at: r, automatic: e.Automatic != "", outreach: isOutreach, bySMS: e.SMS != nil})
		switch {
		case e.SMS != nil:
		case e.Automatic != "" || e.ByStaff:
			c.scheduleContact(e.ContactID, r, r.OccurredAt.Add(-priority))
		case !isOutreach:
			c.scheduleContact(e.ContactID, r, r.OccurredAt.Add(-aheadOfOutreach))
		}
	}),
	feed.On(func(c *changes, e *events.MessageFellBack, r *eventstore.Recorded) {
		c.open(&openedMessage{ref: e.MessageRef, at: r, automatic: e.Automatic != "", bySMS: e.SMS != nil}) // an outreach has its line already
	}),
	feed.On(func(c *changes, e *events.MessageDeferred, r *eventstore.Recorded) {
		c.deferred[e.MessageID] = e.Reason
		byAssign := r.Actor.ID == assignProcess // then the contact's task does not know of the deferral
		if e.Wants == nil {
			c.entries[e.MessageID] = nil
			if byAssign {
				c.scheduleContact(e.ContactID, r, r.OccurredAt)
				c.scheduleAssign(r) // the next entry may have the capacity
			}
			return
		}
		waits := &entry{wants: e.Wants, notBefore: time.Unix(0, 0), deferredAt: r.OccurredAt}
		if e.Reason == rules.ReasonQuietHours {
			if waits.notBefore = farAhead; e.Until != nil {
				waits.notBefore = *e.Until
			}
			if byAssign {
				c.scheduleContact(e.ContactID, r, waits.notBefore)
			}
		}
		c.entries[e.MessageID] = waits
		c.scheduleAssign(r)
	}),
	feed.On(func(c *changes, e *events.MessageRouted, r *eventstore.Recorded) {
		c.routed[e.MessageID], c.entries[e.MessageID] = e.LineID, nil
		if r.Actor.ID == assignProcess {
			c.scheduleContact(e.ContactID, r, r.OccurredAt)
		}
	}),
	feed.On(func(c *changes, e *events.MessageSent, r *eventstore.Recorded) {
		c.close(e.MessageID)
		if r.Actor.ID != sendingProcess { // recorded for a receipt: the contact's task does not know that it can go on
			c.scheduleContact(e.ContactID, r, r.OccurredAt)
		}
		due := r.OccurredAt.Add(message.ReceiptTimeout)
		c.receipts[e.MessageID] = processes.TaskOf(receiptProcess, e.MessageID, due, r)
	}),
	feed.On(func(c *changes, e *events.MessageDelivered, _ *eventstore.Recorded) { c.closeReceipt(e.MessageID) }),
	feed.On(func(c *changes, e *events.MessageRead, _ *eventstore.Recorded) { c.closeReceipt(e.MessageID) }),
	feed.On(func(c *changes, e *events.MessageFailed, r *eventstore.Recorded) {
		c.closeReceipt(e.MessageID)
		c.scheduleContact(e.ContactID, r, r.OccurredAt)
		if e.LineID == nil {
			c.runSMS(e.ContactID, r)
		}
		if r.Actor.ID == assignProcess {
			c.scheduleAssign(r) // the entry is gone: the next one may have the capacity
		}
	}),
	feed.On(func(c *changes, e *events.MessageReceived, r *eventstore.Recorded) {
		c.scheduleContact(e.ContactID, r, r.OccurredAt)
	}),
	feed.On(func(c *changes, e *events.ContactOptedOut, r *eventstore.Recorded) {
		c.cancel(e.ContactID, message.CodeOptedOut, r)
	}),
	feed.On(func(c *changes, e *events.ContactDeleted, r *eventstore.Recorded) {
		c.cancel(e.ContactID, message.CodeCanceled, r)
	}),
	feed.On(func(c *changes, e *events.ContactUpdated, r *eventstore.Recorded) {
		if slices.Contains(e.Changed, "phone") { // messages to the old number end
			c.scheduleContact(e.ContactID, r, r.OccurredAt)
			c.runSMS(e.ContactID, r)
		}
	}),
	feed.On(func(c *changes, e *events.LineStateChanged, r *eventstore.Recorded) { c.lineChanged(e.LineID, r) }),
	feed.On(func(c *changes, e *events.LineCarrierConfigured, r *eventstore.Recorded) { c.lineChanged(e.LineID, r) }),
	feed.On(func(c *changes, e *events.LineProvisioned, r *eventstore.Recorded) {
		c.provisioned[e.LineID] = true
		c.scheduleAssign(r)
	}),
	feed.On(func(c *changes, e *events.PoolLineAdded, r *eventstore.Recorded) {
		c.scheduleAssign(r)
		if !c.provisioned[e.LineID] { // no contact knows a new line, and entries that want the pool want it too
			c.linesChanged(r)
		}
	}),
	feed.On(func(c *changes, _ *events.PoolLineRemoved, r *eventstore.Recorded) { c.linesChanged(r) }),
	feed.On(func(c *changes, e *events.PoolUpdated, r *eventstore.Recorded) {
		if slices.Contains(e.Changed, "rotation") {
			c.linesChanged(r)
		}
	}),
	feed.On(func(c *changes, e *events.IdentityUpdated, r *eventstore.Recorded) {
		c.scheduleAssign(r)
		c.runDeferred(r, &r.WorkspaceID, false, rules.ReasonIdentity)
		if slices.Contains(e.Changed, "allowed_line_ids") {
			c.linesChanged(r)
		}
	}),
	feed.On(func(c *changes, _ *events.SendingLimitsSet, r *eventstore.Recorded) {
		c.scheduleAssignOrganisation(r)
		c.runDeferred(r, nil, false, rules.ReasonFirstMessage)
	}),
	feed.On(func(c *changes, _ *events.ComplianceChanged, r *eventstore.Recorded) {
		c.runDeferred(r, nil, false, rules.ReasonQuietHours)
	}),
	feed.On(func(c *changes, _ *events.OrganisationResumed, r *eventstore.Recorded) {
		c.scheduleAssignOrganisation(r)
		c.runDeferred(r, nil, true, rules.ReasonLineUnavailable)
	}),
)

func (c *changes) open(o *openedMessage) {
	c.opened[o.ref.MessageID], c.order = o, append(c.order, o)
	if !o.bySMS {
		c.scheduleContact(o.ref.ContactID, o.at, o.at.OccurredAt)
		return
	}
	c.tasks = append(c.tasks, processes.TaskOf(smsProcess, o.ref.ContactID, o.at.OccurredAt, o.at))
	c.entries[o.ref.MessageID] = nil // it waits for no line any more
}

// runSMS makes the SMS task of a contact due, if there is one.
func (c *changes) runSMS(contactID string, r *eventstore.Recorded) {
	c.reruns = append(c.reruns, rerun{r, smsProcess, runSMSSQL, []any{r.OccurredAt, r.Position, contactID}})
}

// close takes a message out of the outbox and the queue.
func (c *changes) close(messageID string) {
	c.closed[messageID], c.entries[messageID] = true, nil
	delete(c.opened, messageID)
	delete(c.deferred, messageID)
	delete(c.routed, messageID)
}

// closeReceipt closes a message that waits for no receipt any more.
func (c *changes) closeReceipt(messageID string) {
	c.close(messageID)
	c.receiptDone[messageID] = true
	delete(c.receipts, messageID)
}

func (c *changes) cancel(contactID, code string, r *eventstore.Recorded) {
	c.canceled = append(c.canceled, cancellation{contactID, r.Position, code})
	c.runSMS(contactID, r)
	c.scheduleContact(contactID, r, r.OccurredAt)
}

// scheduleContact schedules the task of a contact.
func (c *changes) scheduleContact(contactID string, r *eventstore.Recorded, due time.Time) {
	c.tasks = append(c.tasks, processes.TaskOf(sendingProcess, contactID, due, r))
}

// scheduleAssign schedules the assign task of the event's workspace.
func (c *changes) scheduleAssign(r *eventstore.Recorded) {
	key := workspaceKey(r.OrganisationID, r.WorkspaceID)
	c.tasks = append(c.tasks, processes.TaskOf(assignProcess, key, r.OccurredAt, r))
}

// scheduleAssignOrganisation makes the assign tasks of all workspaces of the organisation due. A workspace without a
// task has no entries.
func (c *changes) scheduleAssignOrganisation(r *eventstore.Recorded) {
	c.reruns = append(c.reruns, rerun{r, assignProcess, assignOrganisationSQL, []any{r.OrganisationID.String(), r.OccurredAt, r.Position}})
}

// lineChanged evaluates again the messages that may wait for a line: by their entries, those that were routed to the
// line, and the automatic texts of the workspace.
func (c *changes) lineChanged(lineID string, r *eventstore.Recorded) {
	c.scheduleAssign(r)
	c.reruns = append(c.reruns,
		rerun{r, sendingProcess, runRoutedSQL, []any{r.OccurredAt, r.Position, lineID}},
		rerun{r, sendingProcess, runAutomaticSQL, []any{r.OccurredAt, r.Position, r.WorkspaceID}})
}

// linesChanged evaluates again what waits for lines in the workspace, and may leave by other lines now.
func (c *changes) linesChanged(r *eventstore.Recorded) {
	c.runDeferred(r, &r.WorkspaceID, false,
		rules.ReasonLineUnavailable, rules.ReasonNewHour, rules.ReasonNewDay, rules.ReasonSendsDay)
}

// runDeferred evaluates again the messages that were deferred for some reasons, in the organisation or in one
// workspace; with routed only those that have a line.
func (c *changes) runDeferred(r *eventstore.Recorded, workspace *uuid.UUID, routed bool, reasons ...string) {
	args := []any{r.OccurredAt, r.Position, r.OrganisationID, reasons, workspace, routed}
	c.reruns = append(c.reruns, rerun{r, sendingProcess, runDeferredSQL, args})
}

// addTo adds the statements to a batch. Rows are closed before they are opened: a message that fell back to SMS is
// both, and takes its new position.
func (c *changes) addTo(b *pgx.Batch, wakeups *tasks.Wakeups) error {
	if len(c.closed) > 0 {
		b.Queue(closeSQL, keys(c.closed))
	}
	c.addOpened(b)
	addPairs(b, deferredSQL, c.deferred)
	addPairs(b, routedSQL, c.routed)
	if err := c.addEntries(b); err != nil {
		return err
	}
	if len(c.canceled) > 0 {
		n := len(c.canceled)
		contacts, positions, codes := make([]string, n), make([]int64, n), make([]string, n)
		for i, x := range c.canceled {
			contacts[i], positions[i], codes[i] = x.contactID, x.position, x.code
		}
		b.Queue(cancelSQL, contacts, positions, codes)
	}
	if len(c.receiptDone) > 0 {
		b.Queue(dropReceiptTaskSQL, keys(c.receiptDone))
	}
	wakeups.Schedule(b, slices.AppendSeq(c.tasks, maps.Values(c.receipts))...)
	for _, r := range c.reruns {
		b.Queue(r.sql, r.args...)
		wakeups.Add(r.by.Shard, r.process, r.by.OccurredAt)
		if r.process == sendingProcess {
			wakeups.Add(r.by.Shard, smsProcess, r.by.OccurredAt)
		}
	}
	return nil
}

func (c *changes) addOpened(b *pgx.Batch) {
	var messages, contacts []string
	var workspaces, organisations []uuid.UUID
	var shards []int16
	var positions []int64
	var automatic, outreach, bySMS []bool
	for _, o := range c.order {
		if c.opened[o.ref.MessageID] != o {
			continue
		}
		messages, contacts, workspaces = append(messages, o.ref.MessageID), append(contacts, o.ref.ContactID), append(workspaces, o.at.WorkspaceID)
		shards, positions = append(shards, int16(o.at.Shard)), append(positions, o.at.Position) //nolint:gosec // at most 1,024 shards
		automatic, outreach, bySMS = append(automatic, o.automatic), append(outreach, o.outreach), append(bySMS, o.bySMS)
		organisations = append(organisations, o.at.OrganisationID)
	}
	if len(messages) > 0 {
		b.Queue(openSQL, messages, contacts, workspaces, organisations, shards, positions, automatic, outreach, bySMS)
	}
}

func (c *changes) addEntries(b *pgx.Batch) error {
	var gone, messages, wants []string
	var wantsKeys [][]byte
	var notBefore, deferredAt []time.Time
	for _, id := range slices.Sorted(maps.Keys(c.entries)) {
		e := c.entries[id]
		if e == nil {
			gone = append(gone, id)
			continue
		}
		text, key, err := encodeWants(e.wants)
		if err != nil {
			return err
		}
		messages, wants, wantsKeys = append(messages, id), append(wants, text), append(wantsKeys, key)
		notBefore, deferredAt = append(notBefore, e.notBefore), append(deferredAt, e.deferredAt)
	}
	if len(gone) > 0 {
		b.Queue(dequeueSQL, gone)
	}
	if len(messages) > 0 {
		b.Queue(enqueueSQL, messages, wantsKeys, wants, notBefore, deferredAt, outreachPause, farAhead, outreachRank)
	}
	return nil
}

// encodeWants gives the text and the key of wanted capacity. Equal wants have equal keys.
func encodeWants(w *events.WantedCapacity) (text string, key []byte, err error) {
	encoded, err := json.Marshal(w)
	if err != nil {
		return "", nil, fmt.Errorf("dispatch: wanted capacity: %w", err)
	}
	const keyBytes = 16
	sum := sha256.Sum256(encoded)
	return string(encoded), sum[:keyBytes], nil
}

func addPairs(b *pgx.Batch, sql string, pairs map[string]string) {
	if len(pairs) == 0 {
		return
	}
	ids, values := make([]string, 0, len(pairs)), make([]string, 0, len(pairs))
	for _, id := range slices.Sorted(maps.Keys(pairs)) {
		ids, values = append(ids, id), append(values, pairs[id])
	}
	b.Queue(sql, ids, values)
}

func keys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
