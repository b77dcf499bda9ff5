package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/label"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// CreateWorkflow creates a workflow of the request's workspace as a draft; Ref is its id. The draft is checked when it
// is published (rule WFL-4). Refusals: validation_failed for the name.
func (a *App) CreateWorkflow(ctx context.Context, req Request, name string, draft workflow.Draft) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		created, err := workflow.Create(id, name, draft)
		if err != nil {
			return err
		}
		engine.Begin(u.Unit, a.engine.Workflows, workflow.Stream(id)).Record(created...)
		u.Ref = id.String()
		return nil
	})
}

// loadWorkflow loads a workflow of the request's workspace; not_found when there is none.
func (u *unit) loadWorkflow(ctx context.Context, id uuid.UUID) (*engine.Aggregate[workflow.Workflow], error) {
	w, err := engine.Load(ctx, u.Unit, u.Engine.Workflows, workflow.Stream(id))
	if err == nil && (!w.State.Exists() || w.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("workflow")
	}
	return w, err
}

// UpdateWorkflow edits the draft of a workflow of the request's workspace, and moves it to another status. Refusals:
// not_found, and those of workflow.Workflow.Update.
func (a *App) UpdateWorkflow(ctx context.Context, req Request, id uuid.UUID, change workflow.Change) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		w, err := u.loadWorkflow(ctx, id)
		if err != nil {
			return err
		}
		changed, err := w.State.Update(change)
		if err != nil {
			return err
		}
		w.Record(changed...)
		u.Ref = id.String()
		return nil
	})
}

// PublishWorkflow makes the draft of a workflow of the request's workspace its live version. Without a draft it changes
// nothing. Refusals: not_found, conflict for an archived workflow, validation_failed with everything that is wrong with
// the draft (rules WFL-6 and WFL-7).
func (a *App) PublishWorkflow(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	versionID := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		w, err := u.loadWorkflow(ctx, id)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		if _, err := w.State.Publish(versionID, "", nil); err != nil || !w.State.HasDraft {
			return err
		}
		checked, err := u.checkDraft(ctx, &w.State.Draft)
		if err != nil {
			return err
		}
		published, err := w.State.Publish(versionID, checked.timeZone, checked.labels)
		if err != nil {
			return err
		}
		engine.Begin(u.Unit, a.engine.Versions, workflow.VersionStream(versionID)).Record(published.Version...)
		w.Record(published.Workflow...)
		return nil
	})
}

// checkedDraft is a draft that may be published.
type checkedDraft struct {
	plan     *workflow.Plan
	timeZone string
	labels   []events.SegmentLabel // the labels that the draft names, as far as they exist
}

// checkDraft checks a draft for its publication. Refusals: validation_failed with everything that is wrong.
func (u *unit) checkDraft(ctx context.Context, d *workflow.Draft) (checkedDraft, error) {
	org, err := u.Organisation(ctx)
	if err != nil {
		return checkedDraft{}, err
	}
	checked := checkedDraft{timeZone: org.State.TimeZone}
	zone, err := time.LoadLocation(checked.timeZone)
	if err != nil {
		return checkedDraft{}, fmt.Errorf("commands: time zone of the organisation: %w", err)
	}
	plan, issues := workflow.Check(d, workflow.Environment{Now: u.Now, Zone: zone, StopWords: org.State.Settings.StopWords})
	checked.plan = plan
	missing, err := u.missingReferences(ctx, plan.References)
	if err != nil {
		return checkedDraft{}, err
	}
	if issues = append(issues, missing...); len(issues) > 0 {
		return checkedDraft{}, fault.Invalids(issues...)
	}
	known := map[string]bool{}
	for _, name := range plan.LabelNames() {
		_, key := label.Claim(u.Request.Workspace, name)
		if known[key] {
			continue
		}
		known[key] = true
		found, err := u.findLabel(ctx, name)
		if err != nil {
			return checkedDraft{}, err
		}
		if found != nil {
			checked.labels = append(checked.labels, events.SegmentLabel{Name: key, LabelID: found.State.ID})
		}
	}
	return checked, nil
}

// missingReferences returns the issues of those references that lead nowhere.
func (u *unit) missingReferences(ctx context.Context, references []workflow.Reference) ([]fault.Issue, error) {
	type resource struct {
		kind workflow.ReferenceKind
		id   string
	}
	exists := map[resource]bool{}
	var issues []fault.Issue
	for _, r := range references {
		named := resource{r.Kind, r.ID}
		found, known := exists[named]
		if !known {
			var err error
			if found, err = u.refersToSomething(ctx, r); err != nil {
				return nil, err
			}
			exists[named] = found
		}
		if !found {
			issues = append(issues, r.Issue())
		}
	}
	return issues, nil
}

// refersToSomething reports whether the request's workspace has the resource that a reference names.
func (u *unit) refersToSomething(ctx context.Context, r workflow.Reference) (bool, error) {
	id, _ := uuid.Parse(r.ID)
	switch r.Kind {
	case workflow.ReferenceLine:
		l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, r.ID)
		if err != nil {
			return false, err
		}
		return l.State.ID != "" && l.State.Workspace == u.Request.Workspace && l.State.State != line.Retired && !l.State.IsSandbox, nil
	case workflow.ReferencePool:
		_, err := pools.load(ctx, u, r.ID)
		return foundUnless(err)
	case workflow.ReferenceSegment:
		_, err := segments.load(ctx, u, id)
		return foundUnless(err)
	case workflow.ReferenceLabel:
		found, err := u.findLabel(ctx, r.ID)
		return found != nil, err
	case workflow.ReferenceUser:
		user, err := u.loadUser(ctx, id)
		if found, err := foundUnless(err); err != nil || !found {
			return false, err
		}
		return user.State.MemberOf(u.Request.Workspace), nil
	case workflow.ReferenceTeam:
		team, err := engine.Load(ctx, u.Unit, u.Engine.Teams, organisation.TeamStream(id))
		if err != nil {
			return false, err
		}
		return team.State.ID != uuid.Nil && team.State.Workspace == u.Request.Workspace, nil
	case workflow.ReferenceAgent:
		_, err := agents.load(ctx, u, id)
		return foundUnless(err)
	}
	return false, nil
}

// foundUnless turns the refusal not_found into false.
func foundUnless(err error) (bool, error) {
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}
