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
	"ledgerline/httpapi/input"
)

// Route is one line of the route table: the path, who may call it, and how it answers.
type Route struct {
	Method  string
	Path    string // with {id} for a path parameter
	ID      string // operationId of the documentation
	Summary string
	// Description adds to the documentation; Markdown.
	Description string
	Tags        []string
	Access      auth.Access
	// Status of a success; 200 when 0.
	Status int
	// MaxBody is the largest body in bytes; 1 MiB when 0.
	MaxBody int64
	// Sending routes count against the sending limit instead of the general one (rule API-25).
	Sending bool
	// OmitStoredBody keeps the answer's body out of the idempotency record, because it must not be stored.
	OmitStoredBody bool
	// NoIdempotencyKey marks a write that takes no idempotency key, neither in the header nor in the body.
	NoIdempotencyKey bool
	// Errors are statuses that the documentation lists besides those of every operation, for example 422.
	Errors []int
	// Deprecated marks the operation in the documentation.
	Deprecated bool
	// DryRunAnswer is the type of the answer to a dry run, which has status 200; nil for endpoints without one. A request
	// is a dry run when its In has a method DryRun() bool that returns true.
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
	// Ref is the id of the resource that was created or changed. The view finds it by this.
	Ref string
	// Shard and Position locate the last event of the write. A view waits until the read model has applied it.
	Shard    int
	Position int64
	// Body is the answer, when it is known without the view: a value with the JSON of the endpoint's Out, or
	// json.RawMessage with the JSON itself.
	Body any
	// BodyStored says that Body is in the idempotency record already, byte for byte.
	BodyStored bool
}

// Download is the answer of a Stream endpoint. If Write returns a fault before its first byte, the fault is the answer.
// An error after the first byte closes the connection.
type Download struct {
	ContentType string
	Filename    string
	Write       func(w io.Writer) error
}

// endpoint is a registered Route.
type endpoint struct {
	Route
	write, stream bool
	keyed         bool         // takes the idempotency-key header
	body          *huma.Schema // nil when the endpoint takes no body
	bodyRequired  bool
	contentType   string // of a stream
	params        []*huma.Param
}

func (e *endpoint) maxBody() int64 {
	if e.MaxBody > 0 {
		return e.MaxBody
	}
	return input.DefaultMaxBody
}

// Read registers an endpoint that changes nothing, whatever its method is. In is a struct with path and query
// parameters (tags path and query) and optionally a field Body. Out is the JSON of the answer. To refuse, get returns a
// fault.
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

// View builds the answer of a write from w. For a retry with an idempotency key, w has only what the idempotency record
// stores of the first request's result. A View returns not_found when the resource does not exist any more.
type View[Out any] func(ctx context.Context, c *Call, w WriteResult) (Out, error)

// Write registers an endpoint that changes something. do decides and appends; view builds the answer. view may be nil
// when every result has a Body that is stored. In may have a method IdempotencyKey() string for a key that is a
// property of the body; the header is then ignored.
func Write[In, Out any](
	a *API, r Route,
	do func(ctx context.Context, c *Call, in *In) (WriteResult, error),
	view View[Out],
) {
	body := writeBody(view)
	_, keyInBody := any(new(In)).(bodyKey)
	e := &endpoint{Route: r, write: true, keyed: !keyInBody && !r.NoIdempotencyKey}
	register(a, e, reflect.TypeFor[Out](), func(q *request, in *In) {
		if keyed, ok := any(in).(bodyKey); ok {
			q.useIdempotencyKey(keyed.IdempotencyKey(), "body", "/idempotency_key")
			if len(q.issues) > 0 {
				a.refuse(q.gin, q.invalid())
				return
			}
		}
		write := func() (WriteResult, error) {
			return a.withFreshCaller(q, e, func() (WriteResult, error) { return do(q.ctx, &q.call, in) })
		}
		if dry, ok := any(in).(interface{ DryRun() bool }); ok && r.DryRunAnswer != nil && dry.DryRun() {
			a.dryRun(q, write)
			return
		}
		a.writeOnce(q, e, write, body)
	})
}

// bodyKey is an In whose idempotency key is the property /idempotency_key of the body; "" means that there is none.
type bodyKey interface{ IdempotencyKey() string }

