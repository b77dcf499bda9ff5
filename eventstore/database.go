package eventstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// requestKey is the context key that ForRequest sets.
type requestKey struct{}

// ForRequest returns a context whose reads use the connections of requests (Config.Requests). Processes, projections
// and committers have others, so that no number of requests delays them.
func ForRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, true)
}

// DB returns the connections to the database for work in this context: those of requests with ForRequest, else Pool.
func (l *Ledger) DB(ctx context.Context) *pgxpool.Pool {
	if l.requests != nil && ctx.Value(requestKey{}) != nil {
		return l.requests
	}
	return l.pool
}
