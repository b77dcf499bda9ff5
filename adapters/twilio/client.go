package twilio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"ledgerline/processes/carrier"
)

// maxAnswer bounds an answer of the provider, in bytes.
const maxAnswer = 8 << 20

// answerError is an error answer of the provider. The provider's text may contain numbers, so only its code is kept.
type answerError struct {
	status     int
	code       int // the provider's own; 0 when the answer has none
	retryAfter time.Duration
}

func (e *answerError) Error() string {
	return fmt.Sprintf("twilio: the provider answered %d (code %d)", e.status, e.code)
}

// errUnreached says that a request certainly did not reach the provider.
var errUnreached = errors.New("twilio: the provider was not reached")

// gate bounds the calls for one connection: how many at the same time, and whether any after failures in a row.
type gate struct {
	slots   chan struct{}
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
}

// maxFailures is how many calls in a row may fail before the circuit of a connection opens (rule SMS-24).
const maxFailures = 5

func (a *Adapter) gate(connectionID string) *gate {
	if known, ok := a.gates.Get(connectionID); ok {
		return known
	}
	fresh := &gate{slots: make(chan struct{}, a.cfg.Calls), circuit: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: a.cfg.Pause, ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= maxFailures },
	})}
	if known, had, _ := a.gates.PeekOrAdd(connectionID, fresh); had {
		return known
	}
	return fresh
}

// request is one call to the provider. The answer is decoded into out, unless that is nil.
type request struct {
	method string
	url    string
	form   url.Values // nil for a call without a body
	out    any
	// always makes the call also while the circuit is open: a person asked for it.
	always bool
}

// call makes a call for an account. It returns errUnreached, an *answerError, or an error after which it is unknown
// whether the provider has done what was asked. No error contains credentials, numbers or texts.
func (a *Adapter) call(ctx context.Context, account *carrier.SMSAccount, r request) error {
	g := a.gate(account.ConnectionID)
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnreached, ctx.Err())
	}
	defer func() { <-g.slots }()
	done, err := g.circuit.Allow()
	if err != nil && !r.always {
		return fmt.Errorf("%w: %w", errUnreached, err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	callErr := a.roundTrip(ctx, account, r)
	answered := (*answerError)(nil)
	if done != nil {
		if errors.As(callErr, &answered) && answered.status < http.StatusInternalServerError {
			done(nil) // the provider works
		} else {
			done(callErr)
		}
	}
	return callErr
}

func (a *Adapter) roundTrip(ctx context.Context, account *carrier.SMSAccount, r request) error {
	reached := false
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached = true }}
	var body io.Reader
	if r.form != nil {
		body = strings.NewReader(r.form.Encode())
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), r.method, r.url, body)
	if err != nil {
		return fmt.Errorf("%w: the address of the provider is not valid", errUnreached)
	}
	request.SetBasicAuth(account.AccountSID, account.AuthToken)
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := a.http.Do(request)
	if err != nil {
		if !reached {
			return fmt.Errorf("%w: %w", errUnreached, bare(err))
		}
		return fmt.Errorf("twilio: %w", bare(err))
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("twilio: %w", bare(err))
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return failure(response, text)
	}
	if r.out == nil {
		return nil
	}
	if len(text) > maxAnswer || json.Unmarshal(text, r.out) != nil {
		return errors.New("twilio: the answer of the provider cannot be read")
	}
	return nil
}

func failure(response *http.Response, text []byte) error {
	e := &answerError{status: response.StatusCode}
	var said struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(text, &said) == nil {
		e.code = said.Code
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.retryAfter = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	return e
}

// maxRetryAfter bounds the pause that the provider may ask for.
const maxRetryAfter = time.Hour

// bare returns an error without the address of the request, which has the account and may have a number in it.
func bare(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// accountURL is the address of a resource of an account.
func (a *Adapter) accountURL(account *carrier.SMSAccount, resource string) string {
	return a.api + "/2010-04-01/Accounts/" + url.PathEscape(account.AccountSID) + resource
}
