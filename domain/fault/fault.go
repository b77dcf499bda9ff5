// Package fault defines the refusals of the service. A fault states by a code what is wrong, and where. Package
// httpapi alone maps codes to HTTP statuses (rule API-9).
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Code is what clients branch on. Its meaning never changes.
type Code string

// The codes of rule API-9.
const (
	ValidationFailed     Code = "validation_failed"
	BadRequest           Code = "bad_request"
	Unauthorized         Code = "unauthorized"
	Forbidden            Code = "forbidden"
	OrgPaused            Code = "org_paused"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed" // shown to clients as bad_request with status 405
	Conflict             Code = "conflict"
	IdempotencyConflict  Code = "idempotency_conflict"
	PayloadTooLarge      Code = "payload_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	ContactOptedOut      Code = "contact_opted_out"
	ConsentRequired      Code = "consent_required"
	RateLimited          Code = "rate_limited"
	Internal             Code = "internal_error"
	Unavailable          Code = "service_unavailable"
	UnknownOutcome       Code = "unknown_outcome" // the request may have been carried out, or not
)

// Issue is one problem of a request (rule API-10).
type Issue struct {
	Location string `json:"location"` // body, query, path or header
	Path     string `json:"path"`     // JSON pointer into the location, for example /media/0/url
	Code     string `json:"code"`     // for example required, too_long, invalid_phone
	Message  string `json:"message"`
}

// Fault is a refusal with a code. Clients see its message, which contains no internal details and no personal data.
type Fault struct {
	Code       Code
	Message    string
	Issues     []Issue        // only with ValidationFailed and BadRequest
	Details    map[string]any // further details, for example contact_id of a duplicate
	RetryAfter time.Duration  // only with RateLimited, Unavailable and UnknownOutcome
	Cause      error          // logged, never shown to clients
	Hidden     bool           // only with NotFound: the thing may exist, and the caller may not see it; never shown to clients
}

// Error implements error.
func (f *Fault) Error() string {
	if f.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", f.Code, f.Message, f.Cause)
	}
	return fmt.Sprintf("%s: %s", f.Code, f.Message)
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// New returns a fault with a message for the client.
func New(code Code, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns a validation fault with one issue at a JSON pointer into the body.
func Invalid(pointer, code, format string, args ...any) *Fault {
	return Invalids(Issue{Location: "body", Path: pointer, Code: code, Message: fmt.Sprintf(format, args...)})
}

// Invalids returns a validation fault with several issues.
func Invalids(issues ...Issue) *Fault {
	return &Fault{Code: ValidationFailed, Message: "The request is not valid.", Issues: issues}
}

// With adds a detail and returns the same fault.
func (f *Fault) With(key string, value any) *Fault {
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details[key] = value
	return f
}

// Of returns the fault in an error chain, or nil.
func Of(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// Is reports whether err carries a fault with this code.
func Is(err error, code Code) bool {
	f := Of(err)
	return f != nil && f.Code == code
}
