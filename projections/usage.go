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
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var lineDaysTable = &readmodel.Table{Name: "line_days", Key: []string{"line_id", "day"}, Counters: true, Columns: []readmodel.Column{
	{Name: "line_id", Type: `text collate "C" not null`},
	{Name: "day", Type: "date not null"},
	{Name: "sends", Type: "integer not null"},
	{Name: "new_contacts", Type: "integer not null"},
	{Name: "failed", Type: "integer not null"},
	{Name: "opt_outs", Type: "integer not null"},
	{Name: "replied", Type: "integer not null"},
}}

// Usage counts, for each line and usage day: messages routed to the line, contacts that were new to it, messages that
// failed on it (see FailedOnLine), contacts that opted out by writing to it, and contacts new to it on that day that
// have replied since. Test traffic does not count.
var Usage = &readmodel.Projection{
	ID: "usage", Program: 1,
	Tables: []*readmodel.Table{lineDaysTable},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.MessageRouted, r *eventstore.Recorded) {
			if e.IsTest {
				return
			}
			counters := readmodel.Row{"sends": readmodel.Add(1)}
			if e.NewContact {
				counters["new_contacts"] = readmodel.Add(1)
			}
			count(c, e.LineID, line.DayOf(r.OccurredAt).Date, counters)
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageFailed, r *eventstore.Recorded) {
			if !e.IsTest && e.LineID != nil && FailedOnLine(e.Code) {
				count(c, *e.LineID, line.DayOf(r.OccurredAt).Date, readmodel.Row{"failed": readmodel.Add(1)})
			}
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactOptedOut, r *eventstore.Recorded) {
			if e.LineID != nil && !e.Register && e.From != e.To {
				count(c, *e.LineID, line.DayOf(r.OccurredAt).Date, readmodel.Row{"opt_outs": readmodel.Add(1)})
			}
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactReplied, _ *eventstore.Recorded) {
			for _, a := range e.Answers {
				count(c, a.LineID, a.Day, readmodel.Row{"replied": readmodel.Add(1)})
			}
		}),
	),
}

// count adds to the counters of a line on a usage day.
func count(c *readmodel.Changes, lineID, day string, counters readmodel.Row) {
	counters["line_id"], counters["day"] = lineID, day
	c.Insert(lineDaysTable, counters)
}

// FailedOnLine reports whether a failure counts against the health of the message's line (rule LIN-22).
func FailedOnLine(code string) bool {
	return !slices.Contains([]string{
		message.CodeOptedOut, message.CodeConsentRequired, message.CodeHoldExpired, message.CodeCanceled, message.CodeNotOnChat,
	}, code)
}

const lineFactsSQL = `select coalesce(sum(sends), 0), coalesce(sum(failed), 0), coalesce(sum(opt_outs), 0), coalesce(sum(new_contacts), 0), coalesce(sum(replied), 0)
	from read.line_days where line_id = $1 and day > $2::date - $3::int and day <= $2::date`

// LineFacts returns the numbers from which the health score of a line is computed: the sums of the last usage days, up
// to the day of now (rule LIN-21).
func (s *Store) LineFacts(ctx context.Context, lineID string, now time.Time) (events.HealthFacts, error) {
	f, _, err := readmodel.One(ctx, s.Reader, "line facts", pgx.RowToStructByPos[events.HealthFacts], lineFactsSQL, lineID, line.DayOf(now).Date, line.HealthDays)
	return f, err
}
