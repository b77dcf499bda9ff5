package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

// CreateOrganisation creates an organisation; Ref is its id. Organisation and Workspace of the request are ignored.
func (a *App) CreateOrganisation(ctx context.Context, req Request, name, timeZone string) (Result, error) {
	id := a.engine.IDs.UUID()
	req.Organisation, req.Workspace = id, uuid.Nil
	return a.run(ctx, req, func(_ context.Context, u *unit) error {
		created, err := organisation.Create(id, name, timeZone)
		if err != nil {
			return err
		}
		engine.Begin(u.Unit, a.engine.Organisations, organisation.Stream(id)).Record(created...)
		u.Ref = id.String()
		return nil
	})
}

// PauseOrganisation pauses the request's organisation: its writes are refused (rule ACC-34), and of its messages only
// automatic texts leave. Pausing it again records no event.
func (a *App) PauseOrganisation(ctx context.Context, req Request, reason string) (Result, error) {
	return a.changeOrganisation(ctx, req, func(o organisation.Organisation) ([]events.Event, error) { return o.Pause(reason) })
}

// ResumeOrganisation ends the pause of the request's organisation.
func (a *App) ResumeOrganisation(ctx context.Context, req Request) (Result, error) {
	return a.changeOrganisation(ctx, req, organisation.Organisation.Resume)
}

// SetCompliance changes the compliance settings of the request's organisation, for all its workspaces (rules CON-23 to
// CON-26).
func (a *App) SetCompliance(ctx context.Context, req Request, change organisation.ComplianceChange) (Result, error) {
	return a.changeOrganisation(ctx, req, func(o organisation.Organisation) ([]events.Event, error) { return o.SetCompliance(change) })
}

// changeOrganisation records what change returns. The events belong to no workspace.
func (a *App) changeOrganisation(ctx context.Context, req Request, change func(organisation.Organisation) ([]events.Event, error)) (Result, error) {
	req.Workspace = uuid.Nil
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		changed, err := change(org.State)
		org.Record(changed...)
		u.Ref = req.Organisation.String()
		return err
	})
}

// SetSendingLimits replaces all sending limits of the request's organisation (rule LIN-10). It is for the operator.
func (a *App) SetSendingLimits(ctx context.Context, req Request, limits line.Limits) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		changed, err := org.State.SetLimits(limits)
		org.Record(changed...)
		u.Ref = req.Organisation.String()
		return err
	})
}

// SendingLimits reads the sending limits of the request's organisation from the ledger.
func (a *App) SendingLimits(ctx context.Context, req Request) (line.Limits, error) {
	org, err := a.FindOrganisation(ctx, req)
	if err != nil {
		return line.Limits{}, err
	}
	return org.Limits(), nil
}

// FindOrganisation reads the request's organisation from the ledger; not_found when there is none.
func (a *App) FindOrganisation(ctx context.Context, req Request) (organisation.Organisation, error) {
	org, err := a.unit(&req).Organisation(ctx)
	if err != nil {
		return organisation.Organisation{}, err
	}
	return org.State, nil
}

// RequiresConsent reports whether the request's organisation lets only contacts be messaged that opted in (rule SND-3).
func (a *App) RequiresConsent(ctx context.Context, req Request) (bool, error) {
	org, err := a.unit(&req).Organisation(ctx)
	if err != nil {
		return false, err
	}
	return org.State.Settings.RequireConsent, nil
}
