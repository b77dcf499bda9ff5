package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/fairqueue"
)

// Requests bounds the requests that a node works on at the same time (rule API-35). The zero value has no bounds.
type Requests struct {
	Total           int
	PerOrganisation int
}

const (
	// Up to requestsWaiting further requests of an organisation wait, each for at most requestWait.
	requestsWaiting = 64
	requestWait     = 5 * time.Second
	// Bodies of more than smallBody bytes are counted by their size. A body takes about six times its size until its
	// request ends: as it came, decoded, in canonical form and as the endpoint's own types.
	smallBody              = 64 << 10
	bodiesTotal            = 128 << 20
	bodiesPerOrganisation  = 32 << 20
	bodiesWaiting          = 16
	bodyWait               = 2 * time.Second
	refusedAdmissionRetry  = time.Second
	maxKnownCallers        = 1 << 16
	limitRequests          = "concurrent_requests"
	limitBodies            = "large_bodies"
	tooManyRequestsRunning = "The organisation has too many requests under way. Try again when some have ended."
	tooManyBodies          = "The organisation has too many large bodies under way. Try again when some have ended."
)

// queues admit the requests and the large bodies of organisations.
type queues struct {
	requests *fairqueue.Queue[uuid.UUID] // nil without bounds
	bodies   *fairqueue.Queue[uuid.UUID]
}

func newQueues(bounds Requests) queues {
	q := queues{bodies: fairqueue.New[uuid.UUID](fairqueue.Config{
		Total: bodiesTotal, PerOwner: bodiesPerOrganisation, Waiting: bodiesWaiting, Wait: bodyWait,
	})}
	if bounds.Total > 0 {
		q.requests = fairqueue.New[uuid.UUID](fairqueue.Config{
			Total: int64(bounds.Total), PerOwner: int64(bounds.PerOrganisation), Waiting: requestsWaiting, Wait: requestWait,
		})
	}
	return q
}

// enterRequest admits a request of an organisation; uuid.Nil stands for callers whose organisation is not known yet.
// The caller of enterRequest calls leave when the request, or this part of it, has ended.
func (a *API) enterRequest(ctx context.Context, organisation uuid.UUID) (leave func(), err error) {
	if a.queues.requests == nil {
		return func() {}, nil
	}
	leave, err = a.queues.requests.Enter(ctx, organisation, 1)
	return leave, notAdmitted(err, limitRequests, tooManyRequestsRunning)
}

// enterBody admits a body of size bytes, or of limit bytes when size is not known (-1).
func (a *API) enterBody(ctx context.Context, organisation uuid.UUID, size, limit int64) (leave func(), err error) {
	if size < 0 {
		size = limit
	}
	if size <= smallBody || size > limit { // the latter is refused without being read
		return func() {}, nil
	}
	leave, err = a.queues.bodies.Enter(ctx, organisation, size)
	return leave, notAdmitted(err, limitBodies, tooManyBodies)
}

// notAdmitted converts an error of a queue into the refusal of the request.
func notAdmitted(err error, limit, message string) error {
	switch {
	case errors.Is(err, fairqueue.ErrFull):
		f := fault.New(fault.RateLimited, "%s", message).With("limit", limit)
		f.RetryAfter = refusedAdmissionRetry
		return f
	case errors.Is(err, fairqueue.ErrBusy):
		return &fault.Fault{Code: fault.Unavailable, Message: "The service is busy. Try again.", RetryAfter: refusedAdmissionRetry, Cause: err}
	}
	return err
}
