package crash

import (
	"strings"
	"time"

	"ledgerline/adapters/simulator"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// history is what the events say, event by event in the order of their positions, held against the rules that must have
// been kept all the time. It goes by the events alone and shares no code with those who decided.
type history struct {
	violations *violations
	messages   map[string]*lifetime
	newTo      map[string][]time.Time // by line: when contacts were new to it
	contacts   map[string]*person
	registered map[string]bool // number streams that opted out
	expected   map[place][]expectation
	reconciled int
	asked      int // of them those of which no receipt has told
}

type place struct {
	shard    int
	position int64
}

// expectation is a contact's consent that an answer promised from a position on.
type expectation struct{ contact, consent string }

// person is a contact.
type person struct {
	consent string
	number  string // its stream
	phone   string
	waiting []string // messages that were accepted and have not been tried, in order
	unsent  []string // messages that were tried and not sent yet, in the same order
}

// lifetime is a message.
type lifetime struct {
	contact   string
	automatic bool
	inbound   bool
	stage     stage
	attempts  int
	under     bool // an attempt is under way
	carrierID string
	failed    bool
	asked     bool // the carrier was asked whether it has it
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
		expected: map[place][]expectation{},
	}
}

// take takes the next event of a shard.
func (h *history) take(r *eventstore.Recorded) {
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
	for _, x := range h.expected[place{r.Shard, r.Position}] {
		if c := h.contacts[x.contact]; c == nil || c.consent != x.consent {
			h.violations.add("an answered change of consent is not in the ledger", "%s at %d of shard %d: not %s", x.contact, r.Position, r.Shard, x.consent)
		}
	}
	delete(h.expected, place{r.Shard, r.Position})
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
		if m := h.alive(r, e.MessageRef, between(trying, trying)); m != nil {
			if !m.under {
				h.wrong(r, "sent without an attempt")
			}
			if e.Reconciled {
				h.reconciled++
				m.asked = true
			}
			m.stage, m.under, m.carrierID = sent, false, e.CarrierID
			h.left(r, m, e.MessageID)
		}
	case *events.MessageRetried:
		if m := h.alive(r, e.MessageRef, between(trying, trying)); m != nil {
			if !m.under || e.Attempt != m.attempts {
				h.wrong(r, "an outcome of an attempt that is not under way")
			}
			m.under = false
		}
	case *events.MessageDelivered:
		if m := h.alive(r, e.MessageRef, between(sent, sent)); m != nil {
			m.stage = delivered
		}
	case *events.MessageRead:
		if m := h.alive(r, e.MessageRef, between(sent, delivered)); m != nil {
			m.stage = read
		}
	case *events.MessageFailed:
		if m := h.alive(r, e.MessageRef, between(accepted, sent)); m != nil {
			m.failed, m.under = true, false
			c := h.person(m.contact)
			c.waiting, c.unsent = without(c.waiting, e.MessageID), without(c.unsent, e.MessageID)
		}
	case *events.MessageRouted:
		h.alive(r, e.MessageRef, between(accepted, trying))
		if e.NewContact {
			h.room(r, e.LineID)
		}
	case *events.MessageDeferred:
		h.alive(r, e.MessageRef, between(accepted, trying))
	}
}

// room holds the new contacts of a line against its limit for any hour.
func (h *history) room(r *eventstore.Recorded, lineID string) {
	h.newTo[lineID] = append(h.newTo[lineID], r.OccurredAt)
	for !h.newTo[lineID][0].After(r.OccurredAt.Add(-time.Hour)) {
		h.newTo[lineID] = h.newTo[lineID][1:]
	}
	if times := h.newTo[lineID]; len(times) > newPerHour {
		h.violations.add("a line has more new contacts in an hour than it may", "%s: %d (shard %d, position %d)", lineID, len(times), r.Shard, r.Position)
	}
}

// coast is where the ordinary numbers are.
var coast, errCoast = time.LoadLocation("America/Los_Angeles")

// hours holds an attempt against the hours in which ordinary numbers may be written to.
func (h *history) hours(r *eventstore.Recorded, m *lifetime) {
	if m.automatic || !strings.HasPrefix(h.person(m.contact).phone, "+1415777") || errCoast != nil {
		return
	}
	if hour := r.OccurredAt.In(coast).Hour(); hour < 9 || hour >= 20 {
		h.violations.add("a message leaves in quiet hours", "%s at %s (shard %d, position %d)", r.Stream, r.OccurredAt, r.Shard, r.Position)
	}
}

// person finds a contact, which must have been made.
func (h *history) person(id string) *person {
	c := h.contacts[id]
	if c == nil {
		h.violations.add("a contact that was never made", "%s", id)
		c = &person{consent: "unknown"}
		h.contacts[id] = c
	}
	return c
}

// span is from which stage to which an event may come.
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

// alive finds the message of an event that may come at these stages of it.
func (h *history) alive(r *eventstore.Recorded, ref events.MessageRef, at span) *lifetime {
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

// sending takes the beginning of an attempt: consent must allow it, and the messages before must have been tried.
func (h *history) sending(r *eventstore.Recorded, e *events.MessageSending) {
	m := h.alive(r, e.MessageRef, between(accepted, trying))
	if m == nil {
		return
	}
	if m.under || e.Attempt != m.attempts+1 {
		h.wrong(r, "another attempt is under way")
	}
	c := h.person(m.contact)
	if !m.automatic && (c.consent == "opted_out" || h.registered[c.number]) {
		h.violations.add("a message is sent after the opt-out", "%s (shard %d, position %d)", e.MessageID, r.Shard, r.Position)
	}
	h.hours(r, m)
	if m.stage == accepted {
		if len(c.waiting) == 0 || c.waiting[0] != e.MessageID {
			h.violations.add("messages of one contact overtake each other", "%s is tried before %v", e.MessageID, c.waiting[:min(len(c.waiting), 1)])
		}
		c.waiting, c.unsent = without(c.waiting, e.MessageID), append(c.unsent, e.MessageID)
	}
	m.stage, m.under, m.attempts = trying, true, e.Attempt
}

// left takes that a message has left: those tried before must have.
func (h *history) left(r *eventstore.Recorded, m *lifetime, id string) {
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

// end looks at what is left when everything has come to rest.
func (h *history) end() {
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

// compare holds the ledger against what the simulator has seen: what was sent was told, and what was told was sent.
func (h *history) compare(seen []simulator.Seen) {
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
			h.violations.add("a message that was sent and is not told so", "%s is %s", s.MessageID, m.status())
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
			h.violations.add("a message that is told to be sent and was not", "%s", id)
		}
	}
}
