package projections

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/line"
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
			&shown.ContactCard.Name, &shown.ContactCard.ImageURL, &created, &state.PausedFrom, &state.Before,
			&state.WarmingSince, &shown.UsageToday.NewContacts, &shown.UsageToday.Sends, &limits)
		if limits == nil {
			standard := line.DefaultLimits()
			limits = &standard
		}
		state.State = line.State(shown.State)
		caps := state.Caps(limits, day)
		shown.WarmupDay, shown.DailyNewCap = state.WarmupDay(day), caps.NewPerDay
		shown.UsageToday.Day, shown.UsageToday.NewContactsCap, shown.UsageToday.SendsCap = day.Date, caps.NewPerDay, caps.SendsPerDay
		shown.StateChangedAt, shown.CreatedAt = stampOrNull(changed), stamp(created)
		return shown, err
	}
}

// LineFilter are the filters of the list of lines (administration 4.4); empty ones do not filter.
type LineFilter struct{ PoolID, State string }

// LinesNow lists the lines of a workspace as they are now, oldest first. Lines and Usage must be current.
func (s *Store) LinesNow(ctx context.Context, organisation uuid.UUID, v Viewer, by LineFilter) ([]Line, error) {
	day := line.DayOf(s.ledger.Now())
	f := &filter{args: []any{day.Date, organisation}}
	f.add("l.workspace_id = %s", v.Workspace)
	f.equal("l.pool_id", by.PoolID)
	f.equal("l.state", by.State)
	return list(ctx, s, "lines", scanLine(day), lineSQL+f.where()+` order by l.created_at, l.id`, f.args...)
}

// LineNow finds one; found is false when there is none.
func (s *Store) LineNow(ctx context.Context, organisation uuid.UUID, v Viewer, id string) (Line, bool, error) {
	day := line.DayOf(s.ledger.Now())
	f := &filter{args: []any{day.Date, organisation}}
	f.add("l.workspace_id = %s", v.Workspace)
	f.add("l.id = %s", id)
	return single(ctx, s, "line", scanLine(day), lineSQL+f.where(), f.args...)
}

// linesByID finds lines of an organisation; those that do not exist are absent.
func (s *Store) linesByID(ctx context.Context, organisation uuid.UUID, ids []string) ([]Line, error) {
	day := line.DayOf(s.ledger.Now())
	f := &filter{args: []any{day.Date, organisation}}
	f.add("l.id = any(%s::text[])", ids)
	return list(ctx, s, "lines", scanLine(day), lineSQL+f.where(), f.args...)
}

// Pool is a pool as the API shows it (administration 2.4).
type Pool struct {
	ID              string `json:"id" doc:"pool_ id"`
	Name            string `json:"name"`
	Rotation        string `json:"rotation" enum:"sticky,round_robin"`
	FallbackSMSMode string `json:"fallback_sms_mode" enum:"off,not_chat,not_chat_or_failed"`
	LineCount       int    `json:"line_count" minimum:"0" doc:"Lines that are not retired"`
	FallbackSMS     bool   `json:"fallback_sms" deprecated:"true" doc:"true unless fallback_sms_mode is off"`
	CreatedAt       string `json:"created_at" format:"date-time"`
}

const poolSQL = `select p.id, p.name, p.rotation, p.fallback_sms_mode, p.created_at,
	(select count(*) from read.lines l where l.workspace_id = p.workspace_id and l.pool_id = p.id and l.state <> 'retired')
	from read.pools p`

func scanPool(row pgx.CollectableRow) (p Pool, err error) {
	var created time.Time
	err = row.Scan(&p.ID, &p.Name, &p.Rotation, &p.FallbackSMSMode, &created, &p.LineCount)
	p.FallbackSMS, p.CreatedAt = p.FallbackSMSMode != string(line.FallbackOff), stamp(created)
	return p, err
}

// PoolsNow lists the pools of a workspace, oldest first.
func (s *Store) PoolsNow(ctx context.Context, v Viewer) ([]Pool, error) {
	return list(ctx, s, "pools", scanPool, poolSQL+` where p.workspace_id = $1 order by p.created_at, p.id`, v.Workspace)
}

// PoolNow finds one; found is false when there is none.
func (s *Store) PoolNow(ctx context.Context, v Viewer, id string) (Pool, bool, error) {
	return single(ctx, s, "pool", scanPool, poolSQL+` where p.workspace_id = $1 and p.id = $2`, v.Workspace, id)
}
