package readapi

import (
	"context"

	"ledgerline/httpapi"
	"ledgerline/projections"
)

// The methods in this file call endpoints directly, for the tools of package toolapi. They do not check access: each
// tool is an endpoint itself, with an access rule of its own.

// New returns the endpoints without registering them.
func New(store *projections.Store, cursors *httpapi.Cursors) *API {
	return &API{store, cursors, newSlowQueue(maxExports), newSlowQueue(maxProofs)}
}

// Contact is GET /v1/contacts/{id}.
func (a *API) Contact(ctx context.Context, c *httpapi.Call, id string) (projections.Contact, error) {
	return a.contact(ctx, c, &httpapi.IDParam{ID: id})
}

// Contacts is GET /v1/contacts.
func (a *API) Contacts(ctx context.Context, c *httpapi.Call, in *ListContacts) (httpapi.Page[projections.Contact], error) {
	return a.contacts(ctx, c, in)
}

// Conversation is GET /v1/conversations/{id}.
func (a *API) Conversation(ctx context.Context, c *httpapi.Call, in *GetConversation) (ConversationDetail, error) {
	return a.conversation(ctx, c, in)
}

// Conversations is GET /v1/conversations.
func (a *API) Conversations(ctx context.Context, c *httpapi.Call, in *ListConversations) (httpapi.Page[projections.Conversation], error) {
	return a.conversations(ctx, c, in)
}

// Message is GET /v1/messages/{id}.
func (a *API) Message(ctx context.Context, c *httpapi.Call, id string) (projections.Message, error) {
	return a.message(ctx, c, &httpapi.IDParam{ID: id})
}

// Timeline is GET /v1/messages/{id}/events.
func (a *API) Timeline(ctx context.Context, c *httpapi.Call, id string) ([]projections.TimelineEvent, error) {
	list, err := a.timeline(ctx, c, &httpapi.IDParam{ID: id})
	return list.Data, err
}

// Lines is GET /v1/lines.
func (a *API) Lines(ctx context.Context, c *httpapi.Call, in *ListLines) (httpapi.List[projections.Line], error) {
	return a.lines(ctx, c, in)
}
