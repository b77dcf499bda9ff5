// Package agent holds the agents of a workspace: what they are told, which lines they send from, and their statuses
// (rules AGT-1 to AGT-6). An agent answers in the conversations that it handles, by a language model.
package agent

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Status is the state of an agent (rule AGT-2).
type Status string

// The statuses of an agent.
const (
	Draft  Status = "draft"
	Live   Status = "live"
	Paused Status = "paused"
)

// The reasons for which the service hands a conversation of an agent over (rules AGT-13 to AGT-15).
const (
	ReasonUnavailable = "agent_unavailable" // the model did not answer
	ReasonDailyLimit  = "agent_daily_limit" // the answers of the usage day are used up
	ReasonPaused      = "agent_paused"
)

// The limits of rule AGT-1.
const (
	maxName         = 120
	maxInstructions = 20_000
	maxModel        = 100
	maxLines        = 500
	maxDailyLimit   = 100_000
	maxIdentityName = 80 // of the service identity (rule ACC-25)
)

// Properties is what a client decides about an agent.
type Properties struct {
	Name           string
	Instructions   string
	Model          string   // "": the model that the installation names
	AllowedLineIDs []string // empty: every line
	DailyLimit     *int64   // answers in a usage day; nil: no limit
}

// Agent is the state of one agent. The zero value does not exist.
type Agent struct {
	ID           uuid.UUID
	Organisation uuid.UUID
	Workspace    uuid.UUID
	IdentityID   uuid.UUID
	Status       Status
	Properties
}

// Stream returns the name of the stream of an agent.
func Stream(id uuid.UUID) string { return events.Stream("agt", id) }

// Claim returns the scope and key under which a name is claimed.
func Claim(workspace uuid.UUID, name string) (scope, key string) {
	return "agent:" + workspace.String(), strings.ToLower(strings.TrimSpace(name))
}

// Apply returns the state after one event of the agent's stream.
func (a Agent) Apply(event events.Event, in events.Envelope) Agent {
	switch e := event.(type) {
	case *events.AgentCreated:
		return Agent{
			ID: e.AgentID, Organisation: in.Organisation, Workspace: in.Workspace, IdentityID: e.IdentityID, Status: Draft,
			Properties: Properties{e.Name, e.Instructions, e.Model, e.AllowedLineIDs, e.DailyLimit},
		}
	case *events.AgentUpdated:
		a.Properties = Properties{e.Name, e.Instructions, e.Model, e.AllowedLineIDs, e.DailyLimit}
	case *events.AgentActivated:
		a.Status = Live
	case *events.AgentPaused:
		a.Status = Paused
	}
	return a
}

// Exists reports whether the agent was created.
func (a Agent) Exists() bool { return a.ID != uuid.Nil }

// IdentityName is the name of the service identity of an agent: that of the agent, as long as it may be.
func (p Properties) IdentityName() string {
	name := strings.TrimSpace(p.Name)
	if utf8.RuneCountInString(name) <= maxIdentityName {
		return name
	}
	return strings.TrimSpace(string([]rune(name)[:maxIdentityName]))
}

// Create creates an agent as a draft. All problems are refused together, with validation_failed. The caller checks the
// lines, claims the name and creates the service identity in the same append.
func Create(id, identity uuid.UUID, p Properties) ([]events.Event, error) {
	p = p.cleaned()
	if issues := p.issues(); len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	return []events.Event{&events.AgentCreated{
		AgentID: id, IdentityID: identity, Name: p.Name, Instructions: p.Instructions, Model: p.Model, AllowedLineIDs: p.AllowedLineIDs,
		DailyLimit: p.DailyLimit,
	}}, nil
}

// Change is what a request changes of an agent; nil leaves a property as it is.
type Change struct {
	Name           *string
	Instructions   *string
	Model          *string
	AllowedLineIDs *[]string
	// DailyLimit counts only with SetDailyLimit; nil lifts the limit.
	DailyLimit    *int64
	SetDailyLimit bool
	Status        *Status
}

