// Package outreach holds outreaches: one message to each of many contacts (rules OUT-1 to OUT-12).
package outreach

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// Status is the state of an outreach (rule OUT-3).
type Status string

// The statuses of an outreach.
const (
	Scheduled Status = "scheduled"
	Running   Status = "running"
	Completed Status = "completed"
	Cancelled Status = "cancelled"
)

// The reasons for which a contact of the audience gets no message (rule OUT-7).
const (
	SkippedOptedOut  = "contact_opted_out"
	SkippedConsent   = "consent_required"
	SkippedTemplate  = "template_missing"
	SkippedDeleted   = "contact_deleted"
	SkippedReference = "reference_missing" // the line or the pool is gone
)

// The limits of rule OUT-1.
const (
	maxName     = 120
	maxBody     = 2000
	maxMedia    = 10
	maxContacts = 10_000
	maxAhead    = 365 * 24 * time.Hour
)

// Properties is what a client decides about an outreach.
type Properties struct {
	Name       string
	SegmentID  *uuid.UUID // exactly one of SegmentID and ContactIDs is set
	ContactIDs []string
	Body       string // a template
	Media      []events.Media
	PoolID     *string
	LineID     *string
	Fallback   *bool
	SendAt     *time.Time // nil: at once
}

// Outreach is the state of one outreach. The zero value does not exist.
type Outreach struct {
	ID           uuid.UUID
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Status       Status
	Started      bool // the audience is fixed
	StartedAt    time.Time
	EstimatedAt  time.Time // when every message will have left or failed
	Properties             // without ContactIDs
}

// Stream returns the name of the stream of an outreach.
func Stream(id uuid.UUID) string { return events.Stream("otr", id) }

// ListStream returns the name of the stream with the contacts that an outreach names.
func ListStream(id uuid.UUID) string { return events.Stream("otl", id) }

// RecipientStream returns the name of the stream that records what one contact got.
func RecipientStream(id uuid.UUID, contactID string) string {
	return events.Stream("otm", id) + "_" + contactID
}

// Apply returns the state after one event of the outreach's stream.
func (o Outreach) Apply(event events.Event, in events.Envelope) Outreach {
	switch e := event.(type) {
	case *events.OutreachCreated:
		o = Outreach{
			ID: e.OutreachID, Organisation: in.Organisation, Workspace: in.Workspace, Status: Running,
			Properties: Properties{
				Name: e.Name, SegmentID: e.SegmentID, Body: e.Body, Media: e.Media, PoolID: e.PoolID, LineID: e.LineID, Fallback: e.Fallback, SendAt: e.SendAt,
			},
		}
		if e.SendAt != nil {
			o.Status = Scheduled
		}
	case *events.OutreachStarted:
		o.Status, o.Started, o.StartedAt, o.EstimatedAt = Running, true, in.At, e.EstimatedAt
	case *events.OutreachEstimated:
		o.EstimatedAt = e.EstimatedAt
	case *events.OutreachCompleted:
		o.Status = Completed
	case *events.OutreachCancelled:
		o.Status = Cancelled
	}
	return o
}

// Exists reports whether the outreach was created.
func (o Outreach) Exists() bool { return o.ID != uuid.Nil }

// List is the contacts that an outreach names.
type List struct{ ContactIDs []string }

// Apply returns the state after one event of the list's stream.
func (l List) Apply(event events.Event, _ events.Envelope) List {
	if e, ok := event.(*events.OutreachContactsListed); ok {
		return List{e.ContactIDs}
	}
	return l
}

// Recipient is what one contact got of an outreach. The zero value: nothing was decided.
type Recipient struct{ Decided bool }

// Apply returns the state after one event of the recipient's stream.
func (r Recipient) Apply(events.Event, events.Envelope) Recipient { return Recipient{Decided: true} }

