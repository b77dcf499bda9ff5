package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"ledgerline/adapters/llm"
	"ledgerline/adapters/twilio/twiliotest"
	"ledgerline/clock"
	"ledgerline/eventstore"
	"ledgerline/httpapi"
	"ledgerline/localpg"
	"ledgerline/projections"
	"ledgerline/service"
)

// databaseName is the database within a private PostgreSQL.
const databaseName = "ledgerline"

// devCommand runs everything on this machine.
type devCommand struct {
	Addr        string `help:"Where to listen; port 0 chooses a free one (default: ${default})." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	Data        string `help:"Directory for the database, the keys and dev.json (default: ${default})." default:"./.ledgerline" placeholder:"DIR"`
	DatabaseURL string `help:"Use this PostgreSQL instead of a private one." env:"DATABASE_URL" placeholder:"URL"`
	Clock       string `help:"Start the clock at this time (RFC 3339) and stop it until POST /dev/clock moves it. Default: real time, which can be moved as well." placeholder:"TIME"`
	Shards      int    `help:"Shards of a new installation (default: 1). The number cannot be changed later." placeholder:"N"`
	RateLimits  string `help:"Limits per API key: on or off (default: ${default})." enum:"on,off" default:"on" placeholder:"on|off"`
	AccessLog   bool   `help:"Log every request."`
	SMSURL      string `name:"sms-provider-url" help:"URL of the SMS provider. Default: a stand-in, which reports every text as delivered." env:"LEDGERLINE_SMS_PROVIDER_URL" placeholder:"URL"`

	LLM modelOptions `embed:"" prefix:"llm-"`
}

// dev is the state of a dev that starts or runs.
type dev struct {
	*devCommand
	con      *console
	dir      dataDir
	log      *slog.Logger
	clock    *clock.Movable
	secret   []byte
	listener net.Listener
	database *localpg.Server    // nil with --database-url
	sms      *twiliotest.Server // nil with --sms-provider-url
	node     *service.Node
	file     *devFile
	ready    bool // the dev has answered; its data directory is kept
}

// Run implements the command. It returns nil when it is stopped by a signal.
func (c *devCommand) Run(ctx context.Context, con *console) error {
	ctx, stop := withParent(ctx)
	defer stop()
	d := &dev{devCommand: c, con: con, dir: dataDir(filepath.Clean(c.Data)), log: con.logger(false, slog.LevelInfo)}
	err := d.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // stopped during the start
	}
	return err
}

func (d *dev) run(ctx context.Context) (err error) {
	if d.clock, err = d.startClock(); err != nil {
		return err
	}
	created, err := d.dir.create()
	if err != nil {
		return err
	}
	if created {
		defer func() {
			if err != nil {
				err = errors.Join(err, d.removeNewDir())
			}
		}()
	}
	lock, err := d.dir.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	// Listen early, so that a port in use is reported at once. Connections wait until the service is up.
	if d.listener, err = listen(ctx, d.Addr); err != nil {
		return err
	}
	defer func() { _ = d.listener.Close() }()
	// dev.json exists only while the dev answers.
	if err := os.Remove(d.dir.devFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the last dev.json: %w", err)
	}
	if d.secret, err = d.dir.secret(); err != nil {
		return err
	}
	// Keys that cannot be used are reported before the database starts.
	if _, err := eventstore.OpenKeyring(d.dir.keys()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dsn, err := d.startDatabase(ctx)
	if err != nil {
		return err
	}
	if d.database != nil {
		defer func() { err = errors.Join(err, d.stopDatabase()) }()
	}
	keyring, err := d.dir.keyring(ctx, dsn)
	if err != nil {
		return err
	}
	return d.serve(ctx, dsn, keyring)
}

// removeNewDir removes the data directory that a failed first start has made. It keeps one with the keys of a database
// elsewhere, which may hold data under these keys.
func (d *dev) removeNewDir() error {
	if d.ready || d.DatabaseURL != "" && exists(d.dir.keys()) {
		return nil
	}
	if err := os.RemoveAll(string(d.dir)); err != nil {
		return fmt.Errorf("remove the data directory of the failed start: %w", err)
	}
	return nil
}

func (d *dev) startClock() (*clock.Movable, error) {
	if d.Clock == "" {
		return clock.Running(), nil
	}
	at, err := time.Parse(time.RFC3339Nano, d.Clock)
	if err != nil {
		return nil, usage("--clock %q is not a time in RFC 3339, for example 2026-03-02T17:00:00Z", d.Clock)
	}
	return clock.Frozen(at), nil
}

// listen listens on an address. Its error for an address in use says what to do.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var cfg net.ListenConfig
	listener, err := cfg.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another program: stop that one, or choose another address with --addr, for example --addr 127.0.0.1:0 for any free port", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}

// startDatabase starts the private PostgreSQL, unless d.DatabaseURL names another database. It stores that URL in the
// data directory, where the tools find it.
func (d *dev) startDatabase(ctx context.Context) (dsn string, err error) {
	if d.DatabaseURL != "" {
		return d.DatabaseURL, replaceSecret(d.dir.database(), []byte(d.DatabaseURL+"\n"))
	}
	if err := os.Remove(d.dir.database()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("remove the URL of the last database: %w", err)
	}
	if d.database, err = startPrivate(ctx, d.dir, d.con); err != nil {
		return "", err
	}
	if err := d.database.EnsureDatabase(ctx, databaseName); err != nil {
		return "", errors.Join(err, d.stopDatabase())
	}
	return d.database.DSN(databaseName), nil
}

// startPrivate starts the private PostgreSQL. While a tool runs the same PostgreSQL, startPrivate waits.
func startPrivate(ctx context.Context, dir dataDir, con *console) (*localpg.Server, error) {
	reported := false
	for {
		server, err := localpg.Start(ctx, localpg.Config{DataDir: dir.postgres(), Progress: func(line string) { con.say("%s", line) }})
		inUse := (*localpg.InUseError)(nil)
		if !errors.As(err, &inUse) {
			return server, err
		}
		if !reported {
			reported = true
			con.say("waiting for process %d, which uses the database in %s", inUse.PID, dir)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (d *dev) stopDatabase() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return d.database.Stop(ctx)
}

// serve runs the node until ctx ends or a component fails.
func (d *dev) serve(ctx context.Context, dsn string, keyring *eventstore.Keyring) (err error) {
	base := urlOf(d.listener)
	heads, err := headPublishers([]string{d.dir.heads()})
	if err != nil {
		return err
	}
	model, err := d.LLM.model()
	if err != nil {
		return err
	}
	if model == nil {
		model = llm.Scripted{}
	}
	smsURL := d.SMSURL
	if smsURL == "" {
		if d.sms, err = twiliotest.Open(d.log); err != nil {
			return err
		}
		defer d.sms.Close()
		smsURL = d.sms.URL()
	}
	if d.node, err = service.Start(ctx, service.Config{
		DSN: dsn, Migrate: true, Keyring: keyring, Clock: d.clock, Roles: service.All, Shards: d.Shards, RateLimits: d.RateLimits == "on", Inside: true,
		Sessions: devSessions(d.secret, d.clock), BaseURL: base, AccessLog: d.AccessLog, Version: version(), Logger: d.log, Heads: heads, Model: model,
		SMS: service.SMSConfig{URL: smsURL},
	}); err != nil {
		return err
	}
	defer d.stopNode()
	if d.file, err = makeDemo(ctx, d.node.Ledger, d.log); err != nil {
		return err
	}
	for shard := range d.node.Ledger.Shards() {
		if err := d.node.Store.WaitForHead(ctx, shard, projections.All()...); err != nil {
			return err
		}
	}
	if err := d.warnOfLaterEvents(ctx); err != nil {
		return err
	}
	d.file.BaseURL, d.file.ReadURL, d.file.WriteURL = base, base, base
	d.node.RegisterDev(service.Dev{Clock: d.clock})

	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- httpapi.Serve(serving, httpapi.NewServer(d.node.Handler(), d.log), d.listener, 10*time.Second)
	}()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	if err := d.writeFile(); err != nil {
		return err
	}
	d.ready = true
	d.welcome()
	return d.wait(ctx, served)
}

// newestSQL finds the latest time among the last events of each shard. The very last event need not have it, because
// the clock may have been moved back.
const newestSQL = `select max(e.occurred_at) from ledger_heads h, lateral
	(select occurred_at from ledger_events where shard = h.shard and position <= h.position order by position desc limit 1000) e`

// warnOfLaterEvents warns when the ledger has events that are later than the clock's present time: the clock of an
// earlier run was moved ahead, or this one starts in the past. New events get times before those.
func (d *dev) warnOfLaterEvents(ctx context.Context) error {
	var newest *time.Time
	if err := d.node.Ledger.Pool().QueryRow(ctx, newestSQL).Scan(&newest); err != nil {
		return fmt.Errorf("read the newest event time: %w", err)
	}
	if newest != nil && newest.After(d.clock.Now().Add(time.Minute)) {
		d.con.say("note: the clock starts at %s, and earlier runs wrote events until %s; new events get times before those. To continue from there: --clock %[2]s. To begin anew: --data with another directory",
			d.clock.Now().UTC().Format(time.RFC3339), newest.UTC().Format(time.RFC3339))
	}
	return nil
}

// wait returns when the dev has to stop: nil after a signal, else the reason.
func (d *dev) wait(ctx context.Context, served chan error) error {
	var ended <-chan struct{}
	if d.database != nil {
		ended = d.database.Done()
	}
	select {
	case <-ctx.Done():
		d.con.say("stopping")
		return nil
	case err := <-served:
		served <- err
		return nil // serve receives the error from served and returns it
	case <-ended:
		return fmt.Errorf("the private PostgreSQL has ended; its log is %s", d.database.LogFile())
	case err := <-d.node.Failed():
		return err
	}
}

// stopBound is how long the node may take to stop. Without its database it would retry for longer.
const stopBound = 20 * time.Second

func (d *dev) stopNode() {
	stopped := make(chan struct{})
	go func() {
		d.node.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(stopBound):
		d.log.Warn("dev: the node did not stop in time")
	}
}
