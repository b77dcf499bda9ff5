// Package app is the harness of tests that go through the whole service: nodes on a database of their own with a clock
// that is moved by hand, an organisation with everything that sending needs, and a small HTTP client.
//
// It is a package of its own, beside testpg, so that the tests of the parts need not be built with all of them.
package app

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/domain/line"
	"ledgerline/eventstore"
	"ledgerline/httpapi/auth"
	"ledgerline/processes"
	"ledgerline/processes/carrier"
	"ledgerline/projections"
	"ledgerline/service"
	"ledgerline/test/testpg"
)

// Noon is where a frozen clock stands when nothing else is said: noon in New York, a Monday.
var Noon = time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)

// Sessions of the harness are signed with these.
const (
	Issuer   = "ledgerline-test"
	Audience = "ledgerline"
)

// Secret signs the sessions.
var Secret = []byte("a secret of thirty-two bytes, or more")

// App is a running service. It embeds its first workspace.
type App struct {
	*Workspace
	DSN   string
	Ring  *eventstore.Keyring
	Clock *clock.Movable
	Nodes []*Node
	Pool  *pgxpool.Pool // for looking into the database, beside the service

	t         testing.TB
	limits    line.Limits
	client    *http.Client
	options   options
	nextPhone int
	buried    sync.WaitGroup
}

// Node is one process of the service with its server.
type Node struct {
	*service.Node
	Roles service.Roles
	URL   string // "" when it serves nothing

	server *httptest.Server
	cable  *cable // nil unless the node can be killed
	ended  sync.Once
	gone   chan struct{}
}

// Gone is closed when the node is killed.
func (n *Node) Gone() <-chan struct{} { return n.gone }

// Kill drops the node in the middle of whatever it does, as if its process had been killed: requests break off, nothing more
// reaches the database or is taken from it, leases are left behind. The app was started with Killable.
func (a *App) Kill(n *Node) {
	a.t.Helper()
	require.NotNil(a.t, n.cable, "start with Killable")
	close(n.gone)
	n.cable.sever()
	a.Nodes = slices.DeleteFunc(a.Nodes, func(other *Node) bool { return other == n })
	n.server.CloseClientConnections()
	a.buried.Go(n.Stop) // for the sake of this process; it finds nothing that it could still do
}

// Stop ends the node as a signal does; the harness stops what is left.
func (n *Node) Stop() {
	n.ended.Do(func() {
		if n.server != nil {
			n.server.Close()
		}
		n.Node.Stop()
	})
}

// Option changes how the service is started.
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
}

// Unlimited are sending limits that nothing reaches: for tests that are about something else.
func Unlimited() line.Limits {
	const plenty = 1 << 30
	l := line.DefaultLimits()
	l.IdenticalTextMaxPerDay, l.NewContactsPerDay, l.NewContactsPerHour, l.SendsPerDay = plenty, plenty, plenty, plenty
	l.PreReplyMaxChars, l.PreReplyMaxMessages, l.UnansweredStreakPause, l.ReplyRatioMin = plenty, plenty, plenty, 0
	return l
}

// Limits sets the sending limits of all organisations that are made; without it they are Unlimited.
func Limits(l line.Limits) Option { return func(o *options) { o.limits = l } }

// Shards makes an installation of n shards.
func Shards(n int) Option { return func(o *options) { o.shards = n } }

// Nodes starts one node for each set of roles, on the same database.
func Nodes(roles ...service.Roles) Option { return func(o *options) { o.nodes = roles } }

// TwoNodes starts a node that writes, and another one that reads, projects and processes.
func TwoNodes() Option {
	return Nodes(service.Roles{Write: true}, service.Roles{Read: true, Project: true, Process: true})
}

// RateLimits turns the limits per key on.
func RateLimits() Option { return func(o *options) { o.rateLimits = true } }

// TrustedProxies believes what these addresses say about where a request came from.
func TrustedProxies(addresses ...string) Option {
	return func(o *options) { o.proxies = addresses }
}

// BaseURL says where the service is reached.
func BaseURL(base string) Option { return func(o *options) { o.base = base } }

// GuardedWebhooks refuses webhooks to private addresses, as a service in production does.
func GuardedWebhooks() Option { return func(o *options) { o.guarded = true } }

// At has the service live by a clock.
func At(c *clock.Movable) Option { return func(o *options) { o.clock = c } }

// Killable makes nodes that Kill can drop, whose work is taken over after a lease of real time.
func Killable(lease time.Duration) Option {
	return func(o *options) { o.killable, o.lease = true, lease }
}

// Carrier puts another carrier in the place of the simulator, for each node its own.
func Carrier(of func(*Node) carrier.Carrier) Option {
	return func(o *options) { o.carrier = of }
}

