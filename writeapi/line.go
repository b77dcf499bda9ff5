package writeapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/line"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// UpdateLine is the request of PATCH /v1/lines/{id}.
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
	return result(a.app.UpdateLine(ctx, request(c), in.ID, line.Change{
		DisplayName: line.TextSetting{Given: b.DisplayName.Set, Value: b.DisplayName.Value}, Pool: line.PoolSetting{Given: b.PoolID.Set, Value: b.PoolID.Ptr()},
		CardName: b.ContactCard.Value.Name.Ptr(), CardImage: (*string)(b.ContactCard.Value.ImageURL.Ptr()),
	}))
}

// MoveLine is the request of POST /v1/lines/{id}/pause and …/resume.
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
	return result(a.app.PauseLine(ctx, request(c), in.ID, in.reason()))
}

func (a *API) resumeLine(ctx context.Context, c *httpapi.Call, in *MoveLine) (httpapi.WriteResult, error) {
	return result(a.app.ResumeLine(ctx, request(c), in.ID, in.reason()))
}

// lines needs the organisation, because the usage of a line is stored by organisation.
func (a *API) lines(organisation uuid.UUID) resource[projections.Line] {
	find := func(ctx context.Context, v projections.Viewer, id string) (projections.Line, bool, error) {
		return a.store.Line(ctx, organisation, v, id)
	}
	return resource[projections.Line]{a.store, "line", find, consumers(projections.Lines, projections.Usage)}
}

// lineView is the view that answers writes on a line.
func (a *API) lineView(ctx context.Context, c *httpapi.Call, w httpapi.WriteResult) (projections.Line, error) {
	return a.lines(c.OrganisationID).view(ctx, c, w)
}
