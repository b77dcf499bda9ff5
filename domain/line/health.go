package line

import (
	"math"

	"ledgerline/events"
)

const (
	fullHealth = 100
	// A line is degraded below degradedBelow and recovers above recoveredAbove (rule LIN-2).
	degradedBelow  = 60
	recoveredAbove = 70
	// healthDays is how many usage days count, today included (rule LIN-21).
	healthDays = 7
	// The least numbers of sends and of new contacts for which a ratio counts.
	minSendsForHealth    = 20
	minContactsForHealth = 50
)

// HealthDays is how many usage days a score is counted over, today included.
const HealthDays = healthDays

// Score returns a line's health (rule LIN-21): 100, less
//   - two points for every percent of its sends that failed, from 20 sends on, at most 60;
//   - five points for every percent of its new contacts that opted out, from 20 of them on, at most 50;
//   - up to 45 points for a ratio of replies below limits.ReplyRatioMin, from 50 new contacts on: none at the
//     limit, all at no reply;
//
// and never less than 0. f counts the last seven usage days.
func Score(f events.HealthFacts, limits *Limits) int {
	score := float64(fullHealth)
	if f.Sends >= minSendsForHealth {
		score -= math.Min(200*ratio(f.Failed, f.Sends), 60)
	}
	if f.Contacted >= minSendsForHealth {
		score -= math.Min(500*ratio(f.OptOuts, f.Contacted), 50)
	}
	if replies := ratio(f.Replied, f.Contacted); f.Contacted >= minContactsForHealth && replies < limits.ReplyRatioMin {
		score -= 45 * (1 - replies/limits.ReplyRatioMin)
	}
	return max(int(math.Round(score)), 0)
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// EvaluateHealth records a score that changed (rule LIN-23). A warming or active line whose score is below 60 becomes
// throttled and degraded; a throttled line whose score is above 70 recovers and returns to the state before (rule
// LIN-2).
func (l Line) EvaluateHealth(f events.HealthFacts, limits *Limits) []events.Event {
	score := Score(f, limits)
	var list []events.Event
	if score != l.Health {
		list = append(list, &events.LineHealthScored{LineID: l.ID, Score: score, Facts: f})
	}
	switch {
	case score < degradedBelow && (l.State == Warming || l.State == Active):
		list = append(list, l.move(Throttled, "degraded", byPlatform), &events.LineDegraded{LineID: l.ID, Score: score})
	case score > recoveredAbove && l.State == Throttled:
		list = append(list, l.move(l.ThrottledFrom, "recovered", byPlatform), &events.LineRecovered{LineID: l.ID, Score: score})
	}
	return list
}
