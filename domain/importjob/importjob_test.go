package importjob_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/importjob"
	"ledgerline/events"
)

var header = []string{"Phone", " Name ", "Company", "Mail", "Tags", "Status", "Note", "Rest", "Rest"}

var mapping = map[string]string{
	"Phone": "phone", "Name": "first_name", "Company": "company", "Mail": "email", "Tags": "labels", "Status": "consent_status", "Note": "fields.note",
}

func mapped(t *testing.T) importjob.Mapping {
	t.Helper()
	m, err := importjob.NewMapping(header, mapping)
	require.NoError(t, err)
	return m
}

func cells(given ...string) []string { return append(given, make([]string, len(header)-len(given))...) }

func TestMappingFindsHeadersAsWrittenOrWithoutSpaces(t *testing.T) {
	t.Parallel()
	row := mapped(t).Read(2, cells("(415) 555-2671", " Anna ", "Acme", "a@example.com", "vip;new", " Opted_In ", " x "), len(header))
	require.Empty(t, row.Problem)
	require.Equal(t, "+14155552671", row.Phone)
	require.Equal(t, []string{"vip", "new"}, row.Labels)
	require.Equal(t, map[string]any{"note": " x "}, row.Fields)
	require.EqualValues(t, "opted_in", row.Consent)
	first, last, company, email := row.Trimmed()
	require.Equal(t, "Anna", *first)
	require.Nil(t, last)
	require.Equal(t, []string{"Acme", "a@example.com"}, []string{*company, *email})
}

func TestMappingProblemsAreReportedTogetherAtTheirPointers(t *testing.T) {
	t.Parallel()
	spaced := " Name "
	for name, c := range map[string]struct {
		mapping map[string]string
		want    []string
	}{
		"nothing":                 {nil, []string{"/mapping required"}},
		"no phone":                {map[string]string{"Name": "first_name"}, []string{"/mapping required"}},
		"unknown target":          {map[string]string{"Phone": "phone", "Name": "id"}, []string{"/mapping/Name invalid_value"}},
		"unknown header":          {map[string]string{"Phone": "phone", "a~/b": "ignore"}, []string{"/mapping/a~0~1b unknown_header"}},
		"the phone's is missing":  {map[string]string{"Mobile": "phone"}, []string{"/mapping/Mobile unknown_header"}},
		"header that is twice":    {map[string]string{"Phone": "phone", "Rest": "company"}, []string{"/mapping/Rest duplicate_header"}},
		"target that is twice":    {map[string]string{"Phone": "phone", "Company": "first_name", "Name": "first_name"}, []string{"/mapping/Name duplicate_target"}},
		"one header by two names": {map[string]string{"Phone": "phone", "Name": "first_name", spaced: "last_name"}, []string{"/mapping/Name duplicate_target"}},
		"two phones":              {map[string]string{"Phone": "phone", "Mail": "phone"}, []string{"/mapping/Phone duplicate_target"}},
		"empty key":               {map[string]string{"Phone": "phone", "Note": "fields."}, []string{"/mapping/Note invalid_value"}},
		"long key":                {map[string]string{"Phone": "phone", "Note": "fields." + strings.Repeat("ö", 101)}, []string{"/mapping/Note too_long"}},
	} {
		_, err := importjob.NewMapping(header, c.mapping)
		var found []string
		for _, issue := range fault.Of(err).Issues {
			found = append(found, issue.Path+" "+issue.Code)
		}
		require.Equal(t, c.want, found, name)
	}
	_, err := importjob.NewMapping(header, map[string]string{"Phone": "phone", "Name": "ignore", "Company": "ignore", "Note": "fields." + strings.Repeat("ö", 100)})
	require.NoError(t, err)
}

