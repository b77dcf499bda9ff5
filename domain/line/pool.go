package line

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Rotation is how a pool chooses among its lines (rules LIN-30 and SND-40).
type Rotation string

// The rotations.
const (
	Sticky     Rotation = "sticky"
	RoundRobin Rotation = "round_robin"
)

// FallbackMode is when the messages of a pool go on by SMS (rule LIN-31). "" means off.
type FallbackMode string

// The fallback modes.
const (
	FallbackOff             FallbackMode = "off"
	FallbackNotChat         FallbackMode = "not_chat"
	FallbackNotChatOrFailed FallbackMode = "not_chat_or_failed"
)

// Covers reports whether a message that failed on the chat channel goes on by SMS (rule LIN-31). notOnChat is whether
// the contact is not on the chat channel at all.
func (m FallbackMode) Covers(notOnChat bool) bool {
	return m == FallbackNotChatOrFailed || m == FallbackNotChat && notOnChat
}

// Pool is the state of one pool. The zero value does not exist.
type Pool struct {
	ID        string
	Workspace uuid.UUID
	Name      string
	Rotation  Rotation
	Fallback  FallbackMode
	LineIDs   []string // in the order in which they were added
}

// Apply returns the state after one event of the pool's stream.
func (p Pool) Apply(event events.Event, in events.Envelope) Pool {
	switch e := event.(type) {
	case *events.PoolCreated:
		return Pool{ID: e.PoolID, Workspace: in.Workspace, Name: e.Name, Rotation: Rotation(e.Rotation), Fallback: FallbackMode(e.FallbackSMSMode)}
	case *events.PoolLineAdded:
		p.LineIDs = append(slices.Clone(p.LineIDs), e.LineID)
	case *events.PoolLineRemoved:
		p.LineIDs = slices.DeleteFunc(slices.Clone(p.LineIDs), func(id string) bool { return id == e.LineID })
	case *events.PoolUpdated:
		for _, field := range e.Changed {
			switch field {
			case "name":
				p.Name = e.Name
			case "rotation":
				p.Rotation = Rotation(e.Rotation)
			case "fallback_sms_mode":
				p.Fallback = FallbackMode(e.FallbackSMSMode)
			}
		}
	}
	return p
}

// maxPoolName is the longest name, in characters (rule LIN-30).
const maxPoolName = 80

// CreatePool creates a pool. Without a fallback mode its messages never go on by SMS. Bad fields are refused with
// validation_failed (rules LIN-30 and LIN-31).
func CreatePool(e events.PoolCreated) ([]events.Event, error) {
	if FallbackMode(e.FallbackSMSMode) == FallbackOff {
		e.FallbackSMSMode = ""
	}
	e.Name = strings.TrimSpace(e.Name)
	if err := checkPool(e.Name, Rotation(e.Rotation), FallbackMode(e.FallbackSMSMode)); err != nil {
		return nil, err
	}
	return []events.Event{&e}, nil
}

func checkPool(name string, rotation Rotation, fallback FallbackMode) error {
	var issues []fault.Issue
	wrong := func(pointer, code, text string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: text})
	}
	switch {
	case strings.TrimSpace(name) == "":
		wrong("/name", "required", "A pool needs a name.")
	case utf8.RuneCountInString(name) > maxPoolName:
		wrong("/name", "too_long", "The name is too long.")
	}
	if rotation != Sticky && rotation != RoundRobin {
		wrong("/rotation", "invalid_value", "The rotation is sticky or round_robin.")
	}
	if !slices.Contains([]FallbackMode{"", FallbackOff, FallbackNotChat, FallbackNotChatOrFailed}, fallback) {
		wrong("/fallback_sms_mode", "invalid_value", "The mode is off, not_chat or not_chat_or_failed.")
	}
	if len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	return nil
}

// PoolChange has the changes of a pool; nil leaves a property as it is.
type PoolChange struct {
	Name     *string
	Rotation *Rotation
	Fallback *FallbackMode
}

// Update changes the pool; a value that stays the same causes no event. Bad fields are refused with validation_failed.
// The caller moves the claim of a changed name in the same append.
func (p Pool) Update(c PoolChange) ([]events.Event, error) {
	after := p
	if c.Name != nil {
		after.Name = strings.TrimSpace(*c.Name)
	}
	if c.Rotation != nil {
		after.Rotation = *c.Rotation
	}
	if c.Fallback != nil {
		after.Fallback = *c.Fallback
	}
	if err := checkPool(after.Name, after.Rotation, after.Fallback); err != nil {
		return nil, err
	}
	e := &events.PoolUpdated{PoolID: p.ID}
	if after.Name != p.Name {
		e.Changed, e.Name = append(e.Changed, "name"), after.Name
	}
	if after.Rotation != p.Rotation {
		e.Changed, e.Rotation = append(e.Changed, "rotation"), string(after.Rotation)
	}
	if after.Fallback != p.Fallback && (after.Fallback != FallbackOff || p.Fallback != "") {
		e.Changed, e.FallbackSMSMode = append(e.Changed, "fallback_sms_mode"), string(after.Fallback)
	}
	if len(e.Changed) == 0 {
		return nil, nil
	}
	return []events.Event{e}, nil
}

// AddLine adds a line to the pool; no event if the pool has it.
func (p Pool) AddLine(lineID string) []events.Event {
	if slices.Contains(p.LineIDs, lineID) {
		return nil
	}
	return []events.Event{&events.PoolLineAdded{PoolID: p.ID, LineID: lineID}}
}

// RemoveLine removes a line from the pool; no event if the pool does not have it.
func (p Pool) RemoveLine(lineID string) []events.Event {
	if !slices.Contains(p.LineIDs, lineID) {
		return nil
	}
	return []events.Event{&events.PoolLineRemoved{PoolID: p.ID, LineID: lineID}}
}
