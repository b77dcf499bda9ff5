package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

// Route is one line of the route table: where, who, and how it answers.
type Route struct {
	Method  string
	Path    string // with {id} for a path parameter
	ID      string // operationId
	Summary string
	// Description may tell a client more; Markdown.
	Description string
	Tags        []string
	Access      auth.Access
	// Status of a success; 200 when 0.
	Status int
	// MaxBody is in bytes; 1 MiB when 0.
	MaxBody int64
	// Sending counts against the sending limit in place of the general one (interface, section 8).
	Sending bool
	// OmitStoredBody keeps the answer's body out of the receipt: it holds something that must not be kept.
	OmitStoredBody bool
	// NoIdempotencyKey writes take no idempotency key, in no place.
	NoIdempotencyKey bool
	// Errors are statuses beyond those that every operation declares, for example 422.
	Errors []int
	// Deprecated marks the operation in the documentation.
	Deprecated bool
	// DryRunAnswer is the type of the answer, with status 200, when the In says with its method DryRun() bool that nothing is to
	// be done; nil for endpoints that always act.
	DryRunAnswer reflect.Type
}

// Call is one request as an endpoint sees it.
type Call struct {
	auth.Caller
	// Idempotency is nil without an idempotency key, and always in reads. A command that gets one appends an idempotency
	// record together with its events.
	Idempotency *Idempotency
}

// WriteResult is what a write did.
type WriteResult struct {
	// Ref names what was made or changed; the answer is built from its view.
	Ref string
	// Shard and Position are where the write's last event lies: a view waits until that is projected.
	Shard    int
	Position int64
	// Body is the answer itself, when it is known without the view: any value with the shape of the endpoint's Out, or
	// json.RawMessage with its JSON.
	Body any
	// BodyStored tells that Body committed with the receipt, byte for byte.
	BodyStored bool
}

// Download is the answer of a Stream endpoint. Write may fail before its first byte with a fault, which is then the
// answer; later it can only break the connection off.
type Download struct {
	ContentType string
	Filename    string
	Write       func(w io.Writer) error
}

// endpoint is a Route as it was compiled.
type endpoint struct {
	Route
	write, stream bool
	keyed         bool         // takes the idempotency-key header
	body          *huma.Schema // nil when there is none
	bodyRequired  bool
	contentType   string // of a stream
	params        []*huma.Param
}

func (e *endpoint) maxBody() int64 {
	if e.MaxBody > 0 {
		return e.MaxBody
	}
	return defaultMaxBody
}

// Read registers an endpoint that changes nothing, whatever its method. In is a struct with path and query parameters
// (tags path, query) and perhaps a field Body; Out is the answer's JSON. The endpoint returns a fault to refuse.
func Read[In, Out any](a *API, r Route, get func(ctx context.Context, c *Call, in *In) (Out, error)) {
	fill := fillerOf(reflect.TypeFor[Out]())
	register(a, &endpoint{Route: r}, reflect.TypeFor[Out](), func(q *request, in *In) {
		out, err := get(q.ctx, &q.call, in)
		if err != nil {
			a.refuse(q.gin, err)
			return
		}
		body, err := render(&out, fill)
		if err != nil {
			a.refuse(q.gin, err)
			return
		}
		answer(q.gin, r.status(), body)
	})
}

// View builds the answer of a write from its result: either the result of the write itself, or what the idempotency record
// of an earlier, identical request remembers of it. It returns not_found when what was written does not exist any more.
type View[Out any] func(ctx context.Context, c *Call, w WriteResult) (Out, error)

// Write registers an endpoint that changes something. do decides and appends; view builds the answer from what do did,
// or from what the receipt of an earlier, identical request remembers of it. view may be nil when every Done carries its
// Body and Stored. In may have a method IdempotencyKey() string for a key that travels in the body, and then in no header.
func Write[In, Out any](
	a *API, r Route,
	do func(ctx context.Context, c *Call, in *In) (WriteResult, error),
	view View[Out],
) {
	fill := fillerOf(reflect.TypeFor[Out]())
	bodyOf := func(q *request, done WriteResult) ([]byte, error) {
		switch body := done.Body.(type) {
		case nil:
		case json.RawMessage:
			return body, nil
		case *Out:
			return render(body, fill)
		case Out:
			return render(&body, fill)
		default:
			return json.Marshal(body)
		}
		if view == nil {
			return nil, fault.New(fault.Unavailable, "The answer is not available.")
		}
		out, err := view(q.ctx, &q.call, done)
		if err != nil {
			return nil, err
		}
		return render(&out, fill)
	}
	_, inBody := any(new(In)).(inputKey)
	e := &endpoint{Route: r, write: true, keyed: !inBody && !r.NoIdempotencyKey}
	register(a, e, reflect.TypeFor[Out](), func(q *request, in *In) {
		if keyed, ok := any(in).(inputKey); ok {
			q.useKey(keyed.IdempotencyKey(), "body", "/idempotency_key")
			if len(q.issues) > 0 {
				a.refuse(q.gin, q.invalid())
				return
			}
		}
		if dry, ok := any(in).(interface{ DryRun() bool }); ok && r.DryRunAnswer != nil && dry.DryRun() {
			a.rehearse(q, e, func() (WriteResult, error) { return do(q.ctx, &q.call, in) })
			return
		}
		a.writeOnce(q, e, func() (WriteResult, error) {
			return a.again(q, e, func() (WriteResult, error) { return do(q.ctx, &q.call, in) })
		}, bodyOf)
	})
}

