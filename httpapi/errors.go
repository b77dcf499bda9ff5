package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
	"ledgerline/httpapi/input"
)

// ErrorBody is the body of every refusal (rule API-8).
type ErrorBody struct {
	Error ErrorInfo `json:"error"`
}

// ErrorInfo says what was wrong. RequestID is the x-request-id of the refused request. A retry that gets a stored
// refusal gets the RequestID of the first request.
type ErrorInfo struct {
	Code      string       `json:"code" doc:"What clients branch on" example:"validation_failed"`
	Message   string       `json:"message" doc:"For people; it may change" example:"/name: Expected at least 1 character."`
	RequestID string       `json:"request_id" doc:"The id of the refused request" example:"req_01920f6cb6f17c40a8b1f7c9d3f0a2b4"`
	Details   ErrorDetails `json:"details"`
}

// ErrorDetails holds the issues of a validation failure and further properties of a code, for example contact_id.
type ErrorDetails struct {
	Issues []ErrorIssue   `json:"issues,omitempty" doc:"What is wrong with the request, all at once"`
	_      struct{}       `additionalProperties:"true"`
	more   map[string]any // further properties of the code
}

// ErrorIssue is one problem of a request (rule API-10).
type ErrorIssue struct {
	Location string `json:"location" enum:"body,query,path,header" doc:"The part of the request"`
	Path     string `json:"path" doc:"JSON pointer into the location; empty for the whole of it" example:"/media/0/url"`
	Code     string `json:"code" doc:"What clients branch on" example:"too_long"`
	Message  string `json:"message" doc:"For people; it may change"`
}

// MarshalJSON implements json.Marshaler: further properties stand beside the issues.
func (d ErrorDetails) MarshalJSON() ([]byte, error) {
	all := make(map[string]any, len(d.more)+1)
	for name, value := range d.more {
		all[name] = value
	}
	if len(d.Issues) > 0 {
		all["issues"] = d.Issues
	}
	return json.Marshal(all)
}

// faultOf converts any error into the fault that the client sees. An error that is not a fault is a failure of the
// service: exceeded deadlines and credentials that keep changing are service_unavailable, everything else is
// internal_error without the error's text.
func (a *API) faultOf(err error) *fault.Fault {
	f := fault.Of(err)
	if f == nil && a.cfg.Classify != nil {
		f = a.cfg.Classify(err)
	}
	if f != nil {
		if _, known := statuses[f.Code]; known {
			return f
		}
	}
	if errors.Is(err, auth.ErrCredentialChanged) {
		return &fault.Fault{Code: fault.Unavailable, Message: "Your credential is changing. Try again.", RetryAfter: time.Second, Cause: err}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &fault.Fault{Code: fault.Unavailable, Message: "The service took too long. Try again.", RetryAfter: time.Second, Cause: err}
	}
	return &fault.Fault{Code: fault.Internal, Message: "Something went wrong on our side.", Cause: err}
}

// maxIssueMessage is the length in bytes at which the message of an issue is cut. Some messages repeat a text of the
// request.
const maxIssueMessage = 512

// errorInfo converts a fault into what the client sees. Its size is bounded whatever the request holds (rule API-10).
// The message of a fault with a single issue is the issue's, with its place.
func errorInfo(f *fault.Fault, requestID string) ErrorInfo {
	info := ErrorInfo{Code: string(statuses[f.Code].code), Message: f.Message, RequestID: requestID, Details: ErrorDetails{more: f.Details}}
	issues := f.Issues
	if len(issues) > input.MaxIssues {
		issues = issues[:input.MaxIssues]
		info.Message += " Only the first " + strconv.Itoa(input.MaxIssues) + " issues are listed."
	}
	for _, issue := range issues {
		issue.Path, issue.Message = input.Cut(issue.Path, input.MaxPath), input.Cut(issue.Message, maxIssueMessage)
		info.Details.Issues = append(info.Details.Issues, ErrorIssue(issue))
	}
	if len(issues) == 1 {
		only := info.Details.Issues[0]
		if info.Message = only.Message; only.Path != "" {
			info.Message = only.Path + ": " + only.Message
		}
	}
	return info
}

// errorBody renders a fault. The same bytes are stored when the refusal is kept under an idempotency key.
func errorBody(f *fault.Fault, requestID string) []byte {
	info := errorInfo(f, requestID)
	body, err := json.Marshal(ErrorBody{Error: info})
	if err != nil { // a detail that has no JSON form: leave the details out
		info.Details.more = nil
		body, _ = json.Marshal(ErrorBody{Error: info}) //nolint:errchkjson // strings only
	}
	return body
}

// refuse answers with an error, and logs it when it is a failure of the service. This is the only place that logs such
// errors. A client that has disconnected gets no answer.
func (a *API) refuse(c *gin.Context, err error) {
	if errors.Is(err, context.Canceled) && errors.Is(c.Request.Context().Err(), context.Canceled) {
		c.Status(statusClientLeft)
		c.Abort()
		return
	}
	f := a.faultOf(err)
	status := statuses[f.Code].status
	if status >= http.StatusInternalServerError {
		a.cfg.Logger.LogAttrs(c.Request.Context(), slog.LevelError, "httpapi: request failed",
			slog.String("request_id", requestID(c)), slog.String("method", c.Request.Method), slog.String("route", c.FullPath()),
			slog.String("code", string(f.Code)), slog.Any("error", err))
	}
	a.answerFault(c, f, errorBody(f, requestID(c)))
}

// answerFault writes a rendered fault with the headers that belong to its code.
func (a *API) answerFault(c *gin.Context, f *fault.Fault, body []byte) {
	c.Set(errorCodeKey, string(statuses[f.Code].code))
	header := c.Writer.Header()
	switch f.Code {
	case fault.Unauthorized:
		header.Set("www-authenticate", "Bearer")
	case fault.RateLimited, fault.Unavailable, fault.UnknownOutcome:
		header.Set("retry-after", retryAfter(f.RetryAfter))
	case fault.PayloadTooLarge:
		header.Set("connection", "close") // the rest of the body is not read
	default:
	}
	answer(c, statuses[f.Code].status, body)
}

// retryAfter formats a duration in whole seconds, rounded up, at least one.
func retryAfter(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}

// answer writes a complete JSON answer and ends the request.
func answer(c *gin.Context, status int, body []byte) {
	c.Abort()
	c.Writer.Header()["Content-Type"] = contentTypeJSON
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(body) // an error means that the client has disconnected
}

var contentTypeJSON = []string{"application/json"}
