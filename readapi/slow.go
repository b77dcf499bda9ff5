package readapi

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/fairqueue"
	"ledgerline/httpapi"
)

const (
	// maxExports and maxProofs are how many a node runs at a time, half of them of one organisation. Each occupies a
	// connection to the database (rules CON-43 and CON-28).
	maxExports = 4
	maxProofs  = 2
	// slowWaiting bounds those of an organisation that wait, and slowWait how long each waits before it is refused.
	slowWaiting = 4
	slowWait    = 10 * time.Second
)

// newSlowQueue makes a queue for queries that take long.
func newSlowQueue(total int64) *fairqueue.Queue[uuid.UUID] {
	return fairqueue.New[uuid.UUID](fairqueue.Config{Total: total, PerOwner: total / 2, Waiting: slowWaiting, Wait: slowWait})
}

// startSlow waits until the caller's organisation may run one more. It returns fault rate_limited when the organisation
// runs as many as it may, and service_unavailable when others do. The caller calls end when its own has ended.
func startSlow(ctx context.Context, q *fairqueue.Queue[uuid.UUID], c *httpapi.Call, what string) (end func(), err error) {
	end, err = q.Enter(ctx, c.OrganisationID, 1)
	var busy *fault.Fault
	switch {
	case errors.Is(err, fairqueue.ErrFull):
		busy = fault.New(fault.RateLimited, "The organisation has too many %s under way. Try again when one has ended.", what).With("limit", what)
	case errors.Is(err, fairqueue.ErrBusy):
		busy = fault.New(fault.Unavailable, "Too many %s are running. Try again shortly.", what)
	default:
		return end, err
	}
	busy.RetryAfter = slowWait
	return nil, busy
}
