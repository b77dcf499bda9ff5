package line

import (
	"math"

	"ledgerline/events"
)

const (
	fullHealth = 100
	// A line is degraded below the one and has recovered above the other (decisions section 8).
	degradedBelow  = 60
	recoveredAbove = 70
	// healthDays is how many usage days count, today's included.
	healthDays = 7
	// From how many sends and new contacts on a share of them says anything.
	minSendsForHealth    = 20
	minContactsForHealth = 50
)

// HealthDays is how many usage days a score is made from, today's included.
const HealthDays = healthDays

// Score is a line's health: 100, less
//   - two points for every percent of its sends that failed, from 20 sends on, at most 60;
//   - five points for every percent of its new contacts that opted out, from 20 of them on, at most 50;
//   - up to 45 points for a reply ratio below the limit, from 50 new contacts on: none at the limit, all at no reply;
//
// and never less than 0. Everything is counted over the last seven usage days.
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

// EvaluateHealth takes what happened on the line and tells a score that changed. Below 60 a line in use is throttled and
// degraded; above 70 it has recovered and goes back to where it was.
func (l Line) EvaluateHealth(f events.HealthFacts, limits *Limits) []events.Event {
	score := Score(f, limits)
	var told []events.Event
	if score != l.Health {
		told = append(told, &events.LineHealthScored{LineID: l.ID, Score: score, Facts: f})
	}
	switch {
	case score < degradedBelow && (l.State == Warming || l.State == Active):
		told = append(told, l.move(Throttled, "degraded", byPlatform), &events.LineDegraded{LineID: l.ID, Score: score})
	case score > recoveredAbove && l.State == Throttled:
		told = append(told, l.move(l.ThrottledFrom, "recovered", byPlatform), &events.LineRecovered{LineID: l.ID, Score: score})
	}
	return told
}