// inputKey is an In whose idempotency key is a property of the body, /idempotency_key; "" is none.
type inputKey interface{ IdempotencyKey() string }

// rehearse answers what a write would do. It changes nothing, so its idempotency key means nothing.
func (a *API) rehearse(q *request, e *endpoint, do func() (WriteResult, error)) {
	q.call.Idempotency = nil
	done, err := a.again(q, e, do)
	var body []byte
	if err == nil {
		body, err = json.Marshal(done.Body)
	}
	if err != nil {
		a.refuse(q.gin, err)
		return
	}
	answer(q.gin, http.StatusOK, body)
}

// Stream registers an endpoint whose answer is no JSON and may be long: an export. contentType is what is documented.
func Stream[In any](a *API, r Route, contentType string, open func(ctx context.Context, c *Call, in *In) (Download, error)) {
	e := &endpoint{Route: r, stream: true, contentType: contentType}
	register(a, e, nil, func(q *request, in *In) {
		download, err := open(q.ctx, &q.call, in)
		if err != nil {
			a.refuse(q.gin, err)
			return
		}
		a.stream(q, e, download)
	})
}

func (r Route) status() int {
	if r.Status != 0 {
		return r.Status
	}
	return http.StatusOK
}

// Checked is an In that finds by itself what is wrong with it beyond its schema. It is asked when the schema has found
// something, so that all is told together, and sees what could be read of the body; a request that fits its schema goes
// to the endpoint, which tells these problems along with those that only it can know of.
type Checked interface {
	Check() []fault.Issue
}

// check adds what the request itself finds, but nothing about a place that was found wrong already.
func (q *request) check(in Checked) {
	told := map[string]bool{}
	for _, list := range [][]fault.Issue{q.issues, q.body.issues} {
		for _, issue := range list {
			told[issue.Location+issue.Path] = true
		}
	}
	for _, issue := range in.Check() {
		if !told[issue.Location+issue.Path] {
			q.issues = append(q.issues, issue)
		}
	}
}

// nothing is the output that Huma sees: the answer has been written by then.
type nothing struct {
	Body func(huma.Context)
}

var written = &nothing{Body: func(huma.Context) {}}

// register documents the endpoint and puts it behind the gates.
func register[In any](a *API, e *endpoint, out reflect.Type, run func(q *request, in *In)) {
	a.routes[e.ID] = e.Route
	op := a.operation(e, reflect.TypeFor[In](), out)
	op.Middlewares = huma.Middlewares{a.gates(e)}
	huma.Register(a.huma, *op, func(ctx context.Context, in *In) (*nothing, error) {
		q := requestOf(ctx)
		if len(q.issues)+len(q.body.issues) > 0 {
			if checked, ok := any(in).(Checked); ok {
				q.check(checked)
			}
			a.refuse(q.gin, q.invalid()) //nolint:contextcheck // gin's context has the same one in it
			return written, nil
		}
		run(q, in)
		return written, nil
	})
	e.params = a.parameters(op)
}

// render is the JSON of an answer. Missing lists are empty lists.
func render[Out any](out *Out, fill filler) ([]byte, error) {
	if fill != nil {
		fill(reflect.ValueOf(out).Elem())
	}
	return json.Marshal(out)
}

// stream answers with a download. A failure before the first byte is an ordinary refusal.
func (a *API) stream(q *request, e *endpoint, download Download) {
	connection := http.NewResponseController(q.gin.Writer)
	sink := &lateHeader{q: q, e: e, download: download, extend: func() { _ = connection.SetWriteDeadline(time.Now().Add(a.cfg.StallTimeout)) }}
	_ = connection.SetWriteDeadline(time.Time{})                    // it takes as long as it takes
	defer func() { _ = connection.SetWriteDeadline(time.Time{}) }() // the connection goes on
	err := download.Write(sink)
	if err == nil {
		sink.start()
		return
	}
	if !sink.started {
		a.refuse(q.gin, err)
		return
	}
	a.cfg.Logger.ErrorContext(q.ctx, "download broken off", "request_id", q.call.RequestID, "route", e.Path, "error", err)
	panic(http.ErrAbortHandler) // the client must not take half a file for a whole one
}

// lateHeader sends the header with the first byte. Every write may wait for the client, but not for ever: a download holds
// what it reads from.
type lateHeader struct {
	q        *request
	e        *endpoint
	download Download
	extend   func()
	started  bool
}

func (l *lateHeader) start() {
	if l.started {
		return
	}
	l.started = true
	header := l.q.gin.Writer.Header()
	header.Set("content-type", l.download.ContentType)
	if l.download.Filename != "" {
		header.Set("content-disposition", `attachment; filename=`+strconv.Quote(l.download.Filename))
	}
	l.q.gin.Writer.WriteHeader(l.e.status())
	l.q.gin.Writer.WriteHeaderNow()
}

func (l *lateHeader) Write(p []byte) (int, error) {
	l.extend()
	l.start()
	return l.q.gin.Writer.Write(p)
}
