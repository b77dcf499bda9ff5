package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/events"
)

// RequestLines has the properties of a request for lines (rule LIN-40).
type RequestLines struct {
	Count     int
	AreaCodes []string
	Note      *string
	PoolID    *string // the pool for the lines; nil for the workspace's default pool
}

// RequestLines asks the operator for lines of the request's workspace; Ref is the line request's id. Refusals:
// validation_failed, conflict for a sixth open request.
func (a *App) RequestLines(ctx context.Context, req Request, in RequestLines) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.changeLineRequest(ctx, req, id, func(ctx context.Context, u *unit, r line.Requests) ([]events.Event, error) {
		request := events.LineRequestMade{RequestID: id, Count: in.Count, AreaCodes: in.AreaCodes, Note: in.Note, PoolID: in.PoolID}
		var issues issueList
		if err := issues.collect(line.CheckRequest(&request), u.checkPool(ctx, in.PoolID)); err != nil {
			return nil, err
		}
		if err := issues.fault(); err != nil {
			return nil, err
		}
		return r.Add(request)
	})
}

// StartLineRequest marks a line request as in progress. It, FulfilLineRequest and CancelLineRequest are for the
// operator; they refuse a request that is closed with not_found.
func (a *App) StartLineRequest(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return a.changeLineRequest(ctx, req, id, func(_ context.Context, _ *unit, r line.Requests) ([]events.Event, error) {
		return r.Start(id)
	})
}

// FulfilLineRequest closes a line request as fulfilled, however many lines were provisioned for it.
func (a *App) FulfilLineRequest(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return a.changeLineRequest(ctx, req, id, func(_ context.Context, _ *unit, r line.Requests) ([]events.Event, error) {
		return r.Fulfil(id)
	})
}

// CancelLineRequest closes a line request without its lines.
func (a *App) CancelLineRequest(ctx context.Context, req Request, id uuid.UUID, reason *string) (Result, error) {
	return a.changeLineRequest(ctx, req, id, func(_ context.Context, _ *unit, r line.Requests) ([]events.Event, error) {
		return r.Cancel(id, reason)
	})
}

// changeLineRequest records what decide returns for the line requests of the request's workspace; id becomes Ref.
func (a *App) changeLineRequest(ctx context.Context, req Request, id uuid.UUID, decide func(context.Context, *unit, line.Requests) ([]events.Event, error)) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		requests, err := engine.Load(ctx, u.Unit, a.engine.LineRequests, line.RequestsStream(req.Workspace))
		if err != nil {
			return err
		}
		u.Ref = id.String()
		changed, err := decide(ctx, u, requests.State)
		requests.Record(changed...)
		return err
	})
}

// addLineToRequest counts a line toward a line request of the request's workspace, and returns the pool that the
// request asks for. A nil id is no request.
func (u *unit) addLineToRequest(ctx context.Context, id *uuid.UUID, lineID string) (poolID *string, err error) {
	if id == nil {
		return nil, nil //nolint:nilnil // a line without a request is no error
	}
	requests, err := engine.Load(ctx, u.Unit, u.Engine.LineRequests, line.RequestsStream(u.Request.Workspace))
	if err != nil {
		return nil, err
	}
	request, err := requests.State.Find(*id)
	if err != nil {
		return nil, err
	}
	added, err := requests.State.AddLine(*id, lineID)
	requests.Record(added...)
	return request.PoolID, err
}
