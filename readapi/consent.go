package readapi

import (
	"context"
	"io"
	"strconv"
	"time"

	"ledgerline/csvfile"
	"ledgerline/domain/fault"
	"ledgerline/domain/phone"
	"ledgerline/httpapi"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// ListConsentEvents is the query of GET /v1/compliance/consent-events.
type ListConsentEvents struct {
	httpapi.PageParams
	Phone     string                      `query:"phone" doc:"E.164; finds the number's changes also after erasure"`
	ContactID string                      `query:"contact_id"`
	Type      string                      `query:"type" enum:"unknown,opted_in,opted_out" doc:"The status that the change led to"`
	From      httpapi.Optional[time.Time] `query:"from" doc:"At or after this time"`
	To        httpapi.Optional[time.Time] `query:"to" doc:"Before this time"`
}

// Check implements httpapi.Checked.
func (in *ListConsentEvents) Check() []fault.Issue {
	return append(phoneIssues("/phone", in.Phone), idIssues("/contact_id", "ctc_", in.ContactID)...)
}

// consentFilter converts a query into the filter of the read model. It returns fault validation_failed with all issues
// of the query.
func (a *API) consentFilter(c *httpapi.Call, in *ListConsentEvents) (projections.ConsentFilter, error) {
	by := projections.ConsentFilter{ContactID: in.ContactID, Type: in.Type, From: in.From.Ptr(), To: in.To.Ptr()}
	if issues := in.Check(); len(issues) > 0 {
		return by, fault.Invalids(issues...)
	}
	if e164, ok := phone.Read(in.Phone); ok {
		by.NumberHash = a.store.Ledger().NumberHash(c.OrganisationID, e164)
	}
	return by, nil
}

// consentEvents answers GET /v1/compliance/consent-events.
func (a *API) consentEvents(ctx context.Context, c *httpapi.Call, in *ListConsentEvents) (httpapi.Page[projections.ConsentEvent], error) {
	by, err := a.consentFilter(c, in)
	if err != nil {
		return httpapi.Page[projections.ConsentEvent]{}, err
	}
	after, err := a.openCursor(c, "consent-events", by, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.ConsentEvent]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Consent); err != nil {
		return httpapi.Page[projections.ConsentEvent]{}, err
	}
	page, err := a.store.ConsentEvents(ctx, v, by, after, in.Limit)
	return answerPage(a, c, "consent-events", by, page, err)
}

// ExportConsentEvents is the query of GET /v1/compliance/consent-events/export: the filters of the list.
type ExportConsentEvents struct {
	Phone     string                      `query:"phone" doc:"E.164; finds the number's changes also after erasure"`
	ContactID string                      `query:"contact_id"`
	Type      string                      `query:"type" enum:"unknown,opted_in,opted_out" doc:"The status that the change led to"`
	From      httpapi.Optional[time.Time] `query:"from" doc:"At or after this time"`
	To        httpapi.Optional[time.Time] `query:"to" doc:"Before this time"`
}

func (in *ExportConsentEvents) list() *ListConsentEvents {
	return &ListConsentEvents{Phone: in.Phone, ContactID: in.ContactID, Type: in.Type, From: in.From, To: in.To}
}

// Check implements httpapi.Checked.
func (in *ExportConsentEvents) Check() []fault.Issue { return in.list().Check() }

var consentColumns = []string{
	"id", "occurred_at", "contact_id", "phone", "phone_hash", "from_status", "to_status", "actor_type", "actor_id", "source", "keyword", "text",
	"message_id", "line_id", "channel", "ip", "user_agent", "position", "hash",
}

// exportPage is how many consent events an export reads at a time, so that the file is never in memory as a whole.
const exportPage = 1000

// exportConsent answers GET /v1/compliance/consent-events/export. It streams the consent events, newest first like the
// list. Events that are appended while it runs are not in the file.
func (a *API) exportConsent(ctx context.Context, c *httpapi.Call, in *ExportConsentEvents) (httpapi.Download, error) {
	by, err := a.consentFilter(c, in.list())
	if err != nil {
		return httpapi.Download{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Consent); err != nil {
		return httpapi.Download{}, err
	}
	return httpapi.Download{
		ContentType: "text/csv; charset=utf-8; header=present",
		Filename:    "consent-" + a.store.Ledger().Now().Format(time.DateOnly) + ".csv",
		Write: func(w io.Writer) error {
			end, err := startSlow(ctx, a.exports, c, "exports")
			if err != nil {
				return err
			}
			defer end()
			return a.writeConsent(ctx, w, v, by)
		},
	}, nil
}

// writeConsent writes all consent events that fit the filter as CSV, page by page.
func (a *API) writeConsent(ctx context.Context, w io.Writer, v projections.Viewer, by projections.ConsentFilter) error {
	file, err := csvfile.NewWriter(w, consentColumns...)
	if err != nil {
		return err
	}
	for after := (*readmodel.Cursor)(nil); ; {
		page, err := a.store.ConsentEvents(ctx, v, by, after, exportPage)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			e := &page.Rows[i]
			err := file.Write(e.ID, e.OccurredAt, e.ContactID, text(e.Phone), e.PhoneHash, e.FromStatus, e.ToStatus, e.Actor.Type, text(e.Actor.ID),
				text(e.Source), text(e.Keyword), text(e.Text), text(e.MessageID), text(e.LineID), text(e.Channel), text(e.IP), text(e.UserAgent),
				strconv.FormatInt(e.Position, 10), text(e.Hash))
			if err != nil {
				return err
			}
		}
		if after = page.Next; after == nil {
			return file.Flush()
		}
	}
}

// ProveConsent is the query of GET /v1/compliance/proof.
type ProveConsent struct {
	Phone    string `query:"phone" required:"true" doc:"E.164"`
	HeadSize int64  `query:"head_size" minimum:"0" doc:"Number of blocks of an older tree head, in its second line. The proof then shows that the ledger extends that head"`
}

// Check implements httpapi.Checked.
func (in *ProveConsent) Check() []fault.Issue { return phoneIssues("/phone", in.Phone) }

// proveConsent answers GET /v1/compliance/proof.
func (a *API) proveConsent(ctx context.Context, c *httpapi.Call, in *ProveConsent) (projections.ConsentProof, error) {
	e164, ok := phone.Read(in.Phone)
	if !ok {
		return projections.ConsentProof{}, fault.Invalids(in.Check()...)
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Consent); err != nil {
		return projections.ConsentProof{}, err
	}
	end, err := startSlow(ctx, a.proofs, c, "proofs")
	if err != nil {
		return projections.ConsentProof{}, err
	}
	defer end()
	return a.store.ProveConsent(ctx, v, c.OrganisationID, e164, in.HeadSize)
}
