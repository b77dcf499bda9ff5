package projections

import (
	"slices"

	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Line is a line as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type Line struct {
	ID             string      `json:"id" doc:"ln_ id" sql:"text collate \"C\" not null"`
	Phone          string      `json:"phone" doc:"E.164" sql:"text not null"`
	DisplayName    *string     `json:"display_name" sql:"text"`
	State          string      `json:"state" enum:"provisioning,ready,warming,active,throttled,paused,quarantined,retired" sql:"text not null"`
	StateChangedAt *string     `json:"state_changed_at" format:"date-time" sql:"timestamptz"`
	StateReason    *string     `json:"state_reason" sql:"text"`
	HealthScore    int         `json:"health_score" minimum:"0" maximum:"100" sql:"integer not null"`
	IsSandbox      bool        `json:"is_sandbox" sql:"boolean not null"`
	PoolID         *string     `json:"pool_id" doc:"pool_ id" sql:"text collate \"C\""`
	WarmupDay      int         `json:"warmup_day" minimum:"0" doc:"From 1 on the first day; 0 when it has not begun"`
	DailyNewCap    int         `json:"daily_new_cap" minimum:"0" doc:"New contacts a day at this moment"`
	ContactCard    ContactCard `json:"contact_card"`
	UsageToday     LineUsage   `json:"usage_today"`
	CreatedAt      string      `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

// ContactCard is how a line presents itself. A field that is not set is empty.
type ContactCard struct {
	Name     string `json:"name" maxLength:"100"`
	ImageURL string `json:"image_url" maxLength:"2048"`
}

// LineUsage is the use of a line on its usage day, and the caps of that day (rules LIN-13 and LIN-20).
type LineUsage struct {
	Day            string `json:"day" format:"date" doc:"In America/New_York, from 3 AM on"`
	NewContacts    int    `json:"new_contacts" minimum:"0"`
	NewContactsCap int    `json:"new_contacts_cap" minimum:"0"`
	Sends          int    `json:"sends" minimum:"0"`
	SendsCap       int    `json:"sends_cap" minimum:"0"`
}

var linesTable = readmodel.TableOf[Line]("lines", []string{"id"},
	readmodel.Column{Name: "workspace_id", Type: "uuid not null"},
	readmodel.Column{Name: "carrier", Type: "text not null"},
	readmodel.Column{Name: "paused_from", Type: "text"},    // state before a pause
	readmodel.Column{Name: "throttled_from", Type: "text"}, // state before throttling
	readmodel.Column{Name: "warming_since", Type: "date"},  // first usage day of the warm-up
	readmodel.Column{Name: "card_name", Type: "text"},
	readmodel.Column{Name: "card_image_url", Type: "text"},
)

var sendingLimitsTable = &readmodel.Table{Name: "sending_limits", Key: []string{"organisation_id"}, Columns: []readmodel.Column{
	{Name: "organisation_id", Type: "uuid not null"},
	{Name: "limits", Type: "jsonb not null"},
}}

// Lines are the lines and pools of all workspaces as they are now, and the sending limits of organisations.
var Lines = &readmodel.Projection{
	ID: "lines", Program: 4,
	Tables:  []*readmodel.Table{linesTable, poolsTable, sendingLimitsTable},
	Indexes: []string{`create index on @lines (workspace_id)`, `create index on @pools (workspace_id)`},
	Handlers: feed.NewHandlers(
		feed.On(poolCreated), feed.On(poolUpdated),
		feed.On(func(c *readmodel.Changes, e *events.LineProvisioned, r *eventstore.Recorded) {
			c.Insert(linesTable, readmodel.Row{
				"id": e.LineID, "workspace_id": r.WorkspaceID, "phone": e.Phone, "display_name": e.DisplayName, "pool_id": e.PoolID,
				"is_sandbox": e.IsSandbox, "carrier": e.Carrier, "state": e.State, "health_score": 100, "created_at": readmodel.Stamp(r.OccurredAt),
				"warming_since": warmingSince(line.State(e.State), r),
			})
		}),
		feed.On(lineUpdated),
		feed.On(func(c *readmodel.Changes, e *events.LineCarrierConfigured, _ *eventstore.Recorded) {
			c.Update(linesTable, readmodel.Row{"id": e.LineID, "carrier": e.Carrier})
		}),
		feed.On(lineStateChanged),
		feed.On(func(c *readmodel.Changes, e *events.LineHealthScored, _ *eventstore.Recorded) {
			c.Update(linesTable, readmodel.Row{"id": e.LineID, "health_score": e.Score})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SendingLimitsSet, r *eventstore.Recorded) {
			c.Insert(sendingLimitsTable, readmodel.Row{"organisation_id": r.OrganisationID, "limits": e.Limits})
		}),
	),
}

func lineUpdated(c *readmodel.Changes, e *events.LineUpdated, _ *eventstore.Recorded) {
	row := linesTable.ChangedValues(e, e.Changed)
	if slices.Contains(e.Changed, "contact_card") {
		row["card_name"], row["card_image_url"] = e.ContactCard.Name, e.ContactCard.ImageURL
	}
	row["id"] = e.LineID
	c.Update(linesTable, row)
}

func warmingSince(to line.State, r *eventstore.Recorded) any {
	if to != line.Warming {
		return nil
	}
	return line.DayOf(r.OccurredAt).Date
}

// lineStateChanged keeps what the state and the caps are computed from, by the same rules as the aggregate in
// domain/line.
func lineStateChanged(c *readmodel.Changes, e *events.LineStateChanged, r *eventstore.Recorded) {
	row := readmodel.Row{"id": e.LineID, "state": e.To, "state_reason": e.Reason, "state_changed_at": readmodel.Stamp(r.OccurredAt)}
	from, to := line.State(e.From), line.State(e.To)
	switch {
	case to == line.Paused:
		row["paused_from"] = e.From
	case to == line.Throttled && from != line.Paused:
		row["throttled_from"] = e.From
	case to == line.Ready:
		row["warming_since"] = nil
	case to == line.Warming && from == line.Ready:
		row["warming_since"] = warmingSince(to, r)
	}
	c.Update(linesTable, row)
}