// Update changes an agent: first its properties, then its status. A value that stays the same causes no event. Bad
// values are refused with validation_failed, a move that rule AGT-2 does not allow with conflict. canAnswer is false
// when the installation has no model: then the agent does not become live (rule AGT-3).
func (a Agent) Update(c Change, canAnswer bool) ([]events.Event, error) {
	p := a.Properties
	set(&p.Name, c.Name)
	set(&p.Instructions, c.Instructions)
	set(&p.Model, c.Model)
	set(&p.AllowedLineIDs, c.AllowedLineIDs)
	if c.SetDailyLimit {
		p.DailyLimit = c.DailyLimit
	}
	p = p.cleaned()
	if issues := p.issues(); len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	var made []events.Event
	if changed := a.differences(&p); len(changed) > 0 {
		made = append(made, &events.AgentUpdated{
			AgentID: a.ID, Changed: changed, Name: p.Name, Instructions: p.Instructions, Model: p.Model, AllowedLineIDs: p.AllowedLineIDs,
			DailyLimit: p.DailyLimit,
		})
	}
	if c.Status == nil || *c.Status == a.Status {
		return made, nil
	}
	switch {
	case *c.Status == Live && !canAnswer:
		return nil, fault.New(fault.Conflict, "An agent needs a model endpoint to be live. The operator sets one with --llm-url or LEDGERLINE_LLM_URL.")
	case *c.Status == Live:
		return append(made, &events.AgentActivated{AgentID: a.ID, From: string(a.Status)}), nil
	case *c.Status == Paused && a.Status == Live:
		return append(made, &events.AgentPaused{AgentID: a.ID}), nil
	}
	return nil, fault.New(fault.Conflict, "An agent that is %s cannot become %s.", a.Status, *c.Status)
}

func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

// cleaned trims the name and the model, and drops repeated lines.
func (p Properties) cleaned() Properties {
	p.Name, p.Model = strings.TrimSpace(p.Name), strings.TrimSpace(p.Model)
	kept := make([]string, 0, len(p.AllowedLineIDs))
	for _, id := range p.AllowedLineIDs {
		if !slices.Contains(kept, id) {
			kept = append(kept, id)
		}
	}
	p.AllowedLineIDs = kept
	return p
}

func (p Properties) issues() []fault.Issue {
	var issues []fault.Issue
	add := func(pointer, code, message string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
	}
	switch {
	case p.Name == "":
		add("/name", "required", "An agent needs a name.")
	case utf8.RuneCountInString(p.Name) > maxName:
		add("/name", "too_long", "A name has at most 120 characters.")
	}
	switch {
	case strings.TrimSpace(p.Instructions) == "":
		add("/instructions", "required", "An agent needs instructions.")
	case utf8.RuneCountInString(p.Instructions) > maxInstructions:
		add("/instructions", "too_long", "Instructions have at most 20000 characters.")
	}
	if utf8.RuneCountInString(p.Model) > maxModel {
		add("/model", "too_long", "The name of a model has at most 100 characters.")
	}
	if len(p.AllowedLineIDs) > maxLines {
		add("/allowed_line_ids", "too_many_items", "Expected at most 500 items.")
	}
	switch {
	case p.DailyLimit == nil:
	case *p.DailyLimit < 1:
		add("/daily_limit", "too_small", "Expected at least 1.")
	case *p.DailyLimit > maxDailyLimit:
		add("/daily_limit", "too_large", "Expected at most 100000.")
	}
	return issues
}

func (a Agent) differences(p *Properties) []string {
	changed := []string{}
	for _, d := range []struct {
		name string
		same bool
	}{
		{"name", p.Name == a.Name},
		{"instructions", p.Instructions == a.Instructions},
		{"model", p.Model == a.Model},
		{"allowed_line_ids", slices.Equal(p.AllowedLineIDs, a.AllowedLineIDs)},
		{"daily_limit", (p.DailyLimit == nil) == (a.DailyLimit == nil) && (p.DailyLimit == nil || *p.DailyLimit == *a.DailyLimit)},
	} {
		if !d.same {
			changed = append(changed, d.name)
		}
	}
	return changed
}
