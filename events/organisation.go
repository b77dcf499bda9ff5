package events

import (
	"time"

	"github.com/google/uuid"
)

// OrganisationCreated creates an organisation. Stream: Stream("org", id).
type OrganisationCreated struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	Name           string    `json:"name"`
	TimeZone       string    `json:"time_zone"` // IANA name
}

// OrganisationPaused stops all writes and all messages of the organisation.
type OrganisationPaused struct {
	Reason string `json:"reason,omitempty"`
}

// OrganisationResumed ends a pause.
type OrganisationResumed struct{}

// WorkspaceCreated creates a workspace. The same append creates its default pool and its sandbox line. Stream:
// Stream("wsp", id).
type WorkspaceCreated struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	WorkspaceID    uuid.UUID `json:"workspace_id"`
	Name           string    `json:"name"`
	DefaultPoolID  string    `json:"default_pool_id"`
	SandboxLineID  string    `json:"sandbox_line_id"`
}

// UserCreated creates a user of the organisation. Stream: Stream("usr", id).
type UserCreated struct {
	OrganisationID uuid.UUID    `json:"organisation_id"`
	UserID         uuid.UUID    `json:"user_id"`
	Person         UserPersonal `json:"-"`
}

// UserPersonal is the personal data of a user.
type UserPersonal struct {
	FullName string `json:"full_name,omitempty"`
	Email    string `json:"email,omitempty"`
}

// Subject implements Sealed.
func (e *UserCreated) Subject() string { return Stream("usr", e.UserID) }

// Personal implements Sealed.
func (e *UserCreated) Personal() any { return &e.Person }

// RoleGranted gives a user a role in a workspace. It replaces the user's earlier role there.
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

// SessionsRevoked ends the sessions of a user: tokens that were issued at or before Until are not valid any more.
type SessionsRevoked struct {
	UserID uuid.UUID `json:"user_id"`
	Until  time.Time `json:"until"` // in whole seconds, as the times in tokens
}

// TeamCreated creates a team in a workspace. Stream: Stream("team", id).
type TeamCreated struct {
	TeamID uuid.UUID `json:"team_id"`
	Name   string    `json:"name"`
}

// TeamMemberAdded adds a user to a team.
type TeamMemberAdded struct {
	TeamID uuid.UUID `json:"team_id"`
	UserID uuid.UUID `json:"user_id"`
}

// Stream returns the name of the stream of an aggregate whose id is a plain UUID. The stream of an aggregate with a
// prefixed id has the id as its name.
func Stream(kind string, id uuid.UUID) string { return kind + "_" + id.String() }

// SendingLimits are the sending limits of an organisation (rule LIN-10).
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

// WarmupStep is how many new contacts a line may have per day, from one day of its warm-up to another (rule LIN-14).
type WarmupStep struct {
	FromDay   int  `json:"from_day"` // from 1
	ToDay     *int `json:"to_day"`   // inclusive; null for the last step
	NewPerDay int  `json:"new_per_day"`
}

// SendingLimitsSet replaces the sending limits of an organisation. Only the operator sets them. Stream: the
// organisation's.
type SendingLimitsSet struct {
	Limits SendingLimits `json:"limits"`
}

// QuietHours is a span of local time, HH:MM. It may include midnight.
type QuietHours struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// ComplianceChanged replaces all compliance settings of the organisation. Stream: the organisation's.
type ComplianceChanged struct {
	QuietHours         QuietHours `json:"quiet_hours"`
	StopKeywords       []string   `json:"stop_keywords"`
	OptOutConfirmation string     `json:"opt_out_confirmation"`
	RequireConsent     bool       `json:"require_consent"`
}
