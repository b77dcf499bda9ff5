package readapi

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListMessages is the query of GET /v1/messages.
type ListMessages struct {
	httpapi.PageParams
	ContactID      string `query:"contact_id"`
	ConversationID string `query:"conversation_id"`
	LineID         string `query:"line_id"`
	Status         string `query:"status" enum:"queued,scheduled,sending,sent,delivered,read,failed,received"`
	Direction      string `query:"direction" enum:"outbound,inbound"`
	ExternalID     string `query:"external_id" maxLength:"255"`
}

// Check implements httpapi.Checked.
func (in *ListMessages) Check() []fault.Issue {
	issues := idIssues("/contact_id", "ctc_", in.ContactID)
	issues = append(issues, idIssues("/conversation_id", "cnv_", in.ConversationID)...)
	return append(issues, idIssues("/line_id", "ln_", in.LineID)...)
}

// messages answers GET /v1/messages.
func (a *API) messages(ctx context.Context, c *httpapi.Call, in *ListMessages) (httpapi.Page[projections.Message], error) {
	if issues := in.Check(); len(issues) > 0 {
		return httpapi.Page[projections.Message]{}, fault.Invalids(issues...)
	}
	by := projections.MessageFilter{
		ContactID: in.ContactID, ConversationID: in.ConversationID, LineID: in.LineID, Status: in.Status, Direction: in.Direction, ExternalID: in.ExternalID,
	}
	after, err := a.openCursor(c, "messages", by, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Message]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Messages, projections.Contacts, projections.Conversations); err != nil {
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
