package readapi

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// contactImport answers GET /v1/contacts/imports/{id}.
func (a *API) contactImport(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (projections.ImportJob, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Imports); err != nil {
		return projections.ImportJob{}, err
	}
	found, ok, err := a.store.Import(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such import.")
	}
	return found, err
}
