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
	ID           string
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Phone        string
	PoolID       string
	IsSandbox    bool
	Carrier      string
	Account      events.CarrierAccount // of the carrier; empty when it needs none, and when the line is retired
	State        State
}

// Apply folds one event.
func (l Line) Apply(event events.Event, in events.Envelope) Line {
	switch e := event.(type) {
	case *events.LineProvisioned:
		l = Line{
			ID: e.LineID, Organisation: in.Organisation, Workspace: in.Workspace, Phone: e.Phone,
			IsSandbox: e.IsSandbox, Carrier: e.Carrier, State: State(e.State),
		}
		if e.PoolID != nil {
			l.PoolID = *e.PoolID
		}
	case *events.LineStateChanged:
		l.State = State(e.To)
		if l.State == Retired {
			l.Account = events.CarrierAccount{}
		}
	case *events.LineCarrierConfigured:
		l.Carrier, l.Account = e.Carrier, e.Account
	}
	return l
}

// CanSend tells whether the line may carry a message. A ready line may: its first message makes it warming.
func (l Line) CanSend() bool {
	switch l.State {
	case Ready, Warming, Active, Throttled:
		return true
	default:
		return false
	}
}

// Sending is what becomes of the line when it is about to send: a ready one starts warming.
func (l Line) Sending() []events.Event {
	if l.State != Ready {
		return nil
	}
	reason := "first send"
	return []events.Event{&events.LineStateChanged{LineID: l.ID, From: string(Ready), To: string(Warming), Reason: &reason}}
}

// Provision puts a line into service. Only provisioning, ready, warming and active are states to begin in.
func Provision(e events.LineProvisioned) ([]events.Event, error) {
	if !slices.Contains(Carriers(), e.Carrier) {
		return nil, fault.Invalid("/carrier", "invalid_value", "There is no such carrier.")
	}
	if !slices.Contains([]State{Provisioning, Ready, Warming, Active}, State(e.State)) {
		return nil, fault.Invalid("/state", "invalid_value", "A line begins as provisioning, ready, warming or active.")
	}
	return []events.Event{&e}, nil
}

// Operate is the operator's move: to ready, quarantined or retired (decisions section 8). retired is final, and
// ready is reached from provisioning, paused and quarantined. Other moves are refused with conflict.
func (l Line) Operate(to State, reason *string) ([]events.Event, error) {
	var allowed bool
	switch to {
	case Ready:
		allowed = l.State == Provisioning || l.State == Paused || l.State == Quarantined
	case Quarantined:
		allowed = l.State != Retired && l.State != Quarantined
	case Retired:
		allowed = l.State != Retired
	default:
		return nil, fault.Invalid("/state", "invalid_value", "An operator moves a line to ready, quarantined or retired.")
	}
	if !allowed {
		return nil, fault.New(fault.Conflict, "A line that is %s cannot become %s.", l.State, to)
	}
	return []events.Event{&events.LineStateChanged{LineID: l.ID, From: string(l.State), To: string(to), Reason: reason}}, nil
}
