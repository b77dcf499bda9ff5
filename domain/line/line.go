// Package line is the lines that send, and the pools they are grouped in (administration 2.4 and 3.1, decisions section 8).
package line

import (
	"slices"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// State is where a line stands.
type State string

// The line states of administration 3.1.
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

// States lists them all.
func States() []State {
	return []State{Provisioning, Ready, Warming, Active, Throttled, Paused, Quarantined, Retired}
}

// Line is the state of one line. The zero value does not exist.
type Line struct {
	ID               string
	Organisation     uuid.UUID
	Workspace        uuid.UUID
	Phone            string
	PoolID           string
	IsSandbox        bool
	Carrier          string
	Account          events.CarrierAccount // of the carrier; empty when it needs none, and when the line is retired
	State            State
	PausedFrom       State  // with Paused: where it goes back to
	PausedByPlatform bool   // with Paused: by the platform, which alone takes it back
	ThrottledFrom    State  // with Throttled, also when paused from there: warming or active
	WarmingSince     string // usage day of the first send; "" for a line that has not begun, or was never warmed up
	UnansweredStreak int    // contacts in a row that did not answer the line's first message
	Health           int    // 0 to 100
	DisplayName      string // "" for none
	Card             events.ContactCard
}

// Apply folds one event.
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

func (l Line) applyMove(to State, byUs bool, in events.Envelope) Line {
	switch to {
	case Paused:
		l.PausedFrom, l.PausedByPlatform = l.State, byUs
	case Throttled:
		if l.State != Paused {
			l.ThrottledFrom = l.State
		}
	case Ready: // whatever it was before, it begins anew
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

// byPlatform marks moves that the service makes by itself.
const byPlatform = "platform"

func (l Line) move(to State, reason, by string) events.Event {
	e := &events.LineStateChanged{LineID: l.ID, From: string(l.State), To: string(to), By: by}
	if reason != "" {
		e.Reason = &reason
	}
	return e
}

// OutOfService tells that the line is out of service for good, or until an operator has looked at it: nobody is kept on it.
func (l Line) OutOfService() bool { return l.State == Retired || l.State == Quarantined }

// CanSend tells whether the line may carry a message. A ready line may: its first message makes it warming. None may whose
// carrier does not know it.
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

// StartWarming is what becomes of the line when it is about to send: a ready one starts warming.
func (l Line) StartWarming() []events.Event {
	if l.State != Ready {
		return nil
	}
	return []events.Event{l.move(Warming, "first_send", byPlatform)}
}

// FinishWarming ends the warm-up of a line when the curve's last step has begun.
func (l Line) FinishWarming(limits *Limits, day Day) []events.Event {
	if l.State != Warming || l.WarmupDay(day) <= curveDays(limits) {
		return nil
	}
	return []events.Event{l.move(Active, "warmup_done", byPlatform)}
}

// Pause stops a line that is in use; any other is refused with conflict (administration 3.1).
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

// Resume takes a line back to where it was paused from. One that the platform paused stays paused.
func (l Line) Resume(reason string) ([]events.Event, error) {
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	switch {
	case l.State != Paused:
		return nil, fault.New(fault.Conflict, "A line that is %s is not paused.", l.State)
	case l.PausedByPlatform:
		return nil, fault.New(fault.Conflict, "The platform paused this line because nobody answered it. It goes on when a contact replies.")
	}
	return []events.Event{l.move(l.PausedFrom, reason, "")}, nil
}

// RecordUnanswered counts a contact that was new to the line and did not answer its first message for 24 hours. As many of
// them in a row as the limit says pause the line (decisions section 8).
func (l Line) RecordUnanswered(contactID, messageID string, limits *Limits) []events.Event {
	told := []events.Event{&events.LineContactUnanswered{LineID: l.ID, ContactID: contactID, MessageID: messageID}}
	switch l.State {
	case Warming, Active, Throttled:
		if l.UnansweredStreak+1 >= limits.UnansweredStreakPause {
			told = append(told, l.move(Paused, "unanswered_streak", byPlatform))
		}
	default:
	}
	return told
}

// RecordReply ends the streak because a contact wrote to the line, and takes a line back that the streak had paused.
func (l Line) RecordReply() []events.Event {
	var told []events.Event
	if l.UnansweredStreak > 0 {
		told = append(told, &events.LineStreakEnded{LineID: l.ID})
	}
	if l.State == Paused && l.PausedByPlatform {
		told = append(told, l.move(l.PausedFrom, "contact_replied", byPlatform))
	}
	return told
}

// Provision puts a line into service. Only provisioning, ready, warming and active are states to begin in.
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

// MoveByOperator is the operator's move: to ready, quarantined or retired (decisions section 8). retired is final, and
// ready is reached from provisioning, paused and quarantined, by a line that has the account that its carrier needs. Other
// moves are refused with conflict, and so is any that would take its sandbox line from a workspace.
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
