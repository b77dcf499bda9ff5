package auth

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/google/uuid"
)

// CallerKind is the kind of a caller's credential.
type CallerKind string

// The kinds of caller.
const (
	KindKey      CallerKind = "key"      // an API key
	KindIdentity CallerKind = "identity" // the token of a service identity, which is an API key linked to it
	KindSession  CallerKind = "session"  // the session token of a signed-in user
	KindTrigger  CallerKind = "trigger"  // the token of a workflow's webhook trigger, in the path of the request
)

// Scope is what an API key may be used for. A scope includes no other: admin does not include read.
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"
	ScopeSend  Scope = "send"
	ScopeAdmin Scope = "admin"
)

// Role is what a signed-in user may do in a workspace. It comes from the ledger, never from a token's claims.
type Role string

// The roles.
const (
	RoleOwner     Role = "owner"
	RoleAdmin     Role = "admin"
	RoleBilling   Role = "billing"
	RoleManager   Role = "manager"
	RoleAgent     Role = "agent"
	RoleDeveloper Role = "developer"
	RoleAnalyst   Role = "analyst"
)

// Credentials are the parts of a request that identify its caller.
type Credentials struct {
	Token string
	// InPath says that the token was in the path and not in the header: only the token of a webhook trigger may be.
	InPath bool
	// WorkspaceHeader is the x-workspace-id header: a UUID, or "" when it was not sent.
	WorkspaceHeader string
	// AnyWorkspace accepts a session of a user with several workspaces that chose none. Its caller then has neither a
	// workspace nor a role.
	AnyWorkspace bool
	IP           netip.Addr
	// Identity is what Identify has found; Authenticate needs it.
	Identity Identity
	// Fresh requires the state at the head of the ledger. Without it the Authenticator may answer from a cache that is
	// about a second old: a write then passes the caller's Guards to its append, which fails with ErrCredentialChanged
	// when the cached state is outdated.
	Fresh bool
}

// Identity is what a token says about itself. Whether its key or user exists is not known yet.
type Identity struct {
	// Key names the caller's rate-limit buckets: the hash of an API key; of a session, user and requested workspace.
	Key string
	// Base is Key without what the client can make up, such as the workspace of a session.
	Base string
	// Session is zero for a key.
	Session Session
	// Workflow is the workflow of a webhook trigger's token.
	Workflow uuid.UUID
}

// ErrCredentialChanged is what a write returns, wrapped, when nothing was written because one of the caller's Guards
// failed. The API then authenticates the request with Fresh and runs the write once more.
var ErrCredentialChanged = errors.New("the caller's credential has changed")

// Authenticator finds the caller that a token belongs to. It is safe for concurrent use.
type Authenticator interface {
	// Identify checks a token without asking the database, so that requests can be counted before they cost a query. It
	// returns fault unauthorized for a token that was forged or has expired, and not_found for one in the path.
	Identify(ctx context.Context, credentials Credentials) (Identity, error)
	// Authenticate finds the caller of credentials with an Identity. It returns fault unauthorized for an invalid token,
	// forbidden for a valid one that may not be used from this address or in this workspace, and bad_request when the
	// user of a session has several workspaces and chose none. A token in the path that is no trigger's is not_found. It
	// fills every field of Caller except IP, UserAgent and
	// RequestID.
	Authenticate(ctx context.Context, credentials Credentials) (Caller, error)
}

// Guard is the version of a ledger stream (key, user, organisation) that authentication was based on. A write command
// passes it to its append as a precondition, so that a key that was revoked meanwhile writes nothing.
type Guard struct {
	Stream  string
	Version int
}

// Caller is who makes a request, after authentication.
type Caller struct {
	Kind CallerKind
	// ID is the id of the API key, the service identity, the user or, of a trigger, the workflow.
	ID             string
	OrganisationID uuid.UUID
	WorkspaceID    uuid.UUID
	// Test marks a test-mode key.
	Test   bool
	Scopes []Scope // of keys and identities; empty for sessions
	Role   Role    // of sessions; empty for keys
	// IPAllowlist and ExpiresAt are the limits of a key or identity token; empty and nil for none, and for sessions.
	IPAllowlist []string
	ExpiresAt   *time.Time
	Guards      []Guard
	OrgPaused   bool // the organisation is paused: writes are refused

	IP        netip.Addr
	UserAgent string // printable, at most 255 characters
	RequestID string
}

// Actor names the caller among all callers of its workspace, whatever secret or token it uses.
func (c *Caller) Actor() string { return string(c.Kind) + ":" + c.ID }

// KeyScope is what the caller's idempotency keys belong to: its workspace, or, of a trigger, its workflow (rules API-14
// and WFL-32).
func (c *Caller) KeyScope() uuid.UUID {
	if c.Kind == KindTrigger {
		return uuid.MustParse(c.ID)
	}
	return c.WorkspaceID
}

// Has reports whether the caller is a key or identity with the scope. A session has no scopes.
func (c *Caller) Has(scope Scope) bool {
	for _, have := range c.Scopes {
		if have == scope {
			return true
		}
	}
	return false
}

// Can reports whether the caller is a session whose role includes any of the permissions. A key has no role.
func (c *Caller) Can(permissions Permission) bool {
	return c.Kind == KindSession && rolePermissions[c.Role].hasAny(permissions)
}

// OwnOnly reports whether the caller sees only the conversations that are assigned to it or to nobody, and their
// contacts. That holds for the role agent.
func (c *Caller) OwnOnly() bool { return c.Role == RoleAgent }
