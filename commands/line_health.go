package commands

import (
	"context"

	"ledgerline/domain/line"
	"ledgerline/events"
)

// JudgeLine looks after a line by the service's clock: it ends its warm-up and scores its health by what happened on it
// (decisions section 8). The line may be of any workspace; alive is false for one that needs no more looking after.
func (a *App) JudgeLine(ctx context.Context, req Request, lineID string, facts events.HealthFacts) (alive bool, err error) {
	_, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := load(ctx, u, a.lines, lineID)
		if err != nil {
			return err
		}
		alive = l.State.ID != "" && !l.State.IsSandbox && l.State.State != line.Retired
		if !alive {
			return nil
		}
		u.req.Organisation, u.req.Workspace, u.ref = l.State.Organisation, l.State.Workspace, lineID
		org, err := u.organisation(ctx)
		if err != nil {
			return err
		}
		limits := org.State.Limits()
		l.record(l.State.Mature(&limits, line.DayOf(u.now))...)
		l.record(l.State.Judge(facts, &limits)...)
		return nil
	})
	return alive, err
}
