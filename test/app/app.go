// Package app starts the whole service for a test: nodes on a database of their own, a clock that the test moves, an
// organisation with everything that sending needs, and a small HTTP client.
//
// It is apart from package testpg so that tests of single packages do not build the whole service.
package app

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/adapters/llm"
	"ledgerline/clock"
	"ledgerline/domain/line"
	"ledgerline/eventstore"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/processes"
	"ledgerline/processes/agents"
	"ledgerline/processes/carrier"
	"ledgerline/projections"
	"ledgerline/service"
	"ledgerline/test/testpg"
)

// Noon is the time of the frozen clock unless WithClock sets another one: a Monday, noon in New York.
var Noon = time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)

// Issuer and audience of the session tokens.
const (
	Issuer   = "ledgerline-test"
	Audience = "ledgerline"
)

// Secret signs the session tokens.
var Secret = []byte("a secret of thirty-two bytes, or more")

// App is a running service. It embeds its first workspace.
type App struct {
	*Workspace
	DSN   string
	Ring  *eventstore.Keyring
	Clock *clock.Movable
	Nodes []*Node
	Pool  *pgxpool.Pool // for queries of the test itself

	t         testing.TB
	limits    line.Limits
	client    *http.Client
	options   options
	nextPhone int
	stopping  sync.WaitGroup
}

// Node is one node of the service with its HTTP server.
type Node struct {
	*service.Node
	Roles service.Roles
	URL   string // "" for a node without API

	server   *httptest.Server
	proxy    *proxy // nil unless the node can be killed
	stopOnce sync.Once
	killed   chan struct{}
}

// Killed returns a channel that is closed when the node is killed.
func (n *Node) Killed() <-chan struct{} { return n.killed }

// Kill cuts a node off in the middle of its work, as if its process had been killed: requests break off, nothing more
// reaches the database, and leases are left behind. The app must have been started with Killable.
func (a *App) Kill(n *Node) {
	a.t.Helper()
	require.NotNil(a.t, n.proxy, "start with Killable")
	close(n.killed)
	n.proxy.cutAll()
	a.Nodes = slices.DeleteFunc(a.Nodes, func(other *Node) bool { return other == n })
	n.server.CloseClientConnections()
	a.stopping.Go(n.Stop) // ends the goroutines of the node; it can no longer change anything
}

// Stop shuts the node down as a signal does. The harness stops the nodes that are still running when the test ends.
func (n *Node) Stop() {
	n.stopOnce.Do(func() {
		if n.server != nil {
			n.server.Close()
		}
		n.Node.Stop()
	})
}

// Option configures Start.
type Option func(*options)

type options struct {
	shards     int
	nodes      []service.Roles
	clock      *clock.Movable
	rateLimits bool
	proxies    []string
	guarded    bool
	base       string
	limits     line.Limits
	killable   bool
	lease      time.Duration
	carrier    func(*Node) carrier.Carrier
	model      agents.Model

	statementTimeout time.Duration
	sms              service.SMSConfig
	linesSendSMS     bool
	requests         int
	webhookWorkers   int
}

// Unlimited returns sending limits that no test reaches.
func Unlimited() line.Limits {
	const plenty = 1 << 30
	l := line.DefaultLimits()
	l.IdenticalTextMaxPerDay, l.NewContactsPerDay, l.NewContactsPerHour, l.SendsPerDay = plenty, plenty, plenty, plenty
	l.PreReplyMaxChars, l.PreReplyMaxMessages, l.UnansweredStreakPause, l.ReplyRatioMin = plenty, plenty, plenty, 0
	return l
}

// Limits sets the sending limits of every organisation that the harness creates. The default is Unlimited.
func Limits(l line.Limits) Option { return func(o *options) { o.limits = l } }

// Shards sets the number of shards. The default is 1.
func Shards(n int) Option { return func(o *options) { o.shards = n } }

// Nodes starts one node for each set of roles, on the same database. The default is one node with all roles.
func Nodes(roles ...service.Roles) Option { return func(o *options) { o.nodes = roles } }

// TwoNodes starts a node that writes, and another one that reads, projects and processes.
func TwoNodes() Option {
	return Nodes(service.Roles{Write: true}, service.Roles{Read: true, Project: true, Process: true})
}

// RateLimits turns on the limits per key (rule API-25).
func RateLimits() Option { return func(o *options) { o.rateLimits = true } }

