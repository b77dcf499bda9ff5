package commands

import (
	"context"

	"ledgerline/domain/line"
)

// SetSendingLimits is the operator's change of the limits of the request's organisation, as a whole.
func (a *App) SetSendingLimits(ctx context.Context, req Request, limits line.Limits) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.organisation(ctx)
		if err != nil {
			return err
		}
		set, err := org.State.SetLimits(limits)
		org.record(set...)
		u.ref = req.Organisation.String()
		return err
	})
}

// SendingLimits are the limits of the request's organisation.
func (a *App) SendingLimits(ctx context.Context, req Request) (line.Limits, error) {
	u := &unit{app: a, req: &req, now: a.ledger.Now(), fresh: true, aggregates: map[looked]any{}}
	org, err := u.organisation(ctx)
	if err != nil {
		return line.Limits{}, err
	}
	return org.State.Limits(), nil
}
