package commands

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/conversation"
	"ledgerline/domain/fault"
	"ledgerline/domain/webhook"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// AdvanceRun is what a run is to take into account besides the ledger.
type AdvanceRun struct {
	Reply  *workflow.Reply // what the contact wrote while the run waited for a reply
	Cancel string          // error code with which the run is cancelled; "" for none
}

// AdvancedRun is what became of a run.
type AdvancedRun struct {
	Active   bool       // running or waiting
	Held     bool       // its workflow is paused
	ResumeAt *time.Time // when a waiting run goes on
}

// AdvanceRun takes the steps of a run that are due, in one append, up to the second message: a message is accepted with
// an idempotency key of its own (rule WFL-24). A run that is neither finished, held nor waiting afterwards has more
// steps to take.
func (a *App) AdvanceRun(ctx context.Context, id uuid.UUID, in AdvanceRun, times ContactTimes) (AdvancedRun, error) {
	req := Request{Actor: events.Actor{Type: "system", ID: WorkflowsActor}, Correlation: id}
	var result AdvancedRun
	_, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		run, err := engine.Load(ctx, u.Unit, u.Engine.Runs, workflow.RunStream(id))
		if err != nil || !run.State.Active() {
			result = AdvancedRun{}
			return err
		}
		u.Request.Organisation, u.Request.Workspace = run.State.Organisation, run.State.Workspace
		r := &runUnit{unit: u, run: run, times: times}
		result.Held, err = r.advance(ctx, in)
		if err != nil {
			return err
		}
		result.Active, result.ResumeAt = run.State.Active(), nil
		if run.State.Status == workflow.RunWaiting {
			result.ResumeAt = run.State.ResumeAt
		}
		return r.end(ctx)
	})
	return result, err
}

// runUnit is the unit of work that advances a run.
type runUnit struct {
	*unit
	run     *engine.Aggregate[workflow.Run]
	version *workflow.Version
	contact *engine.Aggregate[contact.Contact]
	times   ContactTimes
	sent    bool // the unit has accepted a message
}

// advance takes the steps that are due. held is true when the workflow is paused.
func (r *runUnit) advance(ctx context.Context, in AdvanceRun) (held bool, err error) {
	w, err := r.loadWorkflow(ctx, r.run.State.WorkflowID)
	if err != nil {
		return false, err
	}
	r.contact, err = engine.Load(ctx, r.Unit, r.Engine.Contacts, r.run.State.ContactID)
	if err != nil {
		return false, err
	}
	code := in.Cancel
	switch {
	case code != "":
	case w.State.Status == workflow.StatusArchived:
		code = workflow.CodeArchived
	case !r.contact.State.Exists():
		code = workflow.CodeContactDeleted
	case r.contact.State.Consent == consent.OptedOut:
		code = workflow.CodeOptedOut
	case w.State.Status == workflow.StatusPaused:
		return true, nil
	}
	if code != "" {
		r.run.Record(r.run.State.Cancel(code))
		return false, nil
	}
	if r.version, err = r.loadVersion(ctx, r.run.State.VersionID); err != nil {
		return false, err
	}
	for r.run.State.Active() {
		again, err := r.step(ctx, in.Reply)
		if err != nil || !again {
			return false, err
		}
	}
	return false, nil
}

// end releases what an active run holds, when the run has ended.
func (r *runUnit) end(ctx context.Context) error {
	if r.run.State.Active() {
		return nil
	}
	s := &r.run.State
	scope, key := workflow.RunClaim(s.WorkflowID, s.ContactID)
	r.ReleaseClaim(scope, key, s.RunID.String())
	r.Quota(engine.CountQuota("runs:"+s.ContactID, -1, workflow.MaxActiveRuns), nil)
	if !r.contact.State.Exists() {
		return nil
	}
	return r.giveBack(ctx)
}

// giveBack makes the team the handler of the contact's conversation, if the run is, or an agent that the run waits for.
func (r *runUnit) giveBack(ctx context.Context) error {
	conv, err := engine.Load(ctx, r.Unit, r.Engine.Conversations, r.contact.State.ConversationID)
	if err != nil || !conv.State.Exists() {
		return err
	}
	handler, err := r.agentHandler(ctx)
	if err == nil && (conv.State.HandledBy == r.handler() || conv.State.HandledBy == handler) {
		conv.Record(conv.State.HandleByTeam()...)
	}
	return err
}

