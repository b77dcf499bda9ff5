package organisation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

func places(err error) (found []string) {
	if f := fault.Of(err); f != nil {
		for _, i := range f.Issues {
			found = append(found, i.Path+" "+i.Code)
		}
	}
	return found
}

func TestQuietHoursMustCoverThePlatformsAndLeaveTimeToSend(t *testing.T) {
	t.Parallel()
	set := func(start, end string) []string {
		_, err := organisation.Organisation{ID: uuid.New()}.SetCompliance(organisation.ComplianceChange{QuietHours: &events.QuietHours{Start: start, End: end}})
		return places(err)
	}
	for _, ok := range [][2]string{{"20:00", "09:00"}, {"19:00", "10:00"}, {"09:01", "09:00"}, {"20:00", "19:59"}, {"", ""}} {
		require.Empty(t, set(ok[0], ok[1]), ok)
	}
	for hours, want := range map[[2]string]string{
		{"21:00", "09:00"}: "/quiet_hours/start out_of_range", {"20:01", "09:00"}: "/quiet_hours/start out_of_range", {"20:00", "08:59"}: "/quiet_hours/end out_of_range",
		{"00:00", "10:00"}: "/quiet_hours/start out_of_range", {"19:00", "20:01"}: "/quiet_hours/end out_of_range", {"10:00", "19:00"}: "/quiet_hours out_of_range",
		{"12:00", "12:00"}: "/quiet_hours out_of_range", {"24:00", "09:00"}: "/quiet_hours/start invalid_format", {"19:00", "9:00"}: "/quiet_hours/end invalid_format",
		{"", "09:00"}: "/quiet_hours/start invalid_format",
	} {
		require.Equal(t, []string{want}, set(hours[0], hours[1]), hours)
	}
}

func TestStopWordIsNotAWordOfAnotherKeyword(t *testing.T) {
	t.Parallel()
	set := func(words ...string) []string {
		_, err := organisation.Organisation{ID: uuid.New()}.SetCompliance(organisation.ComplianceChange{StopWords: &words})
		return places(err)
	}
	require.Empty(t, set("basta", "no more", "STOP", "basta "))
	require.Equal(t, []string{"/stop_keywords/0 invalid_value", "/stop_keywords/1 invalid_value"}, set("", "!?"))
	require.Equal(t, []string{"/stop_keywords/1 reserved", "/stop_keywords/2 reserved", "/stop_keywords/3 reserved"}, set("ok", "Start", "help", "YES"))
	require.Equal(t, []string{"/stop_keywords/0 too_long"}, set(strings.Repeat("x", 41)))
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprint("word", i)
	}
	require.Empty(t, set(many[:20]...))
	require.Equal(t, []string{"/stop_keywords too_many_items"}, set(many...))
}

func TestComplianceChangeKeepsOmittedSettings(t *testing.T) {
	t.Parallel()
	o := organisation.Organisation{ID: uuid.New()}
	yes, text, words := true, "Bye.", []string{"basta"}
	change := func(c organisation.ComplianceChange) int {
		changed, err := o.SetCompliance(c)
		require.NoError(t, err)
		for _, e := range changed {
			o = o.Apply(e, events.Envelope{})
		}
		return len(changed)
	}
	require.Equal(t, 0, change(organisation.ComplianceChange{}))
	require.Equal(t, 1, change(organisation.ComplianceChange{RequireConsent: &yes, StopWords: &words}))
	require.Equal(t, 0, change(organisation.ComplianceChange{RequireConsent: &yes, StopWords: &words}))
	require.Equal(t, 1, change(organisation.ComplianceChange{OptOutConfirmation: &text, QuietHours: &events.QuietHours{Start: "19:00", End: "10:00"}}))
	require.True(t, o.Settings.RequireConsent)
	require.Equal(t, words, o.Settings.StopWords)
	require.Equal(t, "Bye.", o.ConfirmationText())
	require.Equal(t, events.QuietHours{Start: "19:00", End: "10:00"}, o.Settings.EffectiveQuietHours())
	require.Equal(t, 1, change(organisation.ComplianceChange{QuietHours: &events.QuietHours{}}))
	require.Equal(t, events.QuietHours{Start: "20:00", End: "09:00"}, o.Settings.EffectiveQuietHours())
	long := strings.Repeat("ä", 301)
	_, err := o.SetCompliance(organisation.ComplianceChange{OptOutConfirmation: &long})
	require.Equal(t, []string{"/opt_out_confirmation too_long"}, places(err))
}
