package twilio

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"ledgerline/processes/carrier"
)

func problem(text string) error { return &carrier.SMSProblem{Text: text} }

// Verify implements carrier.SMSProvider (rules SMS-3 and SMS-4).
func (a *Adapter) Verify(ctx context.Context, account carrier.SMSAccount, inbound bool) error {
	var found struct {
		Status string `json:"status"`
	}
	switch err := a.ask(ctx, &account, http.MethodGet, a.accountURL(&account, ".json"), nil, &found); {
	case err != nil:
		return explain(err, "The provider does not know the account.")
	case found.Status != "active":
		return problem("The account is not active at the provider.")
	}
	if account.MessagingServiceSID != "" {
		return a.verifyService(ctx, &account, inbound)
	}
	if len(account.FromNumbers) == 0 {
		return problem("There is no sender: give a messaging service or from numbers.")
	}
	return a.verifyNumbers(ctx, &account, inbound)
}

func (a *Adapter) ask(ctx context.Context, account *carrier.SMSAccount, method, address string, form url.Values, out any) error {
	return a.call(ctx, account, request{method: method, url: address, form: form, out: out, always: true})
}

// explain says what is wrong in words for people. missing is for an answer 404.
func explain(err error, missing string) error {
	answered := (*answerError)(nil)
	switch {
	case !errors.As(err, &answered):
		return problem("The provider could not be reached.")
	case answered.status == http.StatusUnauthorized || answered.status == http.StatusForbidden:
		return problem("The provider refused the credentials.")
	case answered.status == http.StatusNotFound:
		return problem(missing)
	case answered.status >= http.StatusInternalServerError || answered.status == http.StatusTooManyRequests:
		return problem("The provider could not answer. Try again later.")
	}
	return problem("The provider refused the request.")
}

func (a *Adapter) verifyService(ctx context.Context, account *carrier.SMSAccount, inbound bool) error {
	address := a.messaging + "/v1/Services/" + url.PathEscape(account.MessagingServiceSID)
	if err := a.ask(ctx, account, http.MethodGet, address, nil, nil); err != nil {
		return explain(err, "The messaging service does not exist.")
	}
	if !inbound {
		return nil
	}
	if a.cfg.BaseURL == "" {
		return problem("The service has no public address to which the provider could report.")
	}
	form := url.Values{"InboundRequestUrl": {a.inboundURL(account.ConnectionID)}, "InboundMethod": {http.MethodPost}, "UseInboundWebhookOnNumber": {"false"}}
	if err := a.ask(ctx, account, http.MethodPost, address, form, nil); err != nil {
		return explain(err, "The messaging service does not exist.")
	}
	return nil
}

// wireNumber is a phone number of an account.
type wireNumber struct {
	SID    string `json:"sid"`
	Number string `json:"phone_number"`
}

func (a *Adapter) verifyNumbers(ctx context.Context, account *carrier.SMSAccount, inbound bool) error {
	var missing []string
	sids := make([]string, 0, len(account.FromNumbers))
	for _, number := range account.FromNumbers {
		var page struct {
			Numbers []wireNumber `json:"incoming_phone_numbers"`
		}
		query := url.Values{"PhoneNumber": {number}}
		if err := a.ask(ctx, account, http.MethodGet, a.accountURL(account, "/IncomingPhoneNumbers.json?"+query.Encode()), nil, &page); err != nil {
			return explain(err, "The provider does not know the account.")
		}
		sid := ""
		for _, n := range page.Numbers {
			if n.Number == number {
				sid = n.SID
			}
		}
		if sid == "" {
			missing = append(missing, number)
		}
		sids = append(sids, sid)
	}
	switch {
	case len(missing) > 0:
		return problem("These numbers are not in the account: " + strings.Join(missing, ", ") + ".")
	case !inbound:
		return nil
	case a.cfg.BaseURL == "":
		return problem("The service has no public address to which the provider could report.")
	}
	for _, sid := range sids {
		form := url.Values{"SmsUrl": {a.inboundURL(account.ConnectionID)}, "SmsMethod": {http.MethodPost}}
		if err := a.ask(ctx, account, http.MethodPost, a.accountURL(account, "/IncomingPhoneNumbers/"+url.PathEscape(sid)+".json"), form, nil); err != nil {
			return explain(err, "A number is not in the account any more.")
		}
	}
	return nil
}