// TrustedProxies makes the nodes believe the forwarding headers of these addresses.
func TrustedProxies(addresses ...string) Option {
	return func(o *options) { o.proxies = addresses }
}

// StatementTimeout bounds the statements of requests. The default is that of the service.
func StatementTimeout(d time.Duration) Option { return func(o *options) { o.statementTimeout = d } }

// OrganisationRequests bounds the requests of an organisation that a node works on at the same time. The default is 32.
func OrganisationRequests(n int) Option { return func(o *options) { o.requests = n } }

// WebhookWorkers sets how many endpoints a node serves at the same time. The default is that of the service.
func WebhookWorkers(n int) Option { return func(o *options) { o.webhookWorkers = n } }

// BaseURL sets the public address of the service.
func BaseURL(base string) Option { return func(o *options) { o.base = base } }

// GuardedWebhooks refuses webhooks to private addresses (rule WHK-2), as in production.
func GuardedWebhooks() Option { return func(o *options) { o.guarded = true } }

// WithClock sets the clock of the service.
func WithClock(c *clock.Movable) Option { return func(o *options) { o.clock = c } }

// Killable makes nodes that Kill can cut off. Their leases last this long in real time.
func Killable(lease time.Duration) Option {
	return func(o *options) { o.killable, o.lease = true, lease }
}

// Carrier replaces the simulator by another carrier, one for each node.
func Carrier(of func(*Node) carrier.Carrier) Option {
	return func(o *options) { o.carrier = of }
}

// Model replaces the scripted model of agents; nil: the installation has none.
func Model(m agents.Model) Option { return func(o *options) { o.model = m } }

// LinesSendSMS makes live lines of the simulator send SMS without an SMS connection.
func LinesSendSMS() Option { return func(o *options) { o.linesSendSMS = true } }

// SMSProvider configures the SMS provider of the nodes.
func SMSProvider(cfg service.SMSConfig) Option { return func(o *options) { o.sms = cfg } }

// Start starts the service, and stops it when the test ends.
func Start(t testing.TB, opts ...Option) *App {
	t.Helper()
	o := options{limits: Unlimited(), shards: 1, nodes: []service.Roles{service.All}, clock: clock.Frozen(Noon), model: llm.Scripted{}}
	o.sms.URL = "http://127.0.0.1:1" // nothing answers there
	for _, opt := range opts {
		opt(&o)
	}
	ring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	a := &App{
		DSN: testpg.Database(t), Ring: ring, Clock: o.clock, t: t, limits: o.limits,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}, options: o,
	}
	a.Pool, err = pgxpool.New(context.WithoutCancel(t.Context()), a.DSN)
	require.NoError(t, err)
	t.Cleanup(a.Pool.Close)
	for _, roles := range o.nodes {
		a.StartNode(roles)
	}
	t.Cleanup(a.client.CloseIdleConnections)
	t.Cleanup(a.stopping.Wait)
	a.Workspace = a.NewOrganisation("Acme")
	return a
}

