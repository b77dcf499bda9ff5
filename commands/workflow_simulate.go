package commands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/commands/sending"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/exchange"
	"ledgerline/domain/line"
	"ledgerline/domain/rules"
	"ledgerline/domain/segment"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// SimulateWorkflow says what to play: a version of a workflow, for whom, from when on, and what happens meanwhile.
type SimulateWorkflow struct {
	WorkflowID uuid.UUID
	VersionID  *uuid.UUID // nil: the draft where there is one, else the live version
	ContactID  *string    // nil: Sample
	Sample     SampleContact
	At         *time.Time // when the trigger fires; nil: now
	Body       *string    // the message that fires message.received; nil: the first keyword
	LineID     *string    // the line that it is received on; nil: one that fits the trigger
	Data       map[string]any
	Replies    []SampleReply     // one for each wait for a reply that is reached; without one, nobody answers
	Outcomes   map[string]string // results of ai steps by node: done (the default) or handoff
}

// SampleContact stands for a contact that does not exist.
type SampleContact struct {
	Phone                               string
	FirstName, LastName, Company, Email *string
	Fields                              map[string]any
	Labels                              []string // names
	OptedIn                             bool
}

// SampleReply is what the contact writes, some time after the run began to wait for it.
type SampleReply struct {
	After time.Duration
	Body  string
}

// Simulation is what a run would do.
type Simulation struct {
	WorkflowID uuid.UUID
	VersionID  *uuid.UUID // nil: the draft
	Number     *int       // of the version
	ContactID  *string
	NotFired   string // why the trigger would not fire: see the constants; "" when it would
	Status     workflow.RunStatus
	Code       *string
	StartedAt  time.Time
	FinishedAt time.Time
	Steps      []SimulatedStep
}

// Why a trigger would not fire.
const (
	NotFiredOptedOut = "contact_opted_out"
	NotFiredConfig   = "trigger_config" // the contact or the message does not fit it
	NotFiredActive   = "active_run"
	NotFiredTest     = "test_contact"
)

// SimulatedStep is one step of a simulated run.
type SimulatedStep struct {
	NodeID, Type, Status string
	ReachedAt, EndedAt   time.Time
	Detail               map[string]any
	Message              *SimulatedMessage // of a send step whose message would be accepted
	Event                *workflow.WebhookCall
}

// SimulatedMessage is a message that a run would send.
type SimulatedMessage struct {
	Body      string
	Media     []events.Media
	Deferrals []SimulatedDeferral
	LeavesAt  *time.Time // nil: it would be refused, or when its last deferral ends is not known
	Code      string     // why it would be refused; "" when it would not
	Line      *line.Line // the line that would send it
}

// SimulatedDeferral is one reason why a message would wait.
type SimulatedDeferral struct {
	Reason string
	Until  *time.Time
	Detail map[string]any
}

// SimulateWorkflow plays a version of a workflow of the request's workspace on a clock of its own, and writes nothing
// (rule WFL-33). It takes the steps with the code that runs take them with, on aggregates that are never appended, and
// applies the sending rules as a dry run of a message does. Each step happens once, so it ends. Refusals: not_found for
// the workflow, the version or the contact; validation_failed with everything that is wrong with the draft, or with the
// sample contact; conflict for the draft of an archived workflow.
func (a *App) SimulateWorkflow(ctx context.Context, req Request, in SimulateWorkflow, times ContactTimes) (Simulation, error) {
	u := a.unit(&req)
	req.Test = false // runs act on live data
	w, err := u.loadWorkflow(ctx, in.WorkflowID)
	if err != nil {
		return Simulation{}, err
	}
	s := &simulation{runUnit: runUnit{unit: u}, in: &in, today: u.Now, readTimes: times}
	s.times = s.timesOf
	s.result.WorkflowID = in.WorkflowID
	if err := s.chooseVersion(ctx, &w.State); err != nil {
		return Simulation{}, err
	}
	if err := s.chooseContact(ctx); err != nil {
		return Simulation{}, err
	}
	if in.At != nil {
		u.Now = *in.At
	}
	if err := s.fire(ctx); err != nil {
		return Simulation{}, err
	}
	return s.result, s.play(ctx)
}

// simulation is the unit of work of a simulation. Nothing that it records is appended.
type simulation struct {
	runUnit
	in        *SimulateWorkflow
	result    Simulation
	today     time.Time // the real time of the simulation
	readTimes ContactTimes
	replied   *time.Time // when the contact wrote last in the simulation
	messaged  *time.Time // when a message was sent to it last
	replies   int        // used up of in.Replies
	seen      int        // events of the run that are in the result
}

