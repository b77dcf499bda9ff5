package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
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

// settings are the settings of every connection. They bound how long a statement, a wait for a lock and an open
// transaction may last, and have the server end a connection whose client is gone. They are set after connecting, and
// not as startup parameters, because PgBouncer refuses those.
var settings = map[string]string{
	"jit":                                 "off", // compiling takes longer than any query here, and estimated costs alone would start it
	"tcp_keepalives_idle":                 "5",
	"tcp_keepalives_interval":             "2",
	"tcp_keepalives_count":                "2",
	"tcp_user_timeout":                    "8000",
	"idle_in_transaction_session_timeout": "8000",
}

// workTimeout bounds the statements of projections and processes. It is shorter than silenceLimit.
const workTimeout = 9 * time.Second

// requestSilence is how long a connection of requests may be silent while an answer is due: longer than a request
// takes (rule API-27), because exports and counts have statements that take longer than others.
const requestSilence = 35 * time.Second

// connectTimeout bounds a connect. It is short, so that requests are refused soon while the database is away.
const connectTimeout = 2 * time.Second

// keepAlive finds idle connections whose server is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 2}

// Connect opens a pool of connections. statementTimeout bounds their statements and their waits for locks; 0 is no
// bound.
func Connect(ctx context.Context, dsn string, connections int, statementTimeout time.Duration) (*pgxpool.Pool, error) {
	return connect(ctx, dsn, connections, statementTimeout, silenceLimit)
}

// connect is Connect with the time for which a connection may be silent while an answer is due.
func connect(ctx context.Context, dsn string, connections int, statementTimeout, silence time.Duration) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the database address is not valid") // the error of the library contains the address with its password
	}
	cfg.MaxConns = int32(connections) //nolint:gosec // a configured, small number
	cfg.ConnConfig.RuntimeParams["application_name"], cfg.ConnConfig.RuntimeParams["timezone"] = applicationName, "UTC"
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	own, limit := maps.Clone(settings), time.Duration(0)
	if statementTimeout > 0 {
		bound := strconv.FormatInt(statementTimeout.Milliseconds(), 10)
		own["statement_timeout"], own["lock_timeout"] = bound, bound
		limit = max(silence, statementTimeout+time.Second)
	}
	cfg.ConnConfig.DialFunc = dialer(limit)
	set := setSQL(own)
	cfg.ConnConfig.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, set).Close()
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return pool, nil
}

// applicationName is what PostgreSQL shows of the service's connections.
const applicationName = "ledgerline"

// setSQL returns the statement that sets parameters of a session, those that the server has.
func setSQL(parameters map[string]string) string {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		values = append(values, "('"+name+"', '"+parameters[name]+"')")
	}
	return "select set_config(name, value, false) from (values " + strings.Join(values, ", ") + ") v (name, value) join pg_catalog.pg_settings s using (name)"
}

// The errors of PostgreSQL that end a statement which took too long.
const (
	queryCanceled    = "57014"
	lockNotAvailable = "55P03"
)

// databaseFault converts an error of a statement that ran into the bound of its connection, and of a connection that
// broke. It returns nil for other errors.
func databaseFault(err error) *fault.Fault {
	if isConnectionError(err) && !errors.Is(err, context.DeadlineExceeded) {
		return databaseAway(err)
	}
	refused := (*pgconn.PgError)(nil)
	if !errors.As(err, &refused) || refused.Code != queryCanceled && refused.Code != lockNotAvailable {
		return nil
	}
	return &fault.Fault{
		Code: fault.Unavailable, Message: "The database took too long for this request. Narrow the search, or try again later.",
		RetryAfter: 5 * time.Second, Cause: err,
	}
}

// databaseAway is the refusal of a request while the database cannot be reached.
func databaseAway(cause error) *fault.Fault {
	return &fault.Fault{Code: fault.Unavailable, Message: "The database cannot be reached right now. Try again.", RetryAfter: 2 * time.Second, Cause: cause}
}

// connectionsSQL returns how many connections PostgreSQL has for the service.
const connectionsSQL = `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`

// spareConns are the connections of a node beside its pools and its committers: notifications of the feed, the watch
// for outages, and the replay of a projection.
const spareConns = 8

// budget is how many connections a node may open with a number of shards.
func (c *Config) budget(shards int) int { return c.MaxConns + shards + 1 + spareConns }

// checkBudget returns an error when PostgreSQL does not have as many connections as the node may open.
func (c *Config) checkBudget(ctx context.Context, pool *pgxpool.Pool, shards int) error {
	var available int
	if err := pool.QueryRow(ctx, connectionsSQL).Scan(&available); err != nil {
		return fmt.Errorf("connections of the database: %w", err)
	}
	if need := c.budget(shards); need > available {
		return fmt.Errorf("this node may open %d connections (%d for --connections, %d for appends, %d others), and PostgreSQL has %d for all nodes: lower --connections or raise max_connections",
			need, c.MaxConns, shards+1, spareConns, available)
	}
	return nil
}

// refuseTransactionPooling returns an error when the database is reached through a pooler in transaction mode. Behind
// it, sessions have no settings, no locks and no notifications of their own. While another client has a transaction
// open, such a pooler serves this client by another server process, or has just given that client the process of
// ours.
func refuseTransactionPooling(ctx context.Context, cfg *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var conns [2]*pgx.Conn
	for i := range conns {
		conn, err := pgx.ConnectConfig(ctx, cfg.Copy())
		if err != nil {
			return fmt.Errorf("connect to the database: %w", err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() //nolint:gocritic,revive // two connections, until the end
		conns[i] = conn
	}
	process := func(conn *pgx.Conn) (pid int, err error) {
		err = conn.QueryRow(ctx, `select pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&pid)
		return pid, err
	}
	before, err := process(conns[0])
	if err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	if _, err := conns[1].Exec(ctx, "begin", pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	other, err := process(conns[1])
	if err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	after, err := process(conns[0])
	if err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	if before != after || before == other {
		return errors.New("the database address leads to a pooler in transaction mode: use its session mode, or connect to PostgreSQL itself")
	}
	return nil
}