// Start starts the service and stops it when the test has ended.
func Start(t testing.TB, opts ...Option) *App {
	t.Helper()
	o := options{limits: Unlimited(), shards: 1, nodes: []service.Roles{service.All}, clock: clock.Frozen(Noon)}
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
	t.Cleanup(a.buried.Wait)
	a.Workspace = a.NewOrganisation("Acme")
	return a
}

// StartNode starts one more node.
func (a *App) StartNode(roles service.Roles) *Node {
	a.t.Helper()
	o := &a.options
	n := &Node{Roles: roles, gone: make(chan struct{})}
	logger := slog.New(slog.NewTextHandler(a.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	dsn := a.DSN
	if o.killable {
		n.cable, dsn = a.lay()
		logger = slog.New(slog.DiscardHandler) // a node that is killed complains at length
	}
	var err error
	n.Node, err = service.Start(context.WithoutCancel(a.t.Context()), service.Config{
		DSN: dsn, Keyring: a.Ring, Clock: a.Clock, Roles: roles, Shards: o.shards, MaxConns: 16, RateLimits: o.rateLimits,
		TrustedProxies: o.proxies, Inside: !o.guarded, BaseURL: o.base, Version: "test", Logger: logger, Workers: 8, Lease: o.lease,
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
		if n.cable != nil {
			n.cable.sever()
		}
	})
	return n
}

// url is the address of the first node that serves such a request.
func (a *App) url(method string) string {
	for _, n := range a.Nodes {
		if reads := method == http.MethodGet; reads && n.Roles.Read || !reads && n.Roles.Write {
			return n.URL
		}
	}
	a.t.Fatalf("no node serves %s", method)
	return ""
}

// Advance moves the clock and lets everything happen that has become due.
func (a *App) Advance(d time.Duration) {
	a.t.Helper()
	_, err := a.Clock.Advance(d)
	require.NoError(a.t, err)
	a.Settle()
}

// unsettledSQL tells everything that can still move without a request, in one snapshot: consumers that have not written
// an event that they want, keys that are due or worked on, and steps of the simulator's scripts that are due. $2 and $3
// are the consumers and the events that they want, in pairs.
const unsettledSQL = `select coalesce(string_agg(what, '; '), '') from (
	select distinct format('%s has not written what is after %s on shard %s', f.name, c.position, c.shard)
		from feed_consumers f join feed_checkpoints c on c.name = f.name and c.revision = f.revision
		join ledger_events e on e.shard = c.shard and e.position > c.position
		join unnest($2::text[], $3::text[]) w (consumer, type) on w.consumer = f.name and w.type = e.type
	union all select format('%s %s: due %s, lease %s, retry %s', process, key, due_at, lease_until, retry_at)
		from scheduled_tasks where due_at <= $1 or lease_until > now()
	union all select format('simulator %s: step %s due %s', script, step, due_at) from simulator.messages where due_at <= $1 and sends > 0
) x (what)`

// settleFor bounds Settle, in real time.
const settleFor = time.Minute

// Settle returns when nothing more happens until the clock moves or somebody asks for something.
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
	var last unsettled
	require.Eventually(a.t, func() bool {
		var what string
		if err := a.Pool.QueryRow(context.Background(), unsettledSQL, a.Clock.Now(), names, types).Scan(&what); err != nil {
			what = err.Error()
		}
		last.Store(&what)
		return what == ""
	}, settleFor, 3*time.Millisecond, "the service does not come to rest: %s", &last)
}

// unsettled is what was seen last, told only when the time is up.
type unsettled struct{ atomic.Pointer[string] }

// String implements fmt.Stringer.
func (u *unsettled) String() string {
	if what := u.Load(); what != nil {
		return *what
	}
	return "it was never asked"
}

// processor is a node that talks to carriers.
func (a *App) processor() *Node {
	for _, n := range a.Nodes {
		if n.Roles.Process {
			return n
		}
	}
	a.t.Fatal("no node processes")
	return nil
}

// Inbound plays a contact's message to a line's number, as the carrier would report it, and gives its id.
func (a *App) Inbound(from, line, body string) (messageID string) {
	a.t.Helper()
	messageID, err := processes.NewInbox(a.processor().App).Message(a.t.Context(), carrier.Inbound{LinePhone: line, From: from, Body: body, Channel: "chat"})
	require.NoError(a.t, err)
	return messageID
}

// One reads one row's columns with SQL.
func (a *App) One(sql string, args []any, into ...any) {
	a.t.Helper()
	require.NoError(a.t, a.Pool.QueryRow(a.t.Context(), sql, args...).Scan(into...))
}

// Exec changes the database behind the service's back.
func (a *App) Exec(sql string, args ...any) {
	a.t.Helper()
	_, err := a.Pool.Exec(a.t.Context(), sql, args...)
	require.NoError(a.t, err)
}

// Everything is a node with all roles.
var Everything = service.All
