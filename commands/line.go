package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/phone"
	"ledgerline/events"
)

// linePhoneClaimScope is the scope of the claims on the numbers of lines. A number belongs to one line of the
// installation, so that an inbound message finds its workspace. A retired line keeps its number until another line
// takes it (rule LIN-1).
const linePhoneClaimScope = "line.phone"

// ProvisionLine has the properties of a line.
type ProvisionLine struct {
	Phone         string
	DisplayName   *string
	PoolID        string     // default: the pool of the line request, else the workspace's default pool
	Carrier       string     // default: simulator
	State         line.State // default: provisioning
	LineRequestID *uuid.UUID // the request for lines that the line is provisioned for
}

// ProvisionLine creates a line of the request's workspace; Ref is its id. A number that another line has is refused
// with conflict, unless that line is retired.
func (a *App) ProvisionLine(ctx context.Context, req Request, in ProvisionLine) (Result, error) {
	id := a.engine.IDs.TypeID("ln")
	e164, err := phone.Parse(in.Phone, "/phone")
	if err != nil {
		return Result{}, err
	}
	if in.Carrier == "" {
		in.Carrier = "simulator"
	}
	if in.State == "" {
		in.State = line.Provisioning
	}
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		workspace, err := u.Workspace(ctx, req.Workspace)
		if err != nil {
			return err
		}
		requestedPoolID, err := u.addLineToRequest(ctx, in.LineRequestID, id)
		if err != nil {
			return err
		}
		poolID := in.PoolID
		if poolID == "" && requestedPoolID != nil {
			poolID = *requestedPoolID
		}
		if poolID == "" {
			poolID = workspace.State.DefaultPoolID
		}
		if err := u.checkPool(ctx, &poolID); err != nil {
			return err
		}
		u.Ref = id
		if err := u.releaseRetiredNumber(ctx, e164); err != nil {
			return err
		}
		err = u.recordNewLine(events.LineProvisioned{
			LineID: id, Phone: e164, DisplayName: in.DisplayName, PoolID: &poolID, Carrier: in.Carrier, State: string(in.State),
		}, func(string) error { return fault.New(fault.Conflict, "A line has this number.") })
		if err != nil {
			return err
		}
		return u.moveToPool(ctx, id, "", poolID)
	})
}

// releaseRetiredNumber releases a number that a retired line has. Retirement is final, so the retired line needs no
// guard.
func (u *unit) releaseRetiredNumber(ctx context.Context, e164 string) error {
	owner, found, err := u.Owner(ctx, linePhoneClaimScope, e164)
	if err != nil || !found {
		return err
	}
	l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, owner)
	if err == nil && l.State.State == line.Retired {
		u.ReleaseClaim(linePhoneClaimScope, e164, owner)
	}
	return err
}

// recordNewLine records a new line and claims its number. taken decides what happens when another line has the number;
// see engine.Unit.Claim.
func (u *unit) recordNewLine(e events.LineProvisioned, taken func(owner string) error) error {
	provisioned, err := line.Provision(e)
	if err != nil {
		return err
	}
	u.Claim(linePhoneClaimScope, e.Phone, e.LineID, taken)
	engine.Begin(u.Unit, u.Engine.Lines, e.LineID).Record(provisioned...)
	return nil
}

// ChangeLineState moves a line of the request's workspace as the operator may: to ready, quarantined or retired (rule
// LIN-2).
func (a *App) ChangeLineState(ctx context.Context, req Request, lineID string, to line.State, reason *string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.loadLine(ctx, lineID)
		if err != nil {
			return err
		}
		moved, err := l.State.MoveByOperator(to, reason)
		if err != nil {
			return err
		}
		u.Ref = lineID
		if to == line.Retired {
			if l.State.Account != (events.CarrierAccount{}) {
				u.Erase(lineID) // the account's credentials (rule LIN-5)
			}
			if err := u.moveToPool(ctx, lineID, l.State.PoolID, ""); err != nil {
				return err
			}
		}
		l.Record(moved...)
		return nil
	})
}

// loadLine loads a line of the request's workspace; not_found when there is none.
func (u *unit) loadLine(ctx context.Context, id string) (*engine.Aggregate[line.Line], error) {
	l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, id)
	if err == nil && (l.State.ID == "" || l.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("line")
	}
	return l, err
}

// UpdateLine changes a line of the request's workspace. Refusals: not_found, validation_failed with all that is wrong.
func (a *App) UpdateLine(ctx context.Context, req Request, lineID string, c line.Change) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.loadLine(ctx, lineID)
		if err != nil {
			return err
		}
		u.Ref = lineID
		before := l.State.PoolID
		changed, err := l.State.Update(c)
		var issues issueList
		if err := issues.collect(u.checkPool(ctx, c.Pool.Value), err); err != nil {
			return err
		}
		if err := issues.fault(); err != nil {
			return err
		}
		l.Record(changed...)
		return u.moveToPool(ctx, lineID, before, l.State.PoolID)
	})
}

// moveToPool removes a line from one pool's list of lines and adds it to another's; "" is no pool.
func (u *unit) moveToPool(ctx context.Context, lineID, from, to string) error {
	if from == to {
		return nil
	}
	if from != "" {
		pool, err := engine.Load(ctx, u.Unit, u.Engine.Pools, from)
		if err != nil {
			return err
		}
		pool.Record(pool.State.RemoveLine(lineID)...)
	}
	if to != "" {
		pool, err := engine.Load(ctx, u.Unit, u.Engine.Pools, to)
		if err != nil {
			return err
		}
		pool.Record(pool.State.AddLine(lineID)...)
	}
	return nil
}

// PauseLine pauses a line of the request's workspace that is in use; otherwise it is refused with conflict.
func (a *App) PauseLine(ctx context.Context, req Request, lineID, reason string) (Result, error) {
	return a.moveLine(ctx, req, lineID, func(l line.Line) ([]events.Event, error) { return l.Pause(reason) })
}

// ResumeLine returns a paused line of the request's workspace to the state before the pause. Any other line, and a line
// that the service paused (rule LIN-16), is refused with conflict.
func (a *App) ResumeLine(ctx context.Context, req Request, lineID, reason string) (Result, error) {
	return a.moveLine(ctx, req, lineID, func(l line.Line) ([]events.Event, error) { return l.Resume(reason) })
}

func (a *App) moveLine(ctx context.Context, req Request, lineID string, move func(line.Line) ([]events.Event, error)) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.loadLine(ctx, lineID)
		if err != nil {
			return err
		}
		moved, err := move(l.State)
		l.Record(moved...)
		u.Ref = lineID
		return err
	})
}

// FindLine reads a line from the ledger; not_found when there is none.
func (a *App) FindLine(ctx context.Context, lineID string) (line.Line, error) {
	found, err := a.engine.Lines.Find(ctx, lineID, true)
	if err == nil && found.ID == "" {
		err = engine.NotFound("line")
	}
	return found, err
}
