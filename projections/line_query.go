package projections

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/line"
	"ledgerline/projections/readmodel"
)

// lineRow is a line with what its warm-up day and caps are computed from.
type lineRow struct {
	Line
	PausedFrom    line.State   `json:"-" column:"paused_from"`
	ThrottledFrom line.State   `json:"-" column:"throttled_from"`
	WarmingSince  string       `json:"-" column:"warming_since"`
	Limits        *line.Limits `json:"-" column:"limits"` // nil: the defaults
}

var lineFields = readmodel.Select[lineRow](linesTable, "l", map[string]string{
	"warmup_day": readmodel.SetAfterScan, "daily_new_cap": readmodel.SetAfterScan, "usage_today.day": readmodel.SetAfterScan,
	"usage_today.new_contacts_cap": readmodel.SetAfterScan, "usage_today.sends_cap": readmodel.SetAfterScan,
	"usage_today.new_contacts": "coalesce(d.new_contacts, 0)", "usage_today.sends": "coalesce(d.sends, 0)",
	"contact_card.name": "coalesce(l.card_name, '')", "contact_card.image_url": "coalesce(l.card_image_url, '')",
	"paused_from": "coalesce(l.paused_from, '')", "throttled_from": "coalesce(l.throttled_from, '')",
	"warming_since": "coalesce(l.warming_since::text, '')", "limits": "s.limits",
})

// lineSQL reads lines with their use on a day ($1) and the limits of their organisation ($2).
var lineSQL = `select ` + lineFields.SQL + ` from read.lines l left join read.line_days d on d.line_id = l.id and d.day = $1::date
	left join read.sending_limits s on s.organisation_id = $2`

// scanLine computes the warm-up day and the caps of a day as the aggregate does.
func scanLine(day line.Day) pgx.RowToFunc[Line] {
	return func(row pgx.CollectableRow) (Line, error) {
		l, err := lineFields.Scan(row)
		if l.Limits == nil {
			l.Limits = new(line.DefaultLimits())
		}
		state := line.Line{State: line.State(l.State), PausedFrom: l.PausedFrom, ThrottledFrom: l.ThrottledFrom, WarmingSince: l.WarmingSince}
		caps := state.Caps(l.Limits, day)
		l.WarmupDay, l.DailyNewCap = state.WarmupDay(day), caps.NewPerDay
		l.UsageToday.Day, l.UsageToday.NewContactsCap, l.UsageToday.SendsCap = day.Date, caps.NewPerDay, caps.SendsPerDay
		return l.Line, err
	}
}

// LineFilter has the filters of the list of lines. An empty one does not apply.
type LineFilter struct{ PoolID, State string }

// lines begins a query of the lines of an organisation as they are today.
func (s *Store) lines(organisation uuid.UUID) (*readmodel.Filter, line.Day) {
	day := line.DayOf(s.Ledger().Now())
	return &readmodel.Filter{Args: []any{day.Date, organisation}}, day
}

// Lines lists the lines of a workspace as they are now, oldest first. The caller waits for Lines and Usage.
func (s *Store) Lines(ctx context.Context, organisation uuid.UUID, v Viewer, by LineFilter) ([]Line, error) {
	f, day := s.lines(organisation)
	f.Add("l.workspace_id = %s", v.Workspace)
	f.Equal("l.pool_id", by.PoolID)
	f.Equal("l.state", by.State)
	return readmodel.List(ctx, s.Reader, "lines", scanLine(day), lineSQL+f.Where()+` order by l.created_at, l.id`, f.Args...)
}

// Line finds a line of a workspace; found is false when there is none.
func (s *Store) Line(ctx context.Context, organisation uuid.UUID, v Viewer, id string) (l Line, found bool, err error) {
	f, day := s.lines(organisation)
	f.Add("l.workspace_id = %s", v.Workspace)
	f.Add("l.id = %s", id)
	return readmodel.One(ctx, s.Reader, "line", scanLine(day), lineSQL+f.Where(), f.Args...)
}

// LinesByID finds lines of an organisation in no order; ids that do not exist are left out.
func (s *Store) LinesByID(ctx context.Context, organisation uuid.UUID, ids []string) ([]Line, error) {
	f, day := s.lines(organisation)
	f.Add("l.id = any(%s::text[])", ids)
	return readmodel.List(ctx, s.Reader, "lines by id", scanLine(day), lineSQL+f.Where(), f.Args...)
}

const (
	lineIDsSQL = `select id from read.lines where workspace_id = $1 and is_sandbox = $2 and state not in ('provisioning', 'retired')
		order by created_at, id`
	carrierLinesSQL = `select id from read.lines where carrier = $1 and state <> 'retired' order by id`
)

// LineIDs lists the lines of a workspace that are in service, oldest first: the live lines, or the sandbox line. Only
// the ledger says what they can send.
func (s *Store) LineIDs(ctx context.Context, workspace uuid.UUID, sandbox bool) ([]string, error) {
	return readmodel.List(ctx, s.Reader, "line ids", pgx.RowTo[string], lineIDsSQL, workspace, sandbox)
}

// LinesOfCarrier lists the lines of a carrier in all workspaces, without those that are retired.
func (s *Store) LinesOfCarrier(ctx context.Context, carrier string) ([]string, error) {
	return readmodel.List(ctx, s.Reader, "lines of a carrier", pgx.RowTo[string], carrierLinesSQL, carrier)
}
