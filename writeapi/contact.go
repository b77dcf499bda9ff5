package writeapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/phone"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateContact is the request of POST /v1/contacts (interface 4.1).
type CreateContact struct {
	Body struct {
		Phone         string         `json:"phone" maxLength:"32" doc:"E.164 or a US/Canada national format"`
		FirstName     *string        `json:"first_name,omitempty" maxLength:"100"`
		LastName      *string        `json:"last_name,omitempty" maxLength:"100"`
		Company       *string        `json:"company,omitempty" maxLength:"200"`
		Email         *string        `json:"email,omitempty" format:"email" maxLength:"254"`
		Fields        map[string]any `json:"fields,omitempty" doc:"Custom fields"`
		Labels        []string       `json:"labels,omitempty" maxItems:"50" nullable:"false" doc:"Label names; one that does not exist is made"`
		OwnerUserID   *uuid.UUID     `json:"owner_user_id,omitempty"`
		ConsentStatus *string        `json:"consent_status,omitempty" enum:"unknown,opted_in"`
		ConsentSource *string        `json:"consent_source,omitempty" maxLength:"200"`
	}
}

// Check implements httpapi.Checked.
func (in *CreateContact) Check() []fault.Issue { return phoneIssues("/phone", in.Body.Phone) }

// phoneIssues tells what is wrong with a number that was given.
func phoneIssues(pointer, number string) []fault.Issue {
	if number == "" {
		return nil
	}
	_, err := phone.Parse(number, pointer)
	if f := fault.Of(err); f != nil {
		return f.Issues
	}
	return nil
}

func (a *API) createContact(ctx context.Context, c *httpapi.Call, in *CreateContact) (httpapi.WriteResult, error) {
	b := &in.Body
	create := commands.CreateContact{
		Phone: b.Phone, FirstName: b.FirstName, LastName: b.LastName, Company: b.Company, Email: b.Email, Fields: b.Fields,
		Labels: b.Labels, OwnerUserID: b.OwnerUserID, ConsentSource: b.ConsentSource,
	}
	if b.ConsentStatus != nil {
		create.ConsentStatus = consent.Status(*b.ConsentStatus)
	}
	return done(a.app.CreateContact(ctx, request(c), create))
}

// contact is the view that answers writes on a contact.
func (a *API) contact(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Contact, error) {
	if err := a.reach(ctx, d, projections.Contacts); err != nil {
		return projections.Contact{}, err
	}
	found, ok, err := a.store.Contact(ctx, viewer(c, d.Shard), d.Ref)
	if err == nil && !ok {
		err = gone("contact")
	}
	return found, err
}

// UpdateContact is the request of PATCH /v1/contacts/{id} (interface 4.1).
type UpdateContact struct {
	httpapi.IDParam
	Body struct {
		FirstName   httpapi.Nullable[string]         `json:"first_name,omitzero" maxLength:"100"`
		LastName    httpapi.Nullable[string]         `json:"last_name,omitzero" maxLength:"100"`
		Company     httpapi.Nullable[string]         `json:"company,omitzero" maxLength:"200"`
		Email       httpapi.Nullable[string]         `json:"email,omitzero" format:"email" maxLength:"254"`
		Phone       httpapi.Optional[string]         `json:"phone,omitzero" maxLength:"32" doc:"E.164 or a US/Canada national format"`
		Fields      httpapi.Optional[map[string]any] `json:"fields,omitzero" doc:"Replaces the custom fields"`
		Labels      httpapi.Optional[[]string]       `json:"labels,omitzero" maxItems:"50" doc:"Label names, in place of those that the contact has; one that does not exist is made"`
		OwnerUserID httpapi.Nullable[uuid.UUID]      `json:"owner_user_id,omitzero"`
	}
}

// Check implements httpapi.Checked.
func (in *UpdateContact) Check() []fault.Issue {
	if !in.Body.Phone.Set {
		return nil
	}
	_, err := phone.Parse(in.Body.Phone.Value, "/phone")
	if f := fault.Of(err); f != nil {
		return f.Issues
	}
	return nil
}

