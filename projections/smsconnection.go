package projections

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"ledgerline/domain/smsconnection"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// SMSConnection is a connection to the SMS provider as the API shows it, and defines the columns of its table: see
// readmodel.TableOf.
type SMSConnection struct {
	ID                  string   `json:"id" doc:"smc_ id" sql:"text collate \"C\" not null"`
	Provider            string   `json:"provider" enum:"sms_provider"`
	AccountSID          string   `json:"account_sid" sql:"text not null"`
	HasAuthToken        bool     `json:"has_auth_token" doc:"Always true"`
	AuthTokenLast4      string   `json:"auth_token_last4" maxLength:"4" doc:"The end of the token. The token itself is never shown" sql:"text not null"`
	MessagingServiceSID *string  `json:"messaging_service_sid" sql:"text"`
	FromNumbers         []string `json:"from_numbers" nullable:"false" doc:"E.164" sql:"text[] not null"`
	PrefixOrgName       bool     `json:"prefix_org_name" doc:"Texts begin with the name of the organisation" sql:"boolean not null"`
	Status              string   `json:"status" enum:"pending,active,failing,disabled" doc:"pending until it is verified" sql:"text not null"`
	LastError           *string  `json:"last_error" doc:"Why the last verification failed" sql:"text"`
	LastVerifiedAt      *string  `json:"last_verified_at" format:"date-time" doc:"When a verification last succeeded" sql:"timestamptz"`
	ConfirmedAt         *string  `json:"compliance_confirmed_at" format:"date-time" doc:"When a user confirmed that the account is registered with carriers for its messages" column:"confirmed_at" sql:"timestamptz"`
	ConfirmedBy         *string  `json:"compliance_confirmed_by" format:"uuid" doc:"That user" column:"confirmed_by" sql:"uuid"`
	InboundURL          string   `json:"inbound_webhook_url" doc:"Where the provider sends inbound messages and status callbacks"`
	InboundAt           *string  `json:"inbound_webhook_configured_at" format:"date-time" doc:"When the provider was told that address" column:"inbound_at" sql:"timestamptz"`
	CreatedAt           string   `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	UpdatedAt           string   `json:"updated_at" format:"date-time" sql:"timestamptz not null" merge:"latest"`
}

var smsConnectionsTable = readmodel.TableOf[SMSConnection]("sms_connections", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})

// SMSConnections has the present state of the connections to the SMS provider, without their tokens.
var SMSConnections = &readmodel.Projection{
	ID: "sms_connections", Program: 1,
	Tables:  []*readmodel.Table{smsConnectionsTable},
	Indexes: []string{`create index on @sms_connections (workspace_id)`},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.SMSConnectionCreated, r *eventstore.Recorded) {
			c.Insert(smsConnectionsTable, readmodel.Row{
				"id": e.ConnectionID, "workspace_id": r.WorkspaceID, "account_sid": e.Credentials.AccountSID,
				"auth_token_last4": smsconnection.LastFour(e.Credentials.AuthToken), "messaging_service_sid": e.MessagingServiceSID,
				"from_numbers": e.FromNumbers, "prefix_org_name": e.PrefixOrgName, "status": "pending",
				"created_at": readmodel.Stamp(r.OccurredAt), "updated_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(smsConnectionUpdated),
		feed.On(func(c *readmodel.Changes, e *events.SMSConnectionVerified, r *eventstore.Recorded) {
			updateSMSConnection(c, r, e.ConnectionID, readmodel.Row{"status": "active", "last_error": nil, "last_verified_at": readmodel.Stamp(r.OccurredAt)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SMSConnectionFailing, r *eventstore.Recorded) {
			updateSMSConnection(c, r, e.ConnectionID, readmodel.Row{"status": "failing", "last_error": e.Error})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SMSInboundConfigured, r *eventstore.Recorded) {
			updateSMSConnection(c, r, e.ConnectionID, readmodel.Row{"inbound_at": readmodel.Stamp(r.OccurredAt)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SMSConnectionDisabled, r *eventstore.Recorded) {
			updateSMSConnection(c, r, e.ConnectionID, readmodel.Row{"status": "disabled"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SMSConnectionEnabled, r *eventstore.Recorded) {
			updateSMSConnection(c, r, e.ConnectionID, readmodel.Row{"status": "pending", "last_error": nil})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SMSComplianceConfirmed, r *eventstore.Recorded) {
			updateSMSConnection(c, r, e.ConnectionID, readmodel.Row{"confirmed_at": readmodel.Stamp(r.OccurredAt), "confirmed_by": e.UserID})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SMSComplianceWithdrawn, r *eventstore.Recorded) {
			updateSMSConnection(c, r, e.ConnectionID, readmodel.Row{"confirmed_at": nil, "confirmed_by": nil})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SMSConnectionDeleted, _ *eventstore.Recorded) {
			c.Delete(smsConnectionsTable, readmodel.Row{"id": e.ConnectionID})
		}),
	),
}

func smsConnectionUpdated(c *readmodel.Changes, e *events.SMSConnectionUpdated, r *eventstore.Recorded) {
	row := readmodel.Row{}
	for _, field := range e.Changed {
		switch field {
		case "account_sid":
			row[field] = e.Credentials.AccountSID
		case "auth_token":
			row["auth_token_last4"] = smsconnection.LastFour(e.Credentials.AuthToken)
		case "messaging_service_sid":
			row[field] = e.MessagingServiceSID
		case "from_numbers":
			row[field] = emptyNotNull(e.FromNumbers)
		case "prefix_org_name":
			row[field] = e.PrefixOrgName
		}
	}
	if e.Unverified {
		row["status"], row["last_error"] = "pending", nil
		if slices.ContainsFunc(e.Changed, func(field string) bool { return field != "auth_token" && field != "prefix_org_name" }) {
			row["inbound_at"] = nil // the address was set at another account or sender
		}
	}
	updateSMSConnection(c, r, e.ConnectionID, row)
}

func updateSMSConnection(c *readmodel.Changes, r *eventstore.Recorded, id string, row readmodel.Row) {
	row["id"], row["updated_at"] = id, readmodel.Stamp(r.OccurredAt)
	c.Update(smsConnectionsTable, row)
}

// SMSInboundPath is the path to which the SMS provider reports the messages of a connection.
func SMSInboundPath(connectionID string) string { return "/carriers/sms/" + connectionID }

var (
	smsConnectionFields = readmodel.Select[SMSConnection](smsConnectionsTable, "s", map[string]string{
		"provider": "'sms_provider'", "has_auth_token": "true", "inbound_webhook_url": "''",
	})
	smsConnectionSQL = `select ` + smsConnectionFields.SQL + ` from read.sms_connections s where s.workspace_id = $1`
)

func (s *Store) scanSMSConnection(row pgx.CollectableRow) (SMSConnection, error) {
	c, err := smsConnectionFields.Scan(row)
	c.InboundURL = s.base + SMSInboundPath(c.ID)
	return c, err
}

// SMSConnections lists the connections of a workspace: one or none.
func (s *Store) SMSConnections(ctx context.Context, v Viewer) ([]SMSConnection, error) {
	return readmodel.List(ctx, s.Reader, "sms connections", s.scanSMSConnection, smsConnectionSQL+` order by s.created_at, s.id`, v.Workspace)
}

// SMSConnection finds a connection of a workspace; found is false when there is none.
func (s *Store) SMSConnection(ctx context.Context, v Viewer, id string) (c SMSConnection, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "sms connection", s.scanSMSConnection, smsConnectionSQL+` and s.id = $2`, v.Workspace, id)
}
