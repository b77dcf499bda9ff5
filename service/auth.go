package service

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
)

// authenticator implements auth.Authenticator. It finds callers in the ledger and not in a read model, so every node
// refuses the next request with a key that was revoked.
type authenticator struct {
	app      *commands.App
	sessions *auth.SessionVerifier // nil without session tokens
	uses     *uses

	mu      sync.Mutex
	checked map[string]time.Time // when a credential was last checked at the head of the ledger, in real time
}

// cacheLife is how long a write may be checked with a cached credential. The append of the write is guarded by the
// versions of that credential and fails if it has changed. So cacheLife only bounds how long a revoked key still gets
// other errors than 401.
const cacheLife = time.Second

func newAuthenticator(app *commands.App, store *projections.Store, sessions auth.SessionConfig, c clock.Clock) (*authenticator, error) {
	a := &authenticator{app: app, uses: newUses(store, c), checked: map[string]time.Time{}}
	if sessions.Issuer != "" {
		sessions.Clock = c
		v, err := auth.NewSessionVerifier(sessions)
		if err != nil {
			return nil, err
		}
		a.sessions = v
	}
	return a, nil
}

// Identify implements auth.Authenticator.
func (a *authenticator) Identify(ctx context.Context, c auth.Credentials) (auth.Identity, error) {
	if c.InPath {
		id, err := a.app.CheckTriggerToken(c.Token)
		name := "trigger/" + id.String()
		return auth.Identity{Key: name, Base: name, Workflow: id}, err
	}
	if strings.HasPrefix(c.Token, "ll_") {
		if err := a.app.CheckSecret(c.Token); err != nil {
			return auth.Identity{}, err
		}
		name := "key/" + apikey.Hash(c.Token)
		return auth.Identity{Key: name, Base: name}, nil
	}
	if a.sessions == nil {
		return auth.Identity{}, fault.New(fault.Unauthorized, "The token is not known.")
	}
	session, err := a.sessions.Verify(ctx, c.Token)
	if err != nil {
		return auth.Identity{}, err
	}
	base := "user/" + session.User.String()
	return auth.Identity{Key: base + "/" + c.WorkspaceHeader, Base: base, Session: session}, nil
}

// Authenticate implements auth.Authenticator.
func (a *authenticator) Authenticate(ctx context.Context, c auth.Credentials) (auth.Caller, error) {
	if c.InPath {
		return a.trigger(ctx, c.Identity.Workflow, c.Fresh)
	}
	if c.Identity.Session.User == uuid.Nil {
		return a.key(ctx, c)
	}
	return a.user(ctx, c, c.Identity.Session)
}

// mustCheck reports whether a credential has to be checked at the head of the ledger now: always when the request
// demands it.
func (a *authenticator) mustCheck(name string, demanded bool) bool {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !demanded && now.Sub(a.checked[name]) < cacheLife {
		return false
	}
	if len(a.checked) > 100_000 { // bounds the memory; those in use are back within a second
		clear(a.checked)
	}
	a.checked[name] = now
	return true
}

func (a *authenticator) key(ctx context.Context, c auth.Credentials) (auth.Caller, error) {
	access, err := a.app.FindKeyAccess(ctx, c.Token, a.mustCheck(apikey.Hash(c.Token), c.Fresh))
	if err != nil {
		return auth.Caller{}, err
	}
	k := access.Key
	if !k.AllowsIP(c.IP.String()) {
		return auth.Caller{}, fault.New(fault.Forbidden, "This key may not be used from this address.")
	}
	if c.WorkspaceHeader != "" && !strings.EqualFold(c.WorkspaceHeader, k.Workspace.String()) {
		return auth.Caller{}, fault.New(fault.Forbidden, "The key belongs to another workspace.")
	}
	caller := auth.Caller{
		Kind: auth.KindKey, ID: k.ID, OrganisationID: k.Organisation, WorkspaceID: k.Workspace,
		Test: k.Env == apikey.Test, OrgPaused: access.Organisation.Paused, Guards: guards(access),
		IPAllowlist: k.IPAllowlist, ExpiresAt: k.ExpiresAt,
	}
	if access.Identity != nil {
		caller.Kind, caller.ID = auth.KindIdentity, access.Identity.ID.String()
	}
	for _, s := range k.Scopes {
		caller.Scopes = append(caller.Scopes, auth.Scope(s))
	}
	a.uses.record(ctx, k.ID)
	return caller, nil
}

func (a *authenticator) user(ctx context.Context, c auth.Credentials, session auth.Session) (auth.Caller, error) {
	id := session.User
	access, err := a.app.FindUserAccess(ctx, id, a.mustCheck(id.String(), c.Fresh))
	if err != nil {
		return auth.Caller{}, err
	}
	if !access.User.AcceptsSession(session.IssuedAt) {
		return auth.Caller{}, fault.New(fault.Unauthorized, "The session was ended. Sign in again.")
	}
	workspace, err := workspaceOf(access, c.WorkspaceHeader)
	if c.AnyWorkspace && c.WorkspaceHeader == "" && len(access.User.Roles) > 1 {
		workspace, err = uuid.Nil, nil
	}
	if err != nil {
		return auth.Caller{}, err
	}
	return auth.Caller{
		Kind: auth.KindSession, ID: id.String(), OrganisationID: access.User.Organisation, WorkspaceID: workspace, Role: auth.Role(access.User.Roles[workspace]),
		OrgPaused: access.Organisation.Paused, Guards: guards(access),
	}, nil
}

func (a *authenticator) trigger(ctx context.Context, id uuid.UUID, fresh bool) (auth.Caller, error) {
	access, err := a.app.FindTriggerAccess(ctx, id, a.mustCheck(id.String(), fresh))
	if err != nil {
		return auth.Caller{}, err
	}
	return auth.Caller{
		Kind: auth.KindTrigger, ID: id.String(), OrganisationID: access.Organisation.ID, WorkspaceID: access.Workflow.Workspace,
		OrgPaused: access.Organisation.Paused, Guards: guards(access),
	}, nil
}

// workspaceOf is the workspace of a session: the one that the request names, or the only one of the user.
func workspaceOf(access commands.Access, named string) (uuid.UUID, error) {
	if named != "" {
		id, err := uuid.Parse(named)
		if err != nil || !access.User.MemberOf(id) {
			return uuid.Nil, fault.New(fault.Forbidden, "You have no access to this workspace.")
		}
		return id, nil
	}
	switch len(access.User.Roles) {
	case 0:
		return uuid.Nil, fault.New(fault.Forbidden, "You are not a member of any workspace.")
	case 1:
		for id := range access.User.Roles {
			return id, nil
		}
	}
	return uuid.Nil, &fault.Fault{Code: fault.BadRequest, Message: "You are a member of several workspaces: choose one with x-workspace-id.", Issues: []fault.Issue{{
		Location: "header", Path: "/x-workspace-id", Code: "required", Message: "Name the workspace.",
	}}}
}

func guards(access commands.Access) []auth.Guard {
	list := make([]auth.Guard, len(access.Guards))
	for i, g := range access.Guards {
		list[i] = auth.Guard(g)
	}
	return list
}
