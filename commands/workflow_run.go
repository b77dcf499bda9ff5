package commands

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.jetify.com/typeid/v2"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/conversation"
	"ledgerline/domain/exchange"
	"ledgerline/domain/fault"
	"ledgerline/domain/segment"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// WorkflowsActor is the actor of everything that workflows do.
const WorkflowsActor = "workflows"

// ContactTimes finds what conditions and segments compare that only a read model knows: the times of a contact, and
// whether it is on chat. It sets these fields of the contact and leaves the others.
type ContactTimes func(ctx context.Context, contactID string, into *segment.Contact) error

// StartRun is what starts a run of a version of a workflow.
type StartRun struct {
	RunID     uuid.UUID // see workflow.RunID
	VersionID uuid.UUID
	ContactID string
	MessageID *string // of the trigger message.received
}

// StartRun starts a run, if the trigger of the version fits the contact and the message. started is false when it does
// not, when the workflow is not live, the contact opted out or was erased, a run of the workflow and the contact is
// active, the contact has as many active runs as it may have, or this run was started before (rules WFL-17 to WFL-22).
func (a *App) StartRun(ctx context.Context, in StartRun, times ContactTimes) (started bool, err error) {
	req := Request{Actor: events.Actor{Type: "system", ID: WorkflowsActor}, Correlation: in.RunID}
	_, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		started = false
		v, err := u.loadVersion(ctx, in.VersionID)
		if err != nil {
			return err
		}
		w, err := u.loadWorkflow(ctx, v.WorkflowID)
		if err != nil || w.State.Status != workflow.StatusLive {
			return err
		}
		c, err := u.loadContact(ctx, in.ContactID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		fits, err := u.triggerFits(ctx, v, c, in.MessageID, times)
		if err != nil || !fits {
			return err
		}
		started, err = u.startRun(ctx, v, c, &events.RunStarted{
			RunRef:  events.RunRef{RunID: in.RunID, WorkflowID: v.WorkflowID, ContactID: in.ContactID},
			Trigger: string(v.Plan.Trigger.Type), MessageID: in.MessageID,
		})
		return err
	})
	if fault.Is(err, fault.Conflict) { // too many active runs
		return false, nil
	}
	return started && err == nil, err
}

// loadVersion loads a version, and makes its workspace that of the request when the request has none.
func (u *unit) loadVersion(ctx context.Context, id uuid.UUID) (*workflow.Version, error) {
	v, err := engine.Load(ctx, u.Unit, u.Engine.Versions, workflow.VersionStream(id))
	if err != nil {
		return nil, err
	}
	if !v.State.Exists() {
		return nil, engine.NotFound("version of the workflow")
	}
	if u.Request.Workspace == uuid.Nil {
		u.Request.Organisation, u.Request.Workspace = v.State.Organisation, v.State.Workspace
	}
	return &v.State, nil
}

// startRun records the start of a run, unless the contact may not be messaged or a run of the workflow and the contact
// is active. A contact with too many active runs is refused with conflict.
func (u *unit) startRun(ctx context.Context, v *workflow.Version, c *engine.Aggregate[contact.Contact], e *events.RunStarted) (bool, error) {
	num, err := u.NumberByHash(ctx, c.State.NumberHash)
	if err != nil || c.State.Consent == consent.OptedOut || num.State.OptedOut {
		return false, err
	}
	stream := workflow.RunStream(e.RunID)
	scope, key := workflow.RunClaim(v.WorkflowID, e.ContactID)
	if u.Fresh { // the append was refused: perhaps because of another run, or because this one was started before
		owner, active, err := u.Owner(ctx, scope, key)
		if err != nil {
			return false, err
		}
		if active {
			_, err := engine.Load(ctx, u.Unit, u.Engine.Runs, "run_"+owner)
			return false, err
		}
		known, err := engine.Load(ctx, u.Unit, u.Engine.Runs, stream)
		if err != nil || known.State.Exists() {
			return false, err
		}
	}
	e.VersionID, e.Version = v.ID, v.Number
	engine.Begin(u.Unit, u.Engine.Runs, stream).Record(workflow.Start(e, v.Plan)...)
	u.Claim(scope, key, e.RunID.String(), decideAgain)
	u.Quota(engine.CountQuota("runs:"+e.ContactID, 1, workflow.MaxActiveRuns), fault.New(fault.Conflict, "The contact has too many active runs."))
	return true, nil
}

// triggerFits applies those conditions of a trigger that depend on more than the message's text and line.
func (u *unit) triggerFits(
	ctx context.Context, v *workflow.Version, c *engine.Aggregate[contact.Contact], messageID *string, times ContactTimes,
) (bool, error) {
	t := &v.Plan.Trigger
	if messageID != nil {
		if fits, err := u.messageFits(ctx, t, c, *messageID); err != nil || !fits {
			return false, err
		}
	}
	for _, name := range t.Labels {
		id, found, err := u.labelOf(ctx, v, name)
		if err != nil || !found || !slices.Contains(c.State.LabelIDs, id) {
			return false, err
		}
	}
	if t.SegmentID == nil {
		return true, nil
	}
	return u.inSegment(ctx, *t.SegmentID, c, times)
}

func (u *unit) messageFits(ctx context.Context, t *workflow.Trigger, c *engine.Aggregate[contact.Contact], messageID string) (bool, error) {
	m, err := engine.Load(ctx, u.Unit, u.Engine.Messages, messageID)
	if err != nil {
		return false, err
	}
	org, err := u.Organisation(ctx)
	if err != nil {
		return false, err
	}
	if keyword, _ := consent.Recognise(m.State.Content.Body, false, org.State.Settings.StopWords); keyword != consent.None {
		return false, nil
	}
	if len(t.PoolIDs) > 0 {
		l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, m.State.LineID)
		if err != nil || !slices.Contains(t.PoolIDs, l.State.PoolID) {
			return false, err
		}
	}
	if t.FirstMessageOnly {
		x, err := engine.Load(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(c.State.ID))
		if err != nil || x.State.FirstReplyID != messageID {
			return false, err
		}
	}
	return true, nil
}

