package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
	"ledgerline/httpapi/input"
)

const (
	headerAuthorization = "Authorization"
	headerWorkspace     = "X-Workspace-Id"
	headerRequestID     = "X-Request-Id"
	maxToken            = 8 << 10
	maxUserAgent        = 255
)

// request is the state of one request to an endpoint. It replaces Huma's own context, so that Huma decodes the body
// that was checked.
type request struct {
	humaContext
	gin         *gin.Context
	ctx         context.Context //nolint:containedctx // the request's own; Huma asks for it by method
	call        Call
	credentials auth.Credentials
	body        *input.Body
	reader      bytes.Reader // over body.Canonical
	issues      []fault.Issue
	leave       []func() // called when the request ends
}

// end gives back what the request was admitted to.
func (q *request) end() {
	for _, leave := range q.leave {
		leave()
	}
}

// humaContext renames the embedded field, which would otherwise collide with the method Context.
type humaContext = huma.Context

type requestKey struct{}

// requestContext is a context from which requestOf finds the request.
type requestContext struct {
	context.Context //nolint:containedctx // it is one
	q               *request
}

func (c *requestContext) Value(key any) any {
	if _, ok := key.(requestKey); ok {
		return c.q
	}
	return c.Context.Value(key)
}

func requestOf(ctx context.Context) *request {
	q, _ := ctx.Value(requestKey{}).(*request)
	return q
}

// The methods of huma.Context that differ from humagin's.

func (q *request) Unwrap() huma.Context            { return q.humaContext }
func (q *request) Context() context.Context        { return q.ctx }
func (q *request) BodyReader() io.Reader           { return &q.reader }
func (q *request) SetReadDeadline(time.Time) error { return nil } // the body has been read

func (q *request) Header(name string) string {
	switch name {
	case "Content-Type":
		return "application/json" // it was checked
	case "Accept":
		return "" // there is nothing to negotiate
	}
	return q.humaContext.Header(name)
}

// invalid is the fault that reports all issues of the request.
func (q *request) invalid() *fault.Fault {
	return fault.Invalids(append(q.issues, q.body.Issues...)...)
}

func (q *request) addIssue(location, path, code, message string) {
	q.issues = append(q.issues, fault.Issue{Location: location, Path: path, Code: code, Message: message})
}

// middleware runs the steps 2 to 5 of the package comment for an endpoint, except for what Huma checks itself.
func (a *API) middleware(e *endpoint) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		c := humagin.Unwrap(hc)
		q := &request{humaContext: hc, gin: c, body: &noBody}
		c.Set(callKey, &q.call)
		ctx, cancel := c.Request.Context(), context.CancelFunc(func() {})
		switch {
		case e.stream:
			ctx, cancel = context.WithTimeout(ctx, a.cfg.DownloadTimeout)
		case a.cfg.RequestTimeout > 0:
			ctx, cancel = context.WithTimeout(ctx, a.cfg.RequestTimeout)
		}
		defer cancel()
		q.ctx = &requestContext{ctx, q}
		defer q.end()
		if err := a.checkRequest(q, e); err != nil {
			a.refuse(c, err)
			return
		}
		next(q)
	}
}

// checkRequest counts the request, authenticates, checks access, and reads the request. It returns the fault to refuse
// with; validation issues are collected in the request instead.
func (a *API) checkRequest(q *request, e *endpoint) error {
	malformedWorkspace, err := a.identify(q, e.Access.PathToken)
	if err != nil {
		return err
	}
	q.credentials.Fresh, q.credentials.AnyWorkspace = !e.write, e.Access.AnyWorkspace
	if err := a.checkCaller(q, e); err != nil {
		return err
	}
	if malformedWorkspace {
		q.issues = append(q.issues, errMalformedWorkspace().Issues...)
	}
	if e.keyed {
		q.readIdempotencyKey()
	}
	if err := q.checkPath(); err != nil {
		return err
	}
	q.issues = append(q.issues, input.CheckQuery(q.gin.Request.URL.RawQuery, e.params)...)
	return a.readBody(q, e)
}

// identify reads the credentials and checks them as far as that needs no database.
func (a *API) identify(q *request, inPath bool) (malformedWorkspace bool, err error) {
	if inPath {
		q.credentials = auth.Credentials{Token: q.gin.Param("token"), InPath: true, IP: address(q.gin)}
	} else {
		q.credentials, malformedWorkspace, err = a.credentials(q.gin)
	}
	if err == nil {
		q.credentials.Identity, err = a.cfg.Authenticator.Identify(q.ctx, q.credentials)
	}
	if isUnknownCaller(err, &q.credentials) {
		err = a.countStranger(q.gin, err)
	}
	return malformedWorkspace, err
}

// isUnknownCaller reports whether an Authenticator has refused credentials because they are nobody's.
func isUnknownCaller(err error, c *auth.Credentials) bool {
	return fault.Is(err, fault.Unauthorized) || c.InPath && fault.Is(err, fault.NotFound)
}

// checkCaller counts and admits the request, authenticates the caller and checks access. A caller that a cached
// credential would refuse is checked again at the head of the ledger: a role that was just granted counts at once.
func (a *API) checkCaller(q *request, e *endpoint) error {
	if err := a.admit(q, e.Sending, func() error {
		err := a.authenticate(q)
		if err != nil && !q.credentials.Fresh {
			err = a.authenticateFresh(q)
		}
		return err
	}); err != nil {
		return err
	}
	err := q.checkAccess(e)
	if err != nil && !q.credentials.Fresh {
		if err = a.authenticateFresh(q); err == nil {
			err = q.checkAccess(e)
		}
	}
	return err
}