func (r *runUnit) handler() string { return conversation.WorkflowPrefix + r.run.State.RunID.String() }

// step takes the step that the run is at. again is false when the run waits, or when the next step needs an append of
// its own.
func (r *runUnit) step(ctx context.Context, reply *workflow.Reply) (again bool, err error) {
	state := &r.run.State
	if state.Node == "" {
		r.run.Record(state.Finish())
		return true, nil
	}
	s := r.version.Plan.Steps[state.Node]
	if state.Status == workflow.RunWaiting {
		if s.Type == workflow.NodeAI {
			return r.endAI(ctx, s)
		}
		ended := state.EndWait(s, reply, r.Now)
		if ended == nil {
			return false, nil
		}
		r.run.Record(ended)
		return true, nil
	}
	switch s.Type {
	case workflow.NodeWait:
		r.run.Record(state.BeginWait(s, r.Now))
	case workflow.NodeCondition:
		err = r.condition(ctx, s)
	case workflow.NodeSend:
		if r.sent {
			return false, nil
		}
		err = r.send(ctx, s)
	case workflow.NodeAssign:
		err = r.assign(ctx, s)
	case workflow.NodeLabel:
		err = r.label(ctx, s)
	case workflow.NodeWebhook:
		r.webhook(s)
	case workflow.NodeAI:
		err = r.ai(ctx, s)
	}
	return true, err
}

func (r *runUnit) complete(s *workflow.Step, status, label string, detail map[string]any) {
	r.run.Record(r.run.State.Complete(s, status, label, detail))
}

func (r *runUnit) fail(s *workflow.Step, code string) { r.run.Record(r.run.State.Fail(s, code)...) }

// condition decides by the contact and the message that the run is about.
func (r *runUnit) condition(ctx context.Context, s *workflow.Step) error {
	labels := map[string]uuid.UUID{}
	for _, name := range s.Condition.LabelNames() {
		id, found, err := r.labelOf(ctx, r.version, name)
		if err != nil {
			return err
		}
		if found {
			labels[name] = id
		}
	}
	facts, err := r.segmentContact(ctx, r.contact, s.Condition.Node(), r.times)
	if err != nil {
		return err
	}
	if id := r.run.State.MessageID; id != nil {
		m, err := engine.Load(ctx, r.Unit, r.Engine.Messages, *id)
		if err != nil {
			return err
		}
		facts.MessageBody = &m.State.Content.Body
	}
	result := s.Condition.Matches(facts, r.Now, func(name string) (uuid.UUID, bool) {
		id, found := labels[name]
		return id, found
	})
	label := workflow.LabelFalse
	if result {
		label = workflow.LabelTrue
	}
	r.complete(s, workflow.StepCompleted, label, map[string]any{"result": result})
	return nil
}

// send accepts a message to the contact. A refusal fails the run.
func (r *runUnit) send(ctx context.Context, s *workflow.Step) error {
	c, state := &r.contact.State, &r.run.State
	body, ok := s.Send.Body.Render(workflow.Values{
		Phone: c.Phone, FirstName: c.FirstName, LastName: c.LastName, Company: c.Company, Email: c.Email, Fields: c.Fields, Trigger: state.Data,
	})
	if !ok {
		r.fail(s, workflow.CodeTemplateMissing)
		return nil
	}
	queued, err := r.acceptMessage(ctx, &AcceptMessage{
		ContactID: &c.ID, Body: body, Media: s.Send.Media, PoolID: s.Send.PoolID, LineID: s.Send.LineID, Fallback: s.Send.Fallback, Source: "workflow",
	})
	if refused := fault.Of(err); refused != nil && refused.Code != fault.Unavailable {
		r.fail(s, refusalCode(refused))
		return nil
	}
	if err != nil {
		return err
	}
	if !state.Sent {
		if err := r.takeOver(ctx); err != nil {
			return err
		}
	}
	key := conversation.WorkflowPrefix + state.RunID.String() + ":" + s.ID
	fingerprint := sha256.Sum256([]byte(key))
	r.Request.Idempotency = &IdempotencyRecord{
		Workspace: r.Request.Workspace, Key: key, Fingerprint: fingerprint[:], Status: http.StatusCreated,
	}
	r.Ref, r.Subject, r.sent = queued.MessageID, c.ID, true
	r.complete(s, workflow.StepCompleted, "", map[string]any{"message_id": queued.MessageID})
	return nil
}

