package dispatch

import (
	"context"
	"errors"

	"ledgerline/domain/line"
	"ledgerline/processes/carrier"
	"ledgerline/processes/peers"
	"ledgerline/processes/tasks"
)

// access is the permission to call the server of one line at a time.
type access struct {
	p    *Process
	line string
	call *peers.Call // nil without permission
}

func (p *Process) newAccess() *access { return &access{p: p} }

// try gets the permission for a line, without waiting.
func (a *access) try(l *line.Line) bool {
	if a.call != nil && a.line == l.ID {
		return true
	}
	a.release()
	call, err := a.p.servers.TryEnter(l.ID, a.p.carriers.CallsPerLine(l.Carrier))
	if err != nil {
		return false
	}
	a.line, a.call = l.ID, call
	return true
}

// wait gets the permission for a line. It returns a *peers.Refused when it takes too long, or when the line's server
// does not answer.
func (a *access) wait(ctx context.Context, l *line.Line) error {
	if a.call != nil && a.line == l.ID {
		return nil
	}
	a.release()
	var call *peers.Call
	var err error
	tasks.Outside(ctx, func() { call, err = a.p.servers.Enter(ctx, l.ID, a.p.carriers.CallsPerLine(l.Carrier)) })
	if err != nil {
		return err
	}
	a.line, a.call = l.ID, call
	return nil
}

// ended gives the permission back after a call that ended with an error of the port carrier.Carrier.
func (a *access) ended(ctx context.Context, err error) {
	rejected := (*carrier.Rejected)(nil)
	switch {
	case ctx.Err() != nil: // the call was cut off by this service
		err = context.Canceled
	case errors.As(err, &rejected), errors.Is(err, carrier.ErrUndecided): // answers
		err = nil
	}
	if a.call != nil {
		a.call.Ended(err)
		a.call = nil
	}
}

// release gives the permission back if it was not used.
func (a *access) release() {
	if a.call != nil {
		a.call.Release()
		a.call = nil
	}
}
