// Package number is one phone number within one organisation: which contacts hold it, and whether the register of
// opt-outs holds it. It knows the number by its keyed hash only, so that it outlives every contact (decisions section 6).
package number

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Stream names the stream of a number by its hash.
func Stream(hash string) string { return "num_" + hash }

// Holder is a contact of a workspace that has the number.
type Holder struct {
	ContactID string
	Workspace uuid.UUID
}

// Number is the state of one number.
type Number struct {
	Holders  []Holder
	OptedOut bool // the organisation's register holds it
	// Left is when a contact of a workspace gave the number up last: it was deleted, or got another number.
	UnlinkedAt    map[uuid.UUID]time.Time
	LastChatCheck *ChatCheck
}

// Apply folds one event.
func (n Number) Apply(event events.Event, in events.Envelope) Number {
	switch e := event.(type) {
	case *events.NumberLinked:
		n.Holders = append(slices.Clone(n.Holders), Holder{e.ContactID, e.WorkspaceID})
	case *events.NumberUnlinked:
		n.Holders = slices.DeleteFunc(slices.Clone(n.Holders), func(h Holder) bool { return h.ContactID == e.ContactID })
		n.UnlinkedAt = maps.Clone(n.UnlinkedAt)
		if n.UnlinkedAt == nil {
			n.UnlinkedAt = map[uuid.UUID]time.Time{}
		}
		n.UnlinkedAt[e.WorkspaceID] = in.At
	case *events.NumberOptedOut:
		n.OptedOut = true
	case *events.NumberOptedIn:
		n.OptedOut = false
	case *events.NumberChecked:
		n.LastChatCheck = &ChatCheck{OnChat: e.Chat, CheckedAt: in.At}
	}
	return n
}

// ContactIn finds the contact of a workspace that holds the number.
func (n Number) ContactIn(workspace uuid.UUID) (contactID string, found bool) {
	for _, h := range n.Holders {
		if h.Workspace == workspace {
			return h.ContactID, true
		}
	}
	return "", false
}

// UnlinkedAfter tells whether a contact of the workspace gave the number up after a moment.
func (n Number) UnlinkedAfter(workspace uuid.UUID, at time.Time) bool {
	return n.UnlinkedAt[workspace].After(at)
}

// Link gives the number to a contact. A workspace has a number once: a second contact is refused with conflict and
// details.contact_id (decisions section 3).
func (n Number) Link(contactID string, workspace uuid.UUID) ([]events.Event, error) {
	if holder, taken := n.ContactIn(workspace); taken {
		return nil, fault.New(fault.Conflict, "A contact with this phone number exists.").With("contact_id", holder)
	}
	linked := &events.NumberLinked{ContactID: contactID, WorkspaceID: workspace}
	if n.LastChatCheck != nil {
		linked.Chat, linked.CheckedAt = &n.LastChatCheck.OnChat, &n.LastChatCheck.CheckedAt
	}
	return []events.Event{linked}, nil
}

// Unlink takes the number from a contact; one that does not hold it is no event.
func (n Number) Unlink(contactID string) []events.Event {
	for _, h := range n.Holders {
		if h.ContactID == contactID {
			return []events.Event{&events.NumberUnlinked{ContactID: contactID, WorkspaceID: h.Workspace}}
		}
	}
	return nil
}

// OptOut enters the number into the register; one that is there is no event.
func (n Number) OptOut(contactID string) []events.Event {
	if n.OptedOut {
		return nil
	}
	return []events.Event{&events.NumberOptedOut{ContactID: contactID}}
}

// OptIn lifts the number from the register; one that is not there is no event.
func (n Number) OptIn(contactID string) []events.Event {
	if !n.OptedOut {
		return nil
	}
	return []events.Event{&events.NumberOptedIn{ContactID: contactID}}
}
