// Package number holds the state of one phone number within one organisation: which contacts have it, and whether the
// register of opt-outs contains it (rule CON-12). The number is known by its keyed hash only, so that its opt-out
// survives the deletion of every contact.
package number

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Stream returns the name of the stream of a number, by its hash.
func Stream(hash string) string { return "num_" + hash }

// Holder is a contact that has the number, with its workspace.
type Holder struct {
	ContactID string
	Workspace uuid.UUID
}

// Number is the state of one number. The zero value is a number that no contact has.
type Number struct {
	Holders  []Holder
	OptedOut bool // the register of opt-outs contains it
	// UnlinkedAt is, by workspace, when a contact last gave the number up: it was deleted, or got another number.
	UnlinkedAt    map[uuid.UUID]time.Time
	LastChatCheck *ChatCheck // nil: no carrier was asked yet
}

// Apply returns the state after one event of the number's stream. It does not modify n.
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

// ContactIn returns the contact of a workspace that has the number.
func (n Number) ContactIn(workspace uuid.UUID) (contactID string, found bool) {
	for _, h := range n.Holders {
		if h.Workspace == workspace {
			return h.ContactID, true
		}
	}
	return "", false
}

// UnlinkedAfter reports whether a contact of the workspace gave the number up after a time (rule CON-50).
func (n Number) UnlinkedAfter(workspace uuid.UUID, at time.Time) bool {
	return n.UnlinkedAt[workspace].After(at)
}

// Link gives the number to a contact. If another contact of the workspace has it, Link refuses with conflict, and
// details.contact_id names that contact (rule CON-1).
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

// Unlink takes the number from a contact. If the contact does not have it, Unlink returns no event.
func (n Number) Unlink(contactID string) []events.Event {
	for _, h := range n.Holders {
		if h.ContactID == contactID {
			return []events.Event{&events.NumberUnlinked{ContactID: contactID, WorkspaceID: h.Workspace}}
		}
	}
	return nil
}

// OptOut enters the number into the register of opt-outs (rule CON-13). contactID is the contact that caused it. If
// the register contains the number, OptOut returns no event.
func (n Number) OptOut(contactID string) []events.Event {
	if n.OptedOut {
		return nil
	}
	return []events.Event{&events.NumberOptedOut{ContactID: contactID}}
}

// OptIn takes the number out of the register of opt-outs (rule CON-13). If the register does not hold it, OptIn
// returns no event.
func (n Number) OptIn(contactID string) []events.Event {
	if !n.OptedOut {
		return nil
	}
	return []events.Event{&events.NumberOptedIn{ContactID: contactID}}
}
