package commands

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/phone"
	"ledgerline/events"
)

// claimLinePhone is the scope of the numbers of lines: a number belongs to one line of the installation, so that an
// inbound message finds its workspace.
const claimLinePhone = "line.phone"

// CreatePool makes a pool of the request's workspace; Ref is its id. Its name is unique there.
func (a *App) CreatePool(ctx context.Context, req Request, name string, rotation line.Rotation) (Result, error) {
	id := a.ids.TypeID("pool")
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.workspace(ctx, req.Workspace); err != nil {
			return err
		}
		u.ref = id
		return u.newPool(id, name, rotation, false)
	})
}

func (u *unit) newPool(id, name string, rotation line.Rotation, isDefault bool) error {
	made, err := line.CreatePool(events.PoolCreated{PoolID: id, Name: name, Rotation: string(rotation), Default: isDefault})
	if err != nil {
		return err
	}
	u.claim("pool:"+u.req.Workspace.String(), nameKey(name), id, func(string) error {
		return fault.New(fault.Conflict, "A pool with this name exists.")
	})
	begin(u, u.app.pools, id).record(made...)
	return nil
}

// ProvisionLine is what a line is made of.
type ProvisionLine struct {
	Phone       string
	DisplayName *string
	PoolID      string     // default: the workspace's default pool
	Carrier     string     // default: simulator
	State       line.State // default: provisioning
}

// ProvisionLine puts a line into service in the request's workspace; Ref is its id. A number that a line has already
// is refused with conflict.
func (a *App) ProvisionLine(ctx context.Context, req Request, in ProvisionLine) (Result, error) {
	id := a.ids.TypeID("ln")
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
		workspace, err := u.workspace(ctx, req.Workspace)
		if err != nil {
			return err
		}
		poolID := in.PoolID
		if poolID == "" {
			poolID = workspace.State.DefaultPoolID
		}
		pool, err := load(ctx, u, a.pools, poolID)
		if err != nil {
			return err
		}
		if pool.State.ID == "" || pool.State.Workspace != req.Workspace {
			return fault.Invalid("/pool_id", "not_found", "There is no such pool.")
		}
		u.ref = id
		err = u.newLine(events.LineProvisioned{
			LineID: id, Phone: e164, DisplayName: in.DisplayName, PoolID: &poolID, Carrier: in.Carrier, State: string(in.State),
		}, func(string) error { return fault.New(fault.Conflict, "A line has this number.") })
		if err != nil {
			return err
		}
		pool.record(&events.PoolLineAdded{PoolID: poolID, LineID: id})
		return nil
	})
}

func (u *unit) newLine(e events.LineProvisioned, taken func(string) error) error {
	made, err := line.Provision(e)
	if err != nil {
		return err
	}
	u.claim(claimLinePhone, e.Phone, e.LineID, taken)
	begin(u, u.app.lines, e.LineID).record(made...)
	return nil
}

// ChangeLineState is the operator's move of a line of the request's workspace: to ready, quarantined or retired.
func (a *App) ChangeLineState(ctx context.Context, req Request, lineID string, to line.State, reason *string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := load(ctx, u, a.lines, lineID)
		if err != nil {
			return err
		}
		if l.State.ID == "" || l.State.Workspace != req.Workspace {
			return notFound("line")
		}
		moved, err := l.State.Operate(to, reason)
		if err == nil && to == line.Retired && l.State.Account != (events.CarrierAccount{}) {
			u.forget = append(u.forget, lineID) // what opens its account is of no more use
		}
		l.record(moved...)
		u.ref = lineID
		return err
	})
}

// FindLine reads a line from the ledger; not_found when there is none.
func (a *App) FindLine(ctx context.Context, lineID string) (line.Line, error) {
	found, err := find(ctx, a.lines, lineID, true)
	if err == nil && found.State.ID == "" {
		err = notFound("line")
	}
	return found.State, err
}
