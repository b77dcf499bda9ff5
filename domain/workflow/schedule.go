package workflow

import (
	"errors"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// Schedule is when a workflow runs by itself (rule WFL-20): at one time, or at the times of a cron expression in a time
// zone.
type Schedule struct {
	at   time.Time     // zero: repeated
	cron cron.Schedule // evaluated on wall-clock times
	zone *time.Location
}

// At returns the schedule of one time.
func At(at time.Time) *Schedule { return &Schedule{at: at} }

var (
	cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)
	errCron    = errors.New("Expected a cron expression of five fields: minute, hour, day, month, weekday.") //nolint:staticcheck,revive // shown to people as it is
	errNever   = errors.New("The cron expression never fires.")                                              //nolint:staticcheck,revive // as above
)

// ParseCron reads a cron expression of five fields. With both a day and a weekday, either of them suffices; 0 and 7 are
// Sunday; names are accepted. The error's text is for the author of the draft.
func ParseCron(expression string, zone *time.Location) (*Schedule, error) {
	if len(strings.Fields(expression)) != 5 || strings.ContainsAny(expression, "=@") {
		return nil, errCron
	}
	parsed, err := cronParser.Parse(expression)
	if err != nil {
		return nil, errCron
	}
	s := &Schedule{cron: parsed, zone: zone}
	if _, ok := s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); !ok { // the 30th of February
		return nil, errNever
	}
	return s, nil
}

// Next returns the first time of the schedule after a time; false when there is none. A local time that a clock change
// skips fires at the first moment after the change; one that occurs twice fires at its first occurrence.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	if s.cron == nil {
		return s.at, s.at.After(after)
	}
	// The expression is evaluated on the times that a clock on the wall shows, as if they were UTC.
	wall := wallClock(after, s.zone)
	for range maxRepeated {
		if wall = s.cron.Next(wall); wall.IsZero() {
			return time.Time{}, false
		}
		if at := instant(wall, s.zone); at.After(after) {
			return at, true
		}
	}
	return time.Time{}, false
}

// maxRepeated is more than the number of times of an expression within an hour that a clock change repeats or skips.
const maxRepeated = 24 * 60

func wallClock(at time.Time, zone *time.Location) time.Time {
	local := at.In(zone)
	return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), local.Nanosecond(), time.UTC)
}

// instant returns the moment at which a clock on the wall of a zone shows a time.
func instant(wall time.Time, zone *time.Location) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	shown := wallClock(at, zone)
	switch {
	case shown.After(wall): // the time was skipped, and at lies after the change
		change, _ := at.ZoneBounds()
		return change.UTC()
	case shown.Before(wall): // the time was skipped, and at lies before the change
		_, change := at.ZoneBounds()
		return change.UTC()
	}
	if change, _ := at.ZoneBounds(); !change.IsZero() { // the same time may have been shown before the last change
		_, offset := change.Add(-time.Second).In(zone).Zone()
		if earlier := wall.Add(-time.Duration(offset) * time.Second); earlier.Before(change) && wallClock(earlier, zone).Equal(wall) {
			return earlier
		}
	}
	return at.UTC()
}
