package main

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/service"
)

// directory opens the installation with read models brought to the ledger's present, which nobody else may be doing.
func (i *installation) directory(ctx context.Context, con *console, needed ...*readmodel.Projection) (*workbench, error) {
	w, err := i.open(ctx, con, service.Roles{Project: true})
	if err != nil {
		return nil, err
	}
	for shard := range w.Ledger.Shards() {
		if err := w.Store.Current(ctx, shard, needed...); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// inWorkspaces asks for something in every workspace, or in one of them.
func inWorkspaces[T any](ctx context.Context, w *workbench, only uuid.UUID, ask func(projections.Workspace, projections.Viewer) ([]T, error)) ([]T, error) {
	all, err := w.Store.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	found, known := []T{}, false
	for _, of := range all {
		if only != uuid.Nil && of.WorkspaceID != only {
			continue
		}
		known = true
		list, err := ask(of, projections.Viewer{Shard: w.Ledger.ShardOf(of.OrganisationID), Workspace: of.WorkspaceID})
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	if only != uuid.Nil && !known {
		return nil, fault.New(fault.NotFound, "There is no such workspace.")
	}
	return found, nil
}

// whose is what a list over workspaces says of each entry.
type whose struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	WorkspaceID    uuid.UUID `json:"workspace_id"`
}

type listedLine struct {
	whose
	projections.Line
}

type listedPool struct {
	whose
	projections.Pool
}

type lineListCommand struct {
	installation
	Workspace uuid.UUID `help:"Only the lines of this workspace." placeholder:"UUID"`
	State     string    `help:"Only lines in this state: provisioning, ready, warming, active, throttled, paused, quarantined or retired." enum:"provisioning,ready,warming,active,throttled,paused,quarantined,retired," default:"" placeholder:"STATE"`
}

// Run implements the command.
func (c *lineListCommand) Run(ctx context.Context, con *console) error {
	w, err := c.directory(ctx, con, projections.Directory, projections.Lines, projections.Usage)
	if err != nil {
		return err
	}
	defer w.Close()
	list, err := inWorkspaces(ctx, w, c.Workspace, func(of projections.Workspace, v projections.Viewer) ([]listedLine, error) {
		var list []listedLine
		lines, err := w.Store.Lines(ctx, of.OrganisationID, v, projections.LineFilter{State: c.State})
		for _, l := range lines {
			list = append(list, listedLine{whose{of.OrganisationID, of.WorkspaceID}, l})
		}
		return list, err
	})
	if err != nil {
		return err
	}
	return con.print(list)
}

type poolListCommand struct {
	installation
	Workspace uuid.UUID `help:"Only the pools of this workspace." placeholder:"UUID"`
}

// Run implements the command.
func (c *poolListCommand) Run(ctx context.Context, con *console) error {
	w, err := c.directory(ctx, con, projections.Directory, projections.Lines)
	if err != nil {
		return err
	}
	defer w.Close()
	list, err := inWorkspaces(ctx, w, c.Workspace, func(of projections.Workspace, v projections.Viewer) ([]listedPool, error) {
		var list []listedPool
		pools, err := w.Store.Pools(ctx, v)
		for _, p := range pools {
			list = append(list, listedPool{whose{of.OrganisationID, of.WorkspaceID}, p})
		}
		return list, err
	})
	if err != nil {
		return err
	}
	return con.print(list)
}
