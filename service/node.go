// Package service assembles a node: a program with any of the roles write, read, project and process, on one PostgreSQL
// database. Any number of nodes may run at the same time. The package contains no rules of its own.
package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"ledgerline/adapters/bluebubbles"
	"ledgerline/adapters/simulator"
	"ledgerline/adapters/twilio"
	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/line"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/migrations"
	"ledgerline/processes"
	"ledgerline/processes/agents"
	"ledgerline/projections"
	"ledgerline/readapi"
	"ledgerline/toolapi"
	"ledgerline/writeapi"
)

// Roles are what a node does.
type Roles struct {
	Write   bool // serves the routes that write
	Read    bool // serves the routes that read
	Project bool // runs the projections
	Process bool // runs the processes
}

// All has every role.
var All = Roles{Write: true, Read: true, Project: true, Process: true}

// Config configures a node. A zero value is replaced by the default where one is stated.
type Config struct {
	DSN string
	// Migrate makes Start migrate the database. Without it Start refuses a database with another schema.
	Migrate bool
	Keyring *eventstore.Keyring
	Clock   clock.Clock // default: the real one
	// RealClock says that Clock shows the machine's time, so that it is compared with the database's. Default: whether
	// Clock is the real one.
	RealClock bool
	Roles     Roles
	Shards    int // only for a new installation; default 1
	// MaxConns is the maximal number of connections to PostgreSQL, without those of the committers and of the feed's
	// notifications; default 32, at least 4. Requests have a part of them, projections and processes the rest.
	MaxConns int
	// StatementTimeout bounds the statements of requests; default 10 s. Exports and counts have bounds of their own.
	StatementTimeout time.Duration
	// Sessions says which session tokens are valid; without an issuer none are.
	Sessions   auth.SessionConfig
	RateLimits bool
	// Requests bounds the requests that are worked on at the same time (rule API-35). Default: per organisation a quarter
	// of MaxConns, and in total eight times as many; unbounded when Total is negative.
	Requests httpapi.Requests
	// SeparateOps leaves /healthz, /readyz and /metrics to OpsHandler.
	SeparateOps bool
	// Inside allows the service to connect to private addresses that customers name.
	Inside         bool
	TrustedProxies []string
	BaseURL        string
	AccessLog      bool
	// LogAddresses adds the client's address to the access log.
	LogAddresses bool
	// Tracing records a span for every request. Call httpapi.StartTracing before.
	Tracing bool
	Version string
	Logger  *slog.Logger // default: slog.Default()
	// Workers is how many contacts the sending process serves at the same time; default 32.
	Workers int
	// WebhookWorkers is how many webhook endpoints the node serves at the same time; default 512.
	WebhookWorkers int
	// WebhooksTLS is for tests: the TLS configuration for webhook receivers; default: that of the system.
	WebhooksTLS *tls.Config
	// LinesSendSMS is for tests: live lines of the simulator send SMS without an SMS connection.
	LinesSendSMS bool
	// Carriers is for tests: it may replace the carriers of the node.
	Carriers func(processes.Carriers)
	// Model answers for agents; nil: the installation has none, and agents cannot become live.
	Model agents.Model
	// SMS configures the SMS provider.
	SMS SMSConfig
	// Lease is after what time another node takes over the tasks of a node that died; default 15 s.
	Lease time.Duration
	// Heads publish the signed heads of the ledger's trees, with the role project.
	Heads []eventstore.HeadPublisher
	// HeadsEvery is how often they publish; default 1 minute.
	HeadsEvery time.Duration
	// LagBound is how many positions a projection may be behind while /readyz answers 200; default 10,000.
	LagBound int64
}

// SMSConfig configures the SMS provider. A zero value is replaced by the default of twilio.Config.
type SMSConfig struct {
	URL          string        // replaces the provider's hosts
	Calls        int           // calls at the same time, for each connection
	CallTimeout  time.Duration // for one call
	AcceptWindow time.Duration // after which a call without an answer has certainly no effect any more
	Pause        time.Duration // how long the circuit of a connection stays open
}