// chooseVersion sets the version that is played.
func (s *simulation) chooseVersion(ctx context.Context, w *workflow.Workflow) error {
	id := s.in.VersionID
	if id == nil && w.HasDraft {
		checked, err := s.checkDraft(ctx, &w.Draft)
		if err != nil {
			return err
		}
		published, err := w.Publish(s.Engine.IDs.UUID(), checked.timeZone, checked.labels)
		if err != nil {
			return err
		}
		v := workflow.Version{}
		for _, e := range published.Version {
			v = v.Apply(e, events.Envelope{Organisation: s.Request.Organisation, Workspace: s.Request.Workspace, At: s.Now})
		}
		s.version = &v
		return nil
	}
	if id == nil {
		id = &w.VersionID
	}
	v, err := s.loadVersion(ctx, *id)
	if err == nil && v.WorkflowID != w.ID {
		err = engine.NotFound("version of the workflow")
	}
	s.version, s.result.VersionID = v, id
	if err == nil {
		s.result.Number = &v.Number
	}
	return err
}

// chooseContact sets the contact that the run is for.
func (s *simulation) chooseContact(ctx context.Context) (err error) {
	if s.in.ContactID != nil {
		s.contact, err = s.loadContact(ctx, *s.in.ContactID)
		s.result.ContactID = s.in.ContactID
		return err
	}
	sample := &s.in.Sample
	var issues issueList
	e164, err := s.Engine.Phone(sample.Phone, "/contact/phone")
	if err := issues.collect(err, contact.CheckFields(sample.Fields, "/contact/fields")); err != nil {
		return err
	}
	var labels []uuid.UUID
	for i, name := range sample.Labels {
		found, err := s.findLabel(ctx, name)
		if err != nil {
			return err
		}
		if found == nil {
			issues.add(fmt.Sprintf("/contact/labels/%d", i), "not_found", "There is no such label.")
			continue
		}
		labels = append(labels, found.State.ID)
	}
	if err := issues.fault(); err != nil {
		return err
	}
	num, err := s.Number(ctx, e164)
	if err != nil {
		return err
	}
	status := consent.Unknown
	if sample.OptedIn {
		status = consent.OptedIn
	}
	created, err := contact.Create(contact.NewContact{
		ID: s.Engine.IDs.TypeID("ctc"), ConversationID: s.Engine.IDs.TypeID("cnv"), NumberHash: num.Hash, NumberOptedOut: num.State.OptedOut,
		LabelIDs: labels, Origin: "workflow", Consent: status,
		Person: events.ContactPersonal{
			Phone: e164, FirstName: sample.FirstName, LastName: sample.LastName, Company: sample.Company, Email: sample.Email, Fields: sample.Fields,
		},
	})
	if err != nil {
		return err
	}
	first, _ := created[0].(*events.ContactCreated)
	s.contact = engine.Begin(s.Unit, s.Engine.Contacts, first.ContactID)
	s.contact.Record(created...)
	return nil
}

// timesOf completes what the read model knows of the contact with what the simulation did.
func (s *simulation) timesOf(ctx context.Context, contactID string, into *segment.Contact) error {
	if s.in.ContactID != nil {
		if err := s.readTimes(ctx, contactID, into); err != nil {
			return err
		}
	} else {
		into.CreatedAt = &s.today
	}
	if s.replied != nil {
		into.LastInboundAt = s.replied
		if into.FirstReply == nil {
			into.FirstReply = s.replied
		}
	}
	if s.messaged != nil {
		into.LastOutboundAt = s.messaged
	}
	return nil
}

// fire starts the run, and finds out whether the trigger would have fired.
func (s *simulation) fire(ctx context.Context) error {
	t := &s.version.Plan.Trigger
	e := &events.RunStarted{
		RunRef:    events.RunRef{RunID: s.Engine.IDs.UUID(), WorkflowID: s.in.WorkflowID, ContactID: s.contact.State.ID},
		VersionID: s.version.ID, Version: s.version.Number, Trigger: string(t.Type), Data: events.RunPersonal{Trigger: s.in.Data},
	}
	fits := true
	if t.Type == workflow.MessageReceived {
		id, matches, err := s.receiveTrigger(ctx, t)
		if err != nil {
			return err
		}
		e.MessageID, fits = &id, matches
	}
	if fits {
		var err error
		if fits, err = s.triggerFits(ctx, s.version, s.contact, e.MessageID, s.times); err != nil {
			return err
		}
	}
	num, err := s.NumberByHash(ctx, s.contact.State.NumberHash)
	if err != nil {
		return err
	}
	scope, key := workflow.RunClaim(s.in.WorkflowID, s.contact.State.ID)
	_, active, err := s.Owner(ctx, scope, key)
	if err != nil {
		return err
	}
	switch {
	case s.contact.State.Consent == consent.OptedOut || num.State.OptedOut:
		s.result.NotFired = NotFiredOptedOut
	case s.contact.State.IsTest && e.MessageID == nil:
		s.result.NotFired = NotFiredTest
	case active:
		s.result.NotFired = NotFiredActive
	case !fits:
		s.result.NotFired = NotFiredConfig
	}
	s.result.StartedAt = s.Now
	s.run = engine.Begin(s.Unit, s.Engine.Runs, workflow.RunStream(e.RunID))
	s.run.Record(workflow.Start(e, s.version.Plan)...)
	s.collect(nil)
	return nil
}

