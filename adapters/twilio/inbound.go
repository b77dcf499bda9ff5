package twilio

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the provider signs with HMAC-SHA1
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/processes/carrier"
)

const (
	// maxReport bounds the body of a report, in bytes, maxParameters the number of its parameters.
	maxReport     = 256 << 10
	maxParameters = 500
	// maxMedia is how many attachments of a message are taken.
	maxMedia = 10
)

// emptyResponse is the answer to a report: it asks the provider to do nothing.
const emptyResponse = `<?xml version="1.0" encoding="UTF-8"?><Response></Response>`

// ServeReport handles what the provider reports about a connection: a message from a contact, or the status of a
// message of ours. Both come to the same address (rule SMS-25). A report without the provider's signature is answered
// with 403. Before an account is read from the ledger to check a signature, admit is called: it returns false when it
// has refused the request.
func (a *Adapter) ServeReport(w http.ResponseWriter, r *http.Request, connectionID string, admit func() bool) {
	const longest = 64
	if len(connectionID) > longest || !strings.HasPrefix(connectionID, "smc_") {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	form, status := readForm(w, r)
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	signed, err := a.signed(r, connectionID, form, a.cfg.Accounts.Cached)
	if err == nil && !signed { // unsigned, or by a token that is newer than the cache
		if !admit() {
			return
		}
		signed, err = a.signed(r, connectionID, form, a.cfg.Accounts.Account)
	}
	switch {
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case !signed:
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if kind := form.Get("MessageStatus"); kind != "" && kind != "received" {
		err = a.serveCallback(r.Context(), &callback{connectionID, form.Get("MessageSid"), kind, form.Get("ErrorCode")})
	} else {
		err = a.serveMessage(r, connectionID, form)
	}
	if err != nil {
		a.cfg.Logger.Warn("twilio: a report was not recorded", "connection_id", connectionID, "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	_, _ = w.Write([]byte(emptyResponse))
}

// readForm reads a form-encoded body; status is not 0 when it cannot.
func readForm(w http.ResponseWriter, r *http.Request) (form url.Values, status int) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") {
		return nil, http.StatusUnsupportedMediaType
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxReport)
	err := r.ParseForm()
	tooLarge := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge
	case err != nil || len(r.PostForm) > maxParameters:
		return nil, http.StatusBadRequest
	}
	return r.PostForm, 0
}

// signed reports whether a request has the provider's signature over the public address of the service, whatever
// address a proxy has passed it on to. The request must be about the account of the connection.
func (a *Adapter) signed(
	r *http.Request, connectionID string, form url.Values, find func(context.Context, string) (carrier.SMSAccount, error),
) (bool, error) {
	account, err := find(r.Context(), connectionID)
	if err != nil && !errors.Is(err, carrier.ErrNoSMSAccount) {
		return false, err
	}
	address := a.inboundURL(connectionID)
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	given, decodeErr := base64.StdEncoding.DecodeString(r.Header.Get("X-Twilio-Signature"))
	// Compared even when there is no account, so that the time of the answer does not reveal that.
	equal := hmac.Equal(given, sign(account.AuthToken, address, form))
	return equal && err == nil && decodeErr == nil && account.AuthToken != "" && form.Get("AccountSid") == account.AccountSID, nil
}

// sign returns the signature of a report: HMAC-SHA1 over the address and all parameters in their order.
func sign(token, address string, form url.Values) []byte {
	h := hmac.New(sha1.New, []byte(token))
	_, _ = h.Write([]byte(address))
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(form[name]))) {
			_, _ = h.Write([]byte(name + value))
		}
	}
	return h.Sum(nil)
}

// serveMessage records a message from a contact. One that cannot be recorded ever, for example from a sender without a
// phone number, is dropped.
func (a *Adapter) serveMessage(r *http.Request, connectionID string, form url.Values) error {
	sid := form.Get("MessageSid")
	if sid == "" {
		return nil
	}
	in := carrier.Inbound{
		CarrierID: sid, ConnectionID: connectionID, LinePhone: form.Get("To"), From: form.Get("From"), Body: form.Get("Body"),
		Channel: carrier.ChannelSMS,
	}
	count, _ := strconv.Atoi(form.Get("NumMedia"))
	for i := range min(count, maxMedia) {
		media, err := a.attachment(connectionID, form, i)
		if err != nil {
			return err
		}
		if media.URL != "" {
			in.Media = append(in.Media, media)
		}
	}
	_, err := a.cfg.Inbox.Message(r.Context(), in)
	if refused := fault.Of(err); refused != nil && (refused.Code == fault.ValidationFailed || refused.Code == fault.NotFound) {
		a.cfg.Logger.Warn("twilio: a message was dropped", "connection_id", connectionID, "code", refused.Code)
		return nil
	}
	return err
}

// attachment is an attachment of a message from a contact. One that is not at the provider is dropped: the credentials
// go to the provider only.
func (a *Adapter) attachment(connectionID string, form url.Values, i int) (events.Media, error) {
	n := strconv.Itoa(i)
	address := form.Get("MediaUrl" + n)
	path, ours := strings.CutPrefix(address, a.api+"/")
	if !ours {
		return events.Media{}, nil
	}
	served, err := a.mediaPath(connectionID, "/"+path)
	m := events.Media{URL: served}
	if kind := form.Get("MediaContentType" + n); kind != "" {
		m.MIME = &kind
	}
	return m, err
}
