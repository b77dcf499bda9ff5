package line

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Rotation is how a pool chooses among its lines.
type Rotation string

// The rotations of administration 2.4.
const (
	Sticky     Rotation = "sticky"
	RoundRobin Rotation = "round_robin"
)

// FallbackMode is when a pool's messages go by SMS (administration 2.4). "" is off.
type FallbackMode string

// The fallback modes.
const (
	FallbackOff             FallbackMode = "off"
	FallbackNotChat         FallbackMode = "not_chat"
	FallbackNotChatOrFailed FallbackMode = "not_chat_or_failed"
)

// Covers tells whether a message that failed on the chat channel goes on by SMS; notOnChat is whether the contact cannot
// be reached there at all.
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
	LineIDs   []string // in the order in which they came
}

// Apply folds one event.
func (p Pool) Apply(event events.Event, in events.Envelope) Pool {
	switch e := event.(type) {
	case *events.PoolCreated:
		return Pool{ID: e.PoolID, Workspace: in.Workspace, Name: e.Name, Rotation: Rotation(e.Rotation), Fallback: FallbackMode(e.FallbackSMSMode)}
	case *events.PoolLineAdded:
		p.LineIDs = append(slices.Clone(p.LineIDs), e.LineID)
	}
	return p
}

// maxPoolName is the longest name, in characters (administration section 8).
const maxPoolName = 80

// CreatePool makes a pool.
func CreatePool(e events.PoolCreated) ([]events.Event, error) {
	var issues []fault.Issue
	switch {
	case strings.TrimSpace(e.Name) == "":
		issues = append(issues, fault.Issue{Location: "body", Path: "/name", Code: "required", Message: "A pool needs a name."})
	case utf8.RuneCountInString(e.Name) > maxPoolName:
		issues = append(issues, fault.Issue{Location: "body", Path: "/name", Code: "too_long", Message: "The name is too long."})
	}
	if r := Rotation(e.Rotation); r != Sticky && r != RoundRobin {
		issues = append(issues, fault.Issue{Location: "body", Path: "/rotation", Code: "invalid_value", Message: "The rotation is sticky or round_robin."})
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	return []events.Event{&e}, nil
}
