package auth

import (
	"github.com/google/uuid"

	"ledgerline/domain/fault"
)

// Permission is a set of things that a role may do.
type Permission uint32

// The permissions. They say nothing about single rows: which conversations an agent sees is decided by Caller.OwnOnly.
const (
	PermContactsRead  Permission = 1 << iota // contacts, labels, segments; export
	PermContacts                             // change contacts, labels, segments; import
	PermOptOut                               // record an opt-out of a contact that the caller can see
	PermInboxRead                            // conversations, messages, notes, saved replies
	PermInbox                                // reply, note, take and close conversations
	PermInboxFull                            // team, labels and handler of any conversation; saved replies
	PermSending                              // new messages, lookups, outreach
	PermLinesRead                            // lines, pools, line requests
	PermLines                                // change lines and pools, request lines
	PermWorkflowsRead                        // workflows, runs, agents; outreach
	PermWorkflows                            // change workflows and agents
	PermAnalytics                            // every report
	PermAnalyticsOwn                         // the part of some reports that is about the caller
	PermAudit                                // consent events and the audit log
	PermDeveloper                            // keys, identities, webhooks, SMS connections
	PermCompliance                           // the organisation's sending rules
	PermBilling                              // plan, invoices, payment
	PermPersonal                             // the caller's own settings
	permEnd
)

const permAll = permEnd - 1

func (p Permission) hasAny(wanted Permission) bool { return p&wanted != 0 }

// rolePermissions are the permissions of each role. An unknown role has none.
var rolePermissions = map[Role]Permission{
	RoleOwner: permAll,
	RoleAdmin: permAll,
	RoleManager: PermContactsRead | PermContacts | PermOptOut | PermInboxRead | PermInbox | PermInboxFull | PermSending |
		PermLinesRead | PermLines | PermWorkflowsRead | PermWorkflows | PermAnalytics | PermAnalyticsOwn | PermAudit |
		PermPersonal,
	RoleDeveloper: PermDeveloper | PermWorkflowsRead | PermWorkflows | PermLinesRead | PermLines | PermContactsRead |
		PermInboxRead | PermPersonal,
	RoleAnalyst: PermContactsRead | PermInboxRead | PermLinesRead | PermWorkflowsRead | PermAnalytics | PermAnalyticsOwn |
		PermAudit | PermPersonal,
	RoleBilling: PermBilling | PermPersonal,
	RoleAgent: PermContactsRead | PermOptOut | PermInboxRead | PermInbox | PermWorkflowsRead | PermAnalyticsOwn |
		PermPersonal,
}

// RolesWith lists the roles that have any of the permissions, in the order in which the documentation shows them.
func RolesWith(permissions Permission) []Role {
	var roles []Role
	for _, role := range []Role{
		RoleOwner, RoleAdmin, RoleManager, RoleDeveloper, RoleAnalyst, RoleBilling, RoleAgent,
	} {
		if rolePermissions[role].hasAny(permissions) {
			roles = append(roles, role)
		}
	}
	return roles
}

// Access says who may call a route. A key needs one of the scopes in Keys, a session a role with one of the permissions
// in Roles. A route without Keys is for signed-in users only, a route without Roles for keys only. The zero Access
// admits nobody.
type Access struct {
	Keys  []Scope    // API keys and identities with any of these scopes
	Roles Permission // sessions whose role has any of these permissions: PermInbox | PermInboxFull
	// NoTestKeys refuses test-mode keys, because the route acts on live data.
	NoTestKeys bool
	// AnyWorkspace admits a session of a user with several workspaces that chose none, whatever the user's roles. The
	// caller then has neither a workspace nor a role.
	AnyWorkspace bool
	// PathToken admits who has the token of a webhook trigger in the path parameter {token}, and nobody else. No other
	// credential is read.
	PathToken bool
}

// Admit returns nil when the caller may call the route, else fault forbidden.
func (a Access) Admit(c *Caller) error {
	if c.Kind == KindTrigger && a.PathToken {
		return nil
	}
	if c.Kind == KindSession {
		if a.AnyWorkspace && c.WorkspaceID == uuid.Nil {
			return nil
		}
		if !c.Can(a.Roles) {
			return fault.New(fault.Forbidden, "Your role does not allow this.")
		}
		return nil
	}
	if len(a.Keys) == 0 {
		return fault.New(fault.Forbidden, "This is for signed-in users only.")
	}
	if a.NoTestKeys && c.Test {
		return fault.New(fault.Forbidden, "This is not available to test keys.")
	}
	for _, scope := range a.Keys {
		if c.Has(scope) {
			return nil
		}
	}
	return fault.New(fault.Forbidden, "The scopes of this key do not cover this.")
}

// scopePermissions are the permissions that a role needs before its sessions may grant a scope: everything that a key
// with the scope can do. The scope read does not require PermAnalytics: whoever reads all rows can count them.
var scopePermissions = map[Scope]Permission{
	ScopeRead:  PermContactsRead | PermInboxRead | PermLinesRead | PermWorkflowsRead,
	ScopeSend:  PermSending | PermInbox,
	ScopeAdmin: PermContacts | PermInboxFull | PermLines | PermWorkflows | PermDeveloper | PermCompliance,
}

// Grants lists the scopes that the caller may give to a credential: a key grants its own scopes, a session grants the
// scopes whose permissions its role has completely.
func (c *Caller) Grants() []Scope {
	if c.Kind != KindSession {
		return c.Scopes
	}
	var scopes []Scope
	for _, scope := range []Scope{ScopeRead, ScopeSend, ScopeAdmin} {
		if needed := scopePermissions[scope]; rolePermissions[c.Role]&needed == needed {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}
