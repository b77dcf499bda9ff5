package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/domain/fault"
)

// requestConns is how many of MaxConns are for requests: half of them, or nearly all on a node that does nothing but
// serve, and a few on a node that serves nothing.
func (c *Config) requestConns() int {
	serves, works := c.Roles.Write || c.Roles.Read, c.Roles.Project || c.Roles.Process
	switch {
	case serves && !works:
		return c.MaxConns - max(2, c.MaxConns/8)
	case !serves:
		return 1
	}
	return c.MaxConns / 2
}

// parameters are the settings of every connection. The server ends a connection whose client is gone, and rolls back a
// transaction that a client has left open.
var parameters = map[string]string{
	"application_name": "ledgerline",
	"timezone":         "UTC",
	"jit":              "off", // compiling takes longer than any query here, and estimated costs alone would start it

	"tcp_keepalives_idle":                 "30",
	"tcp_keepalives_interval":             "10",
	"tcp_keepalives_count":                "3",
	"tcp_user_timeout":                    "60000",
	"idle_in_transaction_session_timeout": "300000",
}

// keepAlive finds connections whose server is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// Connect opens a pool of connections. statementTimeout bounds their statements and their waits for locks; 0 is no
// bound.
func Connect(ctx context.Context, dsn string, connections int, statementTimeout time.Duration) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the database address is not valid") // the error of the library contains the address with its password
	}
	cfg.MaxConns = int32(connections) //nolint:gosec // a configured, small number
	for name, value := range parameters {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	if statementTimeout > 0 {
		bound := strconv.FormatInt(statementTimeout.Milliseconds(), 10)
		cfg.ConnConfig.RuntimeParams["statement_timeout"], cfg.ConnConfig.RuntimeParams["lock_timeout"] = bound, bound
	}
	cfg.ConnConfig.DialFunc = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return pool, nil
}

// The errors of PostgreSQL that end a statement which took too long.
const (
	queryCanceled    = "57014"
	lockNotAvailable = "55P03"
)

// databaseFault converts an error of a statement that ran into the bound of its connection. It returns nil for other
// errors.
func databaseFault(err error) *fault.Fault {
	refused := (*pgconn.PgError)(nil)
	if !errors.As(err, &refused) || refused.Code != queryCanceled && refused.Code != lockNotAvailable {
		return nil
	}
	return &fault.Fault{
		Code: fault.Unavailable, Message: "The database took too long for this request. Narrow the search, or try again later.",
		RetryAfter: 5 * time.Second, Cause: err,
	}
}
