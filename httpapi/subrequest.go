package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
	"ledgerline/httpapi/input"
)

// Authenticate returns the caller of a request to a route that is not an endpoint, checked at the head of the ledger.
// It is for other protocols that lead to the endpoints, such as MCP. It checks neither limits nor access. Answer its
// error with Refuse.
func (a *API) Authenticate(c *gin.Context) (auth.Caller, error) {
	credentials, malformedWorkspace, err := a.credentials(c)
	if err != nil {
		return auth.Caller{}, err
	}
	credentials.Fresh = true
	q := &request{gin: c, ctx: c.Request.Context(), credentials: credentials, body: &noBody}
	if err := a.authenticate(q); err != nil {
		return auth.Caller{}, err
	}
	if malformedWorkspace {
		return auth.Caller{}, errMalformedWorkspace()
	}
	return q.call.Caller, nil
}

func errMalformedWorkspace() *fault.Fault {
	return fault.Invalids(fault.Issue{
		Location: "header", Path: "/x-workspace-id", Code: "invalid_format", Message: "Expected the UUID of a workspace.",
	})
}

// CountRequest counts one request against the caller's general limit. It returns fault rate_limited when the limit is
// exceeded.
func (a *API) CountRequest(ctx context.Context, c *auth.Caller) error {
	return a.countRequest(ctx, c, false)
}

// SubrequestAnswer is the answer to a subrequest.
type SubrequestAnswer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Subrequest runs one of the API's own endpoints as if the sender of outer had called it, with the same credential,
// workspace and address and with all checks. body is JSON.
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
	r, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
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
