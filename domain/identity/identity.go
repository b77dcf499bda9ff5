// Package identity holds service identities: programs that act for a workspace, with scopes, allowed lines and a
// daily limit (rules ACC-24 to ACC-27). The token of an identity is an API key; scopes and status of the identity
// count in place of the key's own.
package identity

import (
	"slices"

	"github.com/google/uuid"

	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Kind is what an identity is for.
type Kind string

// The kinds. An ai_agent is created and changed together with its agent only.
const (
	MCPClient Kind = "mcp_client"
	AIAgent   Kind = "ai_agent"
)

// The limits of rules ACC-25 and ACC-26.
const (
	maxLines      = 500
	maxDailyLimit = 100_000
)

// Identity is the state of one service identity. The zero value does not exist.
type Identity struct {
	ID             uuid.UUID
	Organisation   uuid.UUID
	Workspace      uuid.UUID
	Name           string
	Kind           Kind
	Env            apikey.Env // "" without a token
	Scopes         []apikey.Scope
	KeyID          string   // of its token; "" without one
	AllowedLineIDs []string // empty: every line
	DailyLimit     *int64   // messages per usage day; nil: no limit
	Disabled       bool
}

// Stream returns the name of the stream of an identity.
func Stream(id uuid.UUID) string { return events.Stream("idn", id) }

// Apply returns the state after one event of the identity's stream.
func (i Identity) Apply(event events.Event, in events.Envelope) Identity {
	switch e := event.(type) {
	case *events.IdentityCreated:
		return Identity{
			ID: e.IdentityID, Organisation: in.Organisation, Workspace: in.Workspace, Name: e.Name, Kind: Kind(e.Kind), Env: apikey.Env(e.Env),
			Scopes: scopesOf(e.Scopes), KeyID: e.KeyID, AllowedLineIDs: e.AllowedLineIDs, DailyLimit: e.DailyLimit,
		}
	case *events.IdentityUpdated:
		i.Name, i.Scopes, i.AllowedLineIDs, i.DailyLimit = e.Name, scopesOf(e.Scopes), e.AllowedLineIDs, e.DailyLimit
	case *events.IdentityDisabled:
		i.Disabled = true
	case *events.IdentityEnabled:
		i.Disabled = false
	}
	return i
}

func scopesOf(names []string) []apikey.Scope {
	scopes := make([]apikey.Scope, len(names))
	for i, n := range names {
		scopes[i] = apikey.Scope(n)
	}
	return scopes
}

// Exists reports whether the identity was created.
func (i Identity) Exists() bool { return i.ID != uuid.Nil }

// MaySendFrom reports whether the identity may send from a line (rule ACC-25).
func (i Identity) MaySendFrom(lineID string) bool {
	return len(i.AllowedLineIDs) == 0 || slices.Contains(i.AllowedLineIDs, lineID)
}

// Create creates an identity with those of the requested scopes that its maker has (rule ACC-24). Bad values are
// refused with validation_failed; with no scope left, or a maker that manages no credentials, Create refuses with
// forbidden. The caller checks that the lines belong to the workspace.
func Create(e events.IdentityCreated, by *apikey.Grantor) ([]events.Event, error) {
	issues := apikey.NameIssues(e.Name)
	if Kind(e.Kind) != MCPClient && Kind(e.Kind) != AIAgent {
		issues = append(issues, fault.Issue{Location: "body", Path: "/kind", Code: "invalid_value", Message: "The kind is mcp_client or ai_agent."})
	}
	if env := apikey.Env(e.Env); env != apikey.Live && env != apikey.Test && (e.KeyID != "" || env != "") {
		issues = append(issues, fault.Issue{Location: "body", Path: "/env", Code: "invalid_value", Message: "The environment is live or test."})
	}
	wanted, wrong := apikey.ParseScopes(e.Scopes)
	issues = append(append(issues, wrong...), limitIssues(e.AllowedLineIDs, e.DailyLimit)...)
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	granted, err := by.Grant(apikey.Env(e.Env), wanted, nil)
	if err != nil {
		return nil, err
	}
	e.Scopes, e.AllowedLineIDs = apikey.ScopeNames(granted), distinct(e.AllowedLineIDs)
	return []events.Event{&e}, nil
}

func limitIssues(lines []string, dailyLimit *int64) []fault.Issue {
	var issues []fault.Issue
	if len(lines) > maxLines {
		issues = append(issues, fault.Issue{Location: "body", Path: "/allowed_line_ids", Code: "too_many_items", Message: "Expected at most 500 items."})
	}
	switch {
	case dailyLimit == nil:
	case *dailyLimit < 1:
		issues = append(issues, fault.Issue{Location: "body", Path: "/daily_limit", Code: "too_small", Message: "Expected at least 1."})
	case *dailyLimit > maxDailyLimit:
		issues = append(issues, fault.Issue{Location: "body", Path: "/daily_limit", Code: "too_large", Message: "Expected at most 100000."})
	}
	return issues
}

// distinct drops repeated entries. The result is never nil.
func distinct(list []string) []string {
	kept := make([]string, 0, len(list))
	for _, one := range list {
		if !slices.Contains(kept, one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// Change is what a request changes of an identity; nil leaves a property as it is.
type Change struct {
	Name           *string
	Scopes         []string
	Disabled       *bool
	AllowedLineIDs *[]string
	// DailyLimit counts only with SetDailyLimit; nil lifts the limit.
	DailyLimit    *int64
	SetDailyLimit bool
}

// OnlyDisables reports whether the change takes rights away and gives none.
func (c Change) OnlyDisables() bool {
	return c.Name == nil && c.Scopes == nil && c.AllowedLineIDs == nil && !c.SetDailyLimit && c.Disabled != nil && *c.Disabled
}

// Update changes an identity of kind mcp_client as UpdateAnyKind does. An ai_agent is refused with conflict (rule
// ACC-27).
func (i Identity) Update(c Change, by *apikey.Grantor) ([]events.Event, error) {
	if i.Kind == AIAgent {
		return nil, fault.New(fault.Conflict, "The identity of an agent changes through its agent.")
	}
	return i.UpdateAnyKind(c, by)
}

// UpdateAnyKind changes an identity of any kind; a value that stays the same causes no event. Of the requested scopes
// it gets those that the grantor or the identity itself has (rule ACC-24). It refuses as Create does.
func (i Identity) UpdateAnyKind(c Change, by *apikey.Grantor) ([]events.Event, error) {
	e := events.IdentityUpdated{
		IdentityID: i.ID, Changed: []string{}, Name: i.Name, Scopes: apikey.ScopeNames(i.Scopes), AllowedLineIDs: i.AllowedLineIDs, DailyLimit: i.DailyLimit,
	}
	wanted := i.Scopes
	var issues []fault.Issue
	if c.Name != nil {
		e.Name, issues = *c.Name, apikey.NameIssues(*c.Name)
	}
	if c.Scopes != nil {
		var wrong []fault.Issue
		wanted, wrong = apikey.ParseScopes(c.Scopes)
		issues = append(issues, wrong...)
	}
	if c.AllowedLineIDs != nil {
		e.AllowedLineIDs = distinct(*c.AllowedLineIDs)
	}
	if c.SetDailyLimit {
		e.DailyLimit = c.DailyLimit
	}
	if issues = append(issues, limitIssues(e.AllowedLineIDs, e.DailyLimit)...); len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	granted, err := by.Grant(i.Env, wanted, i.Scopes)
	if err != nil {
		return nil, err
	}
	e.Scopes = apikey.ScopeNames(granted)
	e.Changed = i.differences(&e)
	var made []events.Event
	if len(e.Changed) > 0 {
		made = append(made, &e)
	}
	switch {
	case c.Disabled == nil || *c.Disabled == i.Disabled:
	case *c.Disabled:
		made = append(made, &events.IdentityDisabled{IdentityID: i.ID})
	default:
		made = append(made, &events.IdentityEnabled{IdentityID: i.ID})
	}
	return made, nil
}

func (i Identity) differences(e *events.IdentityUpdated) []string {
	changed := []string{}
	for _, d := range []struct {
		name string
		same bool
	}{
		{"name", e.Name == i.Name},
		{"scopes", slices.Equal(e.Scopes, apikey.ScopeNames(i.Scopes))},
		{"allowed_line_ids", slices.Equal(e.AllowedLineIDs, i.AllowedLineIDs)},
		{"daily_limit", (e.DailyLimit == nil) == (i.DailyLimit == nil) && (e.DailyLimit == nil || *e.DailyLimit == *i.DailyLimit)},
	} {
		if !d.same {
			changed = append(changed, d.name)
		}
	}
	return changed
}

// MayChangeToken refuses with conflict to change the token of an ai_agent other than through its agent (rule ACC-27).
func (i Identity) MayChangeToken() error {
	if i.Kind == AIAgent {
		return fault.New(fault.Conflict, "The key of an agent changes through its agent.")
	}
	return nil
}