// refusalCode is the error code of a run whose message was refused. A line or a pool that is gone is a missing
// reference.
func refusalCode(f *fault.Fault) string {
	if f.Code == fault.ValidationFailed && slices.ContainsFunc(f.Issues, func(i fault.Issue) bool { return i.Path == "/line_id" || i.Path == "/pool_id" }) {
		return workflow.CodeReferenceMissing
	}
	return string(f.Code)
}

// takeOver makes the run the handler of a conversation that the team handles and that is assigned to nobody (rule
// WFL-28).
func (r *runUnit) takeOver(ctx context.Context) error {
	conv, err := engine.Load(ctx, r.Unit, r.Engine.Conversations, r.contact.State.ConversationID)
	if err == nil {
		conv.Record(conv.State.HandleByRun(r.handler())...)
	}
	return err
}

// assign gives the conversation to a person, a team or nobody. A contact without a conversation gets one.
func (r *runUnit) assign(ctx context.Context, s *workflow.Step) error {
	missing, err := r.missingReferences(ctx, s.References())
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		r.fail(s, workflow.CodeReferenceMissing)
		return nil
	}
	conv, err := engine.Load(ctx, r.Unit, r.Engine.Conversations, r.contact.State.ConversationID)
	if err != nil {
		return err
	}
	if !conv.State.Exists() {
		conv.Record(conv.State.EnsureOpen(r.contact.State.ConversationID, r.contact.State.ID, r.contact.State.IsTest)...)
	}
	change := conversation.Change{}
	unassign := s.Assign.UserID == nil && s.Assign.TeamID == nil
	if unassign || s.Assign.UserID != nil {
		change.Assignee = conversation.Setting[uuid.UUID]{Given: true, Value: s.Assign.UserID}
	}
	if unassign || s.Assign.TeamID != nil {
		change.Team = conversation.Setting[uuid.UUID]{Given: true, Value: s.Assign.TeamID}
	}
	changed, err := conv.State.Change(change, r.Now)
	if err != nil {
		return err
	}
	conv.Record(changed...)
	if conv.State.HandledBy == r.handler() { // an assign step ends it (rule WFL-28)
		conv.Record(conv.State.HandleByTeam()...)
	}
	r.complete(s, completedIf(len(changed) > 0), "", nil)
	return nil
}

// completedIf is the status of a step that may have had nothing to change.
func completedIf(changed bool) string {
	if changed {
		return workflow.StepCompleted
	}
	return workflow.StepSkipped
}

// label adds and removes labels of the contact.
func (r *runUnit) label(ctx context.Context, s *workflow.Step) error {
	var ids [2][]uuid.UUID
	for i, names := range [][]string{s.Label.Add, s.Label.Remove} {
		for _, name := range names {
			id, found, err := r.labelOf(ctx, r.version, name)
			if err != nil {
				return err
			}
			if !found {
				r.fail(s, workflow.CodeReferenceMissing)
				return nil
			}
			ids[i] = append(ids[i], id)
		}
	}
	changed, err := r.contact.State.ChangeLabels(ids[0], ids[1], "/add")
	if f := fault.Of(err); f != nil { // too many labels
		r.fail(s, string(f.Code))
		return nil //nolint:nilerr // the failure is recorded with the step
	}
	r.contact.Record(changed...)
	r.complete(s, completedIf(len(changed) > 0), "", nil)
	return nil
}

// webhook sends an event to the customer's endpoints.
func (r *runUnit) webhook(s *workflow.Step) {
	id := r.Engine.IDs.UUID()
	r.run.Record(&events.RunWebhookCalled{
		RunRef: r.run.State.RunRef, NodeID: s.ID, EventID: id, Name: s.Webhook.Name, Data: s.Webhook.Data,
	})
	r.complete(s, workflow.StepCompleted, "", map[string]any{"event_id": webhook.FormatEventID(id)})
}
