package readapi

import (
	"context"
	"time"

	"ledgerline/domain/fault"
	"ledgerline/domain/phone"
	"ledgerline/httpapi"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// ListMessages is the query of GET /v1/messages.
type ListMessages struct {
	httpapi.PageParams
	MessageFilter
}

// MessageFilter has the filters of the list and of the export of messages.
type MessageFilter struct {
	ContactID      string `query:"contact_id"`
	ConversationID string `query:"conversation_id"`
	LineID         string `query:"line_id"`
	Status         string `query:"status" enum:"queued,scheduled,sending,sent,delivered,read,failed,received"`
	Direction      string `query:"direction" enum:"outbound,inbound"`
	ExternalID     string `query:"external_id" maxLength:"255"`

	From          string                      `query:"from" doc:"E.164; the number of a contact or of a line"`
	To            string                      `query:"to" doc:"E.164; the number of a contact or of a line"`
	CreatedAfter  httpapi.Optional[time.Time] `query:"created_after" doc:"At or after this time"`
	CreatedBefore httpapi.Optional[time.Time] `query:"created_before" doc:"Before this time"`
}

// Check implements httpapi.Checked.
func (in *MessageFilter) Check() []fault.Issue {
	issues := idIssues("/contact_id", "ctc_", in.ContactID)
	issues = append(issues, idIssues("/conversation_id", "cnv_", in.ConversationID)...)
	issues = append(issues, idIssues("/line_id", "ln_", in.LineID)...)
	return append(append(issues, phoneIssues("/from", in.From)...), phoneIssues("/to", in.To)...)
}

// filter returns the filters for the read model, or fault validation_failed.
func (in *MessageFilter) filter() (projections.MessageFilter, error) {
	if issues := in.Check(); len(issues) > 0 {
		return projections.MessageFilter{}, fault.Invalids(issues...)
	}
	by := projections.MessageFilter{
		ContactID: in.ContactID, ConversationID: in.ConversationID, LineID: in.LineID, Status: in.Status, Direction: in.Direction, ExternalID: in.ExternalID,
		CreatedAfter: in.CreatedAfter.Ptr(), CreatedBefore: in.CreatedBefore.Ptr(),
	}
	by.From, _ = phone.Read(in.From)
	by.To, _ = phone.Read(in.To)
	return by, nil
}

// listedMessages are the read models that a list of messages with its filters reads.
var listedMessages = []*readmodel.Projection{projections.Messages, projections.Contacts, projections.Conversations, projections.Lines}

// messages answers GET /v1/messages.
func (a *API) messages(ctx context.Context, c *httpapi.Call, in *ListMessages) (httpapi.Page[projections.Message], error) {
	by, err := in.filter()
	if err != nil {
		return httpapi.Page[projections.Message]{}, err
	}
	after, err := a.openCursor(c, "messages", by, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Message]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, listedMessages...); err != nil {
		return httpapi.Page[projections.Message]{}, err
	}
	page, err := a.store.Messages(ctx, v, by, after, in.Limit)
	return answerPage(a, c, "messages", by, page, err)
}

// message answers GET /v1/messages/{id}.
func (a *API) message(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (projections.Message, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Messages, projections.Contacts); err != nil {
		return projections.Message{}, err
	}
	found, ok, err := a.store.Message(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such message.")
	}
	return found, err
}

// timeline answers GET /v1/messages/{id}/events. It returns not_found for a message that the caller may not see.
func (a *API) timeline(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.List[projections.TimelineEvent], error) {
	if _, err := a.message(ctx, c, in); err != nil {
		return httpapi.List[projections.TimelineEvent]{}, err
	}
	timeline, err := a.store.Timeline(ctx, in.ID)
	return httpapi.List[projections.TimelineEvent]{Data: timeline}, err
}