// receiveTrigger receives the message that fires a trigger, and reports whether its text and line fit.
func (s *simulation) receiveTrigger(ctx context.Context, t *workflow.Trigger) (id string, fits bool, err error) {
	body, lineID := "", ""
	switch {
	case s.in.Body != nil:
		body = *s.in.Body
	case len(t.Keywords) > 0:
		body = t.Keywords[0]
	}
	switch {
	case s.in.LineID != nil:
		lineID = *s.in.LineID
	case len(t.LineIDs) > 0:
		lineID = t.LineIDs[0]
	case len(t.PoolIDs) > 0:
		pool, err := engine.Load(ctx, s.Unit, s.Engine.Pools, t.PoolIDs[0])
		if err != nil {
			return "", false, err
		}
		if len(pool.State.LineIDs) > 0 {
			lineID = pool.State.LineIDs[0]
		}
	}
	id, keyword, err := s.receive(ctx, body, lineID)
	live := workflow.NewIndex([]workflow.Live{{WorkflowID: s.in.WorkflowID, VersionID: s.version.ID, Trigger: *t}})
	return id, keyword == consent.None && len(live.Match(body, lineID)) > 0, err
}

// receive records a message from the contact, and returns which keyword it is.
func (s *simulation) receive(ctx context.Context, body, lineID string) (id string, keyword consent.Keyword, err error) {
	org, err := s.Organisation(ctx)
	if err != nil {
		return "", consent.None, err
	}
	c, id := &s.contact.State, s.Engine.IDs.TypeID("msg")
	keyword, _ = consent.Recognise(body, c.Consent == consent.OptedOut, org.State.Settings.StopWords)
	engine.Begin(s.Unit, s.Engine.Messages, id).Record(&events.MessageReceived{
		MessageRef: events.MessageRef{MessageID: id, ConversationID: c.ConversationID, ContactID: c.ID},
		LineID:     lineID, Channel: "chat", Content: events.MessagePersonal{From: c.Phone, Body: body},
	})
	x, err := engine.Load(ctx, s.Unit, s.Engine.Exchanges, exchange.Stream(c.ID))
	if err != nil {
		return "", keyword, err
	}
	x.Record(x.State.RecordReply(c.ID, lineID, id)...)
	at := s.Now
	s.replied = &at
	return id, keyword, nil
}

// play takes the steps until the run has ended.
func (s *simulation) play(ctx context.Context) error {
	for s.run.State.Active() {
		var reply *workflow.Reply
		var step *workflow.Step
		if s.run.State.Node != "" {
			step = s.version.Plan.Steps[s.run.State.Node]
		}
		if s.run.State.Status == workflow.RunWaiting {
			var err error
			if reply, err = s.wait(ctx); err != nil {
				return err
			}
		}
		s.sent = false // each message is an append of its own
		switch {
		case s.contact.State.Consent == consent.OptedOut:
			s.run.Record(s.run.State.Cancel(workflow.CodeOptedOut))
		case step != nil && step.Type == workflow.NodeAI:
			outcome := workflow.LabelDone
			if chosen, ok := s.in.Outcomes[step.ID]; ok {
				outcome = chosen
			}
			s.run.Record(s.run.State.EndAI(step, outcome))
		default:
			if _, err := s.step(ctx, reply); err != nil {
				return err
			}
		}
		if err := s.collectStep(ctx, step); err != nil {
			return err
		}
	}
	s.result.Status, s.result.FinishedAt = s.run.State.Status, s.Now
	return nil
}

// wait moves the clock to the end of the wait that the run is in. It returns the message that ends it, if one does.
func (s *simulation) wait(ctx context.Context) (reply *workflow.Reply, err error) {
	until := *s.run.State.ResumeAt
	if s.run.State.AwaitsReply && s.replies < len(s.in.Replies) {
		next := s.in.Replies[s.replies]
		s.replies++
		if at := s.Now.Add(next.After); at.Before(until) {
			s.Now = at
			id, keyword, err := s.receive(ctx, next.Body, s.contact.State.LineID)
			if err != nil || keyword != consent.Stop {
				return &workflow.Reply{MessageID: id, Step: s.run.State.Steps}, err
			}
			stopped, err := s.contact.State.SetConsent(consent.OptedOut, consent.Evidence{})
			s.contact.Record(stopped...)
			return nil, err
		}
	}
	s.Now = until
	return nil, nil //nolint:nilnil // nobody answers
}

