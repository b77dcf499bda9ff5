package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/smsconnection"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateSMSConnection is the request of POST /v1/sms-connections.
type CreateSMSConnection struct {
	Body struct {
		AccountSID          string                     `json:"account_sid" doc:"AC and 32 hexadecimal digits"`
		AuthToken           string                     `json:"auth_token" doc:"Stored encrypted and never shown"`
		Provider            string                     `json:"provider,omitempty" enum:"sms_provider" default:"sms_provider"`
		MessagingServiceSID httpapi.Optional[string]   `json:"messaging_service_sid,omitzero" doc:"MG and 32 hexadecimal digits. It wins over from_numbers"`
		FromNumbers         httpapi.Optional[[]string] `json:"from_numbers,omitzero" maxItems:"20" doc:"E.164; numbers of the account"`
		PrefixOrgName       bool                       `json:"prefix_org_name,omitempty" default:"false" doc:"Begin texts with the name of the organisation"`
		Confirmed           httpapi.Optional[bool]     `json:"compliance_confirmed,omitzero" doc:"The account is registered with carriers for the messages that it sends. Only a signed-in user can confirm that"`
		Inbound             bool                       `json:"configure_inbound_webhook,omitempty" default:"false" doc:"Point the inbound webhook of the service or the numbers at inbound_webhook_url. Only a signed-in user can ask for that"`
	}
}

func (in *CreateSMSConnection) account() smsconnection.Account {
	b := &in.Body
	return smsconnection.Account{
		AccountSID: &b.AccountSID, AuthToken: &b.AuthToken, MessagingServiceSID: b.MessagingServiceSID.Ptr(), FromNumbers: b.FromNumbers.Ptr(),
		PrefixOrgName: &b.PrefixOrgName,
	}
}

// Check implements httpapi.Checked.
func (in *CreateSMSConnection) Check() []fault.Issue {
	account := in.account()
	return account.Issues()
}

func (a *API) createSMSConnection(ctx context.Context, c *httpapi.Call, in *CreateSMSConnection) (httpapi.WriteResult, error) {
	return result(a.app.CreateSMSConnection(ctx, request(c), commands.CreateSMSConnection{
		Account: in.account(), Confirmed: in.Body.Confirmed.Value, Inbound: in.Body.Inbound,
	}, a.outside.SMS))
}

// UpdateSMSConnection is the request of PATCH /v1/sms-connections/{id}.
type UpdateSMSConnection struct {
	httpapi.IDParam
	Body struct {
		AccountSID          httpapi.Optional[string]   `json:"account_sid,omitzero" doc:"Another account needs another confirmation of compliance"`
		AuthToken           httpapi.Optional[string]   `json:"auth_token,omitzero" doc:"Stored encrypted and never shown"`
		MessagingServiceSID httpapi.Nullable[string]   `json:"messaging_service_sid,omitzero"`
		FromNumbers         httpapi.Optional[[]string] `json:"from_numbers,omitzero" maxItems:"20"`
		PrefixOrgName       httpapi.Optional[bool]     `json:"prefix_org_name,omitzero" doc:"Begin texts with the name of the organisation"`
		Confirmed           httpapi.Optional[bool]     `json:"compliance_confirmed,omitzero" doc:"true by a signed-in user only; false takes it back"`
		Disabled            httpapi.Optional[bool]     `json:"disabled,omitzero" doc:"true stops SMS; false makes the connection pending"`
	}
}

func (in *UpdateSMSConnection) change() smsconnection.Change {
	b := &in.Body
	change := smsconnection.Change{Account: smsconnection.Account{
		AccountSID: b.AccountSID.Ptr(), AuthToken: b.AuthToken.Ptr(), MessagingServiceSID: b.MessagingServiceSID.Ptr(), FromNumbers: b.FromNumbers.Ptr(),
		PrefixOrgName: b.PrefixOrgName.Ptr(),
	}, Confirmed: b.Confirmed.Ptr(), Disabled: b.Disabled.Ptr()}
	if b.MessagingServiceSID.Null {
		none := ""
		change.MessagingServiceSID = &none
	}
	return change
}

// Check implements httpapi.Checked.
func (in *UpdateSMSConnection) Check() []fault.Issue {
	change := in.change()
	return change.Issues()
}

func (a *API) updateSMSConnection(ctx context.Context, c *httpapi.Call, in *UpdateSMSConnection) (httpapi.WriteResult, error) {
	return result(a.app.UpdateSMSConnection(ctx, request(c), in.ID, in.change()))
}

func (a *API) deleteSMSConnection(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	return result(a.app.DeleteSMSConnection(ctx, request(c), in.ID))
}

// VerifySMSConnection is the request of POST /v1/sms-connections/{id}/verify.
type VerifySMSConnection struct {
	httpapi.IDParam
	Body *struct {
		Inbound bool `json:"configure_inbound_webhook,omitempty" default:"false" doc:"As on create"`
	}
}

func (a *API) verifySMSConnection(ctx context.Context, c *httpapi.Call, in *VerifySMSConnection) (httpapi.WriteResult, error) {
	return result(a.app.VerifySMSConnection(ctx, request(c), in.ID, in.Body != nil && in.Body.Inbound, a.outside.SMS))
}

func (a *API) smsConnections() resource[projections.SMSConnection] {
	return resource[projections.SMSConnection]{a.store, "SMS connection", a.store.SMSConnection, consumers(projections.SMSConnections)}
}

// TestSMSConnection is the request of POST /v1/sms-connections/{id}/test.
type TestSMSConnection struct {
	httpapi.IDParam
	Body struct {
		To string `json:"to" doc:"E.164; the only recipient"`
	}
}

// SMSTest is the answer of POST /v1/sms-connections/{id}/test.
type SMSTest struct {
	ID         string            `json:"id" doc:"Of the test"`
	ProviderID string            `json:"provider_message_id" doc:"The provider's id of the text"`
	SentAt     httpapi.Timestamp `json:"sent_at"`
	Status     string            `json:"status" doc:"In the provider's words, for example queued"`
	To         string            `json:"to" doc:"E.164"`
}

func (a *API) testSMSConnection(ctx context.Context, c *httpapi.Call, in *TestSMSConnection) (httpapi.WriteResult, error) {
	body := func(t commands.SentTestText) SMSTest {
		return SMSTest{ID: t.Ref, ProviderID: t.ProviderID, SentAt: httpapi.TimestampOf(t.At), Status: t.Status, To: t.To}
	}
	sent, err := a.app.TestSMSConnection(ctx, request(c), in.ID, in.Body.To, recordedBody(c, body), a.outside.SMS)
	return resultWithBody(c, sent.Result, sent, body, err)
}
