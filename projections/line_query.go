package projections

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/line"
	"ledgerline/projections/readmodel"
)

// Line is a line as the API shows it (administration 2.4).
type Line struct {
	ID             string      `json:"id" doc:"ln_ id"`
	Phone          string      `json:"phone" doc:"E.164"`
	DisplayName    *string     `json:"display_name"`
	State          string      `json:"state" enum:"provisioning,ready,warming,active,throttled,paused,quarantined,retired"`
	StateChangedAt *string     `json:"state_changed_at" format:"date-time"`
	StateReason    *string     `json:"state_reason"`
	HealthScore    int         `json:"health_score" minimum:"0" maximum:"100"`
	IsSandbox      bool        `json:"is_sandbox"`
	PoolID         *string     `json:"pool_id" doc:"pool_ id"`
	WarmupDay      int         `json:"warmup_day" minimum:"0" doc:"From 1 on the first day; 0 when it has not begun"`
	DailyNewCap    int         `json:"daily_new_cap" minimum:"0" doc:"New contacts a day at this moment"`
	ContactCard    ContactCard `json:"contact_card"`
	UsageToday     LineUsage   `json:"usage_today"`
	CreatedAt      string      `json:"created_at" format:"date-time"`
}

// ContactCard is how a line presents itself; what is not set is empty.
type ContactCard struct {
	Name     string `json:"name" maxLength:"100"`
	ImageURL string `json:"image_url" maxLength:"2048"`
}

// LineUsage is what a line has done on its usage day, and what it may do.
type LineUsage struct {
	Day            string `json:"day" format:"date" doc:"In America/New_York, from 3 AM on"`
	NewContacts    int    `json:"new_contacts" minimum:"0"`
	NewContactsCap int    `json:"new_contacts_cap" minimum:"0"`
	Sends          int    `json:"sends" minimum:"0"`
	SendsCap       int    `json:"sends_cap" minimum:"0"`
}

// lineSQL reads lines with what they did on a day ($1) and the limits of their organisation ($2).
const lineSQL = `select l.id, l.phone, l.display_name, l.state, l.state_changed_at, l.state_reason, l.health_score, l.is_sandbox, l.pool_id,
	coalesce(l.card_name, ''), coalesce(l.card_image_url, ''), l.created_at, coalesce(l.paused_from, ''), coalesce(l.throttled_from, ''),
	coalesce(l.warming_since::text, ''), coalesce(d.new_contacts, 0), coalesce(d.sends, 0), s.limits
	from read.lines l left join read.line_days d on d.line_id = l.id and d.day = $1::date
	left join read.sending_limits s on s.organisation_id = $2`

// scanLine computes what a line may do from the row as the line itself does.
func scanLine(day line.Day) pgx.RowToFunc[Line] {
	return func(row pgx.CollectableRow) (Line, error) {
		var shown Line
		var changed *time.Time
		var created time.Time
		var limits *line.Limits
		var state line.Line
		err := row.Scan(&shown.ID, &shown.Phone, &shown.DisplayName, &shown.State, &changed, &shown.StateReason, &shown.HealthScore, &shown.IsSandbox, &shown.PoolID,
			&shown.ContactCard.Name, &shown.ContactCard.ImageURL, &created, &state.PausedFrom, &state.ThrottledFrom,
			&state.WarmingSince, &shown.UsageToday.NewContacts, &shown.UsageToday.Sends, &limits)
		if limits == nil {
			standard := line.DefaultLimits()
			limits = &standard
		}
		state.State = line.State(shown.State)
		caps := state.Caps(limits, day)
		shown.WarmupDay, shown.DailyNewCap = state.WarmupDay(day), caps.NewPerDay
		shown.UsageToday.Day, shown.UsageToday.NewContactsCap, shown.UsageToday.SendsCap = day.Date, caps.NewPerDay, caps.SendsPerDay
		shown.StateChangedAt, shown.CreatedAt = readmodel.StampOrNull(changed), readmodel.Stamp(created)
		return shown, err
	}
}

// LineFilter are the filters of the list of lines (administration 4.4); empty ones do not filter.
type LineFilter struct{ PoolID, State string }

// LinesNow lists the lines of a workspace as they are now, oldest first. Lines and Usage must be current.
func (s *Store) LinesNow(ctx context.Context, organisation uuid.UUID, v Viewer, by LineFilter) ([]Line, error) {
	day := line.DayOf(s.Ledger().Now())
	f := &readmodel.Filter{Args: []any{day.Date, organisation}}
	f.Add("l.workspace_id = %s", v.Workspace)
	f.Equal("l.pool_id", by.PoolID)
	f.Equal("l.state", by.State)
	return readmodel.List(ctx, s.Reader, "lines", scanLine(day), lineSQL+f.Where()+` order by l.created_at, l.id`, f.Args...)
}

// LineNow finds one; found is false when there is none.
func (s *Store) LineNow(ctx context.Context, organisation uuid.UUID, v Viewer, id string) (Line, bool, error) {
	day := line.DayOf(s.Ledger().Now())
	f := &readmodel.Filter{Args: []any{day.Date, organisation}}
	f.Add("l.workspace_id = %s", v.Workspace)
	f.Add("l.id = %s", id)
	return readmodel.One(ctx, s.Reader, "line", scanLine(day), lineSQL+f.Where(), f.Args...)
}

// LinesByID finds lines of an organisation in no order; ids that do not exist are left out.
func (s *Store) LinesByID(ctx context.Context, organisation uuid.UUID, ids []string) ([]Line, error) {
	day := line.DayOf(s.Ledger().Now())
	f := &readmodel.Filter{Args: []any{day.Date, organisation}}
	f.Add("l.id = any(%s::text[])", ids)
	return readmodel.List(ctx, s.Reader, "lines", scanLine(day), lineSQL+f.Where(), f.Args...)
}
