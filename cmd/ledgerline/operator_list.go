package main

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/service"
)

// directory opens the installation as a node that projects, and waits until the read models have reached the head of
// the ledger. No other node may be running.
func (i *installation) directory(ctx context.Context, con *console, needed ...*readmodel.Projection) (*workbench, error) {
	w, err := i.open(ctx, con, service.Roles{Project: true})
	if err != nil {
		return nil, err
	}
	for shard := range w.Ledger.Shards() {
		if err := w.Store.WaitForHead(ctx, shard, needed...); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// inWorkspaces joins the results of query for every workspace, or for only one of them. It returns not_found for an
// unknown workspace.
func inWorkspaces[T any](ctx context.Context, w *workbench, only uuid.UUID, query func(projections.Workspace, projections.Viewer) ([]T, error)) ([]T, error) {
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
		list, err := query(of, projections.Viewer{Shard: w.Ledger.ShardOf(of.OrganisationID), Workspace: of.WorkspaceID})
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

// ownership names the owner of an entry in a list over workspaces.
type ownership struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	WorkspaceID    uuid.UUID `json:"workspace_id"`
}

type listedLine struct {
	ownership
	projections.Line
}

type listedPool struct {
	ownership
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
			list = append(list, listedLine{ownership{of.OrganisationID, of.WorkspaceID}, l})
		}
		return list, err
	})
	if err != nil {
		return err
	}
	return printList(con, list, "id", "phone", "state", "health_score", "daily_new_cap", "pool_id", "workspace_id")
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
			list = append(list, listedPool{ownership{of.OrganisationID, of.WorkspaceID}, p})
		}
		return list, err
	})
	if err != nil {
		return err
	}
	return printList(con, list, "id", "name", "rotation", "fallback_sms_mode", "workspace_id")
}

type listedKey struct {
	ownership
	projections.APIKey
}

type keyListCommand struct {
	installation
	Workspace uuid.UUID `help:"Only the keys of this workspace." placeholder:"UUID"`
}

// Run implements the command.
func (c *keyListCommand) Run(ctx context.Context, con *console) error {
	w, err := c.directory(ctx, con, projections.Directory, projections.Credentials)
	if err != nil {
		return err
	}
	defer w.Close()
	list, err := inWorkspaces(ctx, w, c.Workspace, func(of projections.Workspace, v projections.Viewer) ([]listedKey, error) {
		var list []listedKey
		for after := (*readmodel.Cursor)(nil); ; {
			page, err := w.Store.APIKeys(ctx, v, after, listPage)
			if err != nil {
				return nil, err
			}
			for i := range page.Rows {
				list = append(list, listedKey{ownership{of.OrganisationID, of.WorkspaceID}, page.Rows[i]})
			}
			if after = page.Next; after == nil {
				return list, nil
			}
		}
	})
	if err != nil {
		return err
	}
	return printList(con, list, "id", "name", "env", "scopes", "prefix", "last_used_at", "expires_at", "revoked_at", "workspace_id")
}

// listPage is how many entries a list reads at a time.
const listPage = 100

type userListCommand struct {
	installation
	Organisation uuid.UUID `help:"Only the people of this organisation." placeholder:"UUID"`
}

// Run implements the command.
func (c *userListCommand) Run(ctx context.Context, con *console) error {
	w, err := c.directory(ctx, con, projections.Directory)
	if err != nil {
		return err
	}
	defer w.Close()
	list, err := w.Store.Users(ctx, c.Organisation)
	if err != nil {
		return err
	}
	return printList(con, list, "user_id", "full_name", "email", "roles", "organisation_id")
}
