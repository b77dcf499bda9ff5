package commands

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

// CreatedWorkspace is a new workspace with its default pool and sandbox line.
type CreatedWorkspace struct {
	Result
	ID            uuid.UUID
	DefaultPoolID string
	SandboxLineID string
	SandboxPhone  string
}

// CreateWorkspace creates a workspace of the request's organisation, with a pool "Default" and a sandbox line (rules
// LIN-6 and LIN-30).
func (a *App) CreateWorkspace(ctx context.Context, req Request, name string) (CreatedWorkspace, error) {
	w := CreatedWorkspace{ID: a.engine.IDs.UUID(), DefaultPoolID: a.engine.IDs.TypeID("pool"), SandboxLineID: a.engine.IDs.TypeID("ln")}
	req.Workspace = w.ID
	var err error
	w.Result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		created, err := org.State.CreateWorkspace(events.WorkspaceCreated{
			WorkspaceID: w.ID, Name: name, DefaultPoolID: w.DefaultPoolID, SandboxLineID: w.SandboxLineID,
		})
		if err != nil {
			return err
		}
		engine.Begin(u.Unit, a.engine.Workspaces, organisation.WorkspaceStream(w.ID)).Record(created...)
		if err := u.recordDefaultPool(w.DefaultPoolID); err != nil {
			return err
		}
		if w.SandboxPhone, err = a.randomSandboxLinePhone(); err != nil {
			return err
		}
		displayName := "Sandbox"
		u.Ref = w.ID.String()
		return u.recordNewLine(events.LineProvisioned{
			LineID: w.SandboxLineID, Phone: w.SandboxPhone, DisplayName: &displayName, IsSandbox: true,
			Carrier: "simulator", State: string(line.Active),
		}, decideAgain) // with another random number
	})
	return w, err
}

// randomSandboxLinePhone makes a number for a sandbox line: +1555 and seven digits, the first from 2 to 9 as in every
// number of that plan. Area code 555 is not assigned, so the number can never be dialled by mistake.
func (a *App) randomSandboxLinePhone() (string, error) {
	var random [4]byte
	if err := a.random(random[:]); err != nil {
		return "", err
	}
	return fmt.Sprintf("+1555%07d", 2_000_000+binary.BigEndian.Uint32(random[:])%8_000_000), nil
}
