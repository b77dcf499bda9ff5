package commands

import (
	"context"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/events"
)

// UpdateLineHealth looks after a line by the service's clock: it ends its warm-up and scores its health by what happened on it
// (decisions section 8). The line may be of any workspace; alive is false for one that needs no more looking after.
func (a *App) UpdateLineHealth(ctx context.Context, req Request, lineID string, facts events.HealthFacts) (alive bool, err error) {
	_, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := engine.Load(ctx, u.Unit, a.engine.Lines, lineID)
		if err != nil {
			return err
		}
		alive = l.State.ID != "" && !l.State.IsSandbox && l.State.State != line.Retired
		if !alive {
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
	return alive, err
}
