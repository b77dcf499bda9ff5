package organisation

import (
	"maps"
	"net/mail"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Role is what a user may do in one workspace (rule ACC-17).
type Role string

// The roles.
const (
	Owner     Role = "owner"
	Admin     Role = "admin"
	Billing   Role = "billing"
	Manager   Role = "manager"
	Agent     Role = "agent"
	Developer Role = "developer"
	Analyst   Role = "analyst"
)

// Roles returns all roles.
func Roles() []Role { return []Role{Owner, Admin, Billing, Manager, Agent, Developer, Analyst} }

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// User is the state of one user. The zero value does not exist.
type User struct {
	ID           uuid.UUID
	Organisation uuid.UUID
	Roles        map[uuid.UUID]Role // by workspace
	// SessionsUntil is the newest time of issue of tokens that were revoked; zero when none were.
	SessionsUntil time.Time
}

// Apply returns the state after one event of the user's stream.
func (u User) Apply(event events.Event, _ events.Envelope) User {
	switch e := event.(type) {
	case *events.UserCreated:
		return User{ID: e.UserID, Organisation: e.OrganisationID}
	case *events.RoleGranted:
		roles := maps.Clone(u.Roles)
		if roles == nil {
			roles = map[uuid.UUID]Role{}
		}
		roles[e.WorkspaceID] = Role(e.Role)
		u.Roles = roles
	case *events.RoleRevoked:
		u.Roles = maps.Clone(u.Roles)
		delete(u.Roles, e.WorkspaceID)
	case *events.SessionsRevoked:
		u.SessionsUntil = e.Until
	}
	return u
}

// Exists reports whether the user was created.
func (u User) Exists() bool { return u.ID != uuid.Nil }

// MemberOf reports whether the user has a role in the workspace.
func (u User) MemberOf(workspace uuid.UUID) bool {
	_, member := u.Roles[workspace]
	return member
}

// CreateUser creates a user of the organisation. A bad name or e-mail address is refused with validation_failed.
func (o Organisation) CreateUser(id uuid.UUID, person events.UserPersonal) ([]events.Event, error) {
	issues := nameIssues("/full_name", person.FullName, maxName)
	if a, err := mail.ParseAddress(person.Email); err != nil || a.Address != person.Email {
		issues = append(issues, fault.Issue{Location: "body", Path: "/email", Code: "invalid_email", Message: "This is not an e-mail address."})
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	return []events.Event{&events.UserCreated{OrganisationID: o.ID, UserID: id, Person: person}}, nil
}

// GrantRole gives the user a role in a workspace in place of an earlier one; no event if the user has that role. An
// unknown role is refused with validation_failed.
func (u User) GrantRole(workspace uuid.UUID, role Role) ([]events.Event, error) {
	if !role.Valid() {
		return nil, fault.Invalid("/role", "invalid_value", "This is not a role.")
	}
	if u.Roles[workspace] == role {
		return nil, nil
	}
	return []events.Event{&events.RoleGranted{UserID: u.ID, WorkspaceID: workspace, Role: string(role)}}, nil
}

// RevokeRole ends the user's membership of a workspace; no event if the user is not a member.
func (u User) RevokeRole(workspace uuid.UUID) []events.Event {
	if !u.MemberOf(workspace) {
		return nil
	}
	return []events.Event{&events.RoleRevoked{UserID: u.ID, WorkspaceID: workspace}}
}

// RevokeSessions ends all sessions of the user that were issued until now; no event if they have ended already. Tokens
// carry whole seconds, so a token of the present second is revoked too.
func (u User) RevokeSessions(now time.Time) []events.Event {
	until := now.UTC().Truncate(time.Second)
	if !until.After(u.SessionsUntil) {
		return nil
	}
	return []events.Event{&events.SessionsRevoked{UserID: u.ID, Until: until}}
}

// AcceptsSession reports whether a token with this time of issue is valid for the user. A token without one (zero) is
// valid until sessions are revoked for the first time.
func (u User) AcceptsSession(issued time.Time) bool {
	return u.SessionsUntil.IsZero() || issued.After(u.SessionsUntil)
}

// Team is the state of one team of a workspace. The zero value does not exist.
type Team struct {
	ID        uuid.UUID
	Workspace uuid.UUID
	Name      string
	Members   []uuid.UUID
}

// Apply returns the state after one event of the team's stream.
func (t Team) Apply(event events.Event, in events.Envelope) Team {
	switch e := event.(type) {
	case *events.TeamCreated:
		return Team{ID: e.TeamID, Workspace: in.Workspace, Name: e.Name}
	case *events.TeamMemberAdded:
		t.Members = append(slices.Clone(t.Members), e.UserID)
	}
	return t
}

// CreateTeam creates a team. A bad name is refused with validation_failed.
func CreateTeam(id uuid.UUID, name string) ([]events.Event, error) {
	if issues := nameIssues("/name", name, maxName); len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	return []events.Event{&events.TeamCreated{TeamID: id, Name: name}}, nil
}

// AddMember adds a user to the team; no event if the user is a member.
func (t Team) AddMember(user uuid.UUID) []events.Event {
	if slices.Contains(t.Members, user) {
		return nil
	}
	return []events.Event{&events.TeamMemberAdded{TeamID: t.ID, UserID: user}}
}
