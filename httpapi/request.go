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
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

const (
	headerAuthorization = "Authorization"
	headerWorkspace     = "X-Workspace-Id"
	headerRequestID     = "X-Request-Id"
	maxToken            = 8 << 10
	maxUserAgent        = 255
)

// request is one request to an endpoint, between the gates and the endpoint itself. It stands in for Huma's own context,
// so that Huma reads the body that was checked.
type request struct {
	humaContext
	gin  *gin.Context
	ctx  context.Context //nolint:containedctx // the request's own; Huma asks for it by method
	call Call
	// credentials are what the caller showed.
	credentials auth.Credentials
	body        *jsonBody
	reader      bytes.Reader
	issues      []fault.Issue
}

// humaContext gives the embedded context another name than its own method has.
type humaContext = huma.Context

type requestKey struct{}

// requestContext makes the request findable from the context that the endpoint's wrapper gets.
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

// The parts of huma.Context that differ from gin's.

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

// invalid is what all issues amount to.
func (q *request) invalid() *fault.Fault {
	return fault.Invalids(append(q.issues, q.body.issues...)...)
}

// gates is the middleware of one endpoint: steps 2 to 5 of the package comment, except what Huma checks.
func (a *API) gates(e *endpoint) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		c := humagin.Unwrap(hc)
		q := &request{humaContext: hc, gin: c, body: &noBody}
		ctx, cancel := c.Request.Context(), context.CancelFunc(func() {})
		if !e.stream && a.cfg.RequestTimeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, a.cfg.RequestTimeout)
		}
		defer cancel()
		q.ctx = &requestContext{ctx, q}
		if err := a.pass(q, e); err != nil {
			a.refuse(c, err)
			return
		}
		next(q)
	}
}

// noBody is never written to: requests that have issues of their own keep them in request.issues.
var noBody jsonBody

// pass authenticates, counts, admits and reads.
func (a *API) pass(q *request, e *endpoint) error {
	c := q.gin
	credentials, malformedWorkspace, err := a.credentials(c)
	if err != nil {
		return err
	}
	credentials.Fresh, credentials.AnyWorkspace = !e.write, e.Access.AnyWorkspace
	q.credentials = credentials
	if err := a.enter(q, e); err != nil {
		return err
	}
	if malformedWorkspace {
		q.issues = append(q.issues, errMalformedWorkspace().Issues...)
	}
	if e.keyed {
		q.checkIdempotencyKey()
	}
	if err := q.checkPath(); err != nil {
		return err
	}
	q.checkQuery(e.params)
	return a.takeBody(q, e)
}

// enter authenticates, counts and admits. Whoever is refused on what may be a moment old is looked at afresh: a role that
// was just given, and an organisation that was just resumed, count at once, as their opposites do.
func (a *API) enter(q *request, e *endpoint) error {
	err := a.authenticate(q)
	if err != nil && !q.credentials.Fresh {
		err = a.authenticateAfresh(q)
	}
	if err != nil {
		return err
	}
	if err := a.countRequest(q.ctx, &q.call.Caller, e.Sending); err != nil {
		return err
	}
	err = q.admit(e)
	if err != nil && !q.credentials.Fresh {
		if err = a.authenticateAfresh(q); err == nil {
			err = q.admit(e)
		}
	}
	return err
}

func (a *API) authenticateAfresh(q *request) error {
	q.credentials.Fresh = true
	return a.authenticate(q)
}

// reenter lets the caller in again, on what holds at this moment.
func (a *API) reenter(q *request, e *endpoint) error {
	workspace := q.call.WorkspaceID
	if err := a.authenticateAfresh(q); err != nil {
		return err
	}
	if q.call.WorkspaceID != workspace {
		return fault.New(fault.Unauthorized, "The credential has changed. Repeat the request.")
	}
	return q.admit(e)
}

