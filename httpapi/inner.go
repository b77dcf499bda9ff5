package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

// Authenticate authenticates a request to a route that is no endpoint of the interface, on what holds at this moment: another
// protocol that leads to our endpoints. It neither counts nor admits. Refuse tells its error.
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
	return fault.Invalids(fault.Issue{Location: "header", Path: "/x-workspace-id", Code: "invalid_format", Message: "Expected the UUID of a workspace."})
}

// CountRequest takes one request off the caller's general limit; the error is rate_limited.
func (a *API) CountRequest(ctx context.Context, c *auth.Caller) error {
	return a.countRequest(ctx, c, false)
}

// SubrequestAnswer is the answer to a request that another one led to.
type SubrequestAnswer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Subrequest runs one of the API's own endpoints as if the sender of outer had called it: with its credential, its workspace
// and its address, past every gate. body is JSON.
func (a *API) Subrequest(ctx context.Context, outer *http.Request, method, path string, body []byte) (answer SubrequestAnswer, err error) {
	defer func() {
		if thrown := recover(); thrown != nil { // it has been logged; what breaks a connection off must not end a goroutine of others
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
	w := &innerWriter{answer: SubrequestAnswer{Status: http.StatusOK, Header: http.Header{}}}
	a.engine.ServeHTTP(w, r)
	w.answer.Body = w.body.Bytes()
	return w.answer, nil
}

// innerWriter keeps an answer in memory.
type innerWriter struct {
	answer SubrequestAnswer
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *innerWriter) Header() http.Header { return w.answer.Header }

// WriteHeader implements http.ResponseWriter.
func (w *innerWriter) WriteHeader(status int) { w.answer.Status = status }

// Write implements http.ResponseWriter.
func (w *innerWriter) Write(p []byte) (int, error) { return w.body.Write(p) }
