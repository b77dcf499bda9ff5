// Package organisation is who a request acts for and as: the organisation with its settings, its workspaces, its
// users with a role per workspace, and teams.
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

// Stream names the stream of an organisation.
func Stream(id uuid.UUID) string { return events.Stream("org", id) }

// WorkspaceStream names the stream of a workspace.
func WorkspaceStream(id uuid.UUID) string { return events.Stream("wsp", id) }

// UserStream names the stream of a user.
func UserStream(id uuid.UUID) string { return events.Stream("usr", id) }

// TeamStream names the stream of a team.
func TeamStream(id uuid.UUID) string { return events.Stream("team", id) }

// Settings are the organisation's compliance settings (administration 2.7) as far as anything obeys them.
type Settings struct {
	RequireConsent     bool
	StopWords          []string          // besides the built-in ones
	OptOutConfirmation string            // "" for the standard text
	QuietHours         events.QuietHours // "" and "" for the platform's alone
	limits             *line.Limits      // nil for the default ones
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

// Apply folds one event.
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

// Limits are what holds for the organisation's lines.
func (o Organisation) Limits() line.Limits {
	if o.Settings.limits != nil {
		return *o.Settings.limits
	}
	return line.DefaultLimits()
}

// SetLimits is the operator's change of the limits, as a whole; what is wrong with them is told.
func (o Organisation) SetLimits(limits line.Limits) ([]events.Event, error) {
	if err := line.CheckLimits(&limits); err != nil {
		return nil, err
	}
	return []events.Event{&events.SendingLimitsSet{Limits: limits}}, nil
}

// Exists tells whether there is such an organisation.
func (o Organisation) Exists() bool { return o.ID != uuid.Nil }

// Create opens an organisation. Its time zone is an IANA name.
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

// Pause stops every write and everything that would leave; pausing again is no event.
func (o Organisation) Pause(reason string) ([]events.Event, error) {
	if utf8.RuneCountInString(reason) > maxReason {
		return nil, fault.Invalid("/reason", "too_long", "A reason has at most %d characters.", maxReason)
	}
	if o.Paused {
		return nil, nil
	}
	return []events.Event{&events.OrganisationPaused{Reason: reason}}, nil
}

// Resume lifts the pause; without one it is no event.
func (o Organisation) Resume() ([]events.Event, error) {
	if !o.Paused {
		return nil, nil
	}
	return []events.Event{&events.OrganisationResumed{}}, nil
}

// ConfirmationText is what a contact gets once when it opted out by a message.
func (o Organisation) ConfirmationText() string {
	if o.Settings.OptOutConfirmation != "" {
		return o.Settings.OptOutConfirmation
	}
	return o.Name + ": you have opted out and will get no more messages. Reply START to opt in again."
}

// HelpText is the fixed answer to HELP.
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

// Apply folds one event.
func (w Workspace) Apply(event events.Event, _ events.Envelope) Workspace {
	if e, ok := event.(*events.WorkspaceCreated); ok {
		return Workspace{e.WorkspaceID, e.OrganisationID, e.Name, e.DefaultPoolID, e.SandboxLineID}
	}
	return w
}

// Exists tells whether there is such a workspace.
func (w Workspace) Exists() bool { return w.ID != uuid.Nil }

// CreateWorkspace opens a workspace of the organisation.
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

// CheckName refuses a name that is empty, has only spaces or more than limit characters.
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
