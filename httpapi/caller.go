package httpapi

import (
	"context"
	"errors"
	"net/netip"

	"github.com/google/uuid"
)

// CallerKind is what a token turned out to be (interface, section 5).
type CallerKind string

// The kinds of caller.
const (
	KindKey      CallerKind = "key"
	KindIdentity CallerKind = "identity"
	KindSession  CallerKind = "session"
)

// Scope is what an API key was made for. Admin does not include read (interface, section 5 rule 3).
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"
	ScopeSend  Scope = "send"
	ScopeAdmin Scope = "admin"
)

// Role is what a signed-in user may do in a workspace. It comes from the database, never from a token's claims.
type Role string

// The roles (interface, section 5 rule 7).
const (
	RoleOwner     Role = "owner"
	RoleAdmin     Role = "admin"
	RoleBilling   Role = "billing"
	RoleManager   Role = "manager"
	RoleAgent     Role = "agent"
	RoleDeveloper Role = "developer"
	RoleAnalyst   Role = "analyst"
)

// Credentials are what a request shows of its caller.
type Credentials struct {
	Token string
	// WorkspaceHeader is x-workspace-id: a UUID, or "" when it was not sent.
	WorkspaceHeader string
	// AnyWorkspace lets a session that has to choose a workspace do without: its caller has none, and no role.
	AnyWorkspace bool
	IP           netip.Addr
	// Fresh asks for what holds at this moment. Without it the answer may be a moment old: a write leans on the
	// caller's Guards, and is refused with ErrStaleCaller when they do not hold any more.
	Fresh bool
}

// ErrCredentialChanged is what a write returns, wrapped, when nothing was written because the caller's Guards do not hold.
// The request is then authenticated afresh and run once more.
var ErrCredentialChanged = errors.New("the caller's credential has changed")

// Authenticator finds out who a token belongs to. It returns fault unauthorized for a token that is not good, forbidden
// for a good one that may not come from this address or into this workspace, and bad_request when a session has to
// choose a workspace and did not. It fills every field of Caller except IP, UserAgent and RequestID.
type Authenticator interface {
	Authenticate(ctx context.Context, credentials Credentials) (Caller, error)
}

// Guard is a version that the caller's credential had when it was checked. Write commands lean on it, so that a key
// that is revoked meanwhile writes nothing more. It is opaque here.
type Guard struct {
	Stream  string
	Version int
}

// Caller is who makes a request.
type Caller struct {
	Kind CallerKind
	// ID is the key id, the identity id or the user's uuid.
	ID string
	// RateLimitKey names the rate-limit bucket: the id of the key; for a session, of the user in the workspace.
	RateLimitKey   string
	OrganisationID uuid.UUID
	WorkspaceID    uuid.UUID
	// Test marks a test-mode key.
	Test      bool
	Scopes    []Scope // of keys and identities
	Role      Role    // of sessions; empty for keys
	Guards    []Guard
	OrgPaused bool

	IP        netip.Addr
	UserAgent string // printable, at most 255 characters
	RequestID string
}

// Has reports whether a key or identity carries the scope. A session never does.
func (c *Caller) Has(scope Scope) bool {
	for _, have := range c.Scopes {
		if have == scope {
			return true
		}
	}
	return false
}

// Can reports whether a session's role carries the permission. A key never does.
func (c *Caller) Can(permission Permission) bool {
	return c.Kind == KindSession && rolePermissions[c.Role].has(permission)
}

// OwnOnly reports whether the caller sees only its own and unassigned conversations and the contacts that go with them
// (interface, sections 4.1 rule 3 and 4.3 rule 1).
func (c *Caller) OwnOnly() bool { return c.Role == RoleAgent }

// Call is one request as an endpoint sees it: who asks and, for a write with an idempotency key, under which receipt.
type Call struct {
	Caller
	// Idempotency is nil without an idempotency key, and always in reads. A command that gets one appends a receipt for it
	// together with its events.
	Idempotency *Idempotency
}