// StartNode starts one more node.
func (a *App) StartNode(roles service.Roles) *Node {
	a.t.Helper()
	o := &a.options
	n := &Node{Roles: roles, killed: make(chan struct{})}
	logger := slog.New(slog.NewTextHandler(a.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	dsn := a.DSN
	if o.killable {
		n.proxy, dsn = a.newProxy()
		logger = slog.New(slog.DiscardHandler) // a killed node logs many errors
	}
	var err error
	n.Node, err = service.Start(context.WithoutCancel(a.t.Context()), service.Config{
		DSN: dsn, Keyring: a.Ring, Clock: a.Clock, Roles: roles, Shards: o.shards, MaxConns: 24, StatementTimeout: o.statementTimeout, RateLimits: o.rateLimits,
		Requests: httpapi.Requests{PerOrganisation: cmp.Or(o.requests, 32)}, TrustedProxies: o.proxies, Inside: !o.guarded, BaseURL: o.base, SMS: o.sms, LinesSendSMS: o.linesSendSMS, Version: "test", Logger: logger, Workers: 8, WebhookWorkers: o.webhookWorkers, Lease: o.lease, Model: o.model,
		Sessions: auth.SessionConfig{Issuer: Issuer, Audience: Audience, Secret: Secret},
		Carriers: func(all processes.Carriers) {
			if o.carrier != nil {
				all[line.Simulator] = o.carrier(n)
			}
		},
	})
	require.NoError(a.t, err)
	if n.API != nil {
		n.server = httptest.NewServer(n.Handler())
		n.URL = n.server.URL
	}
	a.Nodes = append(a.Nodes, n)
	a.t.Cleanup(func() {
		n.Stop()
		if n.proxy != nil {
			n.proxy.cutAll()
		}
	})
	return n
}

// StopAll stops every node.
func (a *App) StopAll() {
	for _, n := range a.Nodes {
		n.Stop()
	}
	a.Nodes = nil
}

// url returns the address of the first node that serves a method.
func (a *App) url(method string) string {
	for _, n := range a.Nodes {
		if reads := method == http.MethodGet; reads && n.Roles.Read || !reads && n.Roles.Write {
			return n.URL
		}
	}
	a.t.Fatalf("no node serves %s", method)
	return ""
}

// Advance moves the clock and waits until everything that became due is done.
func (a *App) Advance(d time.Duration) {
	a.t.Helper()
	_, err := a.Clock.Advance(d)
	require.NoError(a.t, err)
	a.Settle()
}

// unsettledSQL describes, in one snapshot, everything that can still change without a request: consumers that have not
// applied an event of theirs, scheduled tasks that are due or leased, and steps of the simulator's scripts that are
// due. $2 and $3 are pairs of a consumer and an event type that it handles.
const unsettledSQL = `select coalesce(string_agg(what, '; '), '') from (
	select format('%s has not applied an event after %s on shard %s', f.name, c.position, c.shard)
		from feed_consumers f join feed_checkpoints c on c.name = f.name and c.revision = f.revision
		where exists (select from ledger_events e join unnest($2::text[], $3::text[]) w (consumer, type) on w.consumer = f.name and w.type = e.type
			where e.shard = c.shard and e.position > c.position)
	union all select format('%s %s: due %s, lease %s, retry %s', process, key, due_at, lease_until, retry_at)
		from scheduled_tasks where due_at <= $1 or lease_until > now()
	union all select format('simulator %s: step %s due %s', script, step, due_at) from simulator.messages where due_at <= $1 and sends > 0
) x (what)`

// Settle looks again after a pause that grows from shortestPause to longestPause, and is at least as long as the last
// query took: it must not take the processor from the service that it waits for. settleTimeout bounds it, in real time.
const (
	shortestPause = time.Millisecond
	longestPause  = 25 * time.Millisecond
	settleTimeout = time.Minute
)

// Settle waits until nothing more happens without a request or a move of the clock.
func (a *App) Settle() {
	a.t.Helper()
	consumers := service.ProcessConsumers()
	for _, p := range projections.All() {
		consumers = append(consumers, p)
	}
	var names, types []string
	for _, c := range consumers {
		for _, name := range c.Types() {
			names, types = append(names, c.Name()), append(types, name)
		}
	}
	timeout := time.After(settleTimeout)
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		began := time.Now()
		var unsettled string
		if err := a.Pool.QueryRow(context.Background(), unsettledSQL, a.Clock.Now(), names, types).Scan(&unsettled); err != nil {
			unsettled = err.Error()
		}
		if unsettled == "" {
			return
		}
		select {
		case <-time.After(max(pause, time.Since(began))):
		case <-timeout:
			a.t.Fatalf("the service does not settle: %s", unsettled)
		}
	}
}

// processor returns a node that talks to carriers.
func (a *App) processor() *Node {
	for _, n := range a.Nodes {
		if n.Roles.Process {
			return n
		}
	}
	a.t.Fatal("no node processes")
	return nil
}

// Inbound reports a contact's message to a line's number, as the carrier does, and returns the id of the message.
func (a *App) Inbound(from, line, body string) (messageID string) {
	a.t.Helper()
	messageID, err := processes.NewInbox(a.processor().App).Message(a.t.Context(), carrier.Inbound{LinePhone: line, From: from, Body: body, Channel: "chat"})
	require.NoError(a.t, err)
	return messageID
}

// QueryRow runs a query of one row and scans its columns.
func (a *App) QueryRow(sql string, args []any, into ...any) {
	a.t.Helper()
	require.NoError(a.t, a.Pool.QueryRow(a.t.Context(), sql, args...).Scan(into...))
}

// Exec changes the database without the service.
func (a *App) Exec(sql string, args ...any) {
	a.t.Helper()
	_, err := a.Pool.Exec(a.t.Context(), sql, args...)
	require.NoError(a.t, err)
}

// Everything are the roles of a node that does all work.
var Everything = service.All