// admit counts a request, waits until its organisation may have one more under way, and calls authenticate. It returns
// fault rate_limited, service_unavailable, or the error of authenticate.
func (a *API) admit(q *request, sending bool, authenticate func() error) error {
	counted := q.ctx.Value(countedKey{}) != nil // by the request that this is a part of
	if !counted || sending {
		if err := a.countRequest(q, sending); err != nil {
			return err
		}
	}
	organisation, known := a.callers.Get(q.credentials.Identity.Key)
	leave, err := a.enterRequest(q.ctx, organisation)
	if err != nil {
		return err
	}
	q.leave = append(q.leave, leave)
	if err := authenticate(); err != nil {
		if isUnknownCaller(err, &q.credentials) {
			err = a.countStranger(q.gin, err)
		}
		return err
	}
	if known && organisation == q.call.OrganisationID {
		return nil
	}
	leave()
	a.callers.Add(q.credentials.Identity.Key, q.call.OrganisationID)
	if !counted {
		if err := a.countOrganisation(q); err != nil {
			return err
		}
	}
	leave, err = a.enterRequest(q.ctx, q.call.OrganisationID)
	if err != nil {
		return err
	}
	q.leave = append(q.leave, leave)
	return nil
}

func (a *API) authenticate(q *request) error {
	caller, err := a.cfg.Authenticator.Authenticate(q.ctx, q.credentials)
	if err != nil {
		return err
	}
	caller.IP, caller.RequestID = q.credentials.IP, requestID(q.gin)
	caller.UserAgent = input.Printable(q.gin.Request.UserAgent(), maxUserAgent)
	q.call.Caller = caller
	return nil
}

func (a *API) authenticateFresh(q *request) error {
	q.credentials.Fresh = true
	return a.authenticate(q)
}

func (q *request) checkAccess(e *endpoint) error {
	if err := e.Access.Admit(&q.call.Caller); err != nil {
		return err
	}
	if e.write && q.call.OrgPaused {
		return fault.New(fault.OrgPaused, "The organisation is paused.")
	}
	return nil
}

// verifyCaller re-checks the caller's credential and access at the head of the ledger.
func (a *API) verifyCaller(q *request, e *endpoint) error {
	workspace := q.call.WorkspaceID
	if err := a.authenticateFresh(q); err != nil {
		return err
	}
	if q.call.WorkspaceID != workspace {
		return fault.New(fault.Unauthorized, "The credential has changed. Repeat the request.")
	}
	return q.checkAccess(e)
}

// withFreshCaller runs a write, and once more with a re-checked caller when its append failed because the caller's
// credential had changed. A key that was revoked a moment ago gets 401 here, and has written nothing.
func (a *API) withFreshCaller(q *request, e *endpoint, write func() (WriteResult, error)) (WriteResult, error) {
	result, err := write()
	if !errors.Is(err, auth.ErrCredentialChanged) {
		return result, err
	}
	if err := a.verifyCaller(q, e); err != nil {
		return WriteResult{}, err
	}
	return write()
}

// credentials reads the bearer token, the workspace header and the client's address. malformedWorkspace reports a
// workspace header that is not a UUID. It is not an error yet, because only an authenticated caller is told about it.
func (a *API) credentials(c *gin.Context) (credentials auth.Credentials, malformedWorkspace bool, err error) {
	values := c.Request.Header[headerAuthorization]
	if len(values) != 1 {
		return credentials, false, fault.New(fault.Unauthorized, "A bearer token is required.")
	}
	scheme, token, found := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken || !input.IsVisibleASCII(token) {
		return credentials, false, fault.New(fault.Unauthorized, "A bearer token is required.")
	}
	credentials = auth.Credentials{Token: token, IP: address(c)}
	switch values := c.Request.Header[headerWorkspace]; {
	case len(values) == 0:
	case len(values) > 1:
		malformedWorkspace = true
	default:
		id, err := uuid.Parse(values[0])
		if malformedWorkspace = len(values[0]) != 36 || err != nil; !malformedWorkspace {
			credentials.WorkspaceHeader = id.String()
		}
	}
	return credentials, malformedWorkspace, nil
}

// address is the peer's address, or the one that a trusted proxy reports; the zero Addr when neither can be parsed.
func address(c *gin.Context) netip.Addr {
	parsed, err := netip.ParseAddr(c.ClientIP())
	if err != nil {
		return netip.Addr{}
	}
	return parsed.Unmap().WithZone("")
}

// checkPath refuses path parameters that cannot be stored: no resource has such an id.
func (q *request) checkPath() error {
	for _, param := range q.gin.Params {
		if !input.Storable(param.Value) {
			return fault.New(fault.NotFound, "There is nothing here.")
		}
	}
	return nil
}

// emptyObject is the schema of the body of a write that takes none: many clients send {}.
var emptyObject = &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false}

// readBody reads and checks the body and makes it available to Huma. A GET ignores its body.
func (a *API) readBody(q *request, e *endpoint) error {
	if e.body == nil && q.gin.Request.Method == http.MethodGet {
		return nil
	}
	if q.ctx.Value(countedKey{}) == nil { // else the body is a part of one that was admitted
		leave, err := a.enterBody(q.ctx, q.call.OrganisationID, q.gin.Request.ContentLength, e.maxBody())
		if err != nil {
			return err
		}
		q.leave = append(q.leave, leave)
	}
	body, err := input.ReadBody(q.gin.Request, e.maxBody())
	if err != nil {
		return err
	}
	if e.body == nil {
		if body.Present {
			body.Check(a.registry, emptyObject)
			q.issues = append(q.issues, body.Issues...)
		}
		return nil
	}
	q.body = body
	if !body.Present {
		if e.bodyRequired {
			body.Add("", "required", "A JSON body is required.")
		}
		return nil
	}
	body.Check(a.registry, e.body)
	q.reader.Reset(body.Canonical)
	return nil
}
