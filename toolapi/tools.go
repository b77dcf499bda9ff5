package toolapi

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
	"ledgerline/readapi"
	"ledgerline/writeapi"
)

// CheckChatInput is the input of check_chat.
type CheckChatInput struct {
	Body struct {
		Phone string `json:"phone" doc:"E.164"`
	}
}

// lookup converts the input into the endpoint's request.
func (in *CheckChatInput) lookup() *writeapi.Lookup {
	l := writeapi.Lookup{}
	l.Body.Phone = in.Body.Phone
	return &l
}

// Check implements httpapi.Checked.
func (in *CheckChatInput) Check() []fault.Issue { return in.lookup().Check() }

func (a *API) checkChat(ctx context.Context, c *httpapi.Call, in *CheckChatInput) (httpapi.WriteResult, error) {
	return a.writes.Lookup(ctx, c, in.lookup())
}

// GetContactInput is the input of get_contact.
type GetContactInput struct {
	Body struct {
		ContactID *string `json:"contact_id,omitempty" doc:"ctc_ id; this or phone"`
		Phone     *string `json:"phone,omitempty" doc:"E.164"`
	}
}

// Check implements httpapi.Checked.
func (in *GetContactInput) Check() []fault.Issue {
	if (in.Body.ContactID == nil) == (in.Body.Phone == nil) {
		return []fault.Issue{{Location: "body", Path: "/contact_id", Code: "exactly_one", Message: "Exactly one of contact_id and phone is needed."}}
	}
	if in.Body.Phone != nil && *in.Body.Phone == "" { // the list endpoint would find any contact
		return []fault.Issue{{Location: "body", Path: "/phone", Code: "invalid_phone", Message: "This is not a valid phone number."}}
	}
	return nil
}

func (a *API) getContact(ctx context.Context, c *httpapi.Call, in *GetContactInput) (projections.Contact, error) {
	if issues := in.Check(); len(issues) > 0 {
		return projections.Contact{}, fault.Invalids(issues...)
	}
	if in.Body.ContactID != nil {
		return a.reads.Contact(ctx, c, *in.Body.ContactID)
	}
	query := readapi.ListContacts{Phone: *in.Body.Phone}
	query.Limit = 1
	found, err := a.reads.Contacts(ctx, c, &query)
	if err == nil && len(found.Data) == 0 {
		err = fault.New(fault.NotFound, "There is no such contact.")
	}
	if err != nil {
		return projections.Contact{}, inBody(err, "/phone")
	}
	return found.Data[0], nil
}

// inBody changes the location of an issue from the query of the endpoint to the body of the tool's input, where the
// property has the same pointer.
func inBody(err error, pointer string) error {
	f := fault.Of(err)
	if f == nil || len(f.Issues) == 0 {
		return err
	}
	moved := *f
	moved.Issues = slices.Clone(f.Issues)
	for i := range moved.Issues {
		if moved.Issues[i].Location == "query" && moved.Issues[i].Path == pointer {
			moved.Issues[i].Location = "body"
		}
	}
	return &moved
}

// GetConversationInput is the input of get_conversation.
type GetConversationInput struct {
	Body struct {
		ConversationID string `json:"conversation_id" doc:"cnv_ id"`
		Limit          int    `json:"limit,omitempty" minimum:"1" maximum:"200" default:"50" doc:"How many of the most recent messages"`
	}
}

func (a *API) getConversation(ctx context.Context, c *httpapi.Call, in *GetConversationInput) (readapi.ConversationDetail, error) {
	query := readapi.GetConversation{MessagesLimit: in.Body.Limit}
	query.ID = in.Body.ConversationID
	return a.reads.Conversation(ctx, c, &query)
}

// GetMessageStatusInput is the input of get_message_status.
type GetMessageStatusInput struct {
	Body struct {
		MessageID string `json:"message_id" doc:"msg_ id"`
	}
}

// MessageWithEvents is the output of get_message_status.
type MessageWithEvents struct {
	Events  []projections.TimelineEvent `json:"events" nullable:"false" doc:"Oldest first"`
	Message projections.Message         `json:"message"`
}

func (a *API) getMessageStatus(ctx context.Context, c *httpapi.Call, in *GetMessageStatusInput) (status MessageWithEvents, err error) {
	if status.Message, err = a.reads.Message(ctx, c, in.Body.MessageID); err == nil {
		status.Events, err = a.reads.Timeline(ctx, c, in.Body.MessageID)
	}
	return status, err
}

// HandoffToHumanInput is the input of handoff_to_human.
type HandoffToHumanInput struct {
	Body struct {
		ConversationID string     `json:"conversation_id" doc:"cnv_ id"`
		Reason         string     `json:"reason" maxLength:"500" doc:"Why people are needed; kept as a note"`
		TeamID         *uuid.UUID `json:"team_id,omitempty" doc:"The team that is to take it"`
	}
}

// HandedOff is the output of handoff_to_human.
type HandedOff struct {
	Conversation projections.Conversation `json:"conversation"`
	HandedOff    bool                     `json:"handed_off" doc:"false when people handled it already"`
}

func (a *API) handoffToHuman(ctx context.Context, c *httpapi.Call, in *HandoffToHumanInput) (httpapi.WriteResult, error) {
	conversation, handedOff, err := a.writes.HandOff(ctx, c, in.Body.ConversationID, in.Body.Reason, in.Body.TeamID)
	return httpapi.WriteResult{Body: HandedOff{conversation, handedOff}}, err
}

