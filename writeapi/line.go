package writeapi

import (
	"context"

	"ledgerline/domain/line"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// UpdateLine is the request of PATCH /v1/lines/{id} (administration 4.4).
type UpdateLine struct {
	httpapi.IDParam
	Body struct {
		DisplayName httpapi.Nullable[string]           `json:"display_name,omitzero" maxLength:"80"`
		PoolID      httpapi.Nullable[string]           `json:"pool_id,omitzero" doc:"Moves the line; null takes it out of its pool"`
		ContactCard httpapi.Optional[ContactCardInput] `json:"contact_card,omitzero" doc:"What is given replaces what is there, field by field"`
	}
}

// ContactCardInput is what may be changed of a line's card.
type ContactCardInput struct {
	Name     httpapi.Optional[string]                `json:"name,omitzero" maxLength:"100"`
	ImageURL httpapi.Optional[httpapi.AddressOrNone] `json:"image_url,omitzero" maxLength:"2048" doc:"An https address; an empty text takes the image away"`
}

func (a *API) updateLine(ctx context.Context, c *httpapi.Call, in *UpdateLine) (httpapi.WriteResult, error) {
	b := &in.Body
	return done(a.app.UpdateLine(ctx, request(c), in.ID, line.Change{
		DisplayName: line.Text{Given: b.DisplayName.Set, To: b.DisplayName.Value}, Pool: line.PoolChoice{Given: b.PoolID.Set, To: b.PoolID.Ptr()},
		CardName: b.ContactCard.Value.Name.Ptr(), CardImage: (*string)(b.ContactCard.Value.ImageURL.Ptr()),
	}))
}

// MoveLine is the request of POST /v1/lines/{id}/pause and …/resume (administration 4.4).
type MoveLine struct {
	httpapi.IDParam
	Body *struct {
		Reason httpapi.Optional[string] `json:"reason,omitzero" maxLength:"500" doc:"Put no personal data here"`
	}
}

func (in *MoveLine) reason() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Reason.Value
}

func (a *API) pauseLine(ctx context.Context, c *httpapi.Call, in *MoveLine) (httpapi.WriteResult, error) {
	return done(a.app.PauseLine(ctx, request(c), in.ID, in.reason()))
}

func (a *API) resumeLine(ctx context.Context, c *httpapi.Call, in *MoveLine) (httpapi.WriteResult, error) {
	return done(a.app.ResumeLine(ctx, request(c), in.ID, in.reason()))
}

// line is the view that answers writes on a line.
func (a *API) line(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Line, error) {
	if err := a.reach(ctx, d, projections.Lines, projections.Usage); err != nil {
		return projections.Line{}, err
	}
	found, ok, err := a.store.LineNow(ctx, c.OrganisationID, viewer(c, d.Shard), d.Ref)
	if err == nil && !ok {
		err = gone("line")
	}
	return found, err
}
