package writeapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// resource says how one kind of resource is read back after a write. Its view method answers all writes on it.
type resource[Row any] struct {
	store *projections.Store
	noun  string // for the message of not_found: "contact"
	// find reads the row with an id; ok is false when there is none that the viewer may see.
	find func(ctx context.Context, v projections.Viewer, id string) (row Row, ok bool, err error)
	// shownBy names the consumers of the feed that must have applied a write before find shows it.
	shownBy []string
}

// view answers a write: it waits until the write's position is applied and returns the row. It returns not_found when
// the row does not exist any more, which happens to a retry only, and service_unavailable when the read model is too
// far behind.
func (r resource[Row]) view(ctx context.Context, c *httpapi.Call, w httpapi.WriteResult) (Row, error) {
	if err := r.store.WaitForPositionByName(ctx, w.Shard, w.Position, r.shownBy...); err != nil {
		var none Row
		return none, err
	}
	v := viewer(c, w.Shard)
	row, ok, err := r.find(ctx, v, w.Ref)
	if err != nil || ok {
		return row, err
	}
	if err := r.store.ConfirmPositionByName(ctx, w.Shard, w.Position, r.shownBy...); err != nil {
		return row, err
	}
	return r.row(ctx, v, w.Ref)
}

// current returns the row as of the head of the ledger, for writes that depend on what the read model shows. Its errors
// are those of view.
func (r resource[Row]) current(ctx context.Context, c *httpapi.Call, id string) (Row, error) {
	shard := r.store.Ledger().ShardOf(c.OrganisationID)
	if err := r.store.WaitForHeadByName(ctx, shard, r.shownBy...); err != nil {
		var none Row
		return none, err
	}
	return r.row(ctx, viewer(c, shard), id)
}

func (r resource[Row]) row(ctx context.Context, v projections.Viewer, id string) (Row, error) {
	row, ok, err := r.find(ctx, v, id)
	if err == nil && !ok {
		err = notFound(r.noun)
	}
	return row, err
}

// consumers lists the names under which projections follow the feed.
func consumers(ps ...*readmodel.Projection) []string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.ID
	}
	return names
}

// byUUID adapts a query by UUID to a resource. An id that is no UUID belongs to no row.
func byUUID[Row any](
	find func(context.Context, projections.Viewer, uuid.UUID) (Row, bool, error),
) func(context.Context, projections.Viewer, string) (Row, bool, error) {
	return func(ctx context.Context, v projections.Viewer, id string) (Row, bool, error) {
		parsed, err := uuid.Parse(id)
		if err != nil {
			var none Row
			return none, false, nil //nolint:nilerr // there is no row with such an id
		}
		return find(ctx, v, parsed)
	}
}

// deletedFrom answers a deletion when the projections do not show the resource any more.
func (a *API) deletedFrom(ps ...*readmodel.Projection) httpapi.View[httpapi.Deleted] {
	return func(ctx context.Context, _ *httpapi.Call, w httpapi.WriteResult) (httpapi.Deleted, error) {
		return httpapi.Deleted{Deleted: true, ID: w.Ref}, a.store.WaitForPosition(ctx, w.Shard, w.Position, ps...)
	}
}

func notFound(noun string) error { return fault.New(fault.NotFound, "There is no such %s.", noun) }

// viewer says which rows the caller may see.
func viewer(c *httpapi.Call, shard int) projections.Viewer {
	return projections.Viewer{Workspace: c.WorkspaceID, Shard: shard, Agent: agentUserID(c)}
}

// agentUserID is the user's id if the caller sees only its own and unassigned conversations (rules ACC-18 and ACC-19),
// else uuid.Nil.
func agentUserID(c *httpapi.Call) uuid.UUID {
	if c.OwnOnly() {
		return uuid.MustParse(c.ID) // the id of a session is the id of its user
	}
	return uuid.Nil
}
