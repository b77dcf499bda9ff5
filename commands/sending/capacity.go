package sending

import (
	"context"
	"maps"
	"slices"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

// Capacity reads the present capacity of the lines of a workspace, for messages with these wants. The request names the
// organisation and the workspace. It takes a few round trips, however many lines and messages there are.
func (s *Sender) Capacity(ctx context.Context, req engine.Request, wants []*events.WantedCapacity) (*rules.Capacity, error) {
	u := &unit{Unit: s.engine.Unit(&req), sender: s}
	org, err := u.Organisation(ctx)
	if err != nil {
		return nil, err
	}
	c := &rules.Capacity{Paused: org.State.Paused, Lines: map[string]*rules.LineCapacity{}, Pools: map[string][]string{}}
	if c.Paused {
		return c, nil
	}
	lineIDs, texts, allowed := map[string]bool{}, map[string]bool{}, map[string]func(string) bool{}
	for _, w := range wants {
		if w.LineID != "" {
			lineIDs[w.LineID] = true
		}
		if w.TextHash != "" {
			texts[w.TextHash] = true
		}
		if w.IdentityID != "" && allowed[w.IdentityID] == nil {
			if allowed[w.IdentityID], err = u.AllowedLines(ctx, &w.IdentityID); err != nil {
				return nil, err
			}
		}
		if _, known := c.Pools[w.PoolID]; w.PoolID != "" && !known {
			pool, err := engine.Load(ctx, u.Unit, s.engine.Pools, w.PoolID)
			if err != nil {
				return nil, err
			}
			c.Pools[w.PoolID] = pool.State.LineIDs
			for _, id := range pool.State.LineIDs {
				lineIDs[id] = true
			}
		}
	}
	c.MaySendFrom = func(identityID, lineID string) bool { return allowed[identityID](lineID) }
	limits := org.State.Limits()
	return c, s.lineCapacities(ctx, u, c, slices.Sorted(maps.Keys(lineIDs)), slices.Sorted(maps.Keys(texts)), &limits)
}

func (s *Sender) lineCapacities(
	ctx context.Context, u *unit, c *rules.Capacity, lineIDs, texts []string, limits *line.Limits,
) error {
	if err := engine.LoadMany(ctx, u.Unit, s.engine.Lines, lineIDs); err != nil {
		return err
	}
	day := line.DayOf(u.Now)
	used, err := s.usage.read(ctx, lineIDs, u.Now, day, texts)
	if err != nil {
		return err
	}
	for i, id := range lineIDs {
		l, err := engine.Load(ctx, u.Unit, s.engine.Lines, id)
		if err != nil {
			return err
		}
		c.Lines[id] = capacityOf(&l.State, &used[i], limits, u.Now, day)
	}
	return nil
}

// capacityOf computes the capacity of a line: its limits minus its usage.
func capacityOf(l *line.Line, used *usageWithTexts, limits *line.Limits, now time.Time, day line.Day) *rules.LineCapacity {
	caps := l.Caps(limits, day)
	sends := max(caps.SendsPerDay-used.Sends, 0)
	c := &rules.LineCapacity{
		Line: *l, Used: used.Sends, Sends: sends, NextAt: day.End, Texts: map[string]int{},
		New: min(max(caps.NewPerDay-used.New, 0), max(caps.NewPerHour-len(used.NewTimes), 0), sends),
	}
	for hash, n := range used.texts {
		c.Texts[hash] = max(caps.IdenticalPerDay-n, 0)
	}
	if len(used.NewTimes) > 0 && caps.NewPerDay > used.New {
		if free := used.NewTimes[0].Add(newContactHour); free.After(now) && free.Before(c.NextAt) {
			c.NextAt = free
		}
	}
	return c
}

// CompetesForNew reports whether a message with these wants may use a line's capacity for new contacts. It uses cached
// states of lines and pools.
func (s *Sender) CompetesForNew(ctx context.Context, w *events.WantedCapacity, lineID string) (bool, error) {
	var pool []string
	canSend := false
	if w.PoolID != "" {
		p, err := s.engine.Pools.Find(ctx, w.PoolID, false)
		if err != nil {
			return false, err
		}
		pool = p.LineIDs
	}
	if w.LineID != "" {
		first, err := s.engine.Lines.Find(ctx, w.LineID, false)
		if err != nil {
			return false, err
		}
		canSend = first.CanSend()
	}
	return rules.CompetesForNew(w, lineID, pool, canSend), nil
}
