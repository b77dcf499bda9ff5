package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	recordBodyWorkers = 2
	recordBodyQueue   = 1024
	recordBodyTimeout = 5 * time.Second
)

// recordBody is the body of an answer that is not in its idempotency record yet.
type recordBody struct {
	scope      uuid.UUID
	actor, key string
	body       []byte
}

// recordBodies adds bodies to idempotency records after the answers were sent, in a few goroutines. Bodies that do not
// fit into its queue are dropped: a retry builds them again from the view.
type recordBodies struct {
	records IdempotencyRecords
	queue   chan recordBody
	workers sync.WaitGroup
	mu      sync.RWMutex // held while sending, so that close does not close the queue under a sender
	closed  bool
}

// newRecordBodies starts the goroutines; close stops them. records is nil on a node that serves no writes.
func newRecordBodies(records IdempotencyRecords) *recordBodies {
	r := &recordBodies{records: records, queue: make(chan recordBody, recordBodyQueue)}
	if records == nil {
		r.closed = true
		return r
	}
	for range recordBodyWorkers {
		r.workers.Go(r.work)
	}
	return r
}

func (r *recordBodies) work() {
	for one := range r.queue {
		ctx, cancel := context.WithTimeout(context.Background(), recordBodyTimeout) // the request has ended
		r.records.AddBody(ctx, one.scope, one.actor, one.key, one.body)
		cancel()
	}
}

// add enqueues a body. It never waits.
func (r *recordBodies) add(one recordBody) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return
	}
	select {
	case r.queue <- one:
	default:
	}
}

// close returns when all enqueued bodies are stored.
func (r *recordBodies) close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.mu.Unlock()
	r.workers.Wait()
}