func TestRowReportsAllItsProblemsWithoutQuotingCells(t *testing.T) {
	t.Parallel()
	m := mapped(t)
	row := m.Read(7, cells("secret", strings.Repeat("s", 101), strings.Repeat("s", 201), "secret", "ok", "secret", strings.Repeat("s", contact.MaxFields+1)), len(header))
	require.Equal(t, 7, row.Number)
	for _, part := range []string{"phone", "first_name has more than 100", "company has more than 200", "e-mail", "consent_status", "custom fields"} {
		require.Contains(t, row.Problem, part)
	}
	require.NotContains(t, row.Problem, "secret")
	require.NotContains(t, row.Problem, "sss")
	for problem, given := range map[string][]string{
		"phone is missing":    cells("  "),
		"at most 64":          cells("+14155552671", "", "", "", strings.Repeat("s", 65)),
		"more than 200 label": cells("+14155552671", "", "", "", strings.Repeat("s;", 201)),
	} {
		require.Contains(t, m.Read(2, given, len(header)).Problem, problem)
	}
	require.Contains(t, m.Read(2, []string{"+14155552671"}, 1).Problem, "1 cells")
	require.Contains(t, m.Read(2, header, 5_000).Problem, "5000 cells")
	require.Empty(t, m.Read(2, cells("+14155552671", "  "+strings.Repeat("s", 100)+"  "), len(header)).Problem, "spaces around do not count")
}

func TestRowChangesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	m := mapped(t)
	spaced, company := " Anna ", "Acme"
	c := contact.Contact{FirstName: &spaced, Company: &company, Fields: map[string]any{"note": 5.0, "other": []any{}}}
	same := m.Read(2, cells("+14155552671", " Anna ", "", "", "", "", "5"), len(header))
	require.Equal(t, contact.Patch{}, same.Patch(c))
	other := m.Read(2, cells("+14155552671", " Anna", " Acme ", "", "", "", "6"), len(header))
	patch := other.Patch(c)
	require.Equal(t, "Anna", *patch.FirstName.Value)
	require.Equal(t, map[string]any{"note": "6", "other": []any{}}, patch.Fields)
	require.Equal(t, map[string]any{"note": 5.0, "other": []any{}}, c.Fields, "the state itself stays")
	require.False(t, patch.Email.Given)
	require.Empty(t, c.Update(contact.Patch{Company: patch.Company}), "what is the same without its spaces is no change")
}

func TestJobIsQueuedThenRunningThenCompleted(t *testing.T) {
	t.Parallel()
	id, at := uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)
	apply := func(j importjob.Job, list ...events.Event) importjob.Job {
		for _, e := range list {
			j = j.Apply(e, events.Envelope{At: at})
		}
		return j
	}
	require.False(t, importjob.Job{}.Exists())
	j := apply(importjob.Job{}, &events.ImportRequested{JobID: id, TotalRows: 3})
	require.True(t, j.Exists())
	require.Equal(t, at, j.RequestedAt)
	j = apply(j, j.Start()...)
	require.Empty(t, j.Start())
	first := j.Progress(importjob.Batch{Imported: 1, Skipped: 1, Errors: []events.ImportError{{Row: 3, Message: "m"}}})
	require.Len(t, first, 1)
	j = apply(j, first...)
	require.Equal(t, importjob.Counts{Rows: 2, Imported: 1, Skipped: 1, ListedErrors: 1}, j.Counts)
	last := j.Progress(importjob.Batch{Updated: 1})
	require.Equal(t, []events.Event{
		&events.ImportProgressed{JobID: id, Rows: 3, Imported: 1, Updated: 1, Skipped: 1},
		&events.ImportCompleted{JobID: id, TotalRows: 3, Imported: 1, Updated: 1, Skipped: 1},
	}, last)
	ended := apply(j, last...)
	require.True(t, ended.Finished)
	require.Empty(t, ended.Start())
	require.Empty(t, ended.Fail("late"))
	require.True(t, apply(j, j.Fail("file_unreadable")...).Finished)
	empty := apply(importjob.Job{}, &events.ImportRequested{JobID: id})
	require.Equal(t, []events.Event{&events.ImportCompleted{JobID: id}}, empty.Progress(importjob.Batch{}))
}

func TestJobListsAtMostAThousandErrors(t *testing.T) {
	t.Parallel()
	j := importjob.Job{TotalRows: 3_000, Counts: importjob.Counts{ListedErrors: 990}}
	errors := make([]events.ImportError, 30)
	progressed, _ := j.Progress(importjob.Batch{Skipped: 30, Errors: errors})[0].(*events.ImportProgressed)
	require.Len(t, progressed.Errors, 10)
	j = j.Apply(progressed, events.Envelope{})
	progressed, _ = j.Progress(importjob.Batch{Skipped: 30, Errors: errors})[0].(*events.ImportProgressed)
	require.Empty(t, progressed.Errors)
	require.Equal(t, 60, progressed.Skipped)
}
