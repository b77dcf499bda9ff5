// Package organisation holds organisations with their settings, workspaces, users with a role per workspace, and
// teams.
package organisation

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
)

// Stream returns the name of the stream of an organisation.
func Stream(id uuid.UUID) string { return events.Stream("org", id) }

// WorkspaceStream returns the name of the stream of a workspace.
func WorkspaceStream(id uuid.UUID) string { return events.Stream("wsp", id) }

// UserStream returns the name of the stream of a user.
func UserStream(id uuid.UUID) string { return events.Stream("usr", id) }

// TeamStream returns the name of the stream of a team.
func TeamStream(id uuid.UUID) string { return events.Stream("team", id) }

// Settings are the organisation's settings for compliance and sending (rules CON-23 to CON-26 and LIN-10).
type Settings struct {
	RequireConsent     bool
	StopWords          []string          // in addition to the built-in ones (rule CON-20)
	OptOutConfirmation string            // "": the standard text
	QuietHours         events.QuietHours // both ends "": the platform's quiet hours
	limits             *line.Limits      // nil: the default limits
}

// Organisation is the state of one organisation. The zero value does not exist.
type Organisation struct {
	ID          uuid.UUID
	Name        string
	TimeZone    string
	Paused      bool
	PauseReason string
	Settings    Settings
}

// Apply returns the state after one event of the organisation's stream.
func (o Organisation) Apply(event events.Event, _ events.Envelope) Organisation {
	switch e := event.(type) {
	case *events.OrganisationCreated:
		return Organisation{ID: e.OrganisationID, Name: e.Name, TimeZone: e.TimeZone}
	case *events.OrganisationPaused:
		o.Paused, o.PauseReason = true, e.Reason
	case *events.OrganisationResumed:
		o.Paused, o.PauseReason = false, ""
	case *events.SendingLimitsSet:
		limits := e.Limits
		o.Settings.limits = &limits
	case *events.ComplianceChanged:
		o.Settings.RequireConsent, o.Settings.StopWords = e.RequireConsent, e.StopKeywords
		o.Settings.OptOutConfirmation, o.Settings.QuietHours = e.OptOutConfirmation, e.QuietHours
	}
	return o
}

// Limits returns the sending limits of the organisation's lines (rule LIN-10).
func (o Organisation) Limits() line.Limits {
	if o.Settings.limits != nil {
		return *o.Settings.limits
	}
	return line.DefaultLimits()
}

// SetLimits replaces all limits, as the operator asks. Bad limits are refused with validation_failed
// (line.CheckLimits).
func (o Organisation) SetLimits(limits line.Limits) ([]events.Event, error) {
	if err := line.CheckLimits(&limits); err != nil {
		return nil, err
	}
	return []events.Event{&events.SendingLimitsSet{Limits: limits}}, nil
}

// Exists reports whether the organisation was created.
func (o Organisation) Exists() bool { return o.ID != uuid.Nil }

// Create creates an organisation. A bad name, and a time zone that is no IANA name, are refused with
// validation_failed.
func Create(id uuid.UUID, name, timeZone string) ([]events.Event, error) {
	issues := nameIssues("/name", name, maxName)
	if _, err := time.LoadLocation(timeZone); err != nil || timeZone == "" || timeZone == "Local" {
		issues = append(issues, fault.Issue{Location: "body", Path: "/time_zone", Code: "invalid_value", Message: "This is not an IANA time zone."})
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	return []events.Event{&events.OrganisationCreated{OrganisationID: id, Name: name, TimeZone: timeZone}}, nil
}

// Pause pauses the organisation: writes are refused (rule ACC-34) and nothing leaves (rule SND-29). Pausing again is
// no event. A reason over 500 characters is refused with validation_failed.
func (o Organisation) Pause(reason string) ([]events.Event, error) {
	if utf8.RuneCountInString(reason) > maxReason {
		return nil, fault.Invalid("/reason", "too_long", "A reason has at most %d characters.", maxReason)
	}
	if o.Paused {
		return nil, nil
	}
	return []events.Event{&events.OrganisationPaused{Reason: reason}}, nil
}

// Resume ends the pause; no event if the organisation is not paused.
func (o Organisation) Resume() ([]events.Event, error) {
	if !o.Paused {
		return nil, nil
	}
	return []events.Event{&events.OrganisationResumed{}}, nil
}

// ConfirmationText returns the text that confirms an opt-out by message (rules SND-50 and CON-25).
func (o Organisation) ConfirmationText() string {
	if o.Settings.OptOutConfirmation != "" {
		return o.Settings.OptOutConfirmation
	}
	return o.Name + ": you have opted out and will get no more messages. Reply START to opt in again."
}

// HelpText returns the answer to HELP (rule SND-51).
func (o Organisation) HelpText() string {
	return "This is the messaging service of " + o.Name + ". Reply STOP to opt out."
}

// Workspace is the state of one workspace. The zero value does not exist.
type Workspace struct {
	ID            uuid.UUID
	Organisation  uuid.UUID
	Name          string
	DefaultPoolID string
	SandboxLineID string
}

// Apply returns the state after one event of the workspace's stream.
func (w Workspace) Apply(event events.Event, _ events.Envelope) Workspace {
	if e, ok := event.(*events.WorkspaceCreated); ok {
		return Workspace{e.WorkspaceID, e.OrganisationID, e.Name, e.DefaultPoolID, e.SandboxLineID}
	}
	return w
}

// Exists reports whether the workspace was created.
func (w Workspace) Exists() bool { return w.ID != uuid.Nil }

// CreateWorkspace creates a workspace of the organisation. A bad name is refused with validation_failed.
func (o Organisation) CreateWorkspace(e events.WorkspaceCreated) ([]events.Event, error) {
	if issues := nameIssues("/name", e.Name, maxName); len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	e.OrganisationID = o.ID
	return []events.Event{&e}, nil
}

// The longest texts, in characters.
const (
	maxName   = 120
	maxReason = 500
)

// CheckName refuses a name with validation_failed at pointer if it is empty, has only spaces, or has more than limit
// characters.
func CheckName(pointer, name string, limit int) error {
	if issues := nameIssues(pointer, name, limit); len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	return nil
}

func nameIssues(pointer, name string, limit int) []fault.Issue {
	switch {
	case strings.TrimSpace(name) == "":
		return []fault.Issue{{Location: "body", Path: pointer, Code: "required", Message: "A name is needed."}}
	case utf8.RuneCountInString(name) > limit:
		return []fault.Issue{{Location: "body", Path: pointer, Code: "too_long", Message: "The name is too long."}}
	}
	return nil
}
