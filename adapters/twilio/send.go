package twilio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"ledgerline/processes/carrier"
)

const (
	// maxBody is the longest text, in characters (rule SMS-18). The provider refuses a longer one with tooLong.
	maxBody = 1600
	tooLong = "sms_21617"
)

// wireMessage is a message as the provider shows it.
type wireMessage struct {
	SID         string  `json:"sid"`
	Status      string  `json:"status"`
	Body        string  `json:"body"`
	From        *string `json:"from"`
	Direction   string  `json:"direction"`
	NumMedia    string  `json:"num_media"`
	DateCreated string  `json:"date_created"`
}

// Send implements carrier.Carrier.
func (a *Adapter) Send(ctx context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	if out.Channel != carrier.ChannelSMS || out.ConnectionID == "" {
		return carrier.Accepted{}, &carrier.Rejected{Code: "carrier_rejected"}
	}
	account, err := a.cfg.Accounts.Account(ctx, out.ConnectionID)
	switch {
	case errors.Is(err, carrier.ErrNoSMSAccount):
		return carrier.Accepted{}, &carrier.Rejected{Code: "carrier_unreachable"}
	case err != nil:
		return carrier.Accepted{}, fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case !account.Ready:
		return carrier.Accepted{}, fmt.Errorf("%w: twilio: the connection is not ready", carrier.ErrTransient)
	case utf8.RuneCountInString(out.Body) > maxBody:
		return carrier.Accepted{}, &carrier.Rejected{Code: tooLong}
	}
	sid, again, err := a.recordAttempt(ctx, &out)
	switch {
	case err != nil:
		return carrier.Accepted{}, fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case sid != "":
		return carrier.Accepted{CarrierID: sid}, nil
	}
	if again { // the provider may have accepted an earlier attempt although it did not answer (rule SMS-20)
		found, err := a.search(ctx, &account, &out)
		switch {
		case err != nil:
			return carrier.Accepted{}, fmt.Errorf("%w: %w", carrier.ErrTransient, err)
		case found != nil:
			return a.accepted(ctx, &out, *found)
		}
	}
	form := a.form(&account, out.From, out.To, out.Body)
	form.Set("StatusCallback", a.inboundURL(account.ConnectionID))
	for i := range out.Media {
		form.Add("MediaUrl", out.Media[i].URL)
	}
	sent, err := a.post(ctx, &account, form)
	if err != nil {
		return carrier.Accepted{}, sendError(err)
	}
	return a.accepted(ctx, &out, sent)
}

func (a *Adapter) form(account *carrier.SMSAccount, from, to, body string) url.Values {
	form := url.Values{"To": {to}}
	if body != "" {
		form.Set("Body", body)
	}
	switch {
	case from != "":
		form.Set("From", from)
	case account.MessagingServiceSID != "":
		form.Set("MessagingServiceSid", account.MessagingServiceSID)
	case len(account.FromNumbers) > 0:
		form.Set("From", account.FromNumbers[0])
	}
	return form
}

func (a *Adapter) post(ctx context.Context, account *carrier.SMSAccount, form url.Values) (wireMessage, error) {
	var sent wireMessage
	err := a.call(ctx, account, request{method: http.MethodPost, url: a.accountURL(account, "/Messages.json"), form: form, out: &sent})
	if err == nil && sent.SID == "" {
		err = errors.New("twilio: the answer has no id of the message")
	}
	return sent, err
}

// accepted remembers the id of an accepted message, also if ctx has ended.
func (a *Adapter) accepted(ctx context.Context, out *carrier.Outbound, m wireMessage) (carrier.Accepted, error) {
	if err := a.recordSID(context.WithoutCancel(ctx), out, m.SID); err != nil {
		return carrier.Accepted{}, err
	}
	accepted := carrier.Accepted{CarrierID: m.SID}
	if m.From != nil && out.From == "" {
		accepted.From = *m.From
	}
	return accepted, nil
}

// sendError translates the error of a call to send into one of the carrier's errors.
func sendError(err error) error {
	refused := (*answerError)(nil)
	switch {
	case errors.Is(err, errUnreached):
		return fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case !errors.As(err, &refused):
		return err
	case refused.retryAfter > 0 && (refused.status == http.StatusTooManyRequests || refused.status >= http.StatusInternalServerError):
		return &carrier.Postponed{After: refused.retryAfter, Cause: err}
	case refused.status == http.StatusTooManyRequests || refused.status >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case refused.code == 0:
		return &carrier.Rejected{Code: "sms_" + strconv.Itoa(refused.status)}
	}
	return &carrier.Rejected{Code: "sms_" + strconv.Itoa(refused.code)}
}

