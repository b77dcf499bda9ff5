package main

import (
	"context"
	"fmt"
	"regexp"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/service"
)

// operatorCommand holds the commands for the people who operate the service (rule ACC-34). They append events like
// every other command.
type operatorCommand struct {
	As string `help:"Your name, which the events and the audit log show: letters, digits and . _ @ -, at most 64." env:"LEDGERLINE_OPERATOR" placeholder:"NAME"`

	Organisation organisationCommand `cmd:"" help:"Organisations."`
	Workspace    workspaceCommand    `cmd:"" help:"Workspaces."`
	User         userCommand         `cmd:"" help:"People."`
	Role         roleCommand         `cmd:"" help:"Roles of people in workspaces."`
	Team         teamCommand         `cmd:"" help:"Teams."`
	Key          keyCommand          `cmd:"" help:"API keys."`
	Pool         poolCommand         `cmd:"" help:"Pools of lines."`
	Line         lineCommand         `cmd:"" help:"Lines."`
	LineRequest  lineRequestCommand  `cmd:"" help:"Requests of workspaces for more lines."`
	Session      sessionCommand      `cmd:"" help:"Issue a session token of a user."`
}

// operatorName is what --as accepts.
var operatorName = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)

// Validate implements the interface by which the parser of the command line checks a command.
func (c *operatorCommand) Validate() error {
	if c.As != "" && !operatorName.MatchString(c.As) {
		return fmt.Errorf("--as %q is not a name of at most 64 letters, digits and . _ @ -", c.As)
	}
	return nil
}

// operator is the actor of the events that an operator's command appends.
func (w *workbench) operator() events.Actor {
	return events.Actor{Type: operator.Type, ID: w.con.operator}
}

// do opens the installation, runs one command, and prints its result.
func (i *installation) do(ctx context.Context, con *console, command func(w *workbench) (any, error)) error {
	w, err := i.open(ctx, con, service.Roles{})
	if err != nil {
		return err
	}
	defer w.Close()
	result, err := command(w)
	if err != nil {
		return err
	}
	return con.print(result)
}

// owner returns the organisation and the workspace of a stream. It returns not_found with the noun when there is no
// such stream.
func (w *workbench) owner(ctx context.Context, stream, noun string) (org, workspace uuid.UUID, err error) {
	found, err := w.Ledger.Load(ctx, stream, 0)
	if err != nil {
		return org, workspace, err
	}
	if len(found) == 0 {
		return org, workspace, fault.New(fault.NotFound, "There is no such %s.", noun)
	}
	return found[0].OrganisationID, found[0].WorkspaceID, nil
}

// request makes a request of the operator, in the organisation and the workspace that own a stream. It returns
// not_found with the noun when there is no such stream.
func (w *workbench) request(ctx context.Context, stream, noun string) (commands.Request, error) {
	org, workspace, err := w.owner(ctx, stream, noun)
	return commands.Request{Organisation: org, Workspace: workspace, Actor: w.operator()}, err
}
