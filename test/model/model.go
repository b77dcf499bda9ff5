// Package model is a second implementation of the sending rules (docs/reference/sending.md and lines.md), for tests.
// It reads the events of the ledger in order and compares every decision in them, what the carrier really accepted,
// and what readers see, with the rules. It shares no code with the service.
package model

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// Model is the state that the rules speak of, at one position of the ledger.
type Model struct {
	Zones    func(phone string) []string       // the time zones that a number may lie in
	Accepted map[string]events.MessagePersonal // by message id, as its sender knows it: the ledger's copy may be erased

	organisations map[uuid.UUID]*organisation
	workspaces    map[uuid.UUID]*workspace
	pools         map[string]*pool
	lines         map[string]*line
	numbers       map[string]*number
	identities    map[string]*identity
	contacts      map[string]*contact
	messages      map[string]*message
	after         map[int]int64 // by shard: the last position that was read
	at            *eventstore.Recorded

	Violations []string
	kinds      map[string]int
	Counted    map[string]int // how often each situation was met, to check that a run covered them
	zones      map[string]*time.Location
}

type organisation struct {
	limits         events.SendingLimits
	requireConsent bool
	paused         bool
	window         window
}

// identity is a service identity.
type identity struct {
	lines     []string // the lines that it may send from; empty: all
	limit     *int64
	day, sent int // usage day, and messages on it
}

type workspace struct {
	id, organisation uuid.UUID
	pool, sandbox    string
}

type number struct {
	optedOut bool
	holders  map[string]bool
}

type contact struct {
	id, phone  string // current phone; "" if it was erased
	workspace  *workspace
	number     *number
	consent    string
	erased     bool
	line       string // sticky
	replied    bool
	FirstReply time.Time
	before     map[string]bool // messages that were routed before the first reply
	via        map[string]int  // by line: the usage day on which the line last wrote to the contact
	Unread     int
	open       []*message // in the order in which they were accepted
	all        []*message
	ended      int64 // position at which one of the open messages last ended
}

// New returns the model of an empty ledger.
func New(zones func(phone string) []string) *Model {
	return &Model{
		Zones: zones, Accepted: map[string]events.MessagePersonal{}, identities: map[string]*identity{}, organisations: map[uuid.UUID]*organisation{}, workspaces: map[uuid.UUID]*workspace{}, pools: map[string]*pool{},
		lines: map[string]*line{}, numbers: map[string]*number{}, contacts: map[string]*contact{}, messages: map[string]*message{},
		after: map[int]int64{}, kinds: map[string]int{}, Counted: map[string]int{}, zones: map[string]*time.Location{},
	}
}

// perKind is how many violations of a kind are kept as text.
const perKind = 8

// wrong records a violation at the current event.
func (m *Model) wrong(kind, format string, args ...any) {
	m.kinds[kind]++
	if m.kinds[kind] > perKind {
		return
	}
	where := ""
	if m.at != nil {
		where = fmt.Sprintf(" [shard %d, position %d, %s]", m.at.Shard, m.at.Position, m.at.OccurredAt.Format("2006-01-02T15:04:05.000Z"))
	}
	m.Violations = append(m.Violations, kind+": "+fmt.Sprintf(format, args...)+where)
}

// Wrong records a violation that the caller found.
func (m *Model) Wrong(kind, format string, args ...any) {
	m.at = nil
	m.wrong(kind, format, args...)
}

// Kinds counts all violations by their kind.
func (m *Model) Kinds() map[string]int { return m.kinds }

// Walk applies the events that were appended since the last call.
func (m *Model) Walk(ctx context.Context, ledger *eventstore.Ledger) error {
	const page = 5000
	for shard := range ledger.Shards() {
		for {
			found, err := ledger.ReadAfter(ctx, shard, eventstore.Point{Position: m.after[shard]}, page)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				break
			}
			if err := ledger.Decode(ctx, found); err != nil {
				return err
			}
			for i := range found {
				m.Take(&found[i])
			}
		}
	}
	m.at = nil
	return nil
}

