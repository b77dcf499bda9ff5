package httpapi

import (
	"net/http"

	"ledgerline/domain/fault"
)

// shown is the status and the code that a client sees for a fault code.
type shown struct {
	status int
	code   fault.Code
}

// statuses is the only place where a fault code becomes an HTTP status (rule API-9).
var statuses = map[fault.Code]shown{
	fault.ValidationFailed:     {http.StatusBadRequest, fault.ValidationFailed},
	fault.BadRequest:           {http.StatusBadRequest, fault.BadRequest},
	fault.Unauthorized:         {http.StatusUnauthorized, fault.Unauthorized},
	fault.Forbidden:            {http.StatusForbidden, fault.Forbidden},
	fault.OrgPaused:            {http.StatusForbidden, fault.OrgPaused},
	fault.NotFound:             {http.StatusNotFound, fault.NotFound},
	fault.MethodNotAllowed:     {http.StatusMethodNotAllowed, fault.BadRequest},
	fault.Conflict:             {http.StatusConflict, fault.Conflict},
	fault.IdempotencyConflict:  {http.StatusConflict, fault.IdempotencyConflict},
	fault.PayloadTooLarge:      {http.StatusRequestEntityTooLarge, fault.PayloadTooLarge},
	fault.UnsupportedMediaType: {http.StatusUnsupportedMediaType, fault.UnsupportedMediaType},
	fault.ContactOptedOut:      {http.StatusUnprocessableEntity, fault.ContactOptedOut},
	fault.ConsentRequired:      {http.StatusUnprocessableEntity, fault.ConsentRequired},
	fault.RateLimited:          {http.StatusTooManyRequests, fault.RateLimited},
	fault.Internal:             {http.StatusInternalServerError, fault.Internal},
	fault.Unavailable:          {http.StatusServiceUnavailable, fault.Unavailable},
	fault.UnknownOutcome:       {http.StatusServiceUnavailable, fault.UnknownOutcome},
}

// statusClientLeft is logged for a request whose client left before the answer. No client receives it.
const statusClientLeft = 499

// isStored reports whether a refusal with this code is stored under its idempotency key, so that a retry gets the same
// answer (rule API-18). Not stored are refusals that the caller can resolve without changing the request, and
// idempotency_conflict itself.
func isStored(code fault.Code) bool {
	if code == fault.IdempotencyConflict {
		return false
	}
	switch statuses[code].status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// isSuccess reports whether the status is that of a write that was done.
func isSuccess(status int) bool { return status < http.StatusBadRequest }

// isAboutCaller reports whether a refusal with this code says something about the caller and not about the request.
func isAboutCaller(code fault.Code) bool {
	status := statuses[code].status
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// commonErrors are the error statuses that the documentation of every operation lists.
var commonErrors = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
	http.StatusInternalServerError,
}
