package commands

import (
	"context"

	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

// FindOrganisation reads the request's organisation from the ledger; not_found when there is none.
func (a *App) FindOrganisation(ctx context.Context, req Request) (organisation.Organisation, error) {
	u := a.unit(&req)
	org, err := u.Organisation(ctx)
	if err != nil {
		return organisation.Organisation{}, err
	}
	return org.State, nil
}

// SetCompliance changes the compliance settings of the request's organisation, for all its workspaces (administration 4.7).
func (a *App) SetCompliance(ctx context.Context, req Request, change organisation.ComplianceChange) (Result, error) {
	return a.changeOrganisation(ctx, req, func(o organisation.Organisation) ([]events.Event, error) { return o.SetCompliance(change) })
}

// SetSendingLimits is the operator's change of the limits of the request's organisation, as a whole.
func (a *App) SetSendingLimits(ctx context.Context, req Request, limits line.Limits) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		set, err := org.State.SetLimits(limits)
		org.Record(set...)
		u.Ref = req.Organisation.String()
		return err
	})
}

// SendingLimits are the limits of the request's organisation.
func (a *App) SendingLimits(ctx context.Context, req Request) (line.Limits, error) {
	org, err := a.FindOrganisation(ctx, req)
	if err != nil {
		return line.Limits{}, err
	}
	return org.Limits(), nil
}