func (a *API) authenticate(q *request) error {
	caller, err := a.cfg.Authenticator.Authenticate(q.ctx, q.credentials)
	if err != nil {
		return err
	}
	caller.IP, caller.RequestID, caller.UserAgent = q.credentials.IP, requestID(q.gin), printable(q.gin.Request.UserAgent(), maxUserAgent)
	q.call.Caller = caller
	return nil
}

func (q *request) admit(e *endpoint) error {
	if err := e.Access.Admit(&q.call.Caller); err != nil {
		return err
	}
	if e.write && q.call.OrgPaused {
		return fault.New(fault.OrgPaused, "The organisation is paused.")
	}
	return nil
}

// again runs a write once more, behind fresh authentication, when its append was refused because the caller's
// credential is not what it was: a key that was revoked a moment ago ends as 401 here, and has written nothing.
func (a *API) again(q *request, e *endpoint, do func() (WriteResult, error)) (WriteResult, error) {
	done, err := do()
	if !errors.Is(err, auth.ErrCredentialChanged) {
		return done, err
	}
	if err := a.reenter(q, e); err != nil {
		return WriteResult{}, err
	}
	return do()
}

// credentials reads the bearer token, the workspace and the address. A workspace id that has no form of one is told
// only to a caller who is known, so the second result carries it past authentication.
func (a *API) credentials(c *gin.Context) (auth.Credentials, bool, error) {
	values := c.Request.Header[headerAuthorization]
	if len(values) != 1 {
		return auth.Credentials{}, false, fault.New(fault.Unauthorized, "A bearer token is required.")
	}
	scheme, token, found := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken || !visible(token) {
		return auth.Credentials{}, false, fault.New(fault.Unauthorized, "A bearer token is required.")
	}
	credentials := auth.Credentials{Token: token, IP: address(c)}
	switch values := c.Request.Header[headerWorkspace]; {
	case len(values) == 0:
	case len(values) > 1:
		return credentials, true, nil
	default:
		if id, err := uuid.Parse(values[0]); len(values[0]) == 36 && err == nil {
			credentials.WorkspaceHeader = id.String()
			return credentials, false, nil
		}
		return credentials, true, nil
	}
	return credentials, false, nil
}

// address is the peer's, or the one that a trusted proxy names.
func address(c *gin.Context) netip.Addr {
	parsed, err := netip.ParseAddr(c.ClientIP())
	if err != nil {
		return netip.Addr{}
	}
	return parsed.Unmap().WithZone("")
}

// checkPath refuses what no store can hold: an id that cannot exist.
func (q *request) checkPath() error {
	for _, param := range q.gin.Params {
		if !storable(param.Value) {
			return fault.New(fault.NotFound, "There is nothing here.")
		}
	}
	return nil
}

// noProperties is the schema of the body of a write that takes none: an empty object, as many clients send.
var noProperties = &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false}

// takeBody reads the body, checks it, and hands Huma what it decodes from. What reads looks at no body, and a write that
// takes none has nothing to do with properties.
func (a *API) takeBody(q *request, e *endpoint) error {
	if e.body == nil && q.gin.Request.Method == http.MethodGet {
		return nil
	}
	body, err := readBody(q.gin.Request, e.maxBody())
	if err != nil {
		return err
	}
	if e.body == nil {
		if body.present {
			body.check(a.registry, noProperties)
			q.issues = append(q.issues, body.issues...)
		}
		return nil
	}
	q.body = body
	if !body.present {
		if e.bodyRequired {
			body.add("", "required", "A JSON body is required.")
		}
		return nil
	}
	body.check(a.registry, e.body)
	q.reader.Reset(body.canonical)
	return nil
}

func (q *request) issue(location, path, code, message string) {
	q.issues = append(q.issues, fault.Issue{Location: location, Path: path, Code: code, Message: message})
}

func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// visible: printable ASCII without spaces.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}

// printable makes a client's text safe to keep: valid, without control characters, at most limit characters.
func printable(s string, limit int) string {
	if len(s) <= limit && visible(s) {
		return s
	}
	count := 0
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || count >= limit {
			return -1
		}
		count++
		return r
	}, s)
}
