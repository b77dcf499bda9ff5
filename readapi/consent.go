package readapi

import (
	"context"
	"time"

	"ledgerline/domain/fault"
	"ledgerline/domain/phone"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListConsentEvents is the query of GET /v1/compliance/consent-events (decisions, section 13).
type ListConsentEvents struct {
	httpapi.PageParams
	Phone     string                      `query:"phone" doc:"E.164; finds the number's changes also after erasure"`
	ContactID string                      `query:"contact_id"`
	Type      string                      `query:"type" enum:"unknown,opted_in,opted_out" doc:"The status that the change led to"`
	From      httpapi.Optional[time.Time] `query:"from" doc:"From this time on"`
	To        httpapi.Optional[time.Time] `query:"to" doc:"Until before this time"`
}

// Check implements httpapi.Checked.
func (in *ListConsentEvents) Check() []fault.Issue {
	return append(phoneIssues(in.Phone), idIssues("/contact_id", "ctc_", in.ContactID)...)
}

func (a *API) consentEvents(ctx context.Context, c *httpapi.Call, in *ListConsentEvents) (httpapi.Page[projections.ConsentEvent], error) {
	by := projections.ConsentFilter{ContactID: in.ContactID, Type: in.Type, From: in.From.Ptr(), To: in.To.Ptr()}
	if issues := in.Check(); len(issues) > 0 {
		return httpapi.Page[projections.ConsentEvent]{}, fault.Invalids(issues...)
	}
	if e164, ok := phone.Read(in.Phone); ok {
		by.NumberHash = a.store.Ledger().NumberHash(c.OrganisationID, e164)
	}
	after, err := a.open(c, "consent-events", by, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.ConsentEvent]{}, err
	}
	v := a.viewer(c)
	if err := a.store.Current(ctx, v.Shard, projections.Consent); err != nil {
		return httpapi.Page[projections.ConsentEvent]{}, err
	}
	page, err := a.store.ConsentEvents(ctx, v, by, after, in.Limit)
	return seal(a, c, "consent-events", by, page, err)
}
