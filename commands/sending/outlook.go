package sending

import (
	"context"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/domain/rules"
)

// Forecast is a number of messages whose end is to be forecast.
type Forecast struct {
	LineID, PoolID *string // as the messages name them; neither: the default pool of the workspace
	Start, Until   time.Time
	SameText       bool
	Audience       []Recipients
}

// Recipients are people whose numbers lie in the same zones as Phone.
type Recipients struct {
	Phone      string // E.164 of one of them
	New, Known int    // whom no line has written to, and others
}

// CompletesAt forecasts when the last message has left or failed: see rules.Outlook. The request names the organisation
// and the workspace.
func (s *Sender) CompletesAt(ctx context.Context, req engine.Request, f *Forecast) (time.Time, error) {
	u := &unit{Unit: s.engine.Unit(&req), sender: s}
	org, err := u.Organisation(ctx)
	if err != nil {
		return time.Time{}, err
	}
	limits := org.State.Limits()
	o := rules.Outlook{
		Start: f.Start, Until: f.Until, Window: rules.WindowOf(org.State.Settings.QuietHours), Limits: &limits, SameText: f.SameText,
	}
	for _, r := range f.Audience {
		zones, err := s.zonesOfNumber(r.Phone)
		if err != nil {
			return time.Time{}, err
		}
		o.Audience = append(o.Audience, rules.Audience{Zones: zones, New: r.New, Known: r.Known})
	}
	if org.State.Paused {
		return f.Until, nil
	}
	if o.Lines, err = u.linesOf(ctx, f); err != nil {
		return time.Time{}, err
	}
	return o.CompletesAt(), nil
}

// linesOf reads the lines that may send the messages, with their use.
func (u *unit) linesOf(ctx context.Context, f *Forecast) ([]rules.LineOutlook, error) {
	var ids []string
	switch {
	case f.LineID != nil:
		ids = []string{*f.LineID}
	default:
		var poolID string
		if f.PoolID != nil {
			poolID = *f.PoolID
		} else {
			workspace, err := engine.Load(ctx, u.Unit, u.Engine.Workspaces, organisation.WorkspaceStream(u.Request.Workspace))
			if err != nil {
				return nil, err
			}
			poolID = workspace.State.DefaultPoolID
		}
		pool, err := engine.Load(ctx, u.Unit, u.Engine.Pools, poolID)
		if err != nil {
			return nil, err
		}
		ids = pool.State.LineIDs
	}
	if err := engine.LoadMany(ctx, u.Unit, u.Engine.Lines, ids); err != nil {
		return nil, err
	}
	day := line.DayOf(u.Now)
	used, err := u.sender.usage.read(ctx, ids, u.Now, day, nil)
	if err != nil {
		return nil, err
	}
	var lines []rules.LineOutlook
	for i, id := range ids {
		l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, id)
		if err != nil {
			return nil, err
		}
		if l.State.IsSandbox {
			continue
		}
		played := rules.LineOutlook{Line: l.State}
		if line.DayOf(f.Start).Date == day.Date {
			played.Sends, played.New, played.NewTimes = used[i].Sends, used[i].New, used[i].NewTimes
		}
		lines = append(lines, played)
	}
	return lines, nil
}
