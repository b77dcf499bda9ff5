package projections

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/events"
	"ledgerline/eventstore"
)

var lineDaysTable = &Table{Name: "line_days", Key: []string{"line_id", "day"}, Counters: true, Columns: []Column{
	{Name: "line_id", Type: `text collate "C" not null`},
	{Name: "day", Type: "date not null"},
	{Name: "sends", Type: "integer not null"},
	{Name: "new_contacts", Type: "integer not null"},
	{Name: "failed", Type: "integer not null"},
	{Name: "opt_outs", Type: "integer not null"},
	{Name: "replied", Type: "integer not null"},
}}

// Usage is what every line did on each usage day: messages given to it, contacts that were new to it, messages that its carrier
// refused or lost, contacts that opted out by writing to it, and contacts new to it on that day that have replied
// since. Test traffic is not counted (interface section 8).
var Usage = &Projection{
	ID: "usage", Program: 1,
	Tables: []*Table{lineDaysTable},
	Wants: events.NamesOf((*events.MessageRouted)(nil), (*events.MessageFailed)(nil), (*events.ContactOptedOut)(nil),
		(*events.ContactReplied)(nil)),
	Project: func(r *eventstore.Recorded, c *Changes) {
		count := func(lineID, day string, columns Row) {
			row := Row{"line_id": lineID, "day": day, "sends": Add(0), "new_contacts": Add(0), "failed": Add(0), "opt_outs": Add(0), "replied": Add(0)}
			for name, n := range columns {
				row[name] = n
			}
			c.Insert(lineDaysTable, row)
		}
		today := line.DayOf(r.OccurredAt).Date
		switch e := r.Event.(type) {
		case *events.MessageRouted:
			if e.IsTest {
				return
			}
			columns := Row{"sends": Add(1)}
			if e.NewContact {
				columns["new_contacts"] = Add(1)
			}
			count(e.LineID, today, columns)
		case *events.MessageFailed:
			if !e.IsTest && e.LineID != nil && FailedOnLine(e.Code) {
				count(*e.LineID, today, Row{"failed": Add(1)})
			}
		case *events.ContactOptedOut:
			if e.LineID != nil && !e.Register && e.From != e.To {
				count(*e.LineID, today, Row{"opt_outs": Add(1)})
			}
		case *events.ContactReplied:
			for _, a := range e.Answers {
				count(a.LineID, a.Day, Row{"replied": Add(1)})
			}
		}
	},
}

// FailedOnLine tells whether a failed message says something about its line: not when a rule ended it, or when the number is not
// on the channel.
func FailedOnLine(code string) bool {
	return !slices.Contains([]string{
		message.CodeOptedOut, message.CodeConsentRequired, message.CodeHoldExpired, message.CodeCanceled, message.CodeNotOnChat,
	}, code)
}

const lineFactsSQL = `select coalesce(sum(sends), 0), coalesce(sum(failed), 0), coalesce(sum(opt_outs), 0), coalesce(sum(new_contacts), 0), coalesce(sum(replied), 0)
	from read.line_days where line_id = $1 and day > $2::date - $3::int and day <= $2::date`

// LineFacts is what the health of a line is judged by: the usage days that count, up to the one of a moment.
func (s *Store) LineFacts(ctx context.Context, lineID string, now time.Time) (events.HealthFacts, error) {
	f, _, err := single(ctx, s, "line facts", pgx.RowToStructByPos[events.HealthFacts], lineFactsSQL, lineID, line.DayOf(now).Date, line.HealthDays)
	return f, err
}