// writeBody renders the answer of a write: its Body if it has one, else its view.
func writeBody[Out any](view View[Out]) bodyFunc {
	fill := fillerOf(reflect.TypeFor[Out]())
	return func(q *request, w WriteResult) ([]byte, error) {
		switch body := w.Body.(type) {
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
		out, err := view(q.ctx, &q.call, w)
		if err != nil {
			return nil, err
		}
		return render(&out, fill)
	}
}

// dryRun answers what a write would do. It ignores the idempotency key (rule API-20).
func (a *API) dryRun(q *request, write func() (WriteResult, error)) {
	q.call.Idempotency = nil
	result, err := write()
	var body []byte
	if err == nil {
		body, err = json.Marshal(result.Body)
	}
	if err != nil {
		a.refuse(q.gin, err)
		return
	}
	answer(q.gin, http.StatusOK, body)
}

// Stream registers an endpoint whose answer is not JSON and may be long, such as an export. contentType is documented.
func Stream[In any](
	a *API, r Route, contentType string, open func(ctx context.Context, c *Call, in *In) (Download, error),
) {
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

// Checked is an In that checks itself beyond its schema. When the schema check has found issues, Check is called with
// what could be read of the body, so that all issues are reported together. Otherwise the endpoint is called, which
// must report the same issues along with those that only it can find.
type Checked interface {
	Check() []fault.Issue
}

// addOwnIssues adds the issues that Check of the In finds, except at locations that have an issue already.
func (q *request) addOwnIssues(in Checked) {
	reported := map[string]bool{}
	for _, list := range [][]fault.Issue{q.issues, q.body.Issues} {
		for _, issue := range list {
			reported[issue.Location+issue.Path] = true
		}
	}
	for _, issue := range in.Check() {
		if !reported[issue.Location+issue.Path] {
			q.issues = append(q.issues, issue)
		}
	}
}

// noOutput is what Huma gets as an endpoint's output. The endpoint has written the answer itself.
type noOutput struct {
	Body func(huma.Context)
}

var written = &noOutput{Body: func(huma.Context) {}}

// register documents an endpoint and adds its route, with the middleware that checks its requests.
func register[In any](a *API, e *endpoint, out reflect.Type, run func(q *request, in *In)) {
	a.routes[e.ID] = e.Route
	op := a.operation(e, reflect.TypeFor[In](), out)
	op.Middlewares = huma.Middlewares{a.middleware(e)}
	huma.Register(a.huma, *op, func(ctx context.Context, in *In) (*noOutput, error) {
		q := requestOf(ctx)
		if len(q.issues)+len(q.body.Issues) > 0 {
			if checked, ok := any(in).(Checked); ok {
				q.addOwnIssues(checked)
			}
			a.refuse(q.gin, q.invalid()) //nolint:contextcheck // gin's context holds the same context
			return written, nil
		}
		run(q, in)
		return written, nil
	})
	e.params = a.parameters(op)
}

// render renders the JSON of an answer. Missing lists become empty lists.
func render[Out any](out *Out, fill filler) ([]byte, error) {
	if fill != nil {
		fill(reflect.ValueOf(out).Elem())
	}
	return json.Marshal(out)
}

// stream answers with a download. A failure before the first byte is an ordinary refusal.
func (a *API) stream(q *request, e *endpoint, download Download) {
	connection := http.NewResponseController(q.gin.Writer)
	end, _ := q.ctx.Deadline()
	w := &downloadWriter{q: q, e: e, download: download, connection: connection, end: end, pace: pace{stall: a.cfg.StallTimeout}}
	_ = connection.SetWriteDeadline(end)                            // a download may take longer than other answers
	defer func() { _ = connection.SetWriteDeadline(time.Time{}) }() // for the next request of the connection
	err := download.Write(w)
	if err == nil {
		w.start()
		return
	}
	if !w.started {
		a.refuse(q.gin, err)
		return
	}
	if w.clientLeft || q.ctx.Err() != nil {
		a.cfg.Logger.InfoContext(q.ctx, "httpapi: the client ended a download early", "request_id", q.call.RequestID, "route", e.Path)
	} else {
		a.cfg.Logger.ErrorContext(q.ctx, "httpapi: download broken off",
			"request_id", q.call.RequestID, "route", e.Path, "error", err)
	}
	panic(http.ErrAbortHandler) // the client must not take a partial file for a complete one
}

// downloadWriter sends the header with the first byte. It ends a download whose client is slower than its pace, because
// a download holds a database connection.
type downloadWriter struct {
	q          *request
	e          *endpoint
	download   Download
	connection *http.ResponseController
	end        time.Time
	pace       pace
	started    bool
	clientLeft bool // the client closed the connection, or read too slowly
}

func (w *downloadWriter) start() {
	if w.started {
		return
	}
	w.started = true
	header := w.q.gin.Writer.Header()
	header.Set("content-type", w.download.ContentType)
	if w.download.Filename != "" {
		header.Set("content-disposition", `attachment; filename=`+strconv.Quote(w.download.Filename))
	}
	w.q.gin.Writer.WriteHeader(w.e.status())
	w.q.gin.Writer.WriteHeaderNow()
}

func (w *downloadWriter) Write(p []byte) (int, error) {
	begun := time.Now()
	deadline := begun.Add(w.pace.left())
	if deadline.After(w.end) {
		deadline = w.end
	}
	_ = w.connection.SetWriteDeadline(deadline)
	w.start()
	n, err := w.q.gin.Writer.Write(p)
	w.pace.add(n, time.Since(begun))
	w.clientLeft = w.clientLeft || err != nil
	return n, err
}
