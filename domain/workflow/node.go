package workflow

import (
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/domain/segment"
	"ledgerline/events"
)

// The node types.
const (
	NodeTrigger   = "trigger"
	NodeCondition = "condition"
	NodeWait      = "wait"
	NodeSend      = "send"
	NodeAssign    = "assign"
	NodeLabel     = "label"
	NodeWebhook   = "webhook"
	NodeAI        = "ai"
)

// The labels of edges, by which a step's result decides how the run goes on (rule WFL-8). They are the outcomes of the
// steps as well.
const (
	LabelTrue    = "true"
	LabelFalse   = "false"
	LabelReplied = "replied"
	LabelTimeout = "timeout"
	LabelDone    = "done"
	LabelHandoff = "handoff"
)

// OutcomeElapsed is the outcome of a wait for a time.
const OutcomeElapsed = "elapsed"

// Step is a parsed node. The field of its type is set.
type Step struct {
	ID        string
	Type      string
	Condition *Condition
	Wait      *Wait
	Send      *Send
	Assign    *Assign
	Label     *LabelChange
	Webhook   *WebhookCall
	AI        *AI

	path string            // JSON pointer of the node
	next map[string]string // node id by the label of the edge; "" is the edge without label
}

// References returns what the step names and needs, except labels.
func (s *Step) References() []Reference {
	switch {
	case s.Assign != nil && s.Assign.UserID != nil:
		return []Reference{{ReferenceUser, s.Assign.UserID.String(), s.path}}
	case s.Assign != nil && s.Assign.TeamID != nil:
		return []Reference{{ReferenceTeam, s.Assign.TeamID.String(), s.path}}
	}
	return nil
}

// Next returns the node that follows with a result; "" when the run ends there.
func (s *Step) Next(label string) string { return s.next[label] }

// Wait is the config of a wait: for a time, until a time, or until the contact replies. Exactly one is set.
type Wait struct {
	Duration time.Duration
	Until    time.Time
	Timeout  time.Duration // of a wait for a reply
}

// ForReply reports whether the wait ends with a reply.
func (w *Wait) ForReply() bool { return w.Timeout > 0 }

// End returns when a wait that begins now ends by itself.
func (w *Wait) End(now time.Time) time.Time {
	if !w.Until.IsZero() {
		return w.Until
	}
	return now.Add(max(w.Duration, w.Timeout))
}

// Send is the config of a message.
type Send struct {
	Body     Template
	Media    []events.Media
	PoolID   *string
	LineID   *string
	Fallback *bool
}

// Assign is whom a conversation is given to. Neither is set: to nobody.
type Assign struct{ UserID, TeamID *uuid.UUID }

// LabelChange has the names of labels that a step adds and removes.
type LabelChange struct{ Add, Remove []string }

// WebhookCall is the content of a workflow.webhook event.
type WebhookCall struct {
	Name string
	Data map[string]any
}

// AI hands the conversation to an agent.
type AI struct {
	AgentID uuid.UUID
	Timeout time.Duration
}

const (
	maxBody        = 2000 // characters
	maxMedia       = 10
	maxWebhookName = 80
	maxLabels      = 50
	defaultTimeout = 24 * time.Hour // of an AI step
)

// step reads a node's config.
func (c *checker) step(n *events.WorkflowNode, path string) *Step {
	s := &Step{ID: n.ID, Type: n.Type, path: path, next: map[string]string{}}
	o := c.object(n.Config, path+"/config")
	switch n.Type {
	case NodeTrigger:
	case NodeCondition:
		s.Condition = o.condition()
	case NodeWait:
		s.Wait = o.wait()
	case NodeSend:
		s.Send = o.send()
	case NodeAssign:
		s.Assign = o.assign()
	case NodeLabel:
		s.Label = &LabelChange{o.labels("add"), o.labels("remove")}
		if o.empty("add") && o.empty("remove") {
			o.invalid("", "Labels to add or to remove are needed.")
		}
	case NodeWebhook:
		s.Webhook = o.webhook()
	case NodeAI:
		s.AI = o.ai()
	default:
		c.wrong(path+"/type", IssueConfig, "There is no such type of node.")
		return s
	}
	o.unknown()
	return s
}

// Condition is the config of a condition: a definition in the language of segments, which may also compare the text of
// the message that the run is about.
type Condition struct {
	definition any
	node       *segment.Node
}

// Matches reports whether the condition is true for a contact. find returns the id of a label by its name; false when
// there is none.
func (c *Condition) Matches(contact *segment.Contact, now time.Time, find func(name string) (uuid.UUID, bool)) bool {
	node := c.node
	if len(node.LabelNames()) > 0 { // binding changes the node, which all runs of the version share
		node, _ = segment.ParseCondition(c.definition, "")
		_ = node.BindLabels(find) // no contact has a label that does not exist
	}
	return node.Matches(contact, now)
}

