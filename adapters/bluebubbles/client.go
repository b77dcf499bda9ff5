package bluebubbles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"ledgerline/processes/carrier"
)

// maxAnswer bounds an answer of a server, in bytes.
const maxAnswer = 16 << 20

// answerError is an error answer of a server. The server's text may contain numbers and message texts, so it is
// inspected and never logged.
type answerError struct {
	status int
	kind   string // the server's name of the kind of error
	text   string
	json   bool // the answer came from a BlueBubbles server, not from a proxy
	data   json.RawMessage
}

func (e *answerError) Error() string {
	if e.kind != "" {
		return fmt.Sprintf("bluebubbles: the server answered %d (%s)", e.status, e.kind)
	}
	return fmt.Sprintf("bluebubbles: the server answered %d", e.status)
}

// says reports whether the text contains all of the words.
func (e *answerError) says(words ...string) bool {
	for _, word := range words {
		if !strings.Contains(strings.ToLower(e.text), word) {
			return false
		}
	}
	return true
}

// withoutPrivateAPI reports whether the server did nothing because it has no private API at this moment.
func (e *answerError) withoutPrivateAPI() bool {
	return e.json && e.says("private api") && (e.says("not enabled") || e.says("not connected"))
}

// errUnreached says that a request certainly did not reach the server.
var errUnreached = errors.New("bluebubbles: the server was not reached")

// query makes a request with a JSON body, or without a body when in is nil, and decodes the JSON answer into out.
func (a *Adapter) query(ctx context.Context, account Account, method, path string, params url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("bluebubbles: encode: %w", err)
		}
		body = bytes.NewReader(text)
	}
	return a.call(ctx, account, method, path, params, body, "application/json", out)
}

// call makes one request and decodes the data of its answer into out. It returns errUnreached, an *answerError, or an
// error after which it is unknown whether the server has done what was asked. No error contains the address of the
// request, which has the password in it.
func (a *Adapter) call(ctx context.Context, account Account, method, path string, params url.Values, body io.Reader, contentType string, out any) error {
	reached := false
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached = true }}
	request, err := newRequest(httptrace.WithClientTrace(ctx, trace), account, method, path, params, body)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := a.http.Do(request)
	if err != nil {
		if !reached {
			return fmt.Errorf("%w: %w", errUnreached, bare(err))
		}
		return fmt.Errorf("bluebubbles: %w", bare(err))
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("bluebubbles: %w", bare(err))
	}
	if len(text) > maxAnswer {
		return errors.New("bluebubbles: the server's answer is too large")
	}
	return decode(response.StatusCode, text, out)
}

func decode(status int, text []byte, out any) error {
	var answer envelope
	err := json.Unmarshal(text, &answer)
	if status != http.StatusOK {
		refusal := &answerError{status: status, json: err == nil && answer.Status != 0, data: answer.Data}
		if refusal.json && answer.Error != nil {
			refusal.kind, refusal.text = printable(answer.Error.Type), answer.Error.Message+answer.Error.Error
		}
		return refusal
	}
	if err == nil && out != nil && len(answer.Data) > 0 {
		err = json.Unmarshal(answer.Data, out)
	}
	if err != nil {
		return errors.New("bluebubbles: the server's answer cannot be read") // the decoder may quote it
	}
	return nil
}

// printable makes a server's name of an error fit for a log: short and printable.
func printable(kind string) string {
	const longest = 40
	kind = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, kind)
	return kind[:min(len(kind), longest)]
}

func newRequest(ctx context.Context, account Account, method, path string, params url.Values, body io.Reader) (*http.Request, error) {
	query := url.Values{}
	for name, values := range params {
		query[name] = values
	}
	query.Set("password", account.Password)
	address := strings.TrimSuffix(account.URL, "/") + "/api/v1/" + path + "?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, errors.New("bluebubbles: the server's address is not valid")
	}
	request.Header.Set("Accept", "application/json")
	return request, nil
}

// bare removes the address from an error of the HTTP client.
func bare(err error) error {
	located := (*url.Error)(nil)
	for errors.As(err, &located) {
		err = located.Err
	}
	return err
}

// account finds the account of a line. Its errors wrap carrier.ErrTransient: without an account nothing can be sent
// now.
func (a *Adapter) account(ctx context.Context, lineID string) (Account, error) {
	account, err := a.cfg.Lines.Account(ctx, lineID)
	if err != nil {
		if errors.Is(err, ErrNoAccount) && a.isNewError(lineID, err) {
			a.cfg.Logger.Warn("bluebubbles: a message is for a line without an account", "line_id", lineID)
		}
		return account, fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	}
	return account, nil
}

// Reachable implements carrier.Carrier. Only a server with the private API can find out.
func (a *Adapter) Reachable(ctx context.Context, through carrier.Line, phone string) (bool, error) {
	account, err := a.account(ctx, through.ID)
	if err != nil {
		return false, err
	}
	if !account.PrivateAPI {
		return false, carrier.ErrReachabilityUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	var data struct {
		Available *bool `json:"available"`
	}
	err = a.query(ctx, account, http.MethodGet, "handle/availability/imessage", url.Values{"address": {phone}}, nil, &data)
	refused := (*answerError)(nil)
	switch {
	case errors.As(err, &refused) && refused.withoutPrivateAPI():
		return false, carrier.ErrReachabilityUnknown
	case err != nil:
		return false, err
	case data.Available == nil:
		return false, errors.New("bluebubbles: the server does not say whether the number is on iMessage")
	}
	return *data.Available, nil
}

// pause waits, until ctx ends at the latest.
func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
