package writeapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// What the tools run (interface 4.5): the endpoints themselves, for callers that were let in already.

// ForTools makes the endpoints without registering them. Messages that are sent through them are of the source mcp.
func ForTools(app *commands.App, store *projections.Store, prober commands.Prober) *API {
	return &API{app: app, store: store, prober: prober, source: "mcp"}
}

// Lookup is POST /v1/lookup.
func (a *API) Lookup(ctx context.Context, c *httpapi.Call, in *Lookup) (httpapi.WriteResult, error) {
	return a.lookup(ctx, c, in)
}

// Send is POST /v1/messages; Accepted answers its retries.
func (a *API) Send(ctx context.Context, c *httpapi.Call, in *SendMessage) (httpapi.WriteResult, error) {
	return a.sendMessage(ctx, c, in)
}

// Reply is POST /v1/conversations/{id}/messages; Accepted answers its retries.
func (a *API) Reply(ctx context.Context, c *httpapi.Call, in *ReplyToConversation) (httpapi.WriteResult, error) {
	return a.reply(ctx, c, in)
}

// Accepted answers a message that was accepted as it was then.
func (a *API) Accepted(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Message, error) {
	return a.accepted(ctx, c, d)
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

// UpsertContact is PATCH /v1/contacts/{id} for the contact that has the number, and POST /v1/contacts when none has. It
// gives the contact as it is then, and whether it was made.
func (a *API) UpsertContact(ctx context.Context, c *httpapi.Call, in *UpsertContact) (projections.Contact, bool, error) {
	b := &in.Body
	r, created, err := a.app.UpsertContact(ctx, request(c), commands.UpsertContact{
		Phone: b.Phone, FirstName: b.FirstName, LastName: b.LastName, Company: b.Company, Email: b.Email, Fields: b.Fields,
	})
	d, err := done(r, err)
	if err != nil {
		return projections.Contact{}, false, err
	}
	shown, err := a.contact(ctx, c, d)
	return shown, created, err
}

// HandOff is PATCH /v1/conversations/{id} with a handler, perhaps a team, and a note with the reason, in one step. It gives
// the conversation as it is then, and whether something else than people had handled it.
func (a *API) HandOff(ctx context.Context, c *httpapi.Call, id, reason string, team *uuid.UUID) (projections.Conversation, bool, error) {
	patch := UpdateConversation{}
	patch.Body.HandledBy.Set, patch.Body.TeamID.Set = true, team != nil
	if err := patch.mayChange(c); err != nil {
		return projections.Conversation{}, false, err
	}
	r, handedOff, err := a.app.HandOff(ctx, request(c), id, commands.Handoff{Reason: reason, TeamID: team, Agent: agent(c)})
	d, err := done(r, err)
	if err != nil {
		return projections.Conversation{}, false, err
	}
	shown, err := a.conversation(ctx, c, d)
	return shown, handedOff, err
}
