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

// CreateContact is the request of POST /v1/contacts.
type CreateContact struct {
	Body struct {
		Phone         string         `json:"phone" maxLength:"32" doc:"E.164 or a US/Canada national format"`
		FirstName     *string        `json:"first_name,omitempty" maxLength:"100"`
		LastName      *string        `json:"last_name,omitempty" maxLength:"100"`
		Company       *string        `json:"company,omitempty" maxLength:"200"`
		Email         *string        `json:"email,omitempty" format:"email" maxLength:"254"`
		Fields        map[string]any `json:"fields,omitempty" doc:"Custom fields"`
		Labels        []string       `json:"labels,omitempty" maxItems:"50" nullable:"false" doc:"Label names; one that does not exist is created"`
		OwnerUserID   *uuid.UUID     `json:"owner_user_id,omitempty"`
		ConsentStatus *string        `json:"consent_status,omitempty" enum:"unknown,opted_in"`
		ConsentSource *string        `json:"consent_source,omitempty" maxLength:"200"`
	}
}

// Check implements httpapi.Checked.
func (in *CreateContact) Check() []fault.Issue { return phoneIssues("/phone", in.Body.Phone) }

// phoneIssues lists what is wrong with a phone number. An empty number has no issues: a required property is checked
// by the schema.
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
	return result(a.app.CreateContact(ctx, request(c), create))
}

// UpdateContact is the request of PATCH /v1/contacts/{id}.
type UpdateContact struct {
	httpapi.IDParam
	Body struct {
		FirstName   httpapi.Nullable[string]         `json:"first_name,omitzero" maxLength:"100"`
		LastName    httpapi.Nullable[string]         `json:"last_name,omitzero" maxLength:"100"`
		Company     httpapi.Nullable[string]         `json:"company,omitzero" maxLength:"200"`
		Email       httpapi.Nullable[string]         `json:"email,omitzero" format:"email" maxLength:"254"`
		Phone       httpapi.Optional[string]         `json:"phone,omitzero" maxLength:"32" doc:"E.164 or a US/Canada national format"`
		Fields      httpapi.Optional[map[string]any] `json:"fields,omitzero" doc:"Replaces the custom fields"`
		Labels      httpapi.Optional[[]string]       `json:"labels,omitzero" maxItems:"50" doc:"Replaces the labels of the contact, by name; one that does not exist is created"`
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
	if err := a.checkVisible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	b := &in.Body
	update := commands.UpdateContact{
		Phone: b.Phone.Ptr(), FirstName: given(b.FirstName), LastName: given(b.LastName), Company: given(b.Company), Email: given(b.Email),
		Owner: given(b.OwnerUserID), Fields: b.Fields.Value, Labels: b.Labels.Value,
	}
	return result(a.app.UpdateContact(ctx, request(c), in.ID, update))
}

// given converts a property that may be left out, null or a value into a change of a contact.
func given[T any](n httpapi.Nullable[T]) contact.Setting[T] {
	return contact.Setting[T]{Given: n.Set, Value: n.Ptr()}
}

// ChangeLabels is the request of POST /v1/contacts/{id}/labels.
type ChangeLabels struct {
	httpapi.IDParam
	Body struct {
		Add    []string `json:"add,omitempty" maxItems:"50" nullable:"false" doc:"Label names; one that does not exist is created"`
		Remove []string `json:"remove,omitempty" maxItems:"50" nullable:"false" doc:"Label names; one that does not exist is ignored"`
	}
}

func (a *API) changeLabels(ctx context.Context, c *httpapi.Call, in *ChangeLabels) (httpapi.WriteResult, error) {
	if err := a.checkVisible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	return result(a.app.ChangeContactLabels(ctx, request(c), in.ID, in.Body.Add, in.Body.Remove))
}

func (a *API) deleteContact(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	if err := a.checkVisible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	return result(a.app.DeleteContact(ctx, request(c), in.ID))
}

// SetConsent is the request of POST /v1/contacts/{id}/consent.
type SetConsent struct {
	httpapi.IDParam
	Body struct {
		Status string `json:"status" enum:"unknown,opted_in,opted_out"`
		Source string `json:"source" maxLength:"200" doc:"Where the change comes from. It stays on record after the contact is erased: put no personal data here"`
	}
}

func (a *API) setConsent(ctx context.Context, c *httpapi.Call, in *SetConsent) (httpapi.WriteResult, error) {
	if err := a.checkVisible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	return result(a.app.SetConsent(ctx, request(c), in.ID, consent.Status(in.Body.Status), in.Body.Source))
}

// OptOut is the request of POST /v1/contacts/{id}/opt-out.
type OptOut struct {
	httpapi.IDParam
	Body struct {
		Source  string  `json:"source" maxLength:"200" doc:"Where the opt-out comes from. It stays on record after the contact is erased: put no personal data here"`
		Keyword *string `json:"keyword,omitempty" maxLength:"40"`
	}
}

func (a *API) optOut(ctx context.Context, c *httpapi.Call, in *OptOut) (httpapi.WriteResult, error) {
	if err := a.checkVisible(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	return result(a.app.OptOut(ctx, request(c), in.ID, in.Body.Source, in.Body.Keyword))
}

// checkVisible returns not_found for a contact that the caller may not see (rule ACC-19).
func (a *API) checkVisible(ctx context.Context, c *httpapi.Call, id string) error {
	if !c.OwnOnly() {
		return nil
	}
	_, err := a.contacts().current(ctx, c, id)
	if f := fault.Of(err); f != nil && f.Code == fault.NotFound {
		f.Hidden = true
	}
	return err
}

func (a *API) contacts() resource[projections.Contact] {
	return resource[projections.Contact]{a.store, "contact", a.store.Contact, consumers(projections.Contacts)}
}
