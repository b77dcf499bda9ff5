package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
)

// RequestLines is what a request for lines is made of (administration 4.4).
type RequestLines struct {
	Count     int
	AreaCodes []string
	Note      *string
	PoolID    *string // that the lines are to be in
}

// RequestLines asks the operator for lines of the request's workspace; Ref is the request's id. A sixth open one is
// refused with conflict.
func (a *App) RequestLines(ctx context.Context, req Request, in RequestLines) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.onRequests(ctx, req, func(ctx context.Context, u *unit, r line.Requests) ([]events.Event, error) {
		u.Ref = id.String()
		made := events.LineRequestMade{RequestID: id, Count: in.Count, AreaCodes: in.AreaCodes, Note: in.Note, PoolID: in.PoolID}
		issues, err := collect(nil, line.CheckRequest(&made))
		if err == nil {
			issues, err = collect(issues, u.checkPool(ctx, in.PoolID, "/pool_id"))
		}
		switch {
		case err != nil:
			return nil, err
		case len(issues) > 0:
			return nil, fault.Invalids(issues...)
		}
		return r.Add(made)
	})
}

// StartLineRequest, FulfilLineRequest and CancelLineRequest are the operator's; not_found for a request that is closed.
func (a *App) StartLineRequest(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return a.onRequests(ctx, req, func(_ context.Context, u *unit, r line.Requests) ([]events.Event, error) {
		u.Ref = id.String()
		return r.Start(id)
	})
}

// FulfilLineRequest closes a request as met, however many lines it got.
func (a *App) FulfilLineRequest(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return a.onRequests(ctx, req, func(_ context.Context, u *unit, r line.Requests) ([]events.Event, error) {
		u.Ref = id.String()
		return r.Fulfil(id)
	})
}

// CancelLineRequest closes a request that will not be met.
func (a *App) CancelLineRequest(ctx context.Context, req Request, id uuid.UUID, reason *string) (Result, error) {
	return a.onRequests(ctx, req, func(_ context.Context, u *unit, r line.Requests) ([]events.Event, error) {
		u.Ref = id.String()
		return r.Cancel(id, reason)
	})
}

func (a *App) onRequests(ctx context.Context, req Request, decide func(context.Context, *unit, line.Requests) ([]events.Event, error)) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		requests, err := engine.Load(ctx, u.Unit, a.engine.LineRequests, line.RequestsStream(req.Workspace))
		if err != nil {
			return err
		}
		told, err := decide(ctx, u, requests.State)
		requests.Record(told...)
		return err
	})
}

// serve counts a line that is being provisioned for a request of the request's workspace, and tells the pool that it was
// asked for; nil without one.
func (u *unit) serve(ctx context.Context, id *uuid.UUID, lineID string) (poolID *string, err error) {
	if id == nil {
		return nil, nil //nolint:nilnil // nobody asked
	}
	requests, err := engine.Load(ctx, u.Unit, u.Engine.LineRequests, line.RequestsStream(u.Request.Workspace))
	if err != nil {
		return nil, err
	}
	o, err := requests.State.Find(*id)
	if err != nil {
		return nil, err
	}
	served, err := requests.State.AddLine(*id, lineID)
	requests.Record(served...)
	return o.PoolID, err
}
