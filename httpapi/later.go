package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// finishing is the body of an answer on its way to its receipt.
type finishing struct {
	workspace uuid.UUID
	key       string
	body      []byte
}

const (
	finishers      = 2
	finishQueue    = 1024
	finishDeadline = 5 * time.Second
)

// later adds answers to their receipts after they have been given. It is bounded in every way: what finds no room is
// dropped, because a retry can build the body from the view.
type later struct {
	receipts IdempotencyRecords
	queue    chan finishing
	workers  sync.WaitGroup
	mu       sync.RWMutex // guards closed against a send on the closed queue
	closed   bool
}

func newLater(receipts IdempotencyRecords) *later {
	l := &later{receipts: receipts, queue: make(chan finishing, finishQueue)}
	if receipts == nil { // a node that serves reads only
		l.closed = true
		return l
	}
	for range finishers {
		l.workers.Go(l.work)
	}
	return l
}

func (l *later) work() {
	for one := range l.queue {
		ctx, cancel := context.WithTimeout(context.Background(), finishDeadline) // the request is over
		l.receipts.Finish(ctx, one.workspace, one.key, one.body)
		cancel()
	}
}

func (l *later) add(one finishing) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- one:
	default:
	}
}

// close returns when everything that was accepted is stored.
func (l *later) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	l.workers.Wait()
}
