package readapi

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// ListConversations is the query of GET /v1/conversations.
type ListConversations struct {
	httpapi.PageParams
	Status    string                      `query:"status" enum:"open,snoozed,closed"`
	Assignee  string                      `query:"assignee" maxLength:"64" doc:"A user's uuid, me, or unassigned. With an API key, me finds nothing: conversations are assigned to users only"`
	TeamID    httpapi.Optional[uuid.UUID] `query:"team_id"`
	Label     string                      `query:"label" maxLength:"64" doc:"A label of the contact"`
	LineID    string                      `query:"line_id" doc:"The line that sent or received the last message"`
	ContactID string                      `query:"contact_id"`
	Q         string                      `query:"q" maxLength:"100" doc:"Searches the contact's name, phone, email and company"`
}

const (
	assigneeMe   = "me"
	assigneeNone = "unassigned"
)

// Check implements httpapi.Checked.
func (in *ListConversations) Check() []fault.Issue {
	issues := append(idIssues("/line_id", "ln_", in.LineID), idIssues("/contact_id", "ctc_", in.ContactID)...)
	if in.Assignee != "" && in.Assignee != assigneeMe && in.Assignee != assigneeNone {
		if _, err := uuid.Parse(in.Assignee); err != nil {
			issues = append(issues, fault.Issue{Location: "query", Path: "/assignee", Code: "invalid_format", Message: "Expected a uuid, me or unassigned."})
		}
	}
	return issues
}

// filter converts the query into the filter of the read model. noMatch says that no conversation can match.
func (in *ListConversations) filter(c *httpapi.Call) (by projections.ConversationFilter, noMatch bool) {
	by = projections.ConversationFilter{
		Status: in.Status, TeamID: in.TeamID.Ptr(), Label: strings.TrimSpace(in.Label), LineID: in.LineID, ContactID: in.ContactID, Q: in.Q,
	}
	switch in.Assignee {
	case "":
	case assigneeNone:
		by.Assignee = &uuid.Nil
	case assigneeMe:
		if c.Kind != auth.KindSession {
			return by, true
		}
		me := uuid.MustParse(c.ID) // the id of a session is the id of its user
		by.Assignee = &me
	default:
		id, err := uuid.Parse(in.Assignee)
		by.Assignee, noMatch = &id, err != nil || id == uuid.Nil
	}
	return by, noMatch
}

// conversations answers GET /v1/conversations.
func (a *API) conversations(ctx context.Context, c *httpapi.Call, in *ListConversations) (httpapi.Page[projections.Conversation], error) {
	none := httpapi.Page[projections.Conversation]{}
	if issues := in.Check(); len(issues) > 0 {
		return none, fault.Invalids(issues...)
	}
	by, noMatch := in.filter(c)
	after, err := a.openCursor(c, "conversations", by, in.Cursor)
	if err != nil || noMatch {
		return none, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Conversations, projections.Contacts); err != nil {
		return none, err
	}
	page, err := a.store.Conversations(ctx, v, by, after, in.Limit)
	return answerPage(a, c, "conversations", by, page, err)
}

// GetConversation is the query of GET /v1/conversations/{id}.
type GetConversation struct {
	httpapi.IDParam
	MessagesLimit  int    `query:"messages_limit" minimum:"1" maximum:"100" default:"50" doc:"How many messages at most"`
	MessagesCursor string `query:"messages_cursor" maxLength:"512" doc:"messages_next_cursor of the page before"`
}

// ConversationDetail is a conversation with its newest messages and notes.
type ConversationDetail struct {
	projections.Conversation
	Messages           []projections.Message `json:"messages" doc:"Newest first"`
	MessagesNextCursor *string               `json:"messages_next_cursor" doc:"Leads to older messages; null when there are none"`
	Notes              []projections.Note    `json:"notes" doc:"The most recent ones, newest first"`
}

// conversation answers GET /v1/conversations/{id}.
func (a *API) conversation(ctx context.Context, c *httpapi.Call, in *GetConversation) (ConversationDetail, error) {
	const messages = "conversation messages"
	var after *readmodel.Cursor
	if in.MessagesCursor != "" {
		after = &readmodel.Cursor{}
		bound := httpapi.Binding{List: messages, Workspace: c.WorkspaceID, Filters: in.ID, Param: "messages_cursor"}
		if err := a.cursors.Open(bound, in.MessagesCursor, after); err != nil {
			return ConversationDetail{}, err
		}
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Conversations, projections.Contacts, projections.Messages); err != nil {
		return ConversationDetail{}, err
	}
	found, ok, err := a.store.Conversation(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such conversation.")
	}
	if err != nil {
		return ConversationDetail{}, err
	}
	detail := ConversationDetail{Conversation: found}
	if detail.Notes, err = a.store.Notes(ctx, in.ID); err != nil {
		return ConversationDetail{}, err
	}
	// A contact has one conversation, and messages have an index by contact.
	page, err := a.store.Messages(ctx, v, projections.MessageFilter{ContactID: found.Contact.ID}, after, in.MessagesLimit)
	sealed, err := answerPage(a, c, messages, in.ID, page, err)
	detail.Messages, detail.MessagesNextCursor = sealed.Data, sealed.NextCursor
	return detail, err
}
