package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/domain/rules"
)

// using is a candidate with some use, to which the contact is new.
func using(id string, u rules.Usage) rules.Candidate {
	c := candidate(id)
	c.New, c.Usage = true, u
	return c
}

func check(candidates ...rules.Candidate) rules.Verdict {
	f := ready()
	f.Candidates = candidates
	return rules.Check(f)
}

// ago are new contacts, minutes ago, oldest first.
func ago(minutes ...int) []time.Time {
	times := make([]time.Time, len(minutes))
	for i, m := range minutes {
		times[i] = noon.Add(-time.Duration(m) * time.Minute)
	}
	return times
}

func TestLineThatHasReachedALimitIsNotChosen(t *testing.T) {
	t.Parallel()
	rollover := line.DayOf(noon).End
	fifteen := ago(59, 58, 57, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 1)
	for _, row := range []struct {
		reason string
		until  time.Time
		usage  rules.Usage
	}{
		{"", time.Time{}, rules.Usage{Sends: 999, New: 49, NewTimes: fifteen[1:], Identical: 24}},
		{"line_sends_day", rollover, rules.Usage{Sends: 1000}},
		{"line_new_contacts_day", rollover, rules.Usage{New: 50}},
		{"line_new_contacts_hour", noon.Add(time.Minute), rules.Usage{New: 15, NewTimes: fifteen}},
		{"line_new_contacts_hour", noon.Add(2 * time.Minute), rules.Usage{New: 16, NewTimes: append(ago(60), fifteen...)}},
		{"line_sends_day", rollover, rules.Usage{Identical: 25}},
	} {
		v := check(using("ln_1", row.usage))
		if row.reason == "" {
			require.Equal(t, rules.Send, v.Decision)
			continue
		}
		require.Equal(t, row.reason, v.Deferral.Reason)
		require.Equal(t, "ln_1", v.Deferral.LineID)
		if row.usage.New != 16 {
			require.Equal(t, row.until, *v.Deferral.Until)
		}
	}
	known := using("ln_1", rules.Usage{New: 50, NewTimes: fifteen})
	known.New = false
	require.Equal(t, rules.Send, check(known).Decision, "a contact that is not new to the line")
	sandbox := using("ln_1", rules.Usage{Sends: 5000})
	sandbox.Line.IsSandbox = true
	require.Equal(t, rules.Send, check(sandbox).Decision, "a sandbox line has no limits")
	taken := using("ln_1", rules.Usage{Sends: 5000})
	taken.Reserved = true
	require.Equal(t, rules.Send, check(taken).Decision, "a retry has its place")
}

func TestLimitOfIdenticalTextsDoesNotApplyToStaff(t *testing.T) {
	t.Parallel()
	f := ready()
	f.Candidates = []rules.Candidate{using("ln_1", rules.Usage{Identical: 25})}
	require.Equal(t, "identical_text_max_per_day", rules.Check(f).Detail["rule"])
	f.ByStaff = true
	require.Equal(t, rules.Send, rules.Check(f).Decision)
}

func TestTheLeastUsedLineWithCapacityTakesTheMessage(t *testing.T) {
	t.Parallel()
	v := check(using("ln_1", rules.Usage{Sends: 5}), using("ln_2", rules.Usage{Sends: 3}), using("ln_3", rules.Usage{Sends: 1, New: 50}))
	require.Equal(t, "ln_2", v.Line.Line.ID)
	paused := using("ln_4", rules.Usage{})
	paused.Line.State = line.Paused
	require.Equal(t, "ln_1", check(paused, using("ln_1", rules.Usage{Sends: 7})).Line.Line.ID)
}

func TestAMessageWaitsForTheFirstLineThatWillHaveCapacity(t *testing.T) {
	t.Parallel()
	hour := make([]time.Time, 15)
	for i := range hour {
		hour[i] = noon.Add(-30 * time.Minute)
	}
	v := check(using("ln_1", rules.Usage{Sends: 1000}), using("ln_2", rules.Usage{NewTimes: hour}))
	require.Equal(t, []any{"line_new_contacts_hour", "ln_2", noon.Add(30 * time.Minute)}, []any{v.Deferral.Reason, v.Deferral.LineID, *v.Deferral.Until})
}

func TestEqualLinesShareTheContactsEvenly(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for i := range 1000 {
		f := ready()
		f.ContactID, f.Candidates = fmt.Sprintf("ctc_%d", i), []rules.Candidate{candidate("ln_1"), candidate("ln_2")}
		counts[rules.Check(f).Line.Line.ID]++
	}
	require.InDelta(t, 500, counts["ln_1"], 100)
}