// Node is a running process.
type Node struct {
	Ledger    *eventstore.Ledger
	App       *commands.App
	Store     *projections.Store
	Clock     clock.Clock
	Simulator *simulator.Simulator // nil on a node without carriers
	API       *httpapi.API         // the routes of the node's roles
	Runner    *feed.Runner         // nil when the node neither projects nor processes

	cfg      Config
	pool     *pgxpool.Pool // of projections and processes
	requests *pgxpool.Pool // of HTTP requests
	carriers processes.Carriers
	bubbles  *bluebubbles.Adapter
	sms      *twilio.Adapter
	progress *feed.Progress
	metrics  *prometheus.Registry
	stop     context.CancelFunc
	running  sync.WaitGroup
	failed   chan error

	outage    *outage
	skew      *skew               // nil unless the clock is compared with the database's
	processes []processes.Process // empty without the role process
	stopped   []string            // processes that do not run because their checkpoint is not in the ledger
	closers   []func()            // called by Stop when all components have ended
}

// Start starts a node. Stop it with Stop.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	cfg.fill()
	schema := migrations.Check
	if cfg.Migrate {
		schema = migrations.Up
	}
	if err := schema(ctx, cfg.DSN); err != nil {
		return nil, err
	}
	forRequests := cfg.requestConns()
	pool, err := Connect(ctx, cfg.DSN, cfg.MaxConns-forRequests, workTimeout)
	if err != nil {
		return nil, err
	}
	if err := refuseTransactionPooling(ctx, pool.Config().ConnConfig); err != nil {
		pool.Close()
		return nil, err
	}
	requests, err := connect(ctx, cfg.DSN, forRequests, cfg.StatementTimeout, requestSilence)
	if err != nil {
		pool.Close()
		return nil, err
	}
	watch := newOutage(cfg.Logger.Handler(), reachDatabase(pool.Config().ConnConfig))
	cfg.Logger = watch.logger()
	n := &Node{
		Clock: cfg.Clock, cfg: cfg, outage: watch, pool: pool, requests: requests, progress: feed.NewProgress(), metrics: prometheus.NewRegistry(),
		failed: make(chan error, 8),
	}
	n.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.metrics.MustRegister(nodeMetrics{n})
	if err := n.assemble(ctx); err != nil {
		pool.Close()
		requests.Close()
		watch.close()
		return nil, err
	}
	return n, nil
}

