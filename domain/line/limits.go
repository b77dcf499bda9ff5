package line

import (
	"fmt"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Limits are the sending limits of an organisation (rule LIN-10).
type Limits = events.SendingLimits

// DefaultLimits returns the limits of an organisation that has none of its own (rule LIN-10).
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

// maxLimit bounds every integer of an answer (rule API-5).
const maxLimit = 1<<53 - 1

// CheckLimits refuses limits with validation_failed unless each has its least value and fits an answer, and the
// warm-up curve covers the days from 1 on without gaps and ends with a step that has no end.
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

// curveDays returns for how many days a line is warmed up: until the last step of the curve begins.
func curveDays(l *Limits) int {
	if n := len(l.WarmupCurve); n > 0 {
		return l.WarmupCurve[n-1].FromDay - 1
	}
	return 0
}

// Caps are how much a line may send: new contacts per hour and per usage day, messages per usage day, and identical
// texts per usage day.
type Caps struct {
	NewPerHour, NewPerDay, SendsPerDay, IdenticalPerDay int
}

// Caps returns the line's caps on a usage day: the organisation's limits, lowered by the warm-up curve, and halved
// while the line is throttled (rule LIN-12). A paused line has the caps of the state to go back to (rule LIN-13). A
// cap may be 0.
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

// WarmupDay returns the day of the line's warm-up, from 1 on its first day (rule LIN-14); 0 for a line that has not
// sent, or started as active.
func (l Line) WarmupDay(day Day) int {
	if l.WarmingSince == "" {
		return 0
	}
	return max(day.DaysSince(ParseDay(l.WarmingSince))+1, 1)
}
