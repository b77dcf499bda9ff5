package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/domain/apikey"
	"ledgerline/domain/identity"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

var identitiesTable = &readmodel.Table{Name: "service_identities", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "name", Type: "text not null"},
	{Name: "kind", Type: "text not null"},
	{Name: "status", Type: "text not null"},
	{Name: "scopes", Type: "jsonb not null"},
	{Name: "env", Type: "text"},
	{Name: "api_key_id", Type: `text collate "C"`},
	{Name: "allowed_line_ids", Type: "jsonb not null"},
	{Name: "daily_limit", Type: "bigint"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

func identityCreated(c *readmodel.Changes, e *events.IdentityCreated, r *eventstore.Recorded) {
	c.Insert(identitiesTable, readmodel.Row{
		"id": e.IdentityID, "workspace_id": r.WorkspaceID, "name": e.Name, "kind": e.Kind, "status": "active", "scopes": e.Scopes,
		"env": readmodel.EmptyToNull(e.Env), "api_key_id": readmodel.EmptyToNull(e.KeyID), "allowed_line_ids": lineIDs(e.AllowedLineIDs),
		"daily_limit": e.DailyLimit, "created_at": readmodel.Stamp(r.OccurredAt),
	})
}

func identityUpdated(c *readmodel.Changes, e *events.IdentityUpdated, _ *eventstore.Recorded) {
	c.Update(identitiesTable, readmodel.Row{
		"id": e.IdentityID, "name": e.Name, "scopes": e.Scopes, "allowed_line_ids": lineIDs(e.AllowedLineIDs), "daily_limit": e.DailyLimit,
	})
}

func identityDisabled(c *readmodel.Changes, e *events.IdentityDisabled, _ *eventstore.Recorded) {
	c.Update(identitiesTable, readmodel.Row{"id": e.IdentityID, "status": "disabled"})
}

func identityEnabled(c *readmodel.Changes, e *events.IdentityEnabled, _ *eventstore.Recorded) {
	c.Update(identitiesTable, readmodel.Row{"id": e.IdentityID, "status": "active"})
}

// lineIDs is never null.
func lineIDs(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}

// Identity is a service identity as the API shows it (administration 2.2).
type Identity struct {
	ID             string   `json:"id" format:"uuid"`
	Name           string   `json:"name"`
	Kind           string   `json:"kind" enum:"ai_agent,mcp_client"`
	Status         string   `json:"status" enum:"active,disabled"`
	Scopes         []string `json:"scopes" enum:"read,send,admin" nullable:"false"`
	Env            *string  `json:"env" enum:"live,test"`
	APIKeyID       *string  `json:"api_key_id" doc:"key_ id of the token, to be rotated or revoked as an API key"`
	AllowedLineIDs []string `json:"allowed_line_ids" nullable:"false" doc:"Lines that it sends from; empty: all lines of the workspace"`
	DailyLimit     *int64   `json:"daily_limit" minimum:"0" maximum:"9007199254740991" doc:"Messages a usage day; null: no limit"`
	CreatedAt      string   `json:"created_at" format:"date-time"`
}

// IdentityWithToken is a service identity that was just made.
type IdentityWithToken struct {
	Identity
	Token string `json:"token" doc:"Shown this once; only its hash is stored"`
}

// NewIdentity is an identity as the command that made it knows it: what the projection makes of its events.
func NewIdentity(i *identity.Identity, token string, at time.Time) IdentityWithToken {
	return IdentityWithToken{
		Identity: Identity{
			ID: i.ID.String(), Name: i.Name, Kind: string(i.Kind), Status: "active", Scopes: apikey.ScopeNames(i.Scopes),
			Env: readmodel.EmptyToNull(string(i.Env)), APIKeyID: readmodel.EmptyToNull(i.KeyID), AllowedLineIDs: lineIDs(i.AllowedLineIDs),
			DailyLimit: i.DailyLimit, CreatedAt: readmodel.Stamp(at),
		},
		Token: token,
	}
}

const identitySQL = `select i.id::text, i.name, i.kind, i.status, i.scopes, i.env, i.api_key_id, i.allowed_line_ids, i.daily_limit, i.created_at
	from read.service_identities i`

func scanIdentity(row pgx.CollectableRow) (i Identity, err error) {
	var created time.Time
	err = row.Scan(&i.ID, &i.Name, &i.Kind, &i.Status, &i.Scopes, &i.Env, &i.APIKeyID, &i.AllowedLineIDs, &i.DailyLimit, &created)
	i.CreatedAt = readmodel.Stamp(created)
	return i, err
}

// Identity finds a service identity of the workspace; found is false when there is none.
func (s *Store) Identity(ctx context.Context, v Viewer, id string) (i Identity, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "service identity", scanIdentity, identitySQL+` where i.workspace_id = $1 and i.id::text = $2`, v.Workspace, id)
}

// Identities lists the service identities of the workspace, newest first.
func (s *Store) Identities(ctx context.Context, v Viewer, after *readmodel.Cursor, limit int) (readmodel.Page[Identity], error) {
	f := &readmodel.Filter{}
	f.Add("i.workspace_id = %s", v.Workspace)
	if after != nil {
		f.Add("(i.created_at, i.id) < (%s::timestamptz, "+f.Arg(after.ID)+"::text::uuid)", after.At)
	}
	found, err := readmodel.List(ctx, s.Reader, "service identities", scanIdentity, identitySQL+f.Where()+` order by i.created_at desc, i.id desc limit `+f.Arg(limit+1), f.Args...)
	if err != nil {
		return readmodel.Page[Identity]{}, err
	}
	return readmodel.PageOf(found, limit, func(i *Identity) readmodel.Cursor { return readmodel.Cursor{At: i.CreatedAt, ID: i.ID} }), nil
}
