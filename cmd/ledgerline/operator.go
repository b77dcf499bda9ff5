package main

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/service"
)

// operatorCommand is what the people who run the service do with its customers. Everything goes through commands and
// events, as everything else does.
type operatorCommand struct {
	Organisation organisationCommand `cmd:"" help:"Organisations."`
	Workspace    workspaceCommand    `cmd:"" help:"Workspaces."`
	User         userCommand         `cmd:"" help:"People."`
	Role         roleCommand         `cmd:"" help:"What people may do in a workspace."`
	Team         teamCommand         `cmd:"" help:"Teams."`
	Key          keyCommand          `cmd:"" help:"API keys."`
	Pool         poolCommand         `cmd:"" help:"Pools of lines."`
	Line         lineCommand         `cmd:"" help:"Lines."`
	LineRequest  lineRequestCommand  `cmd:"" help:"What workspaces asked for: more lines."`
	Session      sessionCommand      `cmd:"" help:"Issue a session token of a user."`
}

// do opens the installation, carries out one command, and prints what it gives.
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

// owner finds the organisation and the workspace that a stream belongs to.
func (w *workbench) owner(ctx context.Context, stream, what string) (org, workspace uuid.UUID, err error) {
	found, err := w.Ledger.Load(ctx, stream, 0)
	if err != nil {
		return org, workspace, err
	}
	if len(found) == 0 {
		return org, workspace, fault.New(fault.NotFound, "There is no such %s.", what)
	}
	return found[0].OrganisationID, found[0].WorkspaceID, nil
}

// request is the operator's, on behalf of whoever a stream belongs to.
func (w *workbench) request(ctx context.Context, stream, what string) (commands.Request, error) {
	org, workspace, err := w.owner(ctx, stream, what)
	return commands.Request{Organisation: org, Workspace: workspace, Actor: operator}, err
}
