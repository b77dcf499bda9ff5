package events

import "github.com/google/uuid"

// OrganisationCreated opens an organisation. Stream: Stream("org", id).
type OrganisationCreated struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	Name           string    `json:"name"`
	TimeZone       string    `json:"time_zone"` // IANA name
}

// OrganisationPaused stops every write of the organisation, and its messages.
type OrganisationPaused struct {
	Reason string `json:"reason,omitempty"`
}

// OrganisationResumed lifts a pause.
type OrganisationResumed struct{}

// WorkspaceCreated opens a workspace; its default pool and its sandbox line are made in the same append. Stream:
// Stream("wsp", id).
type WorkspaceCreated struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	WorkspaceID    uuid.UUID `json:"workspace_id"`
	Name           string    `json:"name"`
	DefaultPoolID  string    `json:"default_pool_id"`
	SandboxLineID  string    `json:"sandbox_line_id"`
}

// UserCreated makes a person known to the organisation. Stream: Stream("usr", id).
type UserCreated struct {
	OrganisationID uuid.UUID    `json:"organisation_id"`
	UserID         uuid.UUID    `json:"user_id"`
	Person         UserPersonal `json:"-"`
}

// UserPersonal is what is sealed of a user.
type UserPersonal struct {
	FullName string `json:"full_name,omitempty"`
	Email    string `json:"email,omitempty"`
}

// Subject implements Sealed.
func (e *UserCreated) Subject() string { return Stream("usr", e.UserID) }

// Personal implements Sealed.
func (e *UserCreated) Personal() any { return &e.Person }

// RoleGranted gives a user one role in one workspace, in place of an earlier one there.
type RoleGranted struct {
	UserID      uuid.UUID `json:"user_id"`
	WorkspaceID uuid.UUID `json:"workspace_id"`
	Role        string    `json:"role"` // owner, admin, billing, manager, agent, developer, analyst
}

// RoleRevoked ends a user's membership of a workspace.
type RoleRevoked struct {
	UserID      uuid.UUID `json:"user_id"`
	WorkspaceID uuid.UUID `json:"workspace_id"`
}

// TeamCreated makes a team of a workspace. Stream: Stream("team", id).
type TeamCreated struct {
	TeamID uuid.UUID `json:"team_id"`
	Name   string    `json:"name"`
}

// TeamMemberAdded puts a user into a team.
type TeamMemberAdded struct {
	TeamID uuid.UUID `json:"team_id"`
	UserID uuid.UUID `json:"user_id"`
}

// Stream names the stream of an aggregate whose id is a plain UUID. Aggregates with prefixed ids use the id itself.
func Stream(kind string, id uuid.UUID) string { return kind + "_" + id.String() }

// SendingLimits are the limits of administration 2.7. They hold for a whole organisation.
type SendingLimits struct {
	IdenticalTextMaxPerDay int          `json:"identical_text_max_per_day"`
	NewContactWindowDays   int          `json:"new_contact_window_days"`
	NewContactsPerDay      int          `json:"new_contacts_per_day"`
	NewContactsPerHour     int          `json:"new_contacts_per_hour"`
	PreReplyMaxChars       int          `json:"pre_reply_max_chars"`
	PreReplyMaxMessages    int          `json:"pre_reply_max_messages"`
	ReplyRatioMin          float64      `json:"reply_ratio_min"`
	SendsPerDay            int          `json:"sends_per_day"`
	UnansweredStreakPause  int          `json:"unanswered_streak_pause"`
	WarmupCurve            []WarmupStep `json:"warmup_curve"`
}

// WarmupStep is how many new contacts a line may have per day while it is warmed up, from one day to another.
type WarmupStep struct {
	FromDay   int  `json:"from_day"` // from 1
	ToDay     *int `json:"to_day"`   // included; null for the last step
	NewPerDay int  `json:"new_per_day"`
}

// SendingLimitsSet is the operator's change of an organisation's limits. Stream: the organisation's.
type SendingLimitsSet struct {
	Limits SendingLimits `json:"limits"`
}

// QuietHours is a span of local time, HH:MM, that may pass midnight.
type QuietHours struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// ComplianceChanged states the organisation's compliance settings anew, as a whole. Stream: the organisation's.
type ComplianceChanged struct {
	QuietHours         QuietHours `json:"quiet_hours"`
	StopKeywords       []string   `json:"stop_keywords"`
	OptOutConfirmation string     `json:"opt_out_confirmation"`
	RequireConsent     bool       `json:"require_consent"`
}
