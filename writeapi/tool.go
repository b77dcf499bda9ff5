package writeapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// NewForTools makes the write endpoints for toolapi, without registering them. The tools check access themselves.
// Messages that are accepted through them have the source mcp.
func NewForTools(app *commands.App, store *projections.Store, outside Outside) *API {
	return &API{app: app, store: store, outside: outside, source: "mcp"}
}

// Lookup is POST /v1/lookup.
func (a *API) Lookup(ctx context.Context, c *httpapi.Call, in *Lookup) (httpapi.WriteResult, error) {
	return a.lookup(ctx, c, in)
}

// Send is POST /v1/messages. Accepted is its view.
func (a *API) Send(ctx context.Context, c *httpapi.Call, in *SendMessage) (httpapi.WriteResult, error) {
	return a.sendMessage(ctx, c, in)
}

// Reply is POST /v1/conversations/{id}/messages. Accepted is its view.
func (a *API) Reply(ctx context.Context, c *httpapi.Call, in *ReplyToConversation) (httpapi.WriteResult, error) {
	return a.reply(ctx, c, in)
}

// Accepted is the view of Send and Reply: the message as it was when it was accepted.
func (a *API) Accepted(ctx context.Context, c *httpapi.Call, w httpapi.WriteResult) (projections.Message, error) {
	return a.acceptedMessages().view(ctx, c, w)
}

// UpsertContact is the request of the tool upsert_contact.
type UpsertContact struct {
	Body struct {
		Phone     string         `json:"phone" doc:"E.164"`
		FirstName *string        `json:"first_name,omitempty" maxLength:"100"`
		LastName  *string        `json:"last_name,omitempty" maxLength:"100"`
		Company   *string        `json:"company,omitempty" maxLength:"200"`
		Email     *string        `json:"email,omitempty" format:"email" maxLength:"254"`
		Fields    map[string]any `json:"fields,omitempty" doc:"Custom fields. They replace all that the contact has: send those that are to stay as well"`
	}
}

// Check implements httpapi.Checked.
func (in *UpsertContact) Check() []fault.Issue { return phoneIssues("/phone", in.Body.Phone) }

// UpsertContact changes the contact that has the number, or creates one (rule ACC-30). It returns the contact as it is
// afterwards, and whether it was created.
func (a *API) UpsertContact(ctx context.Context, c *httpapi.Call, in *UpsertContact) (projections.Contact, bool, error) {
	b := &in.Body
	r, created, err := a.app.UpsertContact(ctx, request(c), commands.UpsertContact{
		Phone: b.Phone, FirstName: b.FirstName, LastName: b.LastName, Company: b.Company, Email: b.Email, Fields: b.Fields,
	})
	w, err := result(r, err)
	if err != nil {
		return projections.Contact{}, false, err
	}
	contact, err := a.contacts().view(ctx, c, w)
	return contact, created, err
}

// HandOff makes the team the handler of a conversation, assigns it to a team if one is given, and adds the reason as
// a note, in one append (rule INB-16). It returns the conversation as it is afterwards, and whether an agent or a
// workflow had handled it before.
func (a *API) HandOff(
	ctx context.Context, c *httpapi.Call, id, reason string, team *uuid.UUID,
) (projections.Conversation, bool, error) {
	patch := UpdateConversation{}
	patch.Body.HandledBy.Set, patch.Body.TeamID.Set = true, team != nil
	if err := patch.checkAccess(c); err != nil {
		return projections.Conversation{}, false, err
	}
	r, handedOff, err := a.app.HandOff(ctx, request(c), id, commands.Handoff{Reason: reason, TeamID: team, AgentUserID: agentUserID(c)})
	w, err := result(r, err)
	if err != nil {
		return projections.Conversation{}, false, err
	}
	conversation, err := a.conversations().view(ctx, c, w)
	return conversation, handedOff, err
}