// ListConversationsInput is the input of list_conversations.
type ListConversationsInput struct {
	Body struct {
		Assignee string `json:"assignee,omitempty" enum:"me,unassigned,any" default:"any"`
		Limit    int    `json:"limit,omitempty" minimum:"1" maximum:"100" default:"20"`
		Status   string `json:"status,omitempty" enum:"open,snoozed,closed"`
	}
}

func (a *API) listConversations(ctx context.Context, c *httpapi.Call, in *ListConversationsInput) (conversations, error) {
	query := readapi.ListConversations{Status: in.Body.Status}
	if in.Body.Assignee != "any" {
		query.Assignee = in.Body.Assignee
	}
	query.Limit = in.Body.Limit
	return a.reads.Conversations(ctx, c, &query)
}

// ListLinesInput is the input of list_lines.
type ListLinesInput struct {
	Body struct {
		PoolID *string `json:"pool_id,omitempty" doc:"pool_ id; only the lines of this pool"`
	}
}

func (a *API) listLines(ctx context.Context, c *httpapi.Call, in *ListLinesInput) (lines, error) {
	var query readapi.ListLines
	if id := in.Body.PoolID; id != nil {
		if query.PoolID = *id; query.PoolID == "" { // the list endpoint would list all pools
			return lines{}, fault.Invalid("/pool_id", "invalid_format", "Expected an id that begins with pool_.")
		}
	}
	found, err := a.reads.Lines(ctx, c, &query)
	return found, inBody(err, "/pool_id")
}

// ReplyToConversationInput is the input of reply_to_conversation.
type ReplyToConversationInput struct {
	Body struct {
		ConversationID string `json:"conversation_id" doc:"cnv_ id"`
		Body           string `json:"body" maxLength:"2000"`
		Keyed
	}
}

// Keyed is the property of an input that holds the idempotency key (rule ACC-29).
type Keyed struct {
	IdempotencyKey string `json:"idempotency_key,omitempty" maxLength:"255" doc:"Printable characters without spaces, remembered for 24 hours; not beginning with outreach:, workflow: or agent:"`
}

// IdempotencyKey gives httpapi the key.
func (in *ReplyToConversationInput) IdempotencyKey() string { return in.Body.Keyed.IdempotencyKey }

// reply converts the input into the endpoint's request.
func (in *ReplyToConversationInput) reply() *writeapi.ReplyToConversation {
	r := writeapi.ReplyToConversation{}
	r.ID, r.Body.Body = in.Body.ConversationID, in.Body.Body
	return &r
}

// Check implements httpapi.Checked.
func (in *ReplyToConversationInput) Check() []fault.Issue { return in.reply().Check() }

func (a *API) replyToConversation(ctx context.Context, c *httpapi.Call, in *ReplyToConversationInput) (httpapi.WriteResult, error) {
	return a.writes.Reply(ctx, c, in.reply())
}

// SearchContactsInput is the input of search_contacts.
type SearchContactsInput struct {
	Body struct {
		Query string `json:"query" maxLength:"100" doc:"A part of a name, a phone number, an email address or a company"`
		Limit int    `json:"limit,omitempty" minimum:"1" maximum:"100" default:"20"`
	}
}

func (a *API) searchContacts(ctx context.Context, c *httpapi.Call, in *SearchContactsInput) (contacts, error) {
	query := readapi.ListContacts{Q: in.Body.Query}
	query.Limit = in.Body.Limit
	return a.reads.Contacts(ctx, c, &query)
}

// SendMessageInput is the input of send_message.
type SendMessageInput struct {
	Body struct {
		Body      string  `json:"body" maxLength:"2000"`
		To        *string `json:"to,omitempty" doc:"E.164; this or contact_id"`
		ContactID *string `json:"contact_id,omitempty" doc:"ctc_ id"`
		Fallback  *bool   `json:"fallback,omitempty" doc:"true allows SMS if the contact is not on the chat channel, as the pool says; false forbids it"`
		PoolID    *string `json:"pool_id,omitempty" doc:"pool_ id; chooses the sender"`
		Keyed
	}
}

// IdempotencyKey gives httpapi the key.
func (in *SendMessageInput) IdempotencyKey() string { return in.Body.Keyed.IdempotencyKey }

// message converts the input into the endpoint's request.
func (in *SendMessageInput) message() *writeapi.SendMessage {
	b, m := &in.Body, writeapi.SendMessage{}
	m.Body.Body, m.Body.To, m.Body.ContactID, m.Body.Fallback, m.Body.PoolID = b.Body, b.To, b.ContactID, b.Fallback, b.PoolID
	return &m
}

// Check implements httpapi.Checked.
func (in *SendMessageInput) Check() []fault.Issue { return in.message().Check() }

func (a *API) sendMessage(ctx context.Context, c *httpapi.Call, in *SendMessageInput) (httpapi.WriteResult, error) {
	return a.writes.Send(ctx, c, in.message())
}

// UpsertedContact is the output of upsert_contact.
type UpsertedContact struct {
	Contact projections.Contact `json:"contact"`
	Created bool                `json:"created"`
}

func (a *API) upsertContact(ctx context.Context, c *httpapi.Call, in *writeapi.UpsertContact) (httpapi.WriteResult, error) {
	contact, created, err := a.writes.UpsertContact(ctx, c, in)
	return httpapi.WriteResult{Body: UpsertedContact{contact, created}}, err
}
