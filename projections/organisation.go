package projections

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var organisationsTable = &readmodel.Table{Name: "organisations", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "name", Type: "text not null"},
	{Name: "time_zone", Type: "text not null"},
	{Name: "paused", Type: "boolean not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

var workspacesTable = &readmodel.Table{Name: "workspaces", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "organisation_id", Type: "uuid not null"},
	{Name: "name", Type: "text not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

var membersTable = &readmodel.Table{Name: "members", Key: []string{"user_id", "workspace_id"}, Columns: []readmodel.Column{
	{Name: "user_id", Type: "uuid not null"},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "organisation_id", Type: "uuid not null"},
	{Name: "role", Type: "text not null"},
	{Name: "since", Type: "timestamptz not null"},
}}

var usersTable = readmodel.TableOf[Person]("users", []string{"id"},
	readmodel.Column{Name: "organisation_id", Type: "uuid not null"},
	readmodel.Column{Name: "created_at", Type: "timestamptz not null"},
)

var teamsTable = readmodel.TableOf[Team]("teams", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})

var teamMembersTable = &readmodel.Table{Name: "team_members", Key: []string{"team_id", "user_id"}, Columns: []readmodel.Column{
	{Name: "team_id", Type: "uuid not null"},
	{Name: "user_id", Type: "uuid not null"},
}}

// Directory is the organisations, workspaces, users, roles and teams as they are now.
var Directory = &readmodel.Projection{
	ID: "directory", Program: 2,
	Tables: []*readmodel.Table{organisationsTable, workspacesTable, membersTable, usersTable, teamsTable, teamMembersTable},
	Indexes: []string{
		`create index on @workspaces (organisation_id)`, `create index on @members (workspace_id)`, `create index on @teams (workspace_id)`,
		`create index on @team_members (user_id)`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.OrganisationCreated, r *eventstore.Recorded) {
			c.Insert(organisationsTable, readmodel.Row{
				"id": e.OrganisationID, "name": e.Name, "time_zone": e.TimeZone, "paused": false, "created_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, _ *events.OrganisationPaused, r *eventstore.Recorded) {
			c.Update(organisationsTable, readmodel.Row{"id": r.OrganisationID, "paused": true})
		}),
		feed.On(func(c *readmodel.Changes, _ *events.OrganisationResumed, r *eventstore.Recorded) {
			c.Update(organisationsTable, readmodel.Row{"id": r.OrganisationID, "paused": false})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WorkspaceCreated, r *eventstore.Recorded) {
			c.Insert(workspacesTable, readmodel.Row{
				"id": e.WorkspaceID, "organisation_id": e.OrganisationID, "name": e.Name, "created_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.RoleGranted, r *eventstore.Recorded) {
			c.Insert(membersTable, readmodel.Row{
				"user_id": e.UserID, "workspace_id": e.WorkspaceID, "organisation_id": r.OrganisationID, "role": e.Role, "since": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.RoleRevoked, _ *eventstore.Recorded) {
			c.Delete(membersTable, readmodel.Row{"user_id": e.UserID, "workspace_id": e.WorkspaceID})
		}),
		feed.On(func(c *readmodel.Changes, e *events.UserCreated, r *eventstore.Recorded) {
			c.Insert(usersTable, readmodel.Row{
				"id": e.UserID, "organisation_id": e.OrganisationID, "full_name": e.Person.FullName, "email": e.Person.Email,
				"created_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.TeamCreated, r *eventstore.Recorded) {
			c.Insert(teamsTable, readmodel.Row{"id": e.TeamID, "workspace_id": r.WorkspaceID, "name": e.Name, "created_at": readmodel.Stamp(r.OccurredAt)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.TeamMemberAdded, _ *eventstore.Recorded) {
			c.Insert(teamMembersTable, readmodel.Row{"team_id": e.TeamID, "user_id": e.UserID})
		}),
	),
}

// Workspace is one workspace as the operator sees it.
type Workspace struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	Organisation   string    `json:"organisation"`
	Paused         bool      `json:"paused"`
	WorkspaceID    uuid.UUID `json:"workspace_id"`
	Name           string    `json:"name"`
	Members        int       `json:"members"`
}

const workspacesSQL = `select o.id, o.name, o.paused, w.id, w.name, (select count(*) from read.members m where m.workspace_id = w.id)
	from read.workspaces w join read.organisations o on o.id = w.organisation_id order by o.created_at, w.created_at`

// Workspaces lists all workspaces of the installation, oldest first.
func (s *Store) Workspaces(ctx context.Context) ([]Workspace, error) {
	return readmodel.List(ctx, s.Reader, "workspaces", pgx.RowToStructByPos[Workspace], workspacesSQL)
}

// Organisation is one organisation as the operator sees it.
type Organisation struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	Name           string    `json:"name"`
	TimeZone       string    `json:"time_zone"`
	Paused         bool      `json:"paused"`
	Workspaces     int       `json:"workspaces"`
}

const organisationsSQL = `select o.id, o.name, o.time_zone, o.paused, (select count(*) from read.workspaces w where w.organisation_id = o.id)
	from read.organisations o order by o.created_at, o.id`

// Organisations lists all organisations of the installation, oldest first.
func (s *Store) Organisations(ctx context.Context) ([]Organisation, error) {
	return readmodel.List(ctx, s.Reader, "organisations", pgx.RowToStructByPos[Organisation], organisationsSQL)
}

// User is one user as the operator sees it.
type User struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	UserID         uuid.UUID `json:"user_id"`
	FullName       string    `json:"full_name"`
	Email          string    `json:"email"`
	Roles          []string  `json:"roles"` // WORKSPACE=ROLE, as operator user create takes them
}

const usersSQL = `select u.organisation_id, u.id, u.full_name, u.email,
	array(select m.workspace_id || '=' || m.role from read.members m where m.user_id = u.id order by m.since, m.workspace_id)
	from read.users u where $1::uuid is null or u.organisation_id = $1 order by u.organisation_id, u.created_at, u.id`

// Users lists the users of all organisations, or of one, oldest first in each. uuid.Nil stands for all.
func (s *Store) Users(ctx context.Context, organisation uuid.UUID) ([]User, error) {
	only := uuid.NullUUID{UUID: organisation, Valid: organisation != uuid.Nil}
	return readmodel.List(ctx, s.Reader, "users", pgx.RowToStructByPos[User], usersSQL, only)
}
