package commands

import (
	"context"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/events"
)

// UpdateLineHealth ends a line's warm-up when it is due, and scores the line's health by what happened on it (rules
// LIN-14 and LIN-21). The line may be of any workspace. inService is false for a line that needs no further updates: a
// sandbox line, a retired line, or no line.
func (a *App) UpdateLineHealth(ctx context.Context, req Request, lineID string, facts events.HealthFacts) (inService bool, err error) {
	_, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := engine.Load(ctx, u.Unit, a.engine.Lines, lineID)
		if err != nil {
			return err
		}
		inService = l.State.ID != "" && !l.State.IsSandbox && l.State.State != line.Retired
		if !inService {
			return nil
		}
		u.Request.Organisation, u.Request.Workspace, u.Ref = l.State.Organisation, l.State.Workspace, lineID
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		limits := org.State.Limits()
		l.Record(l.State.FinishWarming(&limits, line.DayOf(u.Now))...)
		l.Record(l.State.EvaluateHealth(facts, &limits)...)
		return nil
	})
	return inService, err
}
