package commands

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
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
	if err != nil || c.State.Consent == consent.OptedOut || num.State.OptedOut || c.State.IsTest && e.MessageID == nil {
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
	u.Quota(engine.CountQuota("runs:"+e.ContactID, 1, workflow.MaxActiveRuns), errTooManyRuns)
	return true, nil
}

// errTooManyRuns refuses the start of a run of a contact that has as many active runs as it may have.
var errTooManyRuns = fault.New(fault.Conflict, "The contact has too many active runs.")

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

// FindVersion reads a version of a workflow; not_found when there is none.
func (a *App) FindVersion(ctx context.Context, id uuid.UUID) (workflow.Version, error) {
	v, err := a.engine.Versions.Find(ctx, workflow.VersionStream(id), false)
	if err == nil && !v.Exists() {
		err = engine.NotFound("version of the workflow")
	}
	return v, err
}