func (c *Config) fill() {
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	c.RealClock = c.RealClock || clock.IsSystem(c.Clock)
	if c.MaxConns == 0 {
		c.MaxConns = 32
	}
	c.MaxConns = max(c.MaxConns, 4)
	if c.StatementTimeout == 0 {
		c.StatementTimeout = 10 * time.Second
	}
	if c.Requests.PerOrganisation == 0 {
		c.Requests.PerOrganisation = max(4, c.requestConns()/2)
	}
	if c.Requests.Total == 0 {
		c.Requests.Total = 8 * c.Requests.PerOrganisation
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Workers == 0 {
		c.Workers = 32
	}
	if c.HeadsEvery == 0 {
		c.HeadsEvery = time.Minute
	}
	if c.LagBound == 0 {
		c.LagBound = 10_000
	}
}

func (n *Node) assemble(ctx context.Context) (err error) {
	cfg := &n.cfg
	if n.Ledger, err = eventstore.Open(ctx, eventstore.Config{
		Pool: n.pool, Requests: n.requests, Keyring: cfg.Keyring, Clock: cfg.Clock, Shards: cfg.Shards, Logger: cfg.Logger,
	}); err != nil {
		return err
	}
	if err := cfg.checkBudget(ctx, n.pool, n.Ledger.Shards()); err != nil {
		n.Ledger.Close()
		return err
	}
	// Messages of the sandbox line go by the simulator's SMS, all others by an SMS connection.
	sms := func(l line.Line) bool {
		return l.Carrier == SimulatorCarrier && (l.IsSandbox || cfg.LinesSendSMS) && n.Simulator != nil
	}
	if cfg.RealClock {
		n.skew = newSkew(cfg.Clock, n.pool, cfg.Logger)
		n.skew.measure(ctx)
		n.metrics.MustRegister(n.skew)
	}
	if n.App, err = commands.New(commands.Config{
		Ledger: n.Ledger, Logger: cfg.Logger, InsideWebhooks: cfg.Inside, SMS: sms, MayAppend: n.skew.check, Model: cfg.Model != nil,
	}); err != nil {
		return err
	}
	n.Store = projections.NewStore(n.Ledger, n.progress)
	n.Store.SetBaseURL(cfg.BaseURL)
	if err := projections.Prepare(ctx, n.Ledger, cfg.Logger); err != nil {
		return err
	}
	n.Ledger.OnSettle(n.compareCheckpoints)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	if n.skew != nil {
		n.run(run, "clock skew", func(ctx context.Context) error { n.skew.run(ctx); return nil })
	}
	n.run(run, "feed notifications", func(ctx context.Context) error {
		feed.Listen(ctx, n.Ledger, n.progress, cfg.Logger)
		return nil
	})
	n.run(run, "feed progress", func(ctx context.Context) error {
		feed.PublishProgress(ctx, n.Ledger, n.progress, cfg.Logger)
		return nil
	})
	if err := n.openCarriers(run); err != nil {
		n.Stop()
		return err
	}
	if err := n.follow(ctx, run); err != nil {
		n.Stop()
		return err
	}
	if err := n.serve(); err != nil {
		n.Stop()
		return err
	}
	return nil
}

// follow starts the consumers of the feed (projections and processes), the notary and the housekeeping.
func (n *Node) follow(ctx, run context.Context) error {
	cfg := &n.cfg
	var consumers []feed.Consumer
	if cfg.Roles.Project {
		for _, p := range projections.All() {
			consumers = append(consumers, p)
		}
		n.run(run, "notary", func(ctx context.Context) error { n.Ledger.RunNotary(ctx); return nil })
		if len(cfg.Heads) > 0 {
			n.run(run, "tree heads", func(ctx context.Context) error { n.Ledger.PublishHeads(ctx, cfg.HeadsEvery, cfg.Heads); return nil })
		}
		n.run(run, "housekeeping", n.housekeep)
	}
	if cfg.Roles.Process {
		if err := n.startProcesses(ctx, run); err != nil {
			return err
		}
		for _, p := range n.processes {
			consumers = append(consumers, p)
		}
	}
	if len(consumers) == 0 {
		return nil
	}
	var err error
	n.Runner, err = feed.NewRunner(feed.Config{
		Ledger: n.Ledger, Progress: n.progress, Consumers: consumers, Logger: cfg.Logger, Metrics: n.metrics,
	})
	if err != nil {
		return err
	}
	n.run(run, "feed", n.Runner.Run)
	return nil
}

// run starts a component, which runs until ctx ends. If it returns an error before, the error is logged and sent to
// Failed.
func (n *Node) run(ctx context.Context, name string, component func(context.Context) error) {
	n.running.Go(func() {
		if err := component(ctx); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Error("service: a component failed", "component", name, "error", err)
			select {
			case n.failed <- fmt.Errorf("%s: %w", name, err):
			default:
			}
		}
	})
}

// Failed receives the error of a component that ended by itself. The node is then incomplete and should be stopped.
func (n *Node) Failed() <-chan error { return n.failed }

// quotaLife is how long quota buckets are kept: longer than any window.
const quotaLife = 40 * 24 * time.Hour

// strayFileLife is how long an uploaded file without an import job is kept: longer than any request takes.
const strayFileLife = time.Hour

// housekeep removes expired rows every ten minutes.
func (n *Node) housekeep(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := n.App.DeleteAbandonedImportFiles(ctx, strayFileLife); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("service: housekeeping failed", "error", err)
		}
		for {
			removed, err := n.Ledger.Prune(ctx, quotaLife)
			if err != nil && ctx.Err() == nil {
				n.cfg.Logger.Warn("service: housekeeping failed", "error", err)
			}
			if err != nil || removed == 0 {
				break
			}
		}
	}
}