// labelOf returns the label that a name of a version means: the one that it meant when the version was published, else
// the present one of that name. found is false when there is none.
func (u *unit) labelOf(ctx context.Context, v *workflow.Version, name string) (id uuid.UUID, found bool, err error) {
	if id, found = v.LabelID(name); !found {
		l, err := u.findLabel(ctx, name)
		if err != nil || l == nil {
			return uuid.Nil, false, err
		}
		return l.State.ID, true, nil
	}
	existing, err := u.existingLabels(ctx, []uuid.UUID{id})
	return id, len(existing) > 0, err
}

// inSegment reports whether a segment selects a contact. A segment that was deleted selects nobody.
func (u *unit) inSegment(ctx context.Context, id uuid.UUID, c *engine.Aggregate[contact.Contact], times ContactTimes) (bool, error) {
	s, err := segments.load(ctx, u, id)
	if found, err := foundUnless(err); err != nil || !found {
		return false, err
	}
	node, err := segment.Parse(s.State.Definition, "")
	if err != nil {
		return false, fmt.Errorf("commands: the definition of a segment: %w", err)
	}
	labels := map[string]uuid.UUID{}
	for _, l := range s.State.Labels {
		labels[l.Name] = l.LabelID
	}
	_ = node.BindLabels(func(name string) (uuid.UUID, bool) {
		id, found := labels[segment.Fold(segment.Clean(name))]
		return id, found
	})
	facts, err := u.segmentContact(ctx, c, node, times)
	if err != nil {
		return false, err
	}
	return node.Matches(facts, u.Now), nil
}

// timedFields are the fields of which only a read model knows the values.
var timedFields = []segment.Field{
	segment.CreatedAt, segment.LastInboundAt, segment.LastOutboundAt, segment.FirstReplyAt, segment.ChatCapable,
}

// segmentContact returns what a definition compares of a contact.
func (u *unit) segmentContact(
	ctx context.Context, c *engine.Aggregate[contact.Contact], node *segment.Node, times ContactTimes,
) (*segment.Contact, error) {
	s := &c.State
	facts := &segment.Contact{}
	needsTimes := false
	node.Walk(func(l *segment.Leaf) { needsTimes = needsTimes || slices.Contains(timedFields, l.Field) })
	if needsTimes {
		if err := times(ctx, s.ID, facts); err != nil {
			return nil, err
		}
	}
	labels, err := u.existingLabels(ctx, s.LabelIDs)
	if err != nil {
		return nil, err
	}
	facts.Phone, facts.FirstName, facts.LastName, facts.Company, facts.Email = s.Phone, s.FirstName, s.LastName, s.Company, s.Email
	facts.ConsentStatus, facts.LabelIDs, facts.OwnerUserID, facts.Fields = string(s.Consent), labels, s.Owner, s.Fields
	if s.LineID != "" {
		facts.AssignedLineID = &s.LineID
	}
	return facts, nil
}

// AdvanceRun is what a run is to take into account besides the ledger.
type AdvanceRun struct {
	Reply  *string // the message that the contact wrote while the run waited for a reply
	Cancel string  // error code with which the run is cancelled; "" for none
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

// giveBack makes the team the handler of the contact's conversation, if the run is.
func (r *runUnit) giveBack(ctx context.Context) error {
	conv, err := engine.Load(ctx, r.Unit, r.Engine.Conversations, r.contact.State.ConversationID)
	if err != nil || conv.State.HandledBy != r.handler() {
		return err
	}
	conv.Record(conv.State.HandleByTeam()...)
	return nil
}

func (r *runUnit) handler() string { return conversation.WorkflowPrefix + r.run.State.RunID.String() }

// step takes the step that the run is at. again is false when the run waits, or when the next step needs an append of
// its own.
func (r *runUnit) step(ctx context.Context, reply *string) (again bool, err error) {
	state := &r.run.State
	if state.Node == "" {
		r.run.Record(state.Finish())
		return true, nil
	}
	s := r.version.Plan.Steps[state.Node]
	if state.Status == workflow.RunWaiting {
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
		err = r.webhook(s)
	case workflow.NodeAI: // there are no agents yet, and an agent that is not live hands the conversation over
		r.complete(s, workflow.StepCompleted, workflow.LabelHandoff, map[string]any{"resume_at": nil, "outcome": workflow.LabelHandoff})
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
func (r *runUnit) webhook(s *workflow.Step) error {
	id := r.Engine.IDs.UUID()
	shown, err := typeid.FromUUID("evt", id.String())
	if err != nil {
		return fmt.Errorf("commands: id of an event: %w", err)
	}
	r.run.Record(&events.RunWebhookCalled{
		RunRef: r.run.State.RunRef, NodeID: s.ID, EventID: id, Name: s.Webhook.Name, Data: s.Webhook.Data,
	})
	r.complete(s, workflow.StepCompleted, "", map[string]any{"event_id": shown.String()})
	return nil
}

// FindVersion reads a version of a workflow; not_found when there is none.
func (a *App) FindVersion(ctx context.Context, id uuid.UUID) (workflow.Version, error) {
	v, err := a.engine.Versions.Find(ctx, workflow.VersionStream(id), false)
	if err == nil && !v.Exists() {
		err = engine.NotFound("version of the workflow")
	}
	return v, err
}
