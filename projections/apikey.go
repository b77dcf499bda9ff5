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

// APIKey is an API key as the API shows it, and defines the columns of its table: see readmodel.TableOf. The token of a
// service identity is an API key with the scopes of the identity.
type APIKey struct {
	ID          string   `json:"id" doc:"key_ id" sql:"text collate \"C\" not null"`
	Name        string   `json:"name" sql:"text not null"`
	Env         string   `json:"env" enum:"live,test" sql:"text not null"`
	Scopes      []string `json:"scopes" enum:"read,send,admin" nullable:"false" sql:"jsonb not null"`
	Prefix      string   `json:"prefix" maxLength:"8" doc:"The public part of the secret" sql:"text not null"`
	IPAllowlist []string `json:"ip_allowlist" nullable:"true" doc:"null: from everywhere" sql:"jsonb"`
	ExpiresAt   *string  `json:"expires_at" format:"date-time" sql:"timestamptz"`
	LastUsedAt  *string  `json:"last_used_at" format:"date-time" doc:"True to the minute"`
	RevokedAt   *string  `json:"revoked_at" format:"date-time" sql:"timestamptz"`
	CreatedAt   string   `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

var apiKeysTable = readmodel.TableOf[APIKey]("api_keys", []string{"id"},
	readmodel.Column{Name: "workspace_id", Type: "uuid not null"},
	readmodel.Column{Name: "identity_id", Type: "uuid"},
)

// Credentials are the API keys and service identities as they are now. They contain nothing from which a secret could
// be derived.
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

// APIKeyWithSecret is a key that was just created or rotated.
type APIKeyWithSecret struct {
	APIKey
	Secret string `json:"secret" doc:"Shown this once; only its hash is stored"`
}

// NewAPIKey is a key that a command created or rotated, as the read model will show it.
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

var (
	apiKeyFields = readmodel.Select[APIKey](apiKeysTable, "k", map[string]string{"scopes": "coalesce(i.scopes, k.scopes)", "last_used_at": "u.used_at"})
	apiKeySQL    = `select ` + apiKeyFields.SQL + ` from read.api_keys k
		left join read.service_identities i on i.id = k.identity_id left join api_key_uses u on u.key_id = k.id`
)

// APIKey finds a key of the workspace; found is false when there is none.
func (s *Store) APIKey(ctx context.Context, v Viewer, id string) (k APIKey, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "API key", apiKeyFields.Scan, apiKeySQL+` where k.workspace_id = $1 and k.id = $2`, v.Workspace, id)
}

// APIKeys lists the keys of the workspace, newest first. Expired and revoked keys are in the list.
func (s *Store) APIKeys(ctx context.Context, v Viewer, after *readmodel.Cursor, limit int) (readmodel.Page[APIKey], error) {
	f := &readmodel.Filter{}
	f.Add("k.workspace_id = %s", v.Workspace)
	f.After(after, "k.created_at", "k.id", "text")
	key := func(k *APIKey) readmodel.Cursor { return readmodel.Cursor{At: k.CreatedAt, ID: k.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "API keys", limit, apiKeyFields.Scan, key,
		apiKeySQL+f.Where()+` order by k.created_at desc, k.id desc limit `+f.Arg(limit+1), f.Args...)
}

// api_key_uses is no read model: the last use of a key is no event, so a replay could not restore it.
const (
	keyUsedSQL = `insert into api_key_uses (key_id, used_at) values ($1, $2)
		on conflict (key_id) do update set used_at = greatest(api_key_uses.used_at, excluded.used_at)`
	keyUseSQL = `select used_at from api_key_uses where key_id = $1`
)

// RecordKeyUse records that a key was used.
func (s *Store) RecordKeyUse(ctx context.Context, id string, at time.Time) error {
	if _, err := s.DB(ctx).Exec(ctx, keyUsedSQL, id, at); err != nil {
		return fmt.Errorf("projections: key used: %w", err)
	}
	return nil
}

// LastUse is the last recorded use of a key; nil when it was never used.
func (s *Store) LastUse(ctx context.Context, id string) (*time.Time, error) {
	at, found, err := readmodel.One(ctx, s.Reader, "last use", pgx.RowTo[time.Time], keyUseSQL, id)
	if err != nil || !found {
		return nil, err
	}
	return &at, nil
}