func (n *Node) serve() error {
	cfg := &n.cfg // a node without the roles write and read serves health, readiness and metrics
	auth, err := newAuthenticator(n.App, n.Store, cfg.Sessions, cfg.Clock)
	if err != nil {
		return err
	}
	var limiter httpapi.Limiter
	if cfg.RateLimits {
		limiter = httpapi.NewMemoryLimiter()
	}
	n.API, err = httpapi.New(httpapi.Config{
		Version: cfg.Version, BaseURL: cfg.BaseURL, Documentation: documentation(), Authenticator: auth, IdempotencyRecords: idempotencyRecords{n.App, n.Ledger, cfg.Logger}, Limiter: limiter,
		Logger: cfg.Logger, AccessLog: cfg.AccessLog, LogAddresses: cfg.LogAddresses, Metrics: n.metrics, TrustedProxies: cfg.TrustedProxies,
		Tracing: cfg.Tracing, Requests: cfg.Requests, SeparateOps: cfg.SeparateOps, Classify: databaseFault,
	})
	if err != nil {
		return err
	}
	cursors, err := httpapi.NewCursors(n.Ledger.Keyring().DeriveKey("cursors"))
	if err != nil {
		return err
	}
	if cfg.Roles.Write { // tools are POST requests, and some of them write
		outside := writeapi.Outside{Prober: n.carriers, SMS: processes.SMS{Provider: n.sms}}
		writeapi.Register(n.API, n.App, n.Store, outside)
		toolapi.Register(n.API, readapi.New(n.Store, cursors), writeapi.NewForTools(n.App, n.Store, outside))
		if err := toolapi.ServeMCP(n.API, cfg.Version, cfg.BaseURL); err != nil {
			return err
		}
	}
	if cfg.Roles.Read {
		readapi.Register(n.API, n.Store, cursors)
	}
	n.serveCarriers()
	if cfg.Roles.Read != cfg.Roles.Write {
		n.refuseOtherRole()
	}
	n.API.AddReadinessCheck("database", func(ctx context.Context) error { return n.pool.Ping(ctx) })
	n.API.AddReadinessCheck("history", func(context.Context) error { return n.historyIsWhole() })
	n.API.AddReadinessCheck("clock", func(context.Context) error { return n.skew.check() })
	if cfg.Roles.Project {
		n.API.AddReadinessCheck("projections", n.caughtUp)
	}
	if n.Runner != nil {
		n.API.AddReadinessCheck("consumers", n.consumersRun)
	}
	return nil
}

// consumersRun returns an error while a consumer of the node cannot go on.
func (n *Node) consumersRun(context.Context) error {
	for _, stop := range n.Runner.Stopped() {
		return fmt.Errorf("%s has stopped after position %d on shard %d: %w", stop.Consumer, stop.After, stop.Shard, stop.Err)
	}
	return nil
}

// caughtUp returns an error while a projection is more than LagBound behind.
func (n *Node) caughtUp(context.Context) error {
	for _, at := range n.Runner.Lag() {
		if at.Behind > n.cfg.LagBound {
			return fmt.Errorf("%s is %d positions behind on shard %d", at.Consumer, at.Behind, at.Shard)
		}
	}
	return nil
}

// Handler serves the routes of the node's roles, and health, readiness and metrics.
func (n *Node) Handler() http.Handler {
	api := n.API.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, carriersPath) { // carriers' reports must not wait for requests of clients
			r = r.WithContext(eventstore.ForRequest(r.Context()))
		}
		api.ServeHTTP(w, r)
	})
}

// OpsHandler serves health, readiness and metrics; with Config.SeparateOps only it does.
func (n *Node) OpsHandler() http.Handler { return n.API.OpsHandler() }

// Stop stops the node: it accepts no more work, finishes the work in progress, and closes the connections.
func (n *Node) Stop() {
	if n.API != nil {
		n.API.Close()
	}
	n.stop()
	n.running.Wait()
	if n.Simulator != nil {
		n.Simulator.Close()
	}
	for _, closeIt := range n.closers {
		closeIt()
	}
	n.Store.Close()
	n.Ledger.Close()
	n.pool.Close()
	n.requests.Close()
	n.outage.close()
}
