package line

import (
	"fmt"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Limits are what holds for the lines of an organisation (administration 2.7).
type Limits = events.SendingLimits

// DefaultLimits are those of decisions section 8.
func DefaultLimits() Limits {
	step := func(from, to, perDay int) events.WarmupStep {
		s := events.WarmupStep{FromDay: from, NewPerDay: perDay}
		if to > 0 {
			s.ToDay = &to
		}
		return s
	}
	return Limits{
		IdenticalTextMaxPerDay: 25, NewContactWindowDays: 30, NewContactsPerDay: 50, NewContactsPerHour: 15, PreReplyMaxChars: 300,
		PreReplyMaxMessages: 3, ReplyRatioMin: 0.1, SendsPerDay: 1000, UnansweredStreakPause: 100,
		WarmupCurve: []events.WarmupStep{step(1, 3, 10), step(4, 7, 20), step(8, 14, 30), step(15, 21, 40), step(22, 0, 50)},
	}
}

// maxLimit bounds every integer of an answer (interface, section 2.1).
const maxLimit = 1<<53 - 1

// CheckLimits tells what is wrong with limits: each has its least value and is an integer that an answer can show, and the curve covers the days from 1 on
// without gaps, its last step without an end.
func CheckLimits(l *Limits) error {
	var issues []fault.Issue
	add := func(pointer, text string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: "invalid_value", Message: text})
	}
	for _, c := range []struct {
		pointer        string
		value, atLeast int
	}{
		{"/identical_text_max_per_day", l.IdenticalTextMaxPerDay, 1}, {"/new_contact_window_days", l.NewContactWindowDays, 1},
		{"/new_contacts_per_day", l.NewContactsPerDay, 0}, {"/new_contacts_per_hour", l.NewContactsPerHour, 0},
		{"/pre_reply_max_chars", l.PreReplyMaxChars, 1}, {"/pre_reply_max_messages", l.PreReplyMaxMessages, 1},
		{"/sends_per_day", l.SendsPerDay, 0}, {"/unanswered_streak_pause", l.UnansweredStreakPause, 1},
	} {
		switch {
		case c.value < c.atLeast:
			add(c.pointer, fmt.Sprintf("Expected at least %d.", c.atLeast))
		case c.value > maxLimit:
			add(c.pointer, "Expected at most 9007199254740991.")
		}
	}
	if l.ReplyRatioMin < 0 || l.ReplyRatioMin > 1 {
		add("/reply_ratio_min", "A ratio lies between 0 and 1.")
	}
	next := 1
	for i, s := range l.WarmupCurve {
		last := i == len(l.WarmupCurve)-1
		if s.FromDay != next || s.NewPerDay < 0 || s.NewPerDay > maxLimit || (s.ToDay == nil) != last || s.ToDay != nil && *s.ToDay < s.FromDay {
			add("/warmup_curve", "The steps must follow each other from day 1 on, the last one without an end.")
			break
		}
		if s.ToDay != nil {
			next = *s.ToDay + 1
		}
	}
	if len(l.WarmupCurve) == 0 {
		add("/warmup_curve", "The curve needs a step.")
	}
	if len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	return nil
}

// curveDays is how many days a line is warmed up: until its last step begins.
func curveDays(l *Limits) int {
	if n := len(l.WarmupCurve); n > 0 {
		return l.WarmupCurve[n-1].FromDay - 1
	}
	return 0
}

// Caps are what a line may do now, by its state and the day of its warm-up.
type Caps struct {
	NewPerHour, NewPerDay, SendsPerDay, IdenticalPerDay int
}

// Caps are the line's caps on a usage day (decisions section 8): the organisation's limits, less while it is warmed up, and
// half of all when it is throttled. They may be zero.
func (l Line) Caps(limits *Limits, day Day) Caps {
	caps := Caps{
		NewPerHour: limits.NewContactsPerHour, NewPerDay: limits.NewContactsPerDay, SendsPerDay: limits.SendsPerDay,
		IdenticalPerDay: limits.IdenticalTextMaxPerDay,
	}
	state := l.State
	if state == Paused {
		state = l.PausedFrom
	}
	halved := state == Throttled
	if halved {
		state = l.ThrottledFrom
	}
	if state == Warming || state == Ready {
		warmup := max(l.WarmupDay(day), 1)
		for _, s := range limits.WarmupCurve {
			if warmup >= s.FromDay && (s.ToDay == nil || warmup <= *s.ToDay) {
				caps.NewPerDay = min(caps.NewPerDay, s.NewPerDay)
			}
		}
	}
	if halved {
		caps.NewPerHour /= 2
		caps.NewPerDay /= 2
		caps.SendsPerDay /= 2
		caps.IdenticalPerDay = max(caps.IdenticalPerDay/2, 1)
	}
	return caps
}

// WarmupDay is the day of the line's warm-up, from 1 on its first day; 0 for a line that has not begun, or was never
// warmed up.
func (l Line) WarmupDay(day Day) int {
	if l.WarmingSince == "" {
		return 0
	}
	return max(day.DaysSince(ParseDay(l.WarmingSince))+1, 1)
}
