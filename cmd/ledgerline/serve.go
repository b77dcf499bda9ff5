package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"ledgerline/adapters/treeheads"
	"ledgerline/clock"
	"ledgerline/eventstore"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/service"
)

// serveCommand runs a node.
type serveCommand struct {
	Roles          []string `arg:"" optional:"" name:"role" help:"What the node does: write and read serve the routes that change and that read, project keeps the read models up to date, process sends messages and webhooks. Default: all." enum:"write,read,project,process,all" default:"all"`
	Addr           string   `help:"Address to listen on (default: ${default})." default:":8080" env:"LEDGERLINE_ADDR" placeholder:"HOST:PORT"`
	OpsAddr        string   `help:"Address that alone serves /healthz, /readyz and /metrics (default: they are served at --addr)." env:"LEDGERLINE_OPS_ADDR" placeholder:"HOST:PORT"`
	BaseURL        string   `help:"URL at which clients and carriers reach the service, the same on every node." env:"LEDGERLINE_BASE_URL" placeholder:"URL"`
	DatabaseURL    string   `help:"URL of the database." env:"DATABASE_URL" required:"" placeholder:"URL"`
	KeysFile       string   `help:"File with the installation's secrets, created with: ledgerline keys create FILE." env:"LEDGERLINE_KEYS_FILE" required:"" placeholder:"FILE"`
	Migrate        bool     `help:"Migrate the database to the schema of this program before the start. Without it, run: ledgerline migrate."`
	Connections    int      `help:"Greatest number of connections to the database." default:"32" env:"LEDGERLINE_CONNECTIONS"`
	Shards         int      `help:"Shards of a new installation (default: 1). The number cannot be changed later." placeholder:"N"`
	TrustedProxy   []string `help:"Address or network of a proxy whose X-Forwarded-For is trusted; may be repeated." env:"LEDGERLINE_TRUSTED_PROXIES" placeholder:"CIDR"`
	RateLimits     string   `help:"Limits per API key, organisation and address: on or off (default: ${default})." enum:"on,off" default:"on" env:"LEDGERLINE_RATE_LIMITS" placeholder:"on|off"`
	Requests       int      `name:"organisation-requests" help:"Requests of one organisation that the node works on at the same time (default: a quarter of the connections)." env:"LEDGERLINE_ORGANISATION_REQUESTS" placeholder:"N"`
	AccessLog      bool     `help:"Log every request." default:"true" negatable:"" env:"LEDGERLINE_ACCESS_LOG"`
	LogAddresses   bool     `help:"Add the client's address to the access log." env:"LEDGERLINE_LOG_ADDRESSES"`
	SMSURL         string   `name:"sms-provider-url" help:"URL that replaces the hosts of the SMS provider." env:"LEDGERLINE_SMS_PROVIDER_URL" placeholder:"URL"`
	SMSCalls       int      `name:"sms-calls" help:"Calls to the SMS provider at the same time, for each connection (default: ${default})." default:"8" env:"LEDGERLINE_SMS_CALLS" placeholder:"N"`
	Inside         bool     `help:"Also connect to private addresses that customers name. They are refused otherwise." env:"LEDGERLINE_INSIDE"`
	PublishHeads   []string `help:"Where to publish the signed tree heads of the ledger: a file, an http or https URL that they are posted to, or s3://BUCKET/PREFIX; may be repeated. Keep it out of reach of whoever administers the database." env:"LEDGERLINE_PUBLISH_HEADS" placeholder:"DESTINATION"`
	PublishEvery   duration `help:"How often tree heads are published while events come in (default: ${default})." default:"1m" env:"LEDGERLINE_PUBLISH_EVERY" placeholder:"TIME"`
	Grace          duration `help:"How long running requests may take when the node stops (default: ${default})." default:"20s" placeholder:"TIME"`
	sessionOptions `embed:"" prefix:"session-"`
	LLM            modelOptions `embed:"" prefix:"llm-"`
}

type duration = time.Duration

// sessionOptions configure which session tokens are valid.
type sessionOptions struct {
	Issuer     string `help:"Issuer of session tokens (default: ${default})." default:"ledgerline" env:"LEDGERLINE_SESSION_ISSUER" placeholder:"NAME"`
	Audience   string `help:"Audience of session tokens (default: ${default})." default:"ledgerline" env:"LEDGERLINE_SESSION_AUDIENCE" placeholder:"NAME"`
	SecretFile string `help:"File with the secret of HS256 tokens, at least 32 bytes." env:"LEDGERLINE_SESSION_SECRET_FILE" placeholder:"FILE"`
	JWKSURL    string `name:"jwks-url" help:"URL of the public keys of EdDSA, ES256 and RS256 tokens." env:"LEDGERLINE_SESSION_JWKS_URL" placeholder:"URL"`
	JWKSFile   string `name:"jwks-file" help:"File with the public keys of EdDSA, ES256 and RS256 tokens." env:"LEDGERLINE_SESSION_JWKS_FILE" placeholder:"FILE"`
}

