package projections

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/projections/readmodel"
)

// Team is a team as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type Team struct {
	ID        string   `json:"id" format:"uuid" sql:"uuid not null"`
	Name      string   `json:"name" sql:"text not null"`
	MemberIDs []string `json:"member_ids" nullable:"true" doc:"uuid of each user in it; null for API keys"`
	CreatedAt string   `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

var teamFields = readmodel.Select[Team](teamsTable, "t", map[string]string{
	"member_ids": "array(select m.user_id::text from read.team_members m where m.team_id = t.id order by 1)",
})

// Teams lists the teams of the workspace by name.
func (s *Store) Teams(ctx context.Context, v Viewer) ([]Team, error) {
	return readmodel.List(ctx, s.Reader, "teams", teamFields.Scan,
		`select `+teamFields.SQL+` from read.teams t where t.workspace_id = $1 order by lower(t.name), t.id`, v.Workspace)
}

// Person is a user with its teams and workspaces, and defines the columns of the table of users: see readmodel.TableOf.
type Person struct {
	ID         string       `json:"id" format:"uuid" sql:"uuid not null"`
	FullName   string       `json:"full_name" sql:"text not null"`
	Email      string       `json:"email" format:"email" sql:"text not null"`
	TeamIDs    []string     `json:"team_ids" nullable:"false" doc:"Of this workspace"`
	Workspaces []Membership `json:"workspaces" nullable:"false" doc:"Every workspace that the user may choose with x-workspace-id"`
}

// Membership is a workspace of a user, and the user's role there.
type Membership struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name"`
	Role string `json:"role" enum:"owner,admin,billing,manager,agent,developer,analyst"`
}

// personFields selects user u. $2 is the workspace whose teams count.
var personFields = readmodel.Select[Person](usersTable, "u", map[string]string{
	"team_ids": `array(select t.id::text from read.team_members m join read.teams t on t.id = m.team_id
		where m.user_id = u.id and t.workspace_id = $2 order by 1)`,
	"workspaces": readmodel.SetAfterScan,
})

const membershipsSQL = `select w.id::text, w.name, m.role from read.members m join read.workspaces w on w.id = m.workspace_id
	where m.user_id = $1 order by w.created_at, w.id`

// Person finds a user; found is false when there is none.
func (s *Store) Person(ctx context.Context, v Viewer, id uuid.UUID) (Person, bool, error) {
	person, found, err := readmodel.One(ctx, s.Reader, "person", personFields.Scan,
		`select `+personFields.SQL+` from read.users u where u.id = $1`, id, v.Workspace)
	if err != nil || !found {
		return person, found, err
	}
	person.Workspaces, err = readmodel.List(ctx, s.Reader, "memberships", pgx.RowToStructByPos[Membership], membershipsSQL, id)
	return person, true, err
}

// CallerWorkspace names the organisation of a caller and the workspace that the request is about.
type CallerWorkspace struct {
	OrganisationID   string  `json:"organisation_id" format:"uuid"`
	OrganisationName string  `json:"organisation_name"`
	WorkspaceID      *string `json:"workspace_id" format:"uuid" doc:"null for a signed-in user of several workspaces who chose none"`
	WorkspaceName    *string `json:"workspace_name"`
	TimeZone         string  `json:"time_zone" doc:"IANA name"`
}

const callerWorkspaceSQL = `select o.id::text, o.name, w.id::text, w.name, o.time_zone
	from read.organisations o left join read.workspaces w on w.organisation_id = o.id and w.id = $2 where o.id = $1`

// CallerWorkspace finds an organisation and one of its workspaces; found is false when there is no such organisation.
// An unknown workspace is left null.
func (s *Store) CallerWorkspace(ctx context.Context, organisation, workspace uuid.UUID) (CallerWorkspace, bool, error) {
	return readmodel.One(ctx, s.Reader, "workspace", pgx.RowToStructByPos[CallerWorkspace], callerWorkspaceSQL, organisation, workspace)
}
