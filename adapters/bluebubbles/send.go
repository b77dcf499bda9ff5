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

// maxLost is how many attempts of a part may get lost before Send returns carrier.ErrTransient at once. Otherwise a
// server that loses everything would get new attempts without end.
const maxLost = 3

// Send implements carrier.Carrier. The text and each attachment are messages of their own to the server, sent one after
// the other. When one of them fails, the next call of Send for the same message continues there. Attachments are
// fetched before anything is sent.
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
	// The deadline starts before the attempt is recorded, so the attempt has ended before its AcceptWindow
	// is over.
	ctx, cancel := context.WithTimeout(ctx, a.cfg.SendTimeout)
	defer cancel()
	attempt, err := a.recordAttempt(ctx, out.LineID, out.MessageID, i, len(parts))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case attempt.GUID != nil:
		return *attempt.GUID, nil
	case attempt.Lost >= maxLost:
		return "", fmt.Errorf("%w: bluebubbles: the message was lost %d times", carrier.ErrTransient, attempt.Lost)
	}
	if parts[i].file != nil {
		guid, err = a.sendFile(ctx, account, out.To, attempt.TempGUID, parts[i].file)
	} else {
		guid, err = a.sendText(ctx, account, out.To, attempt.TempGUID, parts[i].text)
	}
	if err != nil {
		return "", a.sendError(account, err)
	}
	if guid == "" {
		return "", errors.New("bluebubbles: the answer has no id of the message")
	}
	// The server has accepted it, so its id is stored even if ctx has ended.
	return guid, a.recordGUID(context.WithoutCancel(ctx), out.MessageID, i, guid)
}

// method returns by which interface of the Mac the server of an account sends.
func (a *Adapter) method(account Account) string {
	if account.PrivateAPI {
		return "private-api"
	}
	return "apple-script"
}

// sendText sends a text into the chat with an address, or into a new one.
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
	if chat == "" { // the server creates the chat with the message
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

// chatGUIDs are the ids that the chat of two people with an address can have; newer versions do not name the service.
func chatGUIDs(to string) []string { return []string{"iMessage;-;" + to, "any;-;" + to} }

// chat finds the chat with an address; "" when there is none. Its errors wrap errUnreached: nothing was sent.
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

// sendError converts the error of an attempt into an error of the port carrier.Carrier: refused for now, refused for
// good, or unknown.
func (a *Adapter) sendError(account Account, err error) error {
	refused := (*answerError)(nil)
	if errors.Is(err, errUnreached) {
		if errors.As(err, &refused) {
			a.logRefusal(account.LineID, refused)
		}
		return fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	}
	if !errors.As(err, &refused) {
		return err
	}
	a.logRefusal(account.LineID, refused)
	switch {
	case refused.status == http.StatusUnauthorized, refused.status == http.StatusForbidden, refused.status == http.StatusTooManyRequests,
		refused.status == http.StatusNotFound, // the chat is missing, or the tunnel to the server is down
		refused.withoutPrivateAPI():
		return fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case refused.status == http.StatusBadRequest && refused.says("already queued"): // by an earlier attempt
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

// logRefusal logs an error of a server, unless it is the same as the last one.
func (a *Adapter) logRefusal(lineID string, err error) {
	if a.isNewError(lineID, err) {
		a.cfg.Logger.Warn("bluebubbles: a request to the server of a line failed", "line_id", lineID, "error", err)
	}
}

// isNewError stores the last error of a line, and reports whether it differs from the one before.
func (a *Adapter) isNewError(lineID string, err error) bool {
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
