package crash

import (
	"strings"
	"time"

	"ledgerline/adapters/simulator"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// history applies the events of the ledger in the order of their positions, and checks each against the rules of
// sending. It knows only the events and shares no code with the service.
type history struct {
	violations *violations
	messages   map[string]*lifetime
	newTo      map[string][]time.Time // by line: times of routed messages to new contacts
	contacts   map[string]*person
	registered map[string]bool // number streams that opted out
	expected   map[ledgerPosition][]expectation
	reconciled int
	asked      int // of them: messages without any receipt
}

type ledgerPosition struct {
	shard    int
	position int64
}

// expectation is the consent that a contact must have at a position, because a request was answered with it.
type expectation struct{ contact, consent string }

// person is a contact.
type person struct {
	consent string
	number  string // stream of its number
	phone   string
	waiting []string // messages without an attempt, in the order of acceptance
	unsent  []string // attempted messages that are not sent yet, in the same order
}

// lifetime is a message.
type lifetime struct {
	contact   string
	automatic bool
	inbound   bool
	stage     stage
	attempts  int
	inFlight  bool // an attempt is in flight
	carrierID string
	failed    bool
	asked     bool // whether it was looked up at the carrier
}

// stage is how far a message has come; it never goes back.
type stage int

const (
	accepted stage = iota
	trying
	sent
	delivered
	read
)

// status is the name of a status in the API.
func (m *lifetime) status() string {
	switch {
	case m.inbound:
		return "received"
	case m.failed:
		return "failed"
	}
	return [...]string{"queued", "sending", "sent", "delivered", "read"}[m.stage]
}

func newHistory(v *violations) *history {
	return &history{
		violations: v, messages: map[string]*lifetime{}, newTo: map[string][]time.Time{}, contacts: map[string]*person{}, registered: map[string]bool{},
		expected: map[ledgerPosition][]expectation{},
	}
}

// apply applies the next event of a shard.
func (h *history) apply(r *eventstore.Recorded) {
	switch e := r.Event.(type) {
	case *events.ContactCreated:
		h.contacts[e.ContactID] = &person{consent: "unknown", phone: e.Person.Phone}
	case *events.NumberLinked:
		h.person(e.ContactID).number = r.Stream
	case *events.ContactOptedIn:
		h.person(e.ContactID).consent = "opted_in"
	case *events.ContactOptedOut:
		h.person(e.ContactID).consent = "opted_out"
	case *events.ContactConsentCleared:
		h.person(e.ContactID).consent = "unknown"
	case *events.NumberOptedOut:
		h.registered[r.Stream] = true
	case *events.NumberOptedIn:
		h.registered[r.Stream] = false
	default:
		h.message(r)
	}
	for _, x := range h.expected[ledgerPosition{r.Shard, r.Position}] {
		if c := h.contacts[x.contact]; c == nil || c.consent != x.consent {
			h.violations.add("an answered change of consent is not in the ledger", "%s at %d of shard %d: not %s", x.contact, r.Position, r.Shard, x.consent)
		}
	}
	delete(h.expected, ledgerPosition{r.Shard, r.Position})
}

func (h *history) message(r *eventstore.Recorded) {
	switch e := r.Event.(type) {
	case *events.MessageQueued:
		h.begin(r, e.MessageRef, &lifetime{contact: e.ContactID, automatic: e.Automatic != ""})
		c := h.person(e.ContactID)
		c.waiting = append(c.waiting, e.MessageID)
	case *events.MessageReceived:
		h.begin(r, e.MessageRef, &lifetime{contact: e.ContactID, inbound: true})
	case *events.MessageSending:
		h.sending(r, e)
	case *events.MessageSent:
		if m := h.openMessage(r, e.MessageRef, between(trying, trying)); m != nil {
			if !m.inFlight {
				h.wrong(r, "sent without an attempt")
			}
			if e.Reconciled {
				h.reconciled++
				m.asked = true
			}
			m.stage, m.inFlight, m.carrierID = sent, false, e.CarrierID
			h.checkSentOrder(r, m, e.MessageID)
		}
	case *events.MessageRetried:
		if m := h.openMessage(r, e.MessageRef, between(trying, trying)); m != nil {
			if !m.inFlight || e.Attempt != m.attempts {
				h.wrong(r, "a result of an attempt that is not in flight")
			}
			m.inFlight = false
		}
	case *events.MessageRejected:
		if m := h.openMessage(r, e.MessageRef, between(trying, trying)); m != nil {
			if !m.inFlight || e.Attempt != m.attempts {
				h.wrong(r, "a result of an attempt that is not in flight")
			}
			m.inFlight = false
		}
	case *events.MessageDelivered:
		if m := h.openMessage(r, e.MessageRef, between(sent, sent)); m != nil {
			m.stage = delivered
		}
	case *events.MessageRead:
		if m := h.openMessage(r, e.MessageRef, between(sent, delivered)); m != nil {
			m.stage = read
		}
	case *events.MessageFailed:
		if m := h.openMessage(r, e.MessageRef, between(accepted, sent)); m != nil {
			m.failed, m.inFlight = true, false
			c := h.person(m.contact)
			c.waiting, c.unsent = without(c.waiting, e.MessageID), without(c.unsent, e.MessageID)
		}
	case *events.MessageRouted:
		h.openMessage(r, e.MessageRef, between(accepted, trying))
		if e.NewContact {
			h.checkNewContacts(r, e.LineID)
		}
	case *events.MessageDeferred:
		h.openMessage(r, e.MessageRef, between(accepted, trying))
	}
}

// checkNewContacts checks the new contacts of a line against its limit per hour.
func (h *history) checkNewContacts(r *eventstore.Recorded, lineID string) {
	h.newTo[lineID] = append(h.newTo[lineID], r.OccurredAt)
	for !h.newTo[lineID][0].After(r.OccurredAt.Add(-time.Hour)) {
		h.newTo[lineID] = h.newTo[lineID][1:]
	}
	if times := h.newTo[lineID]; len(times) > newPerHour {
		h.violations.add("a line has more new contacts in an hour than it may", "%s: %d (shard %d, position %d)", lineID, len(times), r.Shard, r.Position)
	}
}

// losAngeles is the time zone of the ordinary numbers.
var losAngeles, errLosAngeles = time.LoadLocation("America/Los_Angeles")

// checkQuietHours checks that an attempt to an ordinary number is outside of quiet hours.
func (h *history) checkQuietHours(r *eventstore.Recorded, m *lifetime) {
	if m.automatic || !strings.HasPrefix(h.person(m.contact).phone, "+1415777") || errLosAngeles != nil {
		return
	}
	if hour := r.OccurredAt.In(losAngeles).Hour(); hour < 9 || hour >= 20 {
		h.violations.add("a message leaves in quiet hours", "%s at %s (shard %d, position %d)", r.Stream, r.OccurredAt, r.Shard, r.Position)
	}
}

// person returns a contact, and adds a violation if it was never created.
func (h *history) person(id string) *person {
	c := h.contacts[id]
	if c == nil {
		h.violations.add("an event of a contact that was never created", "%s", id)
		c = &person{consent: "unknown"}
		h.contacts[id] = c
	}
	return c
}

// span is the range of stages in which an event is allowed.
type span struct{ from, to stage }

func between(from, to stage) span { return span{from, to} }

func (h *history) wrong(r *eventstore.Recorded, what string) {
	h.violations.add("a message's events are out of order", "%s, %s: %s (shard %d, position %d)", r.Stream, r.Type, what, r.Shard, r.Position)
}

func (h *history) begin(r *eventstore.Recorded, ref events.MessageRef, m *lifetime) {
	if h.messages[ref.MessageID] != nil || r.Version != 1 {
		h.wrong(r, "it exists already")
	}
	h.messages[ref.MessageID] = m
}

// openMessage returns the outbound message of an event; nil if there is none. It adds a violation if the message has
// failed or is in another stage.
func (h *history) openMessage(r *eventstore.Recorded, ref events.MessageRef, at span) *lifetime {
	m := h.messages[ref.MessageID]
	switch {
	case m == nil || m.inbound:
		h.wrong(r, "there is no such outbound message")
		return nil
	case m.failed:
		h.wrong(r, "it has failed")
	case m.stage < at.from || m.stage > at.to:
		h.wrong(r, "it is "+m.status())
	}
	return m
}

// sending applies the beginning of an attempt: consent must allow it, and earlier messages must have been attempted.
func (h *history) sending(r *eventstore.Recorded, e *events.MessageSending) {
	m := h.openMessage(r, e.MessageRef, between(accepted, trying))
	if m == nil {
		return
	}
	if m.inFlight || e.Attempt != m.attempts+1 {
		h.wrong(r, "another attempt is in flight")
	}
	c := h.person(m.contact)
	if !m.automatic && (c.consent == "opted_out" || h.registered[c.number]) {
		h.violations.add("a message is sent after the opt-out", "%s (shard %d, position %d)", e.MessageID, r.Shard, r.Position)
	}
	h.checkQuietHours(r, m)
	if m.stage == accepted {
		if len(c.waiting) == 0 || c.waiting[0] != e.MessageID {
			h.violations.add("messages of one contact overtake each other", "%s is tried before %v", e.MessageID, c.waiting[:min(len(c.waiting), 1)])
		}
		c.waiting, c.unsent = without(c.waiting, e.MessageID), append(c.unsent, e.MessageID)
	}
	m.stage, m.inFlight, m.attempts = trying, true, e.Attempt
}

// checkSentOrder records a sent message: messages that were attempted earlier must have been sent earlier.
func (h *history) checkSentOrder(r *eventstore.Recorded, m *lifetime, id string) {
	c := h.person(m.contact)
	if len(c.unsent) == 0 || c.unsent[0] != id {
		h.violations.add("messages of one contact overtake each other", "%s is sent before %v (position %d)", id, c.unsent[:min(len(c.unsent), 1)], r.Position)
	}
	c.unsent = without(c.unsent, id)
}

func without(list []string, id string) []string {
	for i, one := range list {
		if one == id {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// checkFinished checks that every message has a final state when no work is due any more.
func (h *history) checkFinished() {
	for id, m := range h.messages {
		if !m.inbound && !m.failed && m.stage < sent {
			h.violations.add("a message without a final state", "%s is %s after %d attempts", id, m.status(), m.attempts)
		}
	}
	for at := range h.expected {
		if at.position > 0 {
			h.violations.add("an answered change of consent is not in the ledger", "shard %d ends before %d", at.shard, at.position)
		}
	}
}

// compareWithSimulator checks that every message that the simulator accepted is recorded as sent, and every message
// that is recorded as sent was accepted by the simulator.
func (h *history) compareWithSimulator(seen []simulator.Seen) {
	arrived := map[string]bool{}
	for i := range seen {
		s := &seen[i]
		m := h.messages[s.MessageID]
		switch {
		case m == nil:
			h.violations.add("a message that nobody accepted", "%s was sent", s.MessageID)
		case s.Sends == 0:
			continue
		case s.Sends > 1:
			h.violations.add("a message sent twice", "%s was sent %d times in %d calls", s.MessageID, s.Sends, s.Calls)
		case m.stage < sent:
			h.violations.add("a message that was sent and is not recorded as sent", "%s is %s", s.MessageID, m.status())
		case m.carrierID != "" && m.carrierID != s.CarrierID:
			h.violations.add("another carrier id", "%s: %s in the ledger, %s at the simulator", s.MessageID, m.carrierID, s.CarrierID)
		case !s.Over:
			h.violations.add("a script that is not over", "%s", s.MessageID)
		}
		if m != nil && m.asked && s.Script == "silent" {
			h.asked++
		}
		arrived[s.MessageID] = true
	}
	for id, m := range h.messages {
		if m.stage >= sent && !m.inbound && !arrived[id] {
			h.violations.add("a message that is reported as sent and was not sent", "%s", id)
		}
	}
}
