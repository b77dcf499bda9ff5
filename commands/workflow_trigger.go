package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// FireTrigger is a post to the webhook trigger of a workflow.
type FireTrigger struct {
	WorkflowID uuid.UUID
	Data       map[string]any // the posted JSON
	// Answer, when not nil, renders the answer so that it commits with the idempotency record; see AcceptMessage.
	Answer func(TriggeredRun) ([]byte, error)
}

// TriggeredRun is what a post to a webhook trigger started. RunID is nil when it started no run.
type TriggeredRun struct {
	Result
	RunID *uuid.UUID
}

// FireTrigger starts a run of the workflow for the contact whose number the posted data has. Nothing starts for a
// contact that opted out, has an active run of the workflow, or has as many active runs as it may have (rule WFL-32).
// Refusals: not_found for a workflow without a webhook trigger, conflict while it is not live, validation_failed
// without a valid number, or for an unknown number when the trigger makes no contacts.
func (a *App) FireTrigger(ctx context.Context, req Request, in FireTrigger) (TriggeredRun, error) {
	id := a.engine.IDs.UUID()
	req.Actor = events.Actor{Type: "system", ID: WorkflowsActor}
	triggered, err := a.fireTrigger(ctx, req, &in, id, false)
	if fault.Is(err, fault.Conflict) && fault.Of(err) == errTooManyRuns {
		return a.fireTrigger(ctx, req, &in, id, true)
	}
	return triggered, err
}

// fireTrigger is FireTrigger with the id that the run will have. With noRun it records everything but the run.
func (a *App) fireTrigger(ctx context.Context, req Request, in *FireTrigger, id uuid.UUID, noRun bool) (TriggeredRun, error) {
	var triggered TriggeredRun
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		triggered = TriggeredRun{}
		w, err := u.loadWorkflow(ctx, in.WorkflowID)
		if err != nil {
			return err
		}
		switch {
		case !w.State.TakesPosts():
			return unknownTrigger()
		case w.State.Status != workflow.StatusLive:
			return fault.New(fault.Conflict, "The workflow is %s.", w.State.Status)
		}
		v, err := u.loadVersion(ctx, w.State.VersionID)
		if err != nil {
			return err
		}
		c, err := u.postedContact(ctx, &v.Plan.Trigger, in.Data)
		if err != nil {
			return err
		}
		u.Subject = c.State.ID
		started := false
		if !noRun {
			started, err = u.startRun(ctx, v, c, &events.RunStarted{
				RunRef:  events.RunRef{RunID: id, WorkflowID: v.WorkflowID, ContactID: c.State.ID},
				Trigger: string(v.Plan.Trigger.Type), Data: events.RunPersonal{Trigger: in.Data},
			})
		}
		if err != nil {
			return err
		}
		if started {
			triggered.RunID, u.Ref = &id, id.String()
		}
		return renderAnswer(u, triggered, in.Answer)
	})
	triggered.Result = result
	return triggered, err
}

// postedContact returns the contact whose number is in the posted data. With create_contact an unknown number makes
// one.
func (u *unit) postedContact(ctx context.Context, t *workflow.Trigger, data map[string]any) (*engine.Aggregate[contact.Contact], error) {
	posted, found := workflow.Resolve(data, t.PhonePath)
	number, isText := posted.(string)
	switch {
	case !found:
		return nil, fault.Invalid(t.PhonePointer, "required", "The data has no phone number here.")
	case !isText:
		return nil, fault.Invalid(t.PhonePointer, "invalid_type", "Expected a phone number as a text.")
	}
	e164, err := u.Engine.Phone(number, t.PhonePointer)
	if err != nil {
		return nil, err
	}
	num, err := u.Number(ctx, e164)
	if err != nil {
		return nil, err
	}
	c, err := u.findContact(ctx, num)
	if err != nil || c != nil {
		return c, err
	}
	if !t.CreateContact {
		return nil, fault.Invalid(t.PhonePointer, "unknown_contact", "No contact has this number, and the trigger makes none.")
	}
	return u.recordNewContact(num, contact.NewContact{Person: events.ContactPersonal{Phone: e164}, Origin: "workflow"})
}
