package main

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/projections"
)

type lineRequestCommand struct {
	List   lineRequestListCommand   `cmd:"" help:"List the open requests of all workspaces, oldest first."`
	Start  lineRequestStartCommand  `cmd:"" help:"Mark a request as in progress."`
	Fulfil lineRequestFulfilCommand `cmd:"" help:"Close a request as fulfilled. Creating its last line with line create --request does this too."`
	Cancel lineRequestCancelCommand `cmd:"" help:"Close a request that will not be fulfilled."`
}

type lineRequestListCommand struct {
	installation
}

// Run implements the command.
func (c *lineRequestListCommand) Run(ctx context.Context, con *console) error {
	w, err := c.directory(ctx, con, projections.LineRequests)
	if err != nil {
		return err
	}
	defer w.Close()
	list, err := w.Store.OpenLineRequests(ctx)
	if err != nil {
		return err
	}
	return printList(con, list, "id", "status", "count", "area_codes", "created_at", "workspace_id")
}

// onRequest runs a command on a request of any workspace and prints the request's new status.
func (i *installation) onRequest(ctx context.Context, con *console, id uuid.UUID, status string, do func(*workbench, commands.Request) error) error {
	w, err := i.directory(ctx, con, projections.LineRequests)
	if err != nil {
		return err
	}
	defer w.Close()
	found, ok, err := w.Store.AnyLineRequest(ctx, id)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such request.")
	}
	if err != nil {
		return err
	}
	if err := do(w, commands.Request{Organisation: found.OrganisationID, Workspace: found.WorkspaceID, Actor: w.operator()}); err != nil {
		return err
	}
	return con.print(map[string]any{"line_request_id": id, "status": status})
}

type lineRequestStartCommand struct {
	installation
	ID uuid.UUID `arg:"" help:"The request."`
}

// Run implements the command.
func (c *lineRequestStartCommand) Run(ctx context.Context, con *console) error {
	return c.onRequest(ctx, con, c.ID, "in_progress", func(w *workbench, req commands.Request) error {
		_, err := w.App.StartLineRequest(ctx, req, c.ID)
		return err
	})
}

type lineRequestFulfilCommand struct {
	installation
	ID uuid.UUID `arg:"" help:"The request."`
}

// Run implements the command.
func (c *lineRequestFulfilCommand) Run(ctx context.Context, con *console) error {
	return c.onRequest(ctx, con, c.ID, "fulfilled", func(w *workbench, req commands.Request) error {
		_, err := w.App.FulfilLineRequest(ctx, req, c.ID)
		return err
	})
}

type lineRequestCancelCommand struct {
	installation
	ID     uuid.UUID `arg:"" help:"The request."`
	Reason string    `help:"Reason; it is stored in the ledger." placeholder:"TEXT"`
}

// Run implements the command.
func (c *lineRequestCancelCommand) Run(ctx context.Context, con *console) error {
	return c.onRequest(ctx, con, c.ID, "cancelled", func(w *workbench, req commands.Request) error {
		var reason *string
		if c.Reason != "" {
			reason = &c.Reason
		}
		_, err := w.App.CancelLineRequest(ctx, req, c.ID, reason)
		return err
	})
}
