package writeapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/outreach"
	"ledgerline/domain/workflow"
	"ledgerline/httpapi"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// CreateOutreach is the request of POST /v1/outreach.
type CreateOutreach struct {
	PreviewOnly bool `query:"dry_run" doc:"true answers 200 with the audience, who would be skipped and an estimate, and does nothing"`
	Body        struct {
		Name       string       `json:"name" maxLength:"120" doc:"For people; names may repeat"`
		SegmentID  *uuid.UUID   `json:"segment_id,omitempty" doc:"Its contacts when the outreach starts; this or contact_ids"`
		ContactIDs []string     `json:"contact_ids,omitempty" maxItems:"10000" nullable:"false" doc:"ctc_ ids, each once; this or segment_id"`
		Body       string       `json:"body" maxLength:"2000" doc:"A template, for example: Hi {{first_name|there}}"`
		Media      []MediaInput `json:"media,omitempty" maxItems:"10" nullable:"false"`
		PoolID     *string      `json:"pool_id,omitempty" doc:"Chooses the senders by pool; this or line_id"`
		LineID     *string      `json:"line_id,omitempty" doc:"Chooses the sender; this or pool_id"`
		Fallback   *bool        `json:"fallback,omitempty" doc:"false forbids SMS"`
		SendAt     *time.Time   `json:"send_at,omitempty" doc:"When it starts, at most 365 days ahead; left out: at once"`
	}
}

// DryRun reports whether the request only asks what would happen. httpapi then answers 200 with an OutreachPreview.
func (in *CreateOutreach) DryRun() bool { return in.PreviewOnly }

// OutreachPreview is the answer to a dry run of an outreach.
type OutreachPreview struct {
	Counts          projections.OutreachCounts `json:"counts" doc:"total: contacts of the audience; accepted: those who would get a message; skipped: the others"`
	SkippedByReason map[string]int64           `json:"skipped_by_reason" doc:"Contacts that would get no message, by reason"`
	EstimatedAt     string                     `json:"estimated_completion_at" format:"date-time" doc:"When every message would have left or failed"`
}

func (a *API) createOutreach(ctx context.Context, c *httpapi.Call, in *CreateOutreach) (httpapi.WriteResult, error) {
	b := &in.Body
	p := outreach.Properties{
		Name: b.Name, SegmentID: b.SegmentID, ContactIDs: b.ContactIDs, Body: b.Body, Media: attachments(b.Media), PoolID: b.PoolID, LineID: b.LineID,
		Fallback: b.Fallback, SendAt: b.SendAt,
	}
	if issues := p.Check(a.store.Ledger().Now()); len(issues) > 0 {
		return httpapi.WriteResult{}, fault.Invalids(issues...)
	}
	audience, preview, err := a.audience(ctx, c, &p)
	if err != nil {
		return httpapi.WriteResult{}, err
	}
	if in.PreviewOnly {
		estimate, err := a.app.PreviewOutreach(ctx, request(c), p, audience)
		if err != nil {
			return httpapi.WriteResult{}, translate(err)
		}
		preview.EstimatedAt = readmodel.Stamp(estimate)
		return httpapi.WriteResult{Body: preview}, nil
	}
	return result(a.app.CreateOutreach(ctx, request(c), p, audience))
}

// audience counts the audience of an outreach, and who would be skipped. It refuses contacts that the workspace does
// not have.
func (a *API) audience(ctx context.Context, c *httpapi.Call, p *outreach.Properties) (commands.Audience, OutreachPreview, error) {
	preview := OutreachPreview{SkippedByReason: map[string]int64{}}
	var audience commands.Audience
	template, err := workflow.ParseTemplate(p.Body)
	if err != nil {
		return audience, preview, fault.Invalid("/body", "invalid_template", "%s", err)
	}
	consent, err := a.app.RequiresConsent(ctx, request(c))
	if err != nil {
		return audience, preview, translate(err)
	}
	v := viewer(c, a.store.Ledger().ShardOf(c.OrganisationID))
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Contacts, projections.Segments); err != nil {
		return audience, preview, err
	}
	var segment *string
	if p.SegmentID != nil {
		id := p.SegmentID.String()
		segment = &id
	}
	found, groups := map[string]bool{}, map[string]*sending.Recipients{}
	err = a.store.EachAudienceMember(ctx, v, segment, p.ContactIDs, func(m *projections.AudienceMember) {
		if segment == nil {
			found[m.ContactID] = true
		}
		preview.Counts.Total++
		if reason := skipped(m, &template, consent); reason != "" {
			preview.Counts.Skipped++
			preview.SkippedByReason[reason]++
			return
		}
		preview.Counts.Accepted++
		key := projections.GroupKey(m.Phone)
		if groups[key] == nil {
			groups[key] = &sending.Recipients{Phone: m.Phone}
		}
		if m.Known {
			groups[key].Known++
		} else {
			groups[key].New++
		}
	})
	if err != nil {
		return audience, preview, err
	}
	var issues []fault.Issue
	for i, id := range p.ContactIDs {
		if !found[id] {
			issues = append(issues, fault.Issue{Location: "body", Path: fmt.Sprintf("/contact_ids/%d", i), Code: "not_found", Message: "There is no such contact."})
		}
	}
	if len(issues) > 0 {
		return audience, preview, fault.Invalids(issues...)
	}
	audience.Total = int(preview.Counts.Total)
	for _, g := range groups {
		audience.Groups = append(audience.Groups, *g)
	}
	return audience, preview, nil
}

// skipped returns why a contact would get no message; "" when it would.
func skipped(m *projections.AudienceMember, template *workflow.Template, consentRequired bool) string {
	switch {
	case m.OptedOut:
		return outreach.SkippedOptedOut
	case consentRequired && !m.OptedIn:
		return outreach.SkippedConsent
	}
	text, ok := template.Render(workflow.Values{
		Phone: m.Phone, FirstName: m.FirstName, LastName: m.LastName, Company: m.Company, Email: m.Email, Fields: m.Fields,
	})
	if !ok || strings.TrimSpace(text) == "" {
		return outreach.SkippedTemplate
	}
	return ""
}

func (a *API) cancelOutreach(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	return result(a.app.CancelOutreach(ctx, request(c), in.ID))
}

func (a *API) outreaches() resource[projections.Outreach] {
	return resource[projections.Outreach]{a.store, "outreach", byUUID(a.store.Outreach), consumers(projections.Outreaches)}
}
