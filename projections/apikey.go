package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/domain/apikey"
	"ledgerline/events"
	"ledgerline/eventstore"
)

var apiKeysTable = &Table{Name: "api_keys", Key: []string{"id"}, Columns: []Column{
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
var Credentials = &Projection{
	ID: "credentials", Program: 1,
	Tables: []*Table{apiKeysTable, identitiesTable},
	Indexes: []string{
		`create index on @api_keys (workspace_id, created_at desc, id desc)`,
		`create index on @service_identities (workspace_id, created_at desc, id desc)`,
	},
	Wants: events.NamesOf((*events.APIKeyCreated)(nil), (*events.APIKeyRotated)(nil), (*events.APIKeyRevoked)(nil),
		(*events.IdentityCreated)(nil), (*events.IdentityUpdated)(nil), (*events.IdentityDisabled)(nil), (*events.IdentityEnabled)(nil)),
	Project: func(r *eventstore.Recorded, c *Changes) {
		switch e := r.Event.(type) {
		case *events.APIKeyCreated:
			c.Insert(apiKeysTable, apiKeyRow(r, e))
		case *events.APIKeyRotated:
			c.Update(apiKeysTable, Row{"id": e.KeyID, "prefix": e.Prefix})
		case *events.APIKeyRevoked:
			c.Update(apiKeysTable, Row{"id": e.KeyID, "revoked_at": stamp(r.OccurredAt)})
		default:
			projectIdentity(r, c)
		}
	},
}

func apiKeyRow(r *eventstore.Recorded, e *events.APIKeyCreated) Row {
	row := Row{
		"id": e.KeyID, "workspace_id": r.WorkspaceID, "identity_id": e.IdentityID, "name": e.Name, "env": e.Env, "scopes": e.Scopes,
		"prefix": e.Prefix, "expires_at": stampOrNull(e.ExpiresAt), "created_at": stamp(r.OccurredAt),
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
			ID: k.ID, Name: k.Name, Env: string(k.Env), Scopes: apikey.Names(k.Scopes), Prefix: k.Prefix,
			ExpiresAt: stampOrNull(k.ExpiresAt), LastUsedAt: stampOrNull(lastUsed), CreatedAt: stamp(k.CreatedAt),
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
	k.ExpiresAt, k.LastUsedAt, k.RevokedAt, k.CreatedAt = stampOrNull(expires), stampOrNull(used), stampOrNull(revoked), stamp(created)
	return k, err
}

// APIKey finds a key of the workspace; found is false when there is none.
func (s *Store) APIKey(ctx context.Context, v Viewer, id string) (k APIKey, found bool, err error) {
	return single(ctx, s, "API key", scanAPIKey, keysSQL+` where k.workspace_id = $1 and k.id = $2`, v.Workspace, id)
}

// APIKeys lists the keys of the workspace, newest first, those that have ended among them.
func (s *Store) APIKeys(ctx context.Context, v Viewer, after *Cursor, limit int) (Page[APIKey], error) {
	f := &filter{}
	f.add("k.workspace_id = %s", v.Workspace)
	if after != nil {
		f.add("(k.created_at, k.id) < (%s::timestamptz, "+f.arg(after.ID)+")", after.At)
	}
	found, err := list(ctx, s, "API keys", scanAPIKey, keysSQL+f.where()+` order by k.created_at desc, k.id desc limit `+f.arg(limit+1), f.args...)
	if err != nil {
		return Page[APIKey]{}, err
	}
	return page(found, limit, func(k *APIKey) Cursor { return Cursor{k.CreatedAt, k.ID} }), nil
}

// When a key was used last is kept beside the read models: it is no fact of the ledger, and no replay brings it back.
const (
	keyUsedSQL = `insert into api_key_uses (key_id, used_at) values ($1, $2)
		on conflict (key_id) do update set used_at = greatest(api_key_uses.used_at, excluded.used_at)`
	keyUseSQL = `select used_at from api_key_uses where key_id = $1`
)

// KeyUsed writes down that a key was used.
func (s *Store) KeyUsed(ctx context.Context, id string, at time.Time) error {
	if _, err := s.pool.Exec(ctx, keyUsedSQL, id, at); err != nil {
		return fmt.Errorf("projections: key used: %w", err)
	}
	return nil
}

// LastUse is when a key was used last; nil when it never was.
func (s *Store) LastUse(ctx context.Context, id string) (*time.Time, error) {
	at, found, err := single(ctx, s, "last use", pgx.RowTo[time.Time], keyUseSQL, id)
	if err != nil || !found {
		return nil, err
	}
	return &at, nil
}
