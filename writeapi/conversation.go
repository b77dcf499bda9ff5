package writeapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/conversation"
	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
)

// UpdateConversation is the request of PATCH /v1/conversations/{id}.
type UpdateConversation struct {
	httpapi.IDParam
	Body struct {
		AssigneeUserID httpapi.Nullable[uuid.UUID] `json:"assignee_user_id,omitzero" doc:"A member of the workspace; null for nobody"`
		TeamID         httpapi.Nullable[uuid.UUID] `json:"team_id,omitzero"`
		HandledBy      httpapi.Optional[string]    `json:"handled_by,omitzero" doc:"team, or agent: and the id of a live agent"`
		Labels         httpapi.Optional[[]string]  `json:"labels,omitzero" maxItems:"50" doc:"Replaces the labels of the contact"`
		MarkRead       httpapi.Optional[bool]      `json:"mark_read,omitzero" doc:"true marks all received messages as read"`
		SnoozedUntil   httpapi.Nullable[time.Time] `json:"snoozed_until,omitzero" doc:"A time in the future. Without a status it snoozes the conversation; null opens a snoozed conversation"`
		Status         httpapi.Optional[string]    `json:"status,omitzero" enum:"open,snoozed,closed" doc:"snoozed needs snoozed_until"`
	}
}

// checkAccess returns forbidden when the request changes more than the caller may change (rule INB-13).
func (in *UpdateConversation) checkAccess(c *httpapi.Call) error {
	b := &in.Body
	full, contacts := c.Can(auth.PermInboxFull), c.Can(auth.PermContacts)
	if c.Kind != auth.KindSession { // the route requires a scope that covers conversations
		full, contacts = true, c.Has(auth.ScopeAdmin)
	}
	switch {
	case !full && (b.TeamID.Set || b.HandledBy.Set || b.Labels.Set):
		return fault.New(fault.Forbidden, "The team, the handler and the labels of a conversation need full access to the inbox.")
	case !contacts && b.Labels.Set:
		return fault.New(fault.Forbidden, "The labels of a conversation are its contact's: they need access to contacts.")
	}
	return nil
}

// setting converts a property that may be left out, null or a value into a change of a conversation.
func setting[T any](n httpapi.Nullable[T]) conversation.Setting[T] {
	return conversation.Setting[T]{Given: n.Set, Value: n.Ptr()}
}

func (a *API) updateConversation(ctx context.Context, c *httpapi.Call, in *UpdateConversation) (httpapi.WriteResult, error) {
	b := &in.Body
	update := commands.UpdateConversation{
		Change: conversation.Change{
			Status: conversation.Status(b.Status.Value), SnoozedUntil: setting(b.SnoozedUntil), Assignee: setting(b.AssigneeUserID), Team: setting(b.TeamID),
			HandledBy: b.HandledBy.Ptr(),
		},
		Labels: b.Labels.Value, AgentUserID: agentUserID(c), Refusal: in.checkAccess(c),
	}
	if b.MarkRead.Value {
		var err error
		if update.MarkRead, err = a.unread(ctx, c, in.ID); err != nil {
			return httpapi.WriteResult{}, err
		}
	}
	return result(a.app.UpdateConversation(ctx, request(c), in.ID, update))
}

// unread reports whether a conversation has unread messages, so that a client that repeats mark_read appends no events.
// Only the read model counts unread messages.
func (a *API) unread(ctx context.Context, c *httpapi.Call, id string) (bool, error) {
	v := viewer(c, a.store.Ledger().ShardOf(c.OrganisationID))
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Conversations); err != nil {
		return false, err
	}
	count, err := a.store.Unread(ctx, v, id)
	return count > 0, err
}

// ReplyToConversation is the request of POST /v1/conversations/{id}/messages.
type ReplyToConversation struct {
	httpapi.IDParam
	SandboxTime
	Body struct {
		Body  string       `json:"body,omitempty" maxLength:"2000"`
		Media []MediaInput `json:"media,omitempty" maxItems:"10" nullable:"false"`
	}
}

// Check implements httpapi.Checked.
func (in *ReplyToConversation) Check() []fault.Issue {
	return contentIssues(in.Body.Body, in.Body.Media)
}

func (a *API) reply(ctx context.Context, c *httpapi.Call, in *ReplyToConversation) (httpapi.WriteResult, error) {
	at, err := in.SandboxTime.minutes(c)
	if err != nil {
		return httpapi.WriteResult{}, err
	}
	return a.accept(ctx, c, commands.AcceptMessage{
		SandboxTime: at, Reply: &commands.ReplyTo{ConversationID: in.ID, AgentUserID: agentUserID(c)}, Body: in.Body.Body, Media: attachments(in.Body.Media),
	})
}

// AddNote is the request of POST /v1/conversations/{id}/notes.
type AddNote struct {
	httpapi.IDParam
	Body struct {
		Body string `json:"body" maxLength:"5000"`
	}
}

func (a *API) addNote(ctx context.Context, c *httpapi.Call, in *AddNote) (httpapi.WriteResult, error) {
	return result(a.app.AddNote(ctx, request(c), in.ID, agentUserID(c), in.Body.Body))
}

func (a *API) conversations() resource[projections.Conversation] {
	return resource[projections.Conversation]{
		a.store, "conversation", a.store.Conversation, consumers(projections.Conversations, projections.Contacts),
	}
}

func (a *API) notes() resource[projections.Note] {
	return resource[projections.Note]{a.store, "note", byUUID(a.store.Note), consumers(projections.Conversations)}
}