func (a *API) updateContact(ctx context.Context, c *httpapi.Call, in *UpdateContact) (httpapi.WriteResult, error) {
	if err := a.visible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	b := &in.Body
	update := commands.UpdateContact{
		Phone: b.Phone.Ptr(), FirstName: given(b.FirstName), LastName: given(b.LastName), Company: given(b.Company), Email: given(b.Email),
		Owner: given(b.OwnerUserID), Fields: b.Fields.Value, Labels: b.Labels.Value,
	}
	return done(a.app.UpdateContact(ctx, request(c), in.ID, update))
}

// given says in the commands' terms whether a property was left out, null, or a value.
func given[T any](n httpapi.Nullable[T]) contact.Given[T] {
	return contact.Given[T]{Set: n.Set, Value: n.Ptr()}
}

// ChangeLabels is the request of POST /v1/contacts/{id}/labels (interface 4.1).
type ChangeLabels struct {
	httpapi.IDParam
	Body struct {
		Add    []string `json:"add,omitempty" maxItems:"50" nullable:"false" doc:"Label names; one that does not exist is made"`
		Remove []string `json:"remove,omitempty" maxItems:"50" nullable:"false" doc:"Label names; one that does not exist means nothing"`
	}
}

func (a *API) changeLabels(ctx context.Context, c *httpapi.Call, in *ChangeLabels) (httpapi.WriteResult, error) {
	if err := a.visible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	return done(a.app.ChangeLabels(ctx, request(c), in.ID, in.Body.Add, in.Body.Remove))
}

func (a *API) deleteContact(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	if err := a.visible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	return done(a.app.DeleteContact(ctx, request(c), in.ID))
}

// deleted answers the deletion of a contact when nothing shows the contact any more.
func (a *API) deleted(ctx context.Context, _ *httpapi.Call, d httpapi.WriteResult) (httpapi.Deleted, error) {
	return httpapi.Deleted{Deleted: true, ID: d.Ref}, a.reach(ctx, d, projections.Contacts, projections.Messages, projections.Conversations, projections.Consent)
}

// SetConsent is the request of POST /v1/contacts/{id}/consent (interface 4.1).
type SetConsent struct {
	httpapi.IDParam
	Body struct {
		Status string `json:"status" enum:"unknown,opted_in,opted_out"`
		Source string `json:"source" maxLength:"200" doc:"Where the change comes from. It stays on record after the contact is erased: put no personal data here"`
	}
}

func (a *API) setConsent(ctx context.Context, c *httpapi.Call, in *SetConsent) (httpapi.WriteResult, error) {
	if err := a.visible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	return done(a.app.SetConsent(ctx, request(c), in.ID, consent.Status(in.Body.Status), in.Body.Source))
}

// OptOut is the request of POST /v1/contacts/{id}/opt-out (interface 4.1).
type OptOut struct {
	httpapi.IDParam
	Body struct {
		Source  string  `json:"source" maxLength:"200" doc:"Where the opt-out comes from. It stays on record after the contact is erased: put no personal data here"`
		Keyword *string `json:"keyword,omitempty" maxLength:"40"`
	}
}

func (a *API) optOut(ctx context.Context, c *httpapi.Call, in *OptOut) (httpapi.WriteResult, error) {
	if err := a.visible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	return done(a.app.OptOut(ctx, request(c), in.ID, in.Body.Source, in.Body.Keyword))
}

// visible refuses an agent's request about a contact that it cannot see, as if there were none (decisions, section 2).
func (a *API) visible(ctx context.Context, c *httpapi.Call, id string) error {
	if !c.OwnOnly() {
		return nil
	}
	shard := a.store.Ledger().ShardOf(c.OrganisationID)
	if err := a.store.Current(ctx, shard, projections.Contacts); err != nil {
		return err
	}
	if _, ok, err := a.store.Contact(ctx, viewer(c, shard), id); err != nil || ok {
		return err
	}
	return gone("contact")
}
