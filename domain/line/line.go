// Package line holds lines, pools and requests for lines: their states and limits, the usage day, warm-up and health
// (rules LIN-1 to LIN-41).
package line

import (
	"slices"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// State is the state of a line (rule LIN-2).
type State string

// The states of rule LIN-2.
const (
	Provisioning State = "provisioning"
	Ready        State = "ready"
	Warming      State = "warming"
	Active       State = "active"
	Throttled    State = "throttled"
	Paused       State = "paused"
	Quarantined  State = "quarantined"
	Retired      State = "retired"
)

// States returns all states.
func States() []State {
	return []State{Provisioning, Ready, Warming, Active, Throttled, Paused, Quarantined, Retired}
}

// Line is the state of one line. The zero value is a line that does not exist.
type Line struct {
	ID               string
	Organisation     uuid.UUID
	Workspace        uuid.UUID
	Phone            string
	PoolID           string // "": no pool
	IsSandbox        bool
	Carrier          string
	Account          events.CarrierAccount // account at the carrier; empty if the carrier needs none, and once the line is retired (rule LIN-5)
	State            State
	PausedFrom       State  // with Paused: the state before, to which Resume returns
	PausedByPlatform bool   // with Paused: the service paused the line, and only the service resumes it (rule LIN-16)
	ThrottledFrom    State  // with Throttled, and with Paused after it: the state before the throttling
	WarmingSince     string // usage day of the first message; "" before that message, and for a line that started as active
	UnansweredStreak int    // contacts in a row that did not answer the line's first message (rule LIN-15)
	Health           int    // health score, 0 to 100 (rule LIN-21)
	DisplayName      string // "" for none
	Card             events.ContactCard
}

// Apply returns the state after one event of the line's stream.
func (l Line) Apply(event events.Event, in events.Envelope) Line {
	switch e := event.(type) {
	case *events.LineProvisioned:
		l = Line{
			ID: e.LineID, Organisation: in.Organisation, Workspace: in.Workspace, Phone: e.Phone,
			IsSandbox: e.IsSandbox, Carrier: e.Carrier, State: State(e.State), Health: fullHealth,
		}
		if l.State == Warming {
			l.WarmingSince = DayOf(in.At).Date
		}
		if e.PoolID != nil {
			l.PoolID = *e.PoolID
		}
		if e.DisplayName != nil {
			l.DisplayName = *e.DisplayName
		}
	case *events.LineStateChanged:
		l = l.applyMove(State(e.To), e.By == byPlatform, in)
	case *events.LineCarrierConfigured:
		l.Carrier, l.Account = e.Carrier, e.Account
	case *events.LineContactUnanswered:
		l.UnansweredStreak++
	case *events.LineStreakEnded:
		l.UnansweredStreak = 0
	case *events.LineHealthScored:
		l.Health = e.Score
	case *events.LineUpdated:
		l = l.applyUpdate(e)
	}
	return l
}

func (l Line) applyMove(to State, platform bool, in events.Envelope) Line {
	switch to {
	case Paused:
		l.PausedFrom, l.PausedByPlatform = l.State, platform
	case Throttled:
		if l.State != Paused {
			l.ThrottledFrom = l.State
		}
	case Ready: // the warm-up and the streak start from zero (rule LIN-14)
		l.WarmingSince, l.UnansweredStreak = "", 0
	case Warming:
		if l.WarmingSince == "" {
			l.WarmingSince = DayOf(in.At).Date
		}
	case Retired:
		l.Account = events.CarrierAccount{}
	case Provisioning, Active, Quarantined:
	}
	l.State = to
	return l
}

// byPlatform is the author of state changes that the service makes by itself.
const byPlatform = "platform"

func (l Line) move(to State, reason, by string) events.Event {
	e := &events.LineStateChanged{LineID: l.ID, From: string(l.State), To: string(to), By: by}
	if reason != "" {
		e.Reason = &reason
	}
	return e
}

// OutOfService reports whether the line is retired or quarantined. Contacts that are assigned to it get another line
// (rule SND-48).
func (l Line) OutOfService() bool { return l.State == Retired || l.State == Quarantined }

// CanSend reports whether the line can send (rule LIN-3): its state allows it, and it has the account that its
// carrier needs (rule LIN-5).
func (l Line) CanSend() bool {
	if l.lacksAccount() {
		return false
	}
	switch l.State {
	case Ready, Warming, Active, Throttled:
		return true
	default:
		return false
	}
}

// StartWarming moves a ready line to warming because it is about to send (rule LIN-2). Any other line returns no
// event.
func (l Line) StartWarming() []events.Event {
	if l.State != Ready {
		return nil
	}
	return []events.Event{l.move(Warming, "first_send", byPlatform)}
}

// FinishWarming moves a warming line to active once the last step of the warm-up curve has begun (rule LIN-14).
func (l Line) FinishWarming(limits *Limits, day Day) []events.Event {
	if l.State != Warming || l.WarmupDay(day) <= curveDays(limits) {
		return nil
	}
	return []events.Event{l.move(Active, "warmup_done", byPlatform)}
}

// Pause pauses a warming, active or throttled line. It refuses a line in any other state with conflict, and a reason
// over 500 characters with validation_failed (rules LIN-2 and LIN-4).
func (l Line) Pause(reason string) ([]events.Event, error) {
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	switch l.State {
	case Warming, Active, Throttled:
		return []events.Event{l.move(Paused, reason, "")}, nil
	default:
		return nil, fault.New(fault.Conflict, "A line that is %s cannot be paused.", l.State)
	}
}

// Resume returns a paused line to the state before the pause. It refuses a line that is not paused, or that the service
// paused, with conflict (rule LIN-16), and a reason over 500 characters with validation_failed.
func (l Line) Resume(reason string) ([]events.Event, error) {
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	switch {
	case l.State != Paused:
		return nil, fault.New(fault.Conflict, "A line that is %s is not paused.", l.State)
	case l.PausedByPlatform:
		return nil, fault.New(fault.Conflict, "The platform paused this line because new contacts did not answer it. It resumes when a contact replies.")
	}
	return []events.Event{l.move(l.PausedFrom, reason, "")}, nil
}

// RecordUnanswered records that a contact that was new to the line did not answer its first message for 24 hours. When
// the streak reaches the limit unanswered_streak_pause, it pauses the line (rule LIN-15).
func (l Line) RecordUnanswered(contactID, messageID string, limits *Limits) []events.Event {
	list := []events.Event{&events.LineContactUnanswered{LineID: l.ID, ContactID: contactID, MessageID: messageID}}
	switch l.State {
	case Warming, Active, Throttled:
		if l.UnansweredStreak+1 >= limits.UnansweredStreakPause {
			list = append(list, l.move(Paused, "unanswered_streak", byPlatform))
		}
	default:
	}
	return list
}

// RecordReply ends the streak of unanswered contacts because a contact wrote to the line. It resumes a line that the
// service had paused for the streak (rule LIN-16).
func (l Line) RecordReply() []events.Event {
	var list []events.Event
	if l.UnansweredStreak > 0 {
		list = append(list, &events.LineStreakEnded{LineID: l.ID})
	}
	if l.State == Paused && l.PausedByPlatform {
		list = append(list, l.move(l.PausedFrom, "contact_replied", byPlatform))
	}
	return list
}

// Provision creates a line (rule LIN-2). It refuses with validation_failed: an unknown carrier, a state in which a line
// cannot start, a display name that is too long, and any state but provisioning for a carrier that needs an account
// (rule LIN-5).
func Provision(e events.LineProvisioned) ([]events.Event, error) {
	if !slices.Contains(Carriers(), e.Carrier) {
		return nil, fault.Invalid("/carrier", "invalid_value", "There is no such carrier.")
	}
	if !slices.Contains([]State{Provisioning, Ready, Warming, Active}, State(e.State)) {
		return nil, fault.Invalid("/state", "invalid_value", "A line begins as provisioning, ready, warming or active.")
	}
	if e.DisplayName != nil {
		change := Change{DisplayName: TextSetting{Given: true, Value: *e.DisplayName}}
		if err := change.check(); err != nil {
			return nil, err
		}
	}
	if needsAccount(e.Carrier) && State(e.State) != Provisioning {
		return nil, fault.Invalid("/state", "needs_account", "A line of this carrier begins as provisioning: it can send when it has been given an account.")
	}
	return []events.Event{&e}, nil
}

// MoveByOperator changes the state of the line for an operator: to ready, quarantined or retired (rule LIN-2). It
// refuses any other state, and a reason over 500 characters, with validation_failed. It refuses with conflict: a change
// that the table of rule LIN-2 does not allow, ready without the account that the carrier needs (rule LIN-5), and
// quarantined or retired for the sandbox line (rule LIN-6).
func (l Line) MoveByOperator(to State, reason *string) ([]events.Event, error) {
	if reason != nil {
		if err := checkReason(*reason); err != nil {
			return nil, err
		}
	}
	var allowed bool
	switch to {
	case Ready:
		allowed = l.State == Provisioning || l.State == Paused || l.State == Quarantined
		if allowed && l.lacksAccount() {
			return nil, fault.New(fault.Conflict, "The line has no account at its carrier yet.")
		}
	case Quarantined:
		allowed = l.State != Retired && l.State != Quarantined
	case Retired:
		allowed = l.State != Retired
	default:
		return nil, fault.Invalid("/state", "invalid_value", "An operator moves a line to ready, quarantined or retired.")
	}
	if l.IsSandbox && to != Ready {
		return nil, fault.New(fault.Conflict, "The sandbox line belongs to its workspace and cannot become %s.", to)
	}
	if !allowed {
		return nil, fault.New(fault.Conflict, "A line that is %s cannot become %s.", l.State, to)
	}
	return []events.Event{&events.LineStateChanged{LineID: l.ID, From: string(l.State), To: string(to), Reason: reason}}, nil
}