// Check returns everything that is wrong with the properties themselves; the caller checks what they name.
func (p Properties) Check(now time.Time) []fault.Issue {
	var issues []fault.Issue
	add := func(pointer, code, message string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
	}
	switch name := strings.TrimSpace(p.Name); {
	case name == "":
		add("/name", "required", "An outreach needs a name.")
	case utf8.RuneCountInString(name) > maxName:
		add("/name", "too_long", "A name has at most 120 characters.")
	}
	issues = append(issues, p.audienceIssues()...)
	switch {
	case strings.TrimSpace(p.Body) == "":
		add("/body", "required", "An outreach needs a body.")
	case utf8.RuneCountInString(p.Body) > maxBody:
		add("/body", "too_long", "A body has at most 2000 characters.")
	default:
		if t, err := workflow.ParseTemplate(p.Body); err != nil {
			add("/body", "invalid_template", err.Error())
		} else if t.UsesTrigger() {
			add("/body", "invalid_template", "Only workflows have the data of a trigger.")
		}
	}
	if len(p.Media) > maxMedia {
		add("/media", "too_many", "A message has at most 10 media.")
	}
	if p.PoolID != nil && p.LineID != nil {
		add("/line_id", "not_with_pool_id", "An outreach names a pool or a line, not both.")
	}
	switch {
	case p.SendAt == nil:
	case !p.SendAt.After(now):
		add("/send_at", "not_in_the_future", "An outreach is scheduled for a time ahead.")
	case p.SendAt.After(now.Add(maxAhead)):
		add("/send_at", "too_late", "An outreach is scheduled at most 365 days ahead.")
	}
	return issues
}

func (p Properties) audienceIssues() []fault.Issue {
	issue := func(pointer, code, message string) []fault.Issue {
		return []fault.Issue{{Location: "body", Path: pointer, Code: code, Message: message}}
	}
	switch {
	case (p.SegmentID == nil) == (p.ContactIDs == nil):
		return issue("/segment_id", "exactly_one", "Exactly one of segment_id and contact_ids is needed.")
	case p.SegmentID != nil:
		return nil
	case len(p.ContactIDs) == 0:
		return issue("/contact_ids", "too_few_items", "Expected at least 1 item.")
	case len(p.ContactIDs) > maxContacts:
		return issue("/contact_ids", "too_many_items", "Expected at most 10000 items.")
	}
	var issues []fault.Issue
	seen := make(map[string]bool, len(p.ContactIDs))
	for i, id := range p.ContactIDs {
		if seen[id] {
			issues = append(issues, issue(fmt.Sprintf("/contact_ids/%d", i), "repeated", "A contact is listed once.")...)
		}
		seen[id] = true
	}
	return issues
}

// Create creates an outreach with checked properties. listed is nil unless the outreach names its contacts.
func Create(id uuid.UUID, p Properties, total int, estimate time.Time) (created, listed []events.Event) {
	e := &events.OutreachCreated{
		OutreachID: id, Name: strings.TrimSpace(p.Name), SegmentID: p.SegmentID, Total: total, Body: p.Body, Media: p.Media, PoolID: p.PoolID,
		LineID: p.LineID, Fallback: p.Fallback, SendAt: p.SendAt, EstimatedAt: estimate,
	}
	if p.SegmentID == nil {
		listed = []events.Event{&events.OutreachContactsListed{OutreachID: id, ContactIDs: p.ContactIDs}}
	}
	return []events.Event{e}, listed
}

// Start records that the audience is fixed; no event when it is already, or when the outreach has ended.
func (o Outreach) Start(total int, estimate time.Time) []events.Event {
	if o.Started || o.Ended() {
		return nil
	}
	return []events.Event{&events.OutreachStarted{OutreachID: o.ID, Total: total, EstimatedAt: estimate}}
}

// Ended reports whether the outreach is completed or cancelled.
func (o Outreach) Ended() bool { return o.Status == Completed || o.Status == Cancelled }

// Complete records that every message has left or failed; no event when the outreach has ended.
func (o Outreach) Complete() []events.Event {
	if o.Ended() {
		return nil
	}
	return []events.Event{&events.OutreachCompleted{OutreachID: o.ID}}
}

// Estimate records another estimate; no event when it is the same, or when the outreach has ended.
func (o Outreach) Estimate(at time.Time) []events.Event {
	if o.Ended() || at.Equal(o.EstimatedAt) {
		return nil
	}
	return []events.Event{&events.OutreachEstimated{OutreachID: o.ID, EstimatedAt: at}}
}

// Cancel ends the outreach. One that has ended is refused with conflict (rule OUT-10).
func (o Outreach) Cancel() ([]events.Event, error) {
	if o.Ended() {
		return nil, fault.New(fault.Conflict, "The outreach is %s already.", o.Status)
	}
	return []events.Event{&events.OutreachCancelled{OutreachID: o.ID, From: string(o.Status)}}, nil
}

// Accept records that a contact gets a message.
func (o Outreach) Accept(contactID, messageID string) events.Event {
	return &events.OutreachMessageAccepted{OutreachID: o.ID, ContactID: contactID, MessageID: messageID}
}

// Skip records that a contact gets no message.
func (o Outreach) Skip(contactID, reason string) events.Event {
	return &events.OutreachContactSkipped{OutreachID: o.ID, ContactID: contactID, Reason: reason}
}
