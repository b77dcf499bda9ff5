package httpapi

import (
	"github.com/google/uuid"

	"ledgerline/domain/fault"
)

// Permission is one thing that a role may do.
type Permission uint32

// The permissions. What is said about rows that an agent may not see is not decided here: see Caller.OwnOnly.
const (
	PermContactsRead  Permission = 1 << iota // contacts, labels, segments; export
	PermContacts                             // change contacts, labels, segments; import
	PermOptOut                               // record an opt-out of a contact that the caller can see
	PermInboxRead                            // conversations, messages, notes, saved replies
	PermInbox                                // reply, note, take and close conversations
	PermInboxFull                            // team, labels and handler of any conversation; saved replies
	PermSending                              // new messages, lookups, outreach
	PermLinesRead                            // lines, pools, line requests
	PermLines                                // change them
	PermWorkflowsRead                        // workflows, runs, agents
	PermWorkflows                            // change them
	PermAnalytics                            // every report; agents see their own part of some
	PermAnalyticsOwn
	PermAudit      // consent events and the audit log
	PermDeveloper  // keys, identities, webhooks, SMS connections
	PermCompliance // the organisation's sending rules
	PermBilling
	PermPersonal // the caller's own settings
	permEnd
)

const permAll = permEnd - 1

func (p Permission) has(wanted Permission) bool { return p&wanted != 0 }

// rolePermissions is decisions section 2, line by line.
var rolePermissions = map[Role]Permission{
	RoleOwner: permAll,
	RoleAdmin: permAll,
	RoleManager: PermContactsRead | PermContacts | PermOptOut | PermInboxRead | PermInbox | PermInboxFull | PermSending |
		PermLinesRead | PermLines | PermWorkflowsRead | PermWorkflows | PermAnalytics | PermAnalyticsOwn | PermAudit | PermPersonal,
	RoleDeveloper: PermDeveloper | PermWorkflowsRead | PermWorkflows | PermLinesRead | PermLines | PermContactsRead | PermInboxRead | PermPersonal,
	RoleAnalyst:   PermContactsRead | PermInboxRead | PermLinesRead | PermWorkflowsRead | PermAnalytics | PermAnalyticsOwn | PermAudit | PermPersonal,
	RoleBilling:   PermBilling | PermPersonal,
	RoleAgent:     PermContactsRead | PermOptOut | PermInboxRead | PermInbox | PermAnalyticsOwn | PermPersonal,
}

// Access says who may call a route. Of Keys and Roles one that the caller has is enough; an empty side lets nobody of
// that side in, so a route without Keys is for signed-in users only. The zero Access lets nobody in.
type Access struct {
	Keys  []Scope    // API keys and identities with any of these scopes
	Roles Permission // sessions whose role has any of these permissions: PermInbox | PermInboxFull
	// NoTestKeys refuses test-mode keys, because what the route does is live (interface, section 5 rule 8).
	NoTestKeys bool
	// AnyWorkspace lets a session with several workspaces in without choosing one, whatever its roles there: the caller then
	// has no workspace and no role.
	AnyWorkspace bool
}

// admit returns nil or fault forbidden.
func (a Access) admit(c *Caller) error {
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

// scopePermissions says what a role needs to have before its sessions may give a scope away: all that a key with the scope
// could do. Reports are left out of read, since they count nothing that its other reads do not show.
var scopePermissions = map[Scope]Permission{
	ScopeRead:  PermContactsRead | PermInboxRead | PermLinesRead | PermWorkflowsRead,
	ScopeSend:  PermSending | PermInbox,
	ScopeAdmin: PermContacts | PermInboxFull | PermLines | PermWorkflows | PermDeveloper | PermCompliance,
}

// Grants are the scopes that the caller may give to a credential: those of its key; for a session, those that its role
// covers whole (decisions, section 2).
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