// Node returns the parsed condition. It must not be changed.
func (c *Condition) Node() *segment.Node { return c.node }

// LabelNames returns the labels that the condition names.
func (c *Condition) LabelNames() []string { return c.node.LabelNames() }

func (o *object) condition() *Condition {
	definition, given := o.value("definition")
	if !given {
		o.invalid("definition", "A condition is needed.")
		return nil
	}
	node, err := segment.ParseCondition(definition, o.at("definition"))
	if f := fault.Of(err); f != nil {
		for _, issue := range f.Issues {
			o.wrong(issue.Path, IssueConfig, "%s", issue.Message)
		}
		return nil
	}
	return &Condition{definition, node}
}

func (o *object) wait() *Wait {
	w := &Wait{}
	if !o.exactlyOne("duration", "until", "until_reply") {
		return w
	}
	w.Duration = o.duration("duration")
	w.Until, _ = o.time("until")
	if reply, ok := read[map[string]any](o, "until_reply", "an object with timeout"); ok {
		inner := o.object(reply, o.at("until_reply"))
		if _, given := reply["timeout"]; !given {
			inner.invalid("timeout", "A timeout is needed.")
		}
		w.Timeout = inner.duration("timeout")
		inner.unknown()
	}
	return w
}

func (o *object) send() *Send {
	s := &Send{Media: o.media()}
	body, isText := o.text("body")
	switch {
	case (o.empty("body") || isText && message.Blank(body)) && o.empty("media"):
		o.invalid("body", "A body or media is needed.")
	case characters(body) > maxBody:
		o.invalid("body", "Expected at most %d characters.", maxBody)
	}
	template, err := ParseTemplate(body)
	if err != nil {
		o.invalid("body", "%s", err)
	}
	s.Body = template
	s.PoolID, s.LineID = o.reference("pool_id", ReferencePool), o.reference("line_id", ReferenceLine)
	if s.PoolID != nil && s.LineID != nil {
		o.invalid("line_id", "Either a pool or a line may be named.")
	}
	if fallback, ok := o.flag("fallback"); ok {
		s.Fallback = &fallback
	}
	return s
}

func (o *object) media() (list []events.Media) {
	given, ok := read[[]any](o, "media", "a list")
	if !ok {
		return nil
	}
	if len(given) > maxMedia {
		o.invalid("media", "A message has at most %d media.", maxMedia)
		return nil
	}
	for i, item := range given {
		path := fmt.Sprintf("%s/%d", o.at("media"), i)
		properties, ok := item.(map[string]any)
		if !ok {
			o.wrong(path, IssueConfig, "Expected an object with url.")
			continue
		}
		inner := o.object(properties, path)
		m := events.Media{}
		m.URL, _ = inner.text("url")
		if at, err := url.Parse(m.URL); err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || len(m.URL) > 2048 {
			inner.invalid("url", "Expected an address of at most 2048 characters.")
		}
		m.Filename, m.MIME = inner.short("filename", 255), inner.short("mime", 100)
		inner.unknown()
		list = append(list, m)
	}
	return list
}

// short returns a text of at most limit characters; nil when there is none.
func (o *object) short(name string, limit int) *string {
	text, ok := o.text(name)
	if !ok {
		return nil
	}
	if characters(text) > limit {
		o.invalid(name, "Expected at most %d characters.", limit)
	}
	return &text
}

func (o *object) assign() *Assign {
	a := &Assign{}
	if !o.exactlyOne("user_id", "team_id", "unassign") {
		return a
	}
	a.UserID, a.TeamID = o.uuid("user_id", ReferenceUser), o.uuid("team_id", ReferenceTeam)
	if unassign, ok := o.flag("unassign"); ok && !unassign {
		o.invalid("unassign", "Expected true.")
	}
	return a
}

// labels returns names of labels and refers to each.
func (o *object) labels(name string) []string {
	names := o.texts(name, maxLabels)
	for i, label := range names {
		o.refer(ReferenceLabel, label, fmt.Sprintf("%s/%d", o.at(name), i))
	}
	return names
}

func (o *object) webhook() *WebhookCall {
	w := &WebhookCall{Data: map[string]any{}}
	name, _ := o.text("name")
	if o.empty("name") || characters(name) > maxWebhookName {
		o.invalid("name", "Expected 1 to %d characters.", maxWebhookName)
	}
	w.Name = name
	if data, ok := read[map[string]any](o, "data", "an object"); ok {
		w.Data = data
	}
	return w
}

func (o *object) ai() *AI {
	a := &AI{Timeout: defaultTimeout}
	if _, given := o.values["agent_id"]; !given {
		o.invalid("agent_id", "An agent is needed.")
	}
	if id := o.uuid("agent_id", ReferenceAgent); id != nil {
		a.AgentID = *id
	}
	if _, given := o.values["timeout"]; given {
		a.Timeout = o.duration("timeout")
	}
	return a
}
