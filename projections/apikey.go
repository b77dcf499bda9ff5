package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/domain/apikey"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var apiKeysTable = &readmodel.Table{Name: "api_keys", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "identity_id", Type: "uuid"},
	{Name: "name", Type: "text not null"},
	{Name: "env", Type: "text not null"},
	{Name: "scopes", Type: "jsonb not null"},
	{Name: "prefix", Type: "text not null"},
	{Name: "ip_allowlist", Type: "jsonb"},
	{Name: "expires_at", Type: "timestamptz"},
	{Name: "revoked_at", Type: "timestamptz"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

// Credentials are the API keys and service identities as they are now, without anything that a secret could be found by.
var Credentials = &readmodel.Projection{
	ID: "credentials", Program: 1,
	Tables: []*readmodel.Table{apiKeysTable, identitiesTable},
	Indexes: []string{
		`create index on @api_keys (workspace_id, created_at desc, id desc)`,
		`create index on @service_identities (workspace_id, created_at desc, id desc)`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.APIKeyCreated, r *eventstore.Recorded) {
			c.Insert(apiKeysTable, apiKeyRow(r, e))
		}),
		feed.On(func(c *readmodel.Changes, e *events.APIKeyRotated, _ *eventstore.Recorded) {
			c.Update(apiKeysTable, readmodel.Row{"id": e.KeyID, "prefix": e.Prefix})
		}),
		feed.On(func(c *readmodel.Changes, e *events.APIKeyRevoked, r *eventstore.Recorded) {
			c.Update(apiKeysTable, readmodel.Row{"id": e.KeyID, "revoked_at": readmodel.Stamp(r.OccurredAt)})
		}),
		feed.On(identityCreated), feed.On(identityUpdated), feed.On(identityDisabled), feed.On(identityEnabled),
	),
}

func apiKeyRow(r *eventstore.Recorded, e *events.APIKeyCreated) readmodel.Row {
	row := readmodel.Row{
		"id": e.KeyID, "workspace_id": r.WorkspaceID, "identity_id": e.IdentityID, "name": e.Name, "env": e.Env, "scopes": e.Scopes,
		"prefix": e.Prefix, "expires_at": readmodel.StampOrNull(e.ExpiresAt), "created_at": readmodel.Stamp(r.OccurredAt),
	}
	if len(e.IPAllowlist) > 0 {
		row["ip_allowlist"] = e.IPAllowlist
	}
	return row
}

// APIKey is a key as the API shows it (administration 2.1). The scopes of an identity's token are the identity's.
type APIKey struct {
	ID          string   `json:"id" doc:"key_ id"`
	Name        string   `json:"name"`
	Env         string   `json:"env" enum:"live,test"`
	Scopes      []string `json:"scopes" enum:"read,send,admin" nullable:"false"`
	Prefix      string   `json:"prefix" maxLength:"8" doc:"The public part of the secret"`
	IPAllowlist []string `json:"ip_allowlist" nullable:"true" doc:"null: from everywhere"`
	ExpiresAt   *string  `json:"expires_at" format:"date-time"`
	LastUsedAt  *string  `json:"last_used_at" format:"date-time" doc:"True to the minute"`
	RevokedAt   *string  `json:"revoked_at" format:"date-time"`
	CreatedAt   string   `json:"created_at" format:"date-time"`
}

// APIKeyWithSecret is a key that was just made or renewed.
type APIKeyWithSecret struct {
	APIKey
	Secret string `json:"secret" doc:"Shown this once; only its hash is stored"`
}

// NewAPIKey is a key as the command that made or renewed it knows it: what the projection makes of its events.
func NewAPIKey(k *apikey.Key, secret string, lastUsed *time.Time) APIKeyWithSecret {
	shown := APIKeyWithSecret{
		APIKey: APIKey{
			ID: k.ID, Name: k.Name, Env: string(k.Env), Scopes: apikey.ScopeNames(k.Scopes), Prefix: k.Prefix,
			ExpiresAt: readmodel.StampOrNull(k.ExpiresAt), LastUsedAt: readmodel.StampOrNull(lastUsed), CreatedAt: readmodel.Stamp(k.CreatedAt),
		},
		Secret: secret,
	}
	if len(k.IPAllowlist) > 0 {
		shown.IPAllowlist = k.IPAllowlist
	}
	return shown
}

const keysSQL = `select k.id, k.name, k.env, coalesce(i.scopes, k.scopes), k.prefix, k.ip_allowlist, k.expires_at, u.used_at, k.revoked_at, k.created_at
	from read.api_keys k left join read.service_identities i on i.id = k.identity_id left join api_key_uses u on u.key_id = k.id`

func scanAPIKey(row pgx.CollectableRow) (APIKey, error) {
	var k APIKey
	var expires, used, revoked *time.Time
	var created time.Time
	err := row.Scan(&k.ID, &k.Name, &k.Env, &k.Scopes, &k.Prefix, &k.IPAllowlist, &expires, &used, &revoked, &created)
	k.ExpiresAt, k.LastUsedAt, k.RevokedAt, k.CreatedAt = readmodel.StampOrNull(expires), readmodel.StampOrNull(used), readmodel.StampOrNull(revoked), readmodel.Stamp(created)
	return k, err
}

// APIKey finds a key of the workspace; found is false when there is none.
func (s *Store) APIKey(ctx context.Context, v Viewer, id string) (k APIKey, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "API key", scanAPIKey, keysSQL+` where k.workspace_id = $1 and k.id = $2`, v.Workspace, id)
}

// APIKeys lists the keys of the workspace, newest first, those that have ended among them.
func (s *Store) APIKeys(ctx context.Context, v Viewer, after *readmodel.Cursor, limit int) (readmodel.Page[APIKey], error) {
	f := &readmodel.Filter{}
	f.Add("k.workspace_id = %s", v.Workspace)
	if after != nil {
		f.Add("(k.created_at, k.id) < (%s::timestamptz, "+f.Arg(after.ID)+")", after.At)
	}
	found, err := readmodel.List(ctx, s.Reader, "API keys", scanAPIKey, keysSQL+f.Where()+` order by k.created_at desc, k.id desc limit `+f.Arg(limit+1), f.Args...)
	if err != nil {
		return readmodel.Page[APIKey]{}, err
	}
	return readmodel.PageOf(found, limit, func(k *APIKey) readmodel.Cursor { return readmodel.Cursor{At: k.CreatedAt, ID: k.ID} }), nil
}

// When a key was used last is kept beside the read models: it is no fact of the ledger, and no replay brings it back.
const (
	keyUsedSQL = `insert into api_key_uses (key_id, used_at) values ($1, $2)
		on conflict (key_id) do update set used_at = greatest(api_key_uses.used_at, excluded.used_at)`
	keyUseSQL = `select used_at from api_key_uses where key_id = $1`
)

// KeyUsed writes down that a key was used.
func (s *Store) KeyUsed(ctx context.Context, id string, at time.Time) error {
	if _, err := s.DB().Exec(ctx, keyUsedSQL, id, at); err != nil {
		return fmt.Errorf("projections: key used: %w", err)
	}
	return nil
}

// LastUse is when a key was used last; nil when it never was.
func (s *Store) LastUse(ctx context.Context, id string) (*time.Time, error) {
	at, found, err := readmodel.One(ctx, s.Reader, "last use", pgx.RowTo[time.Time], keyUseSQL, id)
	if err != nil || !found {
		return nil, err
	}
	return &at, nil
}
