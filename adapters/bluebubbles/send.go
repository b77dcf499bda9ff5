package bluebubbles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"ledgerline/processes/carrier"
)

// part is one message as the server sends it: the text, or one attachment.
type part struct {
	text string
	file *file // nil for the text
}

// maxLost is how often a try may turn out to have been lost before it counts as a refusal: a server that swallows
// everything would otherwise be tried without end.
const maxLost = 3

// Send implements carrier.Carrier. A text and its attachments are as many messages to the server, one after the other;
// when a later one fails, the same message goes on there when it is sent again. Attachments are fetched before anything
// is sent.
func (a *Adapter) Send(ctx context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	if out.Channel != "chat" {
		return carrier.Accepted{}, &carrier.Rejected{Code: "sms_unsupported"}
	}
	account, err := a.account(ctx, out.LineID)
	if err != nil {
		return carrier.Accepted{}, err
	}
	parts, err := a.parts(ctx, out)
	defer closeAll(parts)
	if err != nil {
		return carrier.Accepted{}, err
	}
	var accepted carrier.Accepted
	for i := range parts {
		guid, err := a.sendPart(ctx, account, &out, i, parts)
		if err != nil {
			return carrier.Accepted{}, err
		}
		if i == 0 {
			accepted.CarrierID = guid
		}
	}
	return accepted, nil
}

func (a *Adapter) sendPart(ctx context.Context, account Account, out *carrier.Outbound, i int, parts []part) (guid string, err error) {
	// The deadline begins before the try is noted: whoever looks Settle later knows that it is over.
	ctx, cancel := context.WithTimeout(ctx, a.cfg.SendTimeout)
	defer cancel()
	try, err := a.begin(ctx, out.LineID, out.MessageID, i, len(parts))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case try.GUID != nil:
		return *try.GUID, nil
	case try.Lost >= maxLost:
		return "", fmt.Errorf("%w: bluebubbles: it was lost %d times", carrier.ErrTransient, try.Lost)
	}
	if parts[i].file != nil {
		guid, err = a.sendFile(ctx, account, out.To, try.TempGUID, parts[i].file)
	} else {
		guid, err = a.sendText(ctx, account, out.To, try.TempGUID, parts[i].text)
	}
	if err != nil {
		return "", a.verdict(account, err)
	}
	if guid == "" {
		return "", errors.New("bluebubbles: the server does not say what it has sent")
	}
	// The server has it, whoever still waits for us.
	return guid, a.took(context.WithoutCancel(ctx), out.MessageID, i, guid)
}

func (a *Adapter) method(account Account) string {
	if account.PrivateAPI {
		return "private-api"
	}
	return "apple-script"
}

// sendText writes into the chat with an address, or opens one with it.
func (a *Adapter) sendText(ctx context.Context, account Account, to, temp, text string) (guid string, err error) {
	chat, err := a.chat(ctx, account, to)
	if err != nil {
		return "", err
	}
	if chat == "" {
		var opened wireChat
		err := a.query(ctx, account, http.MethodPost, "chat/new", nil, map[string]any{
			"addresses": []string{to}, "message": text, "service": "iMessage", "method": a.method(account), "tempGuid": temp,
		}, &opened)
		if err != nil || len(opened.Messages) == 0 {
			return "", err
		}
		return opened.Messages[0].GUID, nil
	}
	var sent wireMessage
	err = a.query(ctx, account, http.MethodPost, "message/text", nil, map[string]any{
		"chatGuid": chat, "message": text, "method": a.method(account), "tempGuid": temp,
	}, &sent)
	return sent.GUID, err
}

func (a *Adapter) sendFile(ctx context.Context, account Account, to, temp string, f *file) (guid string, err error) {
	chat, err := a.chat(ctx, account, to)
	if err != nil {
		return "", err
	}
	if chat == "" { // the server opens it with what is sent
		chat = chatGUIDs(to)[0]
	}
	body, contentType, err := f.form(map[string]string{"chatGuid": chat, "tempGuid": temp, "name": f.name, "method": a.method(account)})
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnreached, err)
	}
	var sent wireMessage
	err = a.call(ctx, account, http.MethodPost, "message/attachment", nil, body, contentType, &sent)
	return sent.GUID, err
}

// chatGUIDs are the names that the chat of two with an address may have: newer systems no longer name the service.
func chatGUIDs(to string) []string { return []string{"iMessage;-;" + to, "any;-;" + to} }

// chat finds the chat with an address; "" when there is none. Nothing was sent when it fails.
func (a *Adapter) chat(ctx context.Context, account Account, to string) (string, error) {
	for _, guid := range chatGUIDs(to) {
		var found wireChat
		err := a.query(ctx, account, http.MethodGet, "chat/"+url.PathEscape(guid), nil, nil, &found)
		refused := (*answerError)(nil)
		switch {
		case err == nil:
			return guid, nil
		case errors.As(err, &refused) && refused.status == http.StatusNotFound && refused.json:
			continue
		}
		return "", fmt.Errorf("%w: %w", errUnreached, err)
	}
	return "", nil
}

// verdict says what a failed try means. What is not certain stays unknown, and is asked later.
func (a *Adapter) verdict(account Account, err error) error {
	refused := (*answerError)(nil)
	if errors.Is(err, errUnreached) {
		if errors.As(err, &refused) {
			a.complain(account.LineID, refused)
		}
		return fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	}
	if !errors.As(err, &refused) {
		return err
	}
	a.complain(account.LineID, refused)
	switch {
	case refused.status == http.StatusUnauthorized, refused.status == http.StatusForbidden, refused.status == http.StatusTooManyRequests,
		refused.status == http.StatusNotFound, // of the chat, or of the server by a tunnel that is down
		refused.withoutPrivateAPI():
		return fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case refused.status == http.StatusBadRequest && refused.says("already queued"): // by an earlier try
		return err
	case refused.json && (refused.status == http.StatusBadRequest || refused.status == http.StatusRequestEntityTooLarge):
		return &carrier.Rejected{Code: failure(0)}
	case refused.json && refused.status == http.StatusInternalServerError:
		var failed wireMessage
		if json.Unmarshal(refused.data, &failed) == nil && failed.Error != 0 {
			return &carrier.Rejected{Code: failure(failed.Error)}
		}
	}
	return err
}

// complain logs a server's refusal, once in a row.
func (a *Adapter) complain(lineID string, err error) {
	if a.news(lineID, err) {
		a.cfg.Logger.Warn("bluebubbles: the server of a line refuses", "line_id", lineID, "error", err)
	}
}

// news tells whether this is not what was wrong with the line last.
func (a *Adapter) news(lineID string, err error) bool {
	if last, ok := a.failed.Get(lineID); ok && last.Error() == err.Error() {
		return false
	}
	a.failed.Add(lineID, err)
	return true
}

func closeAll(parts []part) {
	for _, p := range parts {
		if p.file != nil {
			p.file.close()
		}
	}
}

var _ io.Reader = (*form)(nil)
