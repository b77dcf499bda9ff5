package main

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/organisation"
	"ledgerline/projections"
)

type organisationCommand struct {
	Create organisationCreateCommand `cmd:"" help:"Create an organisation."`
	List   organisationListCommand   `cmd:"" help:"List all organisations, oldest first."`
	Pause  organisationPauseCommand  `cmd:"" help:"Refuse every write of an organisation and defer its messages. Reads still work."`
	Resume organisationResumeCommand `cmd:"" help:"End the pause. Deferred messages leave at once, as far as the rules allow."`
	Limits organisationLimitsCommand `cmd:"" help:"Show or change the sending limits of an organisation."`

	Compliance organisationComplianceCommand `cmd:"" help:"Show or change an organisation's rules: consent, quiet hours, STOP words, the answer to an opt-out."`
}

type organisationCreateCommand struct {
	installation
	Name     string `help:"Its name." required:"" placeholder:"NAME"`
	TimeZone string `help:"Its time zone, an IANA name (default: ${default})." default:"America/New_York" placeholder:"ZONE"`
}

// Run implements the command.
func (c *organisationCreateCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		made, err := w.App.CreateOrganisation(ctx, commands.Request{Actor: w.operator()}, c.Name, c.TimeZone)
		return map[string]any{"organisation_id": made.Ref}, err
	})
}

type organisationPauseCommand struct {
	installation
	ID     uuid.UUID `arg:"" help:"The organisation."`
	Reason string    `help:"Reason; it is stored in the ledger." placeholder:"TEXT"`
}

// Run implements the command.
func (c *organisationPauseCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		_, err := w.App.PauseOrganisation(ctx, commands.Request{Organisation: c.ID, Actor: w.operator()}, c.Reason)
		return map[string]any{"organisation_id": c.ID, "paused": true}, err
	})
}

type organisationResumeCommand struct {
	installation
	ID uuid.UUID `arg:"" help:"The organisation."`
}

// Run implements the command.
func (c *organisationResumeCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		_, err := w.App.ResumeOrganisation(ctx, commands.Request{Organisation: c.ID, Actor: w.operator()})
		return map[string]any{"organisation_id": c.ID, "paused": false}, err
	})
}

type organisationListCommand struct {
	installation
}

// Run implements the command.
func (c *organisationListCommand) Run(ctx context.Context, con *console) error {
	w, err := c.directory(ctx, con, projections.Directory)
	if err != nil {
		return err
	}
	defer w.Close()
	list, err := w.Store.Organisations(ctx)
	if err != nil {
		return err
	}
	return printList(con, list, "organisation_id", "name", "time_zone", "paused", "workspaces")
}

type workspaceCommand struct {
	Create workspaceCreateCommand `cmd:"" help:"Create a workspace, with a default pool and a sandbox line."`
	List   workspaceListCommand   `cmd:"" help:"List all workspaces, oldest first."`
}

type workspaceCreateCommand struct {
	installation
	Organisation uuid.UUID `help:"Its organisation." required:"" placeholder:"UUID"`
	Name         string    `help:"Its name." required:"" placeholder:"NAME"`
}

// Run implements the command.
func (c *workspaceCreateCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		made, err := w.App.CreateWorkspace(ctx, commands.Request{Organisation: c.Organisation, Actor: w.operator()}, c.Name)
		return map[string]any{
			"organisation_id": c.Organisation, "workspace_id": made.ID, "pool_id": made.DefaultPoolID,
			"sandbox": devLine{made.SandboxLineID, made.SandboxPhone},
		}, err
	})
}

type workspaceListCommand struct {
	installation
}

// Run implements the command.
func (c *workspaceListCommand) Run(ctx context.Context, con *console) error {
	w, err := c.directory(ctx, con, projections.Directory)
	if err != nil {
		return err
	}
	defer w.Close()
	list, err := w.Store.Workspaces(ctx)
	if err != nil {
		return err
	}
	return printList(con, list, "workspace_id", "name", "members", "organisation_id", "organisation", "paused")
}

// workspaceRequest is a request of the operator in a workspace.
func (w *workbench) workspaceRequest(ctx context.Context, id uuid.UUID) (commands.Request, error) {
	req, err := w.request(ctx, organisation.WorkspaceStream(id), "workspace")
	req.Workspace = id
	return req, err
}
