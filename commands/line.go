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

// claimLinePhone is the scope of the numbers of lines: a number belongs to one line of the installation, so that an
// inbound message finds its workspace. A retired line keeps its number until another one takes it.
const claimLinePhone = "line.phone"

// ProvisionLine is what a line is made of.
type ProvisionLine struct {
	Phone         string
	DisplayName   *string
	PoolID        string     // default: the pool of the request, else the workspace's default pool
	Carrier       string     // default: simulator
	State         line.State // default: provisioning
	LineRequestID *uuid.UUID // the request for lines that it serves
}

// ProvisionLine puts a line into service in the request's workspace; Ref is its id. A number that a line has already
// is refused with conflict, unless that line is retired.
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
		wanted, err := u.serve(ctx, in.LineRequestID, id)
		if err != nil {
			return err
		}
		poolID := in.PoolID
		if poolID == "" && wanted != nil {
			poolID = *wanted
		}
		if poolID == "" {
			poolID = workspace.State.DefaultPoolID
		}
		pool, err := engine.Load(ctx, u.Unit, a.engine.Pools, poolID)
		if err != nil {
			return err
		}
		if pool.State.ID == "" || pool.State.Workspace != req.Workspace {
			return fault.Invalid("/pool_id", "not_found", "There is no such pool.")
		}
		u.Ref = id
		if err := u.freeNumber(ctx, e164); err != nil {
			return err
		}
		err = u.newLine(events.LineProvisioned{
			LineID: id, Phone: e164, DisplayName: in.DisplayName, PoolID: &poolID, Carrier: in.Carrier, State: string(in.State),
		}, func(string) error { return fault.New(fault.Conflict, "A line has this number.") })
		if err != nil {
			return err
		}
		pool.Record(pool.State.AddLine(id)...)
		return nil
	})
}

// freeNumber takes a number from a retired line. Retirement is final, so nothing needs to be guarded.
func (u *unit) freeNumber(ctx context.Context, e164 string) error {
	owner, found, err := u.Owner(ctx, claimLinePhone, e164)
	if err != nil || !found {
		return err
	}
	l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, owner)
	if err == nil && l.State.State == line.Retired {
		u.ReleaseClaim(claimLinePhone, e164, owner)
	}
	return err
}

func (u *unit) newLine(e events.LineProvisioned, taken func(string) error) error {
	made, err := line.Provision(e)
	if err != nil {
		return err
	}
	u.Claim(claimLinePhone, e.Phone, e.LineID, taken)
	engine.Begin(u.Unit, u.Engine.Lines, e.LineID).Record(made...)
	return nil
}

// ChangeLineState is the operator's move of a line of the request's workspace: to ready, quarantined or retired.
func (a *App) ChangeLineState(ctx context.Context, req Request, lineID string, to line.State, reason *string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.line(ctx, lineID)
		if err != nil {
			return err
		}
		moved, err := l.State.MoveByOperator(to, reason)
		if err != nil {
			return err
		}
		u.Ref = lineID
		if to == line.Retired {
			if err := u.retire(ctx, l); err != nil {
				return err
			}
		}
		l.Record(moved...)
		return nil
	})
}

// retire takes a line out of its pool, and destroys the key of what opens its account.
func (u *unit) retire(ctx context.Context, l *engine.Aggregate[line.Line]) error {
	if l.State.Account != (events.CarrierAccount{}) {
		u.Erase(l.State.ID)
	}
	if l.State.PoolID == "" {
		return nil
	}
	pool, err := engine.Load(ctx, u.Unit, u.Engine.Pools, l.State.PoolID)
	if err != nil {
		return err
	}
	pool.Record(pool.State.RemoveLine(l.State.ID)...)
	return nil
}

// line loads a line of the request's workspace.
func (u *unit) line(ctx context.Context, id string) (*engine.Aggregate[line.Line], error) {
	l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, id)
	if err == nil && (l.State.ID == "" || l.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("line")
	}
	return l, err
}

// UpdateLine changes a line of the request's workspace. A pool that it moves to must be of the workspace.
func (a *App) UpdateLine(ctx context.Context, req Request, lineID string, c line.Change) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.line(ctx, lineID)
		if err != nil {
			return err
		}
		u.Ref = lineID
		before := l.State.PoolID
		issues, err := collect(nil, u.checkPool(ctx, c.Pool.Value, "/pool_id"))
		if err != nil {
			return err
		}
		changed, err := l.State.Update(c)
		if issues, err = collect(issues, err); err != nil {
			return err
		}
		if len(issues) > 0 {
			return fault.Invalids(issues...)
		}
		l.Record(changed...)
		return u.movePool(ctx, lineID, before, l.State.PoolID)
	})
}

// movePool keeps the pools' own lists of their lines.
func (u *unit) movePool(ctx context.Context, lineID, from, to string) error {
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

// PauseLine stops a line of the request's workspace that is in use, and ResumeLine takes it back to where it was
// (administration 3.1). Other moves are refused with conflict.
func (a *App) PauseLine(ctx context.Context, req Request, lineID, reason string) (Result, error) {
	return a.moveLine(ctx, req, lineID, func(l line.Line) ([]events.Event, error) { return l.Pause(reason) })
}

// ResumeLine takes a paused line back to where it was paused from.
func (a *App) ResumeLine(ctx context.Context, req Request, lineID, reason string) (Result, error) {
	return a.moveLine(ctx, req, lineID, func(l line.Line) ([]events.Event, error) { return l.Resume(reason) })
}

func (a *App) moveLine(ctx context.Context, req Request, lineID string, move func(line.Line) ([]events.Event, error)) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.line(ctx, lineID)
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
