package httpapi

import (
	"net/http"

	"ledgerline/domain/fault"
)

// shown is how a fault code looks from outside.
type shown struct {
	status int
	code   fault.Code
}

// statuses is the one place where a code becomes an HTTP status (interface, section 7; decisions, section 3).
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
}

// statusClientGone is logged for a request whose client left before the answer; nobody receives it.
const statusClientGone = 499

// kept tells whether a refusal is remembered under its idempotency key, so that a retry gets the same answer
// (decisions, section 4). What the caller can repair without changing the request is not kept, nor is what freed the key.
func kept(code fault.Code) bool {
	if code == fault.IdempotencyConflict {
		return false
	}
	switch statuses[code].status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// declared are the error statuses that every operation declares: E of the interface's notation.
var declared = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusInternalServerError,
}
