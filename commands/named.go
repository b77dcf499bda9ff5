package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

// named declares a kind of resource that consists of fields and a name that is unique in its workspace, with no rules
// between resources. A declaration states what differs between the kinds; named creates, updates and deletes them all.
// ID is the type of the resource's id, S its state.
type named[ID, S any] struct {
	noun      string // what refusals call the resource: "label"
	nameField string // what refusals call its name: "name" or "title"
	most      int64  // how many a workspace may have (rule API-39)

	kind         func(*engine.Engine) engine.Kind[S]
	stream       func(ID) string
	exists       func(S) bool
	workspace    func(S) uuid.UUID
	claim        func(S) (scope, key string) // claim of its name
	deleteEvents func(S) []events.Event      // nil: resources of this kind are never deleted
}

// create makes a resource of the request's workspace; the result's Ref is its id. decide returns the events that begin
// it, or a refusal. A name that is taken is refused with conflict.
func (n *named[ID, S]) create(ctx context.Context, a *App, req Request, id ID, decide func(context.Context, *unit) ([]events.Event, error)) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		created, err := decide(ctx, u)
		if err != nil {
			return err
		}
		u.Ref = fmt.Sprint(id)
		n.begin(u, id, created, n.nameTaken)
		return nil
	})
}

// begin records the first events of a resource and claims its name. taken decides what happens when another resource
// has the name; see engine.Unit.Claim.
func (n *named[ID, S]) begin(u *unit, id ID, created []events.Event, taken func(owner string) error) {
	resource := engine.Begin(u.Unit, n.kind(u.Engine), n.stream(id))
	resource.Record(created...)
	scope, key := n.claim(resource.State)
	u.Claim(scope, key, fmt.Sprint(id), taken)
	n.count(u, 1)
}

// count adds to the number of the workspace's resources of this kind, within its limit.
func (n *named[ID, S]) count(u *unit, add int64) { u.countInWorkspace(n.noun, add, n.most) }

// countInWorkspace adds to the number of the workspace's resources of a kind. More than most are refused with conflict.
func (u *unit) countInWorkspace(noun string, add, most int64) {
	u.Quota(engine.CountQuota(noun+":"+u.Request.Workspace.String(), add, most),
		fault.New(fault.Conflict, "A workspace has at most %d resources of the kind %s.", most, noun).With("limit", most))
}

// load loads a resource of the request's workspace; not_found when there is none.
func (n *named[ID, S]) load(ctx context.Context, u *unit, id ID) (*engine.Aggregate[S], error) {
	resource, err := engine.Load(ctx, u.Unit, n.kind(u.Engine), n.stream(id))
	if err == nil && (!n.exists(resource.State) || n.workspace(resource.State) != u.Request.Workspace) {
		err = engine.NotFound(n.noun)
	}
	return resource, err
}

// update records what decide returns for a resource of the request's workspace. When that changes the name, the old
// name is released and the new one is claimed in the same append.
func (n *named[ID, S]) update(ctx context.Context, a *App, req Request, id ID, decide func(context.Context, *unit, S) ([]events.Event, error)) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		resource, err := n.load(ctx, u, id)
		if err != nil {
			return err
		}
		u.Ref = fmt.Sprint(id)
		scope, before := n.claim(resource.State)
		changed, err := decide(ctx, u, resource.State)
		if err != nil {
			return err
		}
		resource.Record(changed...)
		if _, after := n.claim(resource.State); after != before {
			u.ReleaseClaim(scope, before, u.Ref)
			u.Claim(scope, after, u.Ref, n.nameTaken)
		}
		return nil
	})
}

// remove deletes a resource of the request's workspace and releases its name.
func (n *named[ID, S]) remove(ctx context.Context, a *App, req Request, id ID) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		resource, err := n.load(ctx, u, id)
		if err != nil {
			return err
		}
		u.Ref = fmt.Sprint(id)
		scope, key := n.claim(resource.State)
		u.ReleaseClaim(scope, key, u.Ref)
		resource.Record(n.deleteEvents(resource.State)...)
		n.count(u, -1)
		return nil
	})
}

func (n *named[ID, S]) nameTaken(string) error {
	return fault.New(fault.Conflict, "A %s with this %s exists.", n.noun, n.nameField)
}

// decideAgain makes a command decide again when a name that it claims is taken: a resource with that name exists now.
func decideAgain(string) error { return nil }
