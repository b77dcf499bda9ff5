package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/input"
)

// Admission is a request to a route that is not an endpoint, which leads to endpoints by another protocol, such as MCP.
// Its caller is known, and the request has been counted once.
type Admission struct {
	api *API
	q   *request
}

// Admit counts a request and authenticates its caller at the head of the ledger. It does not check access. Answer its
// error with Refuse, and end the admission with Close.
func (a *API) Admit(c *gin.Context) (*Admission, error) {
	q := &request{gin: c, ctx: c.Request.Context(), body: &noBody}
	malformedWorkspace, err := a.identify(q, false)
	if err != nil {
		return nil, err
	}
	err = a.admit(q, false, func() error { return a.authenticateFresh(q) })
	q.end() // the subrequests are admitted one by one
	if err != nil {
		return nil, err
	}
	if malformedWorkspace {
		return nil, errMalformedWorkspace()
	}
	q.leave = nil
	return &Admission{a, q}, nil
}

// ReadBody reads a JSON body of at most limit bytes without decoding it. It counts among the large bodies of the
// organisation until Close. It returns fault payload_too_large, bad_request, rate_limited or service_unavailable.
func (m *Admission) ReadBody(limit int64) ([]byte, error) {
	r := m.q.gin.Request
	leave, err := m.api.enterBody(m.q.ctx, m.q.call.OrganisationID, r.ContentLength, limit)
	if err != nil {
		return nil, err
	}
	m.q.leave = append(m.q.leave, leave)
	return input.ReadText(r, limit)
}

// Count counts n more requests against the limits. It returns fault rate_limited when one is exceeded.
func (m *Admission) Count(n int) error {
	for range n {
		if err := m.api.countRequest(m.q, false); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the admission.
func (m *Admission) Close() { m.q.end() }

func errMalformedWorkspace() *fault.Fault {
	return fault.Invalids(fault.Issue{
		Location: "header", Path: "/x-workspace-id", Code: "invalid_format", Message: "Expected the UUID of a workspace.",
	})
}

// countedKey is the context key of subrequests: they were counted against the general limit, and their bodies admitted,
// with the request that they are a part of.
type countedKey struct{}

// SubrequestAnswer is the answer to a subrequest.
type SubrequestAnswer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Subrequest runs one of the API's own endpoints as if the sender of outer had called it, with the same credential,
// workspace and address and with all checks. The sender has an Admission: the subrequest counts against the sending
// limit only. body is JSON.
func (a *API) Subrequest(
	ctx context.Context, outer *http.Request, method, path string, body []byte,
) (answer SubrequestAnswer, err error) {
	defer func() {
		// To close a connection, an endpoint logs the reason and panics. A subrequest has no connection, so here the panic
		// becomes an error.
		if thrown := recover(); thrown != nil {
			answer, err = SubrequestAnswer{}, fmt.Errorf("httpapi: %s %s was broken off", method, path)
		}
	}()
	r, err := http.NewRequestWithContext(context.WithValue(ctx, countedKey{}, true), method, path, bytes.NewReader(body))
	if err != nil {
		return SubrequestAnswer{}, err
	}
	for _, name := range []string{headerAuthorization, headerWorkspace, "User-Agent", "X-Forwarded-For"} {
		if values := outer.Header.Values(name); len(values) > 0 {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr, r.Host, r.RequestURI = outer.RemoteAddr, outer.Host, path
	w := &answerRecorder{answer: SubrequestAnswer{Status: http.StatusOK, Header: http.Header{}}}
	a.engine.ServeHTTP(w, r)
	w.answer.Body = w.body.Bytes()
	return w.answer, nil
}

// answerRecorder is an http.ResponseWriter that keeps the answer in memory.
type answerRecorder struct {
	answer SubrequestAnswer
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *answerRecorder) Header() http.Header { return w.answer.Header }

// WriteHeader implements http.ResponseWriter.
func (w *answerRecorder) WriteHeader(status int) { w.answer.Status = status }

// Write implements http.ResponseWriter.
func (w *answerRecorder) Write(p []byte) (int, error) { return w.body.Write(p) }

// noBody stands for the body of requests that have none. It is never written to: their issues are in request.issues.
var noBody input.Body