// Take applies the next event of a shard.
func (m *Model) Take(r *eventstore.Recorded) {
	m.at = r
	if r.Position != m.after[r.Shard]+1 {
		m.wrong("a gap in the ledger", "%d follows %d", r.Position, m.after[r.Shard])
	}
	m.after[r.Shard] = r.Position
	switch e := r.Event.(type) {
	case *events.OrganisationCreated:
		m.organisations[e.OrganisationID] = &organisation{window: windowOf(events.QuietHours{})}
	case *events.SendingLimitsSet:
		o := m.organisations[r.OrganisationID]
		if o.limits.WarmupCurve != nil {
			m.Counted["limits changed"]++
		}
		m.windowChanged(o, e.Limits.NewContactWindowDays)
		o.limits = e.Limits
	case *events.ComplianceChanged:
		o := m.organisations[r.OrganisationID]
		if o.window != windowOf(e.QuietHours) {
			m.Counted["quiet hours changed"]++
		}
		if e.RequireConsent {
			m.Counted["consent required"]++
		}
		o.requireConsent, o.window = e.RequireConsent, windowOf(e.QuietHours)
	case *events.OrganisationPaused:
		m.organisations[r.OrganisationID].paused = true
		m.Counted["organisations paused"]++
	case *events.OrganisationResumed:
		m.organisations[r.OrganisationID].paused = false
	case *events.IdentityCreated:
		m.identities[e.IdentityID.String()] = &identity{lines: e.AllowedLineIDs, limit: e.DailyLimit}
	case *events.IdentityUpdated:
		i := m.identities[e.IdentityID.String()]
		i.lines, i.limit = e.AllowedLineIDs, e.DailyLimit
		m.Counted["identities changed"]++
	case *events.WorkspaceCreated:
		m.workspaces[e.WorkspaceID] = &workspace{e.WorkspaceID, e.OrganisationID, e.DefaultPoolID, e.SandboxLineID}
	case *events.ContactCreated:
		m.contacts[e.ContactID] = &contact{
			id: e.ContactID, phone: e.Person.Phone, workspace: m.workspaces[r.WorkspaceID], consent: "unknown",
			before: map[string]bool{}, via: map[string]int{},
		}
	case *events.ContactUpdated:
		if slices.Contains(e.Changed, "phone") {
			m.contacts[e.ContactID].phone = e.Person.Phone
			m.Counted["numbers changed"]++
		}
	case *events.ContactDeleted:
		m.erased(m.contacts[e.ContactID])
	case *events.NumberLinked:
		n := m.number(r.Stream)
		n.holders[e.ContactID] = true
		if c := m.contacts[e.ContactID]; c != nil {
			c.number = n
		}
	case *events.NumberOptedOut:
		m.number(r.Stream).optedOut = true
	case *events.NumberOptedIn:
		m.number(r.Stream).optedOut = false
	case *events.ContactOptedIn:
		m.contacts[e.ContactID].consent = "opted_in"
	case *events.ContactOptedOut:
		m.contacts[e.ContactID].consent = "opted_out"
		m.Counted["opt-outs"]++
	case *events.ContactConsentCleared:
		m.contacts[e.ContactID].consent = "unknown"
	case *events.ContactLineAssigned:
		m.contacts[e.ContactID].line = e.LineID
	case *events.ConversationRead:
		m.contacts[e.ContactID].Unread = 0
	default:
		if !m.takeLine(r) {
			m.takeMessage(r)
		}
	}
}

func (m *Model) erased(c *contact) {
	c.erased = true
	m.Counted["erased"]++
	for _, msg := range c.open {
		if msg.inFlight {
			m.Counted["erased with a message in flight"]++
		} else {
			m.Counted["erased with a message that waits"]++
		}
	}
}

func (m *Model) of(c *contact) *organisation { return m.organisations[c.workspace.organisation] }

func (m *Model) number(stream string) *number {
	n := m.numbers[stream]
	if n == nil {
		n = &number{holders: map[string]bool{}}
		m.numbers[stream] = n
	}
	return n
}

// refused gives the error code with which a contact is not messaged (rules SND-2 and SND-3); "" for none.
func (m *Model) refused(c *contact) string {
	switch {
	case c.consent == "opted_out" || c.number != nil && c.number.optedOut:
		return "contact_opted_out"
	case m.of(c).requireConsent && c.consent != "opted_in":
		return "consent_required"
	}
	return ""
}

func (c *contact) closed(msg *message) {
	c.open = slices.DeleteFunc(c.open, func(other *message) bool { return other == msg })
}
