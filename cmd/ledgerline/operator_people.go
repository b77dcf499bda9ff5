package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/organisation"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

type userCommand struct {
	Create userCreateCommand `cmd:"" help:"Create a user of an organisation."`
	List   userListCommand   `cmd:"" help:"List the people of all organisations, or of one, with their roles."`
}

type userCreateCommand struct {
	installation
	Organisation uuid.UUID            `help:"The organisation." required:"" placeholder:"UUID"`
	Name         string               `help:"Full name." required:"" placeholder:"NAME"`
	Email        string               `help:"E-mail address." required:"" placeholder:"ADDRESS"`
	Role         map[uuid.UUID]string `help:"A role in a workspace: owner, admin, billing, manager, agent, developer or analyst. May be repeated." placeholder:"WORKSPACE=ROLE" mapsep:","`
}

// Run implements the command.
func (c *userCreateCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		in := commands.CreateUser{FullName: c.Name, Email: c.Email, Roles: map[uuid.UUID]organisation.Role{}}
		for workspace, role := range c.Role {
			in.Roles[workspace] = organisation.Role(role)
		}
		made, err := w.App.CreateUser(ctx, commands.Request{Organisation: c.Organisation, Actor: w.operator()}, in)
		return map[string]any{"user_id": made.Ref}, err
	})
}

type roleCommand struct {
	Grant  roleGrantCommand  `cmd:"" help:"Give a user a role in a workspace. It replaces an earlier one."`
	Revoke roleRevokeCommand `cmd:"" help:"End a user's membership of a workspace."`
}

type roleGrantCommand struct {
	installation
	Workspace uuid.UUID `help:"The workspace." required:"" placeholder:"UUID"`
	User      uuid.UUID `help:"The user." required:"" placeholder:"UUID"`
	Role      string    `help:"The role." required:"" enum:"owner,admin,billing,manager,agent,developer,analyst" placeholder:"ROLE"`
}

// Run implements the command.
func (c *roleGrantCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.workspaceRequest(ctx, c.Workspace)
		if err == nil {
			_, err = w.App.GrantRole(ctx, req, c.User, organisation.Role(c.Role))
		}
		return map[string]any{"user_id": c.User, "workspace_id": c.Workspace, "role": c.Role}, err
	})
}

type roleRevokeCommand struct {
	installation
	Workspace uuid.UUID `help:"The workspace." required:"" placeholder:"UUID"`
	User      uuid.UUID `help:"The user." required:"" placeholder:"UUID"`
}

// Run implements the command.
func (c *roleRevokeCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.workspaceRequest(ctx, c.Workspace)
		if err == nil {
			_, err = w.App.RevokeRole(ctx, req, c.User)
		}
		return map[string]any{"user_id": c.User, "workspace_id": c.Workspace, "role": nil}, err
	})
}

type teamCommand struct {
	Create teamCreateCommand `cmd:"" help:"Create a team of a workspace."`
	Add    teamAddCommand    `cmd:"" help:"Add a member of the workspace to a team."`
}

type teamCreateCommand struct {
	installation
	Workspace uuid.UUID   `help:"The workspace." required:"" placeholder:"UUID"`
	Name      string      `help:"Its name." required:"" placeholder:"NAME"`
	Member    []uuid.UUID `help:"A user; may be repeated." placeholder:"UUID"`
}

// Run implements the command.
func (c *teamCreateCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.workspaceRequest(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		made, err := w.App.CreateTeam(ctx, req, c.Name, c.Member...)
		return map[string]any{"team_id": made.Ref}, err
	})
}

type teamAddCommand struct {
	installation
	Team uuid.UUID `help:"The team." required:"" placeholder:"UUID"`
	User uuid.UUID `help:"The user." required:"" placeholder:"UUID"`
}

// Run implements the command.
func (c *teamAddCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.request(ctx, organisation.TeamStream(c.Team), "team")
		if err == nil {
			_, err = w.App.AddTeamMember(ctx, req, c.Team, c.User)
		}
		return map[string]any{"team_id": c.Team, "user_id": c.User}, err
	})
}

type sessionCommand struct {
	Issue  sessionIssueCommand  `cmd:"" default:"withargs" help:"Issue a session token. This is done when neither is named."`
	Revoke sessionRevokeCommand `cmd:"" help:"End all sessions of a user that were issued until now, on every node."`
}

type sessionRevokeCommand struct {
	installation
	User uuid.UUID `help:"The user." required:"" placeholder:"UUID"`
}

// Run implements the command.
func (c *sessionRevokeCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.request(ctx, organisation.UserStream(c.User), "user")
		if err == nil {
			_, err = w.App.RevokeSessions(ctx, req, c.User)
		}
		return map[string]any{"user_id": c.User, "revoked_until": httpapi.TimestampOf(w.Clock.Now().Truncate(time.Second))}, err
	})
}

// sessionIssueCommand issues a session token, signed with the secret of HS256 tokens.
type sessionIssueCommand struct {
	installation
	User       uuid.UUID     `help:"The user." required:"" placeholder:"UUID"`
	TTL        time.Duration `name:"ttl" help:"How long the token is valid, at most 24h (default: ${default})." default:"1h" placeholder:"TIME"`
	Issuer     string        `name:"session-issuer" help:"Issuer of the token (default: ${default})." default:"ledgerline" env:"LEDGERLINE_SESSION_ISSUER" placeholder:"NAME"`
	Audience   string        `name:"session-audience" help:"Audience of the token (default: ${default})." default:"ledgerline" env:"LEDGERLINE_SESSION_AUDIENCE" placeholder:"NAME"`
	SecretFile string        `name:"session-secret-file" help:"File with the secret. Default: session.secret in the data directory." env:"LEDGERLINE_SESSION_SECRET_FILE" placeholder:"FILE"`
}

// Run implements the command.
func (c *sessionIssueCommand) Run(ctx context.Context, con *console) error {
	if c.TTL <= 0 || c.TTL > auth.MaxSession {
		return usage("--ttl must be more than 0 and at most %s", auth.MaxSession)
	}
	path := c.SecretFile
	if path == "" {
		path = c.dir().sessionSecret()
	}
	return c.do(ctx, con, func(w *workbench) (any, error) {
		secret, err := readSecret(path)
		if err != nil {
			return nil, err
		}
		if _, _, err := w.owner(ctx, organisation.UserStream(c.User), "user"); err != nil {
			return nil, err
		}
		token, err := auth.SignSession(auth.SessionConfig{Issuer: c.Issuer, Audience: c.Audience, Secret: secret, Clock: w.Clock}, c.User, c.TTL)
		if err != nil {
			return nil, fmt.Errorf("sign the session: %w", err)
		}
		return map[string]any{"token": token, "user_id": c.User, "expires_at": httpapi.TimestampOf(w.Clock.Now().Add(c.TTL))}, nil
	})
}