// collectStep adds what the step has recorded to the result.
func (s *simulation) collectStep(ctx context.Context, step *workflow.Step) error {
	before := len(s.result.Steps)
	s.collect(step)
	if step == nil || len(s.result.Steps) == before {
		return nil
	}
	added := &s.result.Steps[len(s.result.Steps)-1]
	added.Event = step.Webhook
	id, sent := added.Detail["message_id"].(string)
	delete(added.Detail, "message_id") // of a message that there will never be
	delete(added.Detail, "event_id")
	if !sent {
		return nil
	}
	var err error
	added.Message, err = s.preview(ctx, id)
	return err
}

// collect adds the steps that the run has recorded since the last call.
func (s *simulation) collect(step *workflow.Step) {
	kind := workflow.NodeTrigger
	if step != nil {
		kind = step.Type
	}
	recorded := s.run.Events()
	for _, e := range recorded[s.seen:] {
		switch e := e.(type) {
		case *events.RunStepWaiting:
			detail := map[string]any{"resume_at": e.ResumeAt, "outcome": nil}
			s.result.Steps = append(s.result.Steps, SimulatedStep{
				NodeID: e.NodeID, Type: kind, Status: workflow.StepWaiting, ReachedAt: s.Now, EndedAt: s.Now, Detail: detail,
			})
		case *events.RunStepCompleted:
			done := SimulatedStep{
				NodeID: e.NodeID, Type: kind, Status: e.Status, ReachedAt: s.Now, EndedAt: s.Now, Detail: maps.Clone(e.Detail),
			}
			if n := len(s.result.Steps); n > 0 && s.result.Steps[n-1].NodeID == e.NodeID { // it waited
				done.ReachedAt = s.result.Steps[n-1].ReachedAt
				s.result.Steps = s.result.Steps[:n-1]
			}
			s.result.Steps = append(s.result.Steps, done)
		case *events.RunFinished:
			s.result.Code = e.Code
		}
	}
	s.seen = len(recorded)
}

// maxDeferrals bounds how often a message of a simulation is looked at again when a deferral has ended.
const maxDeferrals = 8

// preview finds out when a message that was accepted would leave. The messages of the simulation before it count toward
// the rules for the contact's first messages, and toward no other limit.
func (s *simulation) preview(ctx context.Context, id string) (*SimulatedMessage, error) {
	m, err := engine.Load(ctx, s.Unit, s.Engine.Messages, id)
	if err != nil {
		return nil, err
	}
	num, err := s.NumberByHash(ctx, s.contact.State.NumberHash)
	if err != nil {
		return nil, err
	}
	accepted := s.Now
	defer func() { s.Now = accepted }()
	out := &SimulatedMessage{Body: m.State.Content.Body, Media: m.State.Content.Media}
	for at := accepted; ; {
		s.Now = s.today // the usage of lines is that of today: on another day nothing is used
		p, err := s.app.Sending.Preview(ctx, s.Unit, at, &m.State, s.contact, num)
		if err != nil {
			return nil, err
		}
		switch p.Decision {
		case rules.Send:
			out.LeavesAt, out.Line = &at, p.Line
			return out, s.leave(ctx, &p, id, at)
		case rules.Refuse:
			out.Code = p.Code
			return out, nil
		case rules.Defer:
		}
		out.Deferrals = append(out.Deferrals, SimulatedDeferral{p.Reason, p.Until, p.Detail})
		if p.Until == nil || !p.Until.After(at) || len(out.Deferrals) == maxDeferrals {
			return out, nil
		}
		at = *p.Until
	}
}

// leave records that a message of the simulation has left.
func (s *simulation) leave(ctx context.Context, p *sending.Preview, id string, at time.Time) error {
	org, err := s.Organisation(ctx)
	if err != nil {
		return err
	}
	c := &s.contact.State
	x, err := engine.Load(ctx, s.Unit, s.Engine.Exchanges, exchange.Stream(c.ID))
	if err != nil {
		return err
	}
	s.messaged = &at
	x.Record(x.State.RecordMessage(c.ID, p.Line.ID, id, false, line.DayOf(at), org.State.Limits().NewContactWindowDays)...)
	s.contact.Record(slices.DeleteFunc(c.AssignLine(p.Line.ID, false), func(events.Event) bool { return p.Line.IsSandbox })...)
	return nil
}