// config returns the zero config when session tokens are not configured.
func (o *sessionOptions) config() (auth.SessionConfig, error) {
	if o.SecretFile == "" && o.JWKSURL == "" && o.JWKSFile == "" {
		return auth.SessionConfig{}, nil
	}
	cfg := auth.SessionConfig{Issuer: o.Issuer, Audience: o.Audience, JWKSURL: o.JWKSURL, JWKSFile: o.JWKSFile, Clock: clock.System()}
	if o.SecretFile != "" {
		var err error
		if cfg.Secret, err = readSecret(o.SecretFile); err != nil {
			return cfg, err
		}
		if len(cfg.Secret) == 0 {
			return cfg, usage("the session secret in %s is empty", o.SecretFile)
		}
	}
	return cfg, nil
}

func (c *serveCommand) roles() service.Roles {
	var roles service.Roles
	for _, name := range c.Roles {
		switch name {
		case "write":
			roles.Write = true
		case "read":
			roles.Read = true
		case "project":
			roles.Project = true
		case "process":
			roles.Process = true
		default:
			return service.All
		}
	}
	return roles
}

// Run implements the command. It returns nil when it is stopped by a signal.
func (c *serveCommand) Run(ctx context.Context, con *console) (err error) {
	log := con.logger(true, slog.LevelInfo)
	keyring, err := eventstore.OpenKeyring(c.KeysFile)
	if err != nil {
		return err
	}
	sessions, err := c.config()
	if err != nil {
		return err
	}
	heads, err := headPublishers(c.PublishHeads)
	if err != nil {
		return err
	}
	model, err := c.LLM.model()
	if err != nil {
		return err
	}
	if c.PublishEvery <= 0 {
		return usage("--publish-every takes a time greater than 0")
	}
	stopTracing, tracing, err := httpapi.StartTracing(ctx, "ledgerline", version())
	if err != nil {
		return err
	}
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, stopTracing(flush))
	}()
	listener, err := listen(ctx, c.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	var ops net.Listener
	if c.OpsAddr != "" {
		if ops, err = listen(ctx, c.OpsAddr); err != nil {
			return err
		}
		defer func() { _ = ops.Close() }()
	}
	node, err := service.Start(ctx, service.Config{
		DSN: c.DatabaseURL, Migrate: c.Migrate, Keyring: keyring, Roles: c.roles(), Shards: c.Shards, MaxConns: c.Connections, Sessions: sessions,
		RateLimits: c.RateLimits == "on", Inside: c.Inside, TrustedProxies: c.TrustedProxy, BaseURL: c.BaseURL,
		AccessLog: c.AccessLog, LogAddresses: c.LogAddresses, Tracing: tracing, Version: version(), Logger: log,
		Heads: heads, HeadsEvery: c.PublishEvery, Model: model, SMS: service.SMSConfig{URL: c.SMSURL, Calls: c.SMSCalls},
		Requests: httpapi.Requests{PerOrganisation: c.Requests}, SeparateOps: ops != nil,
	})
	if err != nil {
		return err
	}
	stopping := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { stopping <- time.Now() })
	defer func() {
		left := c.Grace
		select {
		case since := <-stopping:
			left -= time.Since(since)
		default:
		}
		err = errors.Join(err, stopWithin(node, max(left, shortestStop)))
	}()

	serving, stop := context.WithCancel(ctx)
	defer stop()
	served, stoppedOps := make(chan error, 1), make(chan error, 1)
	go func() { served <- httpapi.Serve(serving, httpapi.NewServer(node.Handler(), log), listener, c.Grace) }()
	if ops != nil { // it answers until the requests have ended
		serveOps, stopOps := context.WithCancel(context.WithoutCancel(ctx))
		go func() {
			stoppedOps <- httpapi.Serve(serveOps, httpapi.NewServer(node.OpsHandler(), log), ops, time.Second)
		}()
		defer func() {
			stopOps()
			err = errors.Join(err, <-stoppedOps)
		}()
	}
	log.Info("serve: the node is ready", "address", listener.Addr().String(), "roles", c.Roles, "version", version())
	select {
	case err = <-node.Failed():
		stop()
		return errors.Join(err, <-served)
	case err = <-served:
		log.Info("serve: the node has stopped")
		return err
	}
}

// shortestStop is what a node has for its end when its requests have used up the grace.
const shortestStop = 2 * time.Second

// stopWithin stops a node. It returns an error when that takes longer than limit, because the database hangs: what the
// node has under way is then cut off, as if the node was killed.
func stopWithin(node *service.Node, limit time.Duration) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		node.Stop()
	}()
	select {
	case <-stopped:
		return nil
	case <-time.After(limit):
		return errors.New("the node did not stop within --grace, probably because the database does not answer; what it had under way was cut off, and other nodes or its next start continue it")
	}
}

// headPublishers opens the destinations of tree heads.
func headPublishers(addresses []string) ([]eventstore.HeadPublisher, error) {
	var list []eventstore.HeadPublisher
	for _, address := range addresses {
		d, err := treeheads.Open(address)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}
