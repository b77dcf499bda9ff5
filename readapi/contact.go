package readapi

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/domain/phone"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListContacts is the query of GET /v1/contacts.
type ListContacts struct {
	httpapi.PageParams
	Q             string                      `query:"q" maxLength:"100" doc:"Searches name, phone, email and company"`
	Phone         string                      `query:"phone" doc:"E.164"`
	Label         string                      `query:"label" maxLength:"64"`
	SegmentID     httpapi.Optional[uuid.UUID] `query:"segment_id"`
	ConsentStatus string                      `query:"consent_status" enum:"unknown,opted_in,opted_out"`
	OwnerUserID   httpapi.Optional[uuid.UUID] `query:"owner_user_id"`
	LineID        string                      `query:"line_id" doc:"Contacts whose sticky sender is this line"`
}

// Check implements httpapi.Checked.
func (in *ListContacts) Check() []fault.Issue {
	return append(phoneIssues("/phone", in.Phone), idIssues("/line_id", "ln_", in.LineID)...)
}

// phoneIssues returns an issue when a number in the query is not a phone number.
func phoneIssues(pointer, number string) []fault.Issue {
	if _, ok := phone.Read(number); number == "" || ok {
		return nil
	}
	return []fault.Issue{{Location: "query", Path: pointer, Code: "invalid_phone", Message: "Expected a phone number in E.164."}}
}

// idIssues returns an issue when an id in the query does not have its prefix. Otherwise a mistyped filter would look
// like an empty list.
func idIssues(pointer, prefix, id string) []fault.Issue {
	if id == "" || strings.HasPrefix(id, prefix) {
		return nil
	}
	return []fault.Issue{{Location: "query", Path: pointer, Code: "invalid_format", Message: "Expected an id that begins with " + prefix + "."}}
}

// contacts answers GET /v1/contacts.
func (a *API) contacts(ctx context.Context, c *httpapi.Call, in *ListContacts) (httpapi.Page[projections.Contact], error) {
	by := projections.ContactFilter{Q: in.Q, Label: in.Label, ConsentStatus: in.ConsentStatus, LineID: in.LineID}
	if in.OwnerUserID.Set {
		by.OwnerUserID = in.OwnerUserID.Value.String()
	}
	issues := in.Check()
	by.Phone, _ = phone.Read(in.Phone)
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Contacts, projections.Segments); err != nil {
		return httpapi.Page[projections.Contact]{}, err
	}
	unknown, err := a.segmentIssues(ctx, v, in.SegmentID, &by)
	if err != nil {
		return httpapi.Page[projections.Contact]{}, err
	}
	if issues = append(issues, unknown...); len(issues) > 0 {
		return httpapi.Page[projections.Contact]{}, fault.Invalids(issues...)
	}
	after, err := a.openCursor(c, "contacts", by, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Contact]{}, err
	}
	page, err := a.store.Contacts(ctx, v, by, after, in.Limit)
	return answerPage(a, c, "contacts", by, page, err)
}

// segmentIssues sets the segment in the filter, and returns an issue when the segment does not exist. Otherwise a
// mistyped id would look like an empty list.
func (a *API) segmentIssues(ctx context.Context, v projections.Viewer, id httpapi.Optional[uuid.UUID], by *projections.ContactFilter) ([]fault.Issue, error) {
	if !id.Set {
		return nil, nil
	}
	by.SegmentID = id.Value.String()
	_, found, err := a.store.SegmentDefinition(ctx, v, by.SegmentID)
	if err != nil || found {
		return nil, err
	}
	return []fault.Issue{{Location: "query", Path: "/segment_id", Code: "not_found", Message: "There is no such segment in this workspace."}}, nil
}

// contact answers GET /v1/contacts/{id}.
func (a *API) contact(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (projections.Contact, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Contacts); err != nil {
		return projections.Contact{}, err
	}
	found, ok, err := a.store.Contact(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such contact.")
	}
	return found, err
}
