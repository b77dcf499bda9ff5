package projections

import (
	"context"
	"time"

	"ledgerline/domain/apikey"
	"ledgerline/domain/identity"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// Identity is a service identity as the API shows it, and defines the columns of its table: see readmodel.TableOf. The
// table belongs to the projection Credentials.
type Identity struct {
	ID             string   `json:"id" format:"uuid" sql:"uuid not null"`
	Name           string   `json:"name" sql:"text not null"`
	Kind           string   `json:"kind" enum:"ai_agent,mcp_client" sql:"text not null"`
	Status         string   `json:"status" enum:"active,disabled" sql:"text not null"`
	Scopes         []string `json:"scopes" enum:"read,send,admin" nullable:"false" sql:"jsonb not null"`
	Env            *string  `json:"env" enum:"live,test" sql:"text"`
	APIKeyID       *string  `json:"api_key_id" doc:"key_ id of the token, to be rotated or revoked as an API key" sql:"text collate \"C\""`
	AllowedLineIDs []string `json:"allowed_line_ids" nullable:"false" doc:"Lines that it sends from; empty: all lines of the workspace" sql:"jsonb not null"`
	DailyLimit     *int64   `json:"daily_limit" minimum:"0" maximum:"9007199254740991" doc:"Messages a usage day; null: no limit" sql:"bigint"`
	CreatedAt      string   `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

var identitiesTable = readmodel.TableOf[Identity]("service_identities", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})

func identityCreated(c *readmodel.Changes, e *events.IdentityCreated, r *eventstore.Recorded) {
	c.Insert(identitiesTable, readmodel.Row{
		"id": e.IdentityID, "workspace_id": r.WorkspaceID, "name": e.Name, "kind": e.Kind, "status": "active", "scopes": e.Scopes,
		"env": readmodel.EmptyToNull(e.Env), "api_key_id": readmodel.EmptyToNull(e.KeyID), "allowed_line_ids": emptyNotNull(e.AllowedLineIDs),
		"daily_limit": e.DailyLimit, "created_at": readmodel.Stamp(r.OccurredAt),
	})
}

func identityUpdated(c *readmodel.Changes, e *events.IdentityUpdated, _ *eventstore.Recorded) {
	c.Update(identitiesTable, readmodel.Row{
		"id": e.IdentityID, "name": e.Name, "scopes": e.Scopes, "allowed_line_ids": emptyNotNull(e.AllowedLineIDs), "daily_limit": e.DailyLimit,
	})
}

func identityDisabled(c *readmodel.Changes, e *events.IdentityDisabled, _ *eventstore.Recorded) {
	c.Update(identitiesTable, readmodel.Row{"id": e.IdentityID, "status": "disabled"})
}

func identityEnabled(c *readmodel.Changes, e *events.IdentityEnabled, _ *eventstore.Recorded) {
	c.Update(identitiesTable, readmodel.Row{"id": e.IdentityID, "status": "active"})
}

// emptyNotNull turns a nil list, which is null in JSON, into an empty one.
func emptyNotNull(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// IdentityWithToken is a service identity that was just created.
type IdentityWithToken struct {
	Identity
	Token string `json:"token" doc:"Shown this once; only its hash is stored"`
}

// NewIdentity is an identity that a command created, as the read model will show it.
func NewIdentity(i *identity.Identity, token string, at time.Time) IdentityWithToken {
	return IdentityWithToken{
		Identity: Identity{
			ID: i.ID.String(), Name: i.Name, Kind: string(i.Kind), Status: "active", Scopes: apikey.ScopeNames(i.Scopes),
			Env: readmodel.EmptyToNull(string(i.Env)), APIKeyID: readmodel.EmptyToNull(i.KeyID), AllowedLineIDs: emptyNotNull(i.AllowedLineIDs),
			DailyLimit: i.DailyLimit, CreatedAt: readmodel.Stamp(at),
		},
		Token: token,
	}
}

var (
	identityFields = readmodel.Select[Identity](identitiesTable, "i", nil)
	identitySQL    = `select ` + identityFields.SQL + ` from read.service_identities i`
)

// Identity finds a service identity of the workspace; found is false when there is none.
func (s *Store) Identity(ctx context.Context, v Viewer, id string) (i Identity, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "service identity", identityFields.Scan,
		identitySQL+` where i.workspace_id = $1 and i.id::text = $2`, v.Workspace, id)
}

// Identities lists the service identities of the workspace, newest first.
func (s *Store) Identities(ctx context.Context, v Viewer, after *readmodel.Cursor, limit int) (readmodel.Page[Identity], error) {
	f := &readmodel.Filter{}
	f.Add("i.workspace_id = %s", v.Workspace)
	f.After(after, "i.created_at", "i.id", "uuid")
	key := func(i *Identity) readmodel.Cursor { return readmodel.Cursor{At: i.CreatedAt, ID: i.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "service identities", limit, identityFields.Scan, key,
		identitySQL+f.Where()+` order by i.created_at desc, i.id desc limit `+f.Arg(limit+1), f.Args...)
}
