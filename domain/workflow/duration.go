package workflow

import (
	"errors"
	"strings"
	"time"

	"github.com/sosodev/duration"
)

// The shortest and the longest duration of a wait (rule WFL-14).
const (
	MinWait = time.Minute
	MaxWait = 365 * 24 * time.Hour
)

var errDuration = errors.New("Expected a duration as ISO 8601 writes it, from PT1M to P365D, without years and months.") //nolint:staticcheck,revive // shown to people as it is

// ParseDuration reads the duration of a wait: ISO 8601 in weeks, days, hours, minutes and seconds, from MinWait to
// MaxWait. Years and months have no fixed length and are refused. The error's text is for the author of the draft.
func ParseDuration(text string) (time.Duration, error) {
	d, err := ParseDelay(text)
	if err != nil || d < MinWait {
		return 0, errDuration
	}
	return d, nil
}

// ParseDelay is ParseDuration from 0 on. Its error is not for people.
func ParseDelay(text string) (time.Duration, error) {
	days, _, _ := strings.Cut(text, "T")
	if !strings.HasPrefix(text, "P") || strings.HasSuffix(text, "P") || strings.HasSuffix(text, "T") || strings.ContainsAny(days, "YM") {
		return 0, errDuration
	}
	parsed, err := duration.Parse(text)
	if err != nil || parsed.Weeks > 53 || parsed.Days > 366 || parsed.Hours > 1e4 || parsed.Minutes > 1e6 || parsed.Seconds > 1e8 { // far from an overflow
		return 0, errDuration
	}
	d := parsed.ToTimeDuration().Truncate(time.Millisecond)
	if d < 0 || d > MaxWait {
		return 0, errDuration
	}
	return d, nil
}