// SendText implements carrier.SMSProvider.
func (a *Adapter) SendText(ctx context.Context, account carrier.SMSAccount, from, to, body string) (carrier.SMSText, error) {
	sent, err := a.post(ctx, &account, a.form(&account, from, to, body))
	refused := (*answerError)(nil)
	switch {
	case err == nil:
		return carrier.SMSText{ID: sent.SID, Status: sent.Status}, nil
	case errors.As(err, &refused) && (refused.status == http.StatusTooManyRequests || refused.status >= http.StatusInternalServerError):
		return carrier.SMSText{}, err // the provider was reached
	}
	return carrier.SMSText{}, sendError(err)
}

// Reachable implements carrier.Carrier: an SMS provider knows nothing of the chat channel.
func (*Adapter) Reachable(context.Context, carrier.Line, string) (bool, error) {
	return false, carrier.ErrReachabilityUnknown
}

// errTooEarly says that the AcceptWindow of an attempt is not over: the provider may still accept a message that it
// does not show yet.
var errTooEarly = errors.New("twilio: it is too early to know whether the provider has accepted the message")

// Lookup implements carrier.Carrier. Without the credentials, which are destroyed with the connection, nothing can be
// found.
func (a *Adapter) Lookup(ctx context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	t, attempted, err := a.attempt(ctx, out.MessageID)
	switch {
	case err != nil || !attempted || out.Channel != carrier.ChannelSMS:
		return carrier.Accepted{}, false, err
	case t.SID != nil:
		return carrier.Accepted{CarrierID: *t.SID}, true, nil
	}
	account, err := a.cfg.Accounts.Account(ctx, out.ConnectionID)
	if errors.Is(err, carrier.ErrNoSMSAccount) {
		return carrier.Accepted{}, false, nil
	}
	if err != nil {
		return carrier.Accepted{}, false, err
	}
	found, err := a.search(ctx, &account, &out)
	switch {
	case err != nil:
		return carrier.Accepted{}, false, err
	case found != nil:
		accepted, err := a.accepted(ctx, &out, *found)
		return accepted, err == nil, err
	case !t.WindowOver:
		return carrier.Accepted{}, false, errTooEarly
	}
	return carrier.Accepted{}, false, nil
}

const (
	// skew is how far the clocks of the provider and the database may differ.
	skew = 2 * time.Minute
	// pageSize and maxPages bound how many messages of an account are searched.
	pageSize = 100
	maxPages = 20
)

// search finds the message among those that the account has sent to the number since the first attempt and that belong
// to no other message of ours. It returns nil when there is none.
func (a *Adapter) search(ctx context.Context, account *carrier.SMSAccount, out *carrier.Outbound) (*wireMessage, error) {
	t, attempted, err := a.attempt(ctx, out.MessageID)
	if err != nil || !attempted {
		return nil, err
	}
	query := url.Values{"To": {out.To}, "PageSize": {strconv.Itoa(pageSize)}}
	next := a.accountURL(account, "/Messages.json?"+query.Encode())
	for range maxPages {
		var page struct {
			Messages []wireMessage `json:"messages"`
			Next     *string       `json:"next_page_uri"`
		}
		if err := a.call(ctx, account, request{method: http.MethodGet, url: next, out: &page}); err != nil {
			return nil, err
		}
		found, older, err := a.pick(ctx, out, page.Messages, t.FirstAt.Add(-skew))
		if err != nil || found != nil || older || page.Next == nil || *page.Next == "" {
			return found, err
		}
		if next = a.api + *page.Next; (*page.Next)[0] != '/' {
			return nil, errors.New("twilio: the address of the next page is not a path")
		}
	}
	return nil, errTooEarly
}

// pick finds the message on a page. older reports whether the page reaches back beyond since: pages are newest first.
func (a *Adapter) pick(ctx context.Context, out *carrier.Outbound, page []wireMessage, since time.Time) (found *wireMessage, older bool, err error) {
	var sids []string
	candidates := map[string]*wireMessage{}
	for i := range page {
		m := &page[i]
		created, err := time.Parse(time.RFC1123Z, m.DateCreated)
		if err == nil && created.Before(since) {
			older = true
			continue
		}
		if err == nil && m.SID != "" && m.Direction != "inbound" && m.Body == out.Body && sameMedia(m, len(out.Media)) {
			sids, candidates[m.SID] = append(sids, m.SID), m
		}
	}
	if len(sids) == 0 {
		return nil, older, nil
	}
	known, err := a.knownSIDs(ctx, out.ConnectionID, sids)
	if err != nil {
		return nil, older, err
	}
	for i := len(sids) - 1; i >= 0; i-- { // the oldest first
		if !known[sids[i]] {
			return candidates[sids[i]], older, nil
		}
	}
	return nil, older, nil
}

func sameMedia(m *wireMessage, count int) bool {
	return m.NumMedia == "" || m.NumMedia == strconv.Itoa(count)
}
