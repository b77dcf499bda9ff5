// Package bench measures the service beside raw baselines in the same run, on a real PostgreSQL with fsync on. Timings
// differ between machines and runs, so compare the ratios.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/httpapi"
	"ledgerline/localpg"
	"ledgerline/service"
)

// Config configures Run.
type Config struct {
	Only    []string      // names of measurements; empty: all
	For     time.Duration // how long each timed part runs
	Callers int           // concurrent callers; 64
	Events  int           // size of the ledger that is replayed
	DataDir string        // where the private server lives; a temporary directory when empty
	Out     io.Writer     // the table
	JSON    io.Writer     // one JSON object per figure; nil: none
	Log     io.Writer     // progress
}

// Figure is one result.
type Figure struct {
	Measurement string  `json:"measurement"`
	What        string  `json:"what"`
	Value       float64 `json:"value"`
	Unit        string  `json:"unit"`
	// Baseline is the raw baseline of the same run, and Ratio the value divided by it; 0 when there is none.
	Baseline float64 `json:"baseline,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"`
	// Goal describes the value that must be reached.
	Goal string `json:"goal,omitempty"`
}

type bench struct {
	Config
	server *localpg.Server
	ring   *eventstore.Keyring
	names  int
}

type measurement struct {
	name string
	run  func(context.Context, *bench) error
}

var measurements = []measurement{
	// Idle comes first: after a load the server still vacuums and writes checkpoints.
	{"idle", measureIdle}, {"append", measureAppend}, {"messages", measureMessages}, {"visible", measureVisible},
	{"delivery", measureDelivery}, {"waiting", measureWaiting}, {"replay", measureReplay}, {"inbox", measureConversations}, {"export", measureExport}, {"import", measureImport}, {"contacts", measureContacts}, {"webhooks", measureWebhooks}, {"workflows", measureWorkflows},
}

// Run runs the measurements and prints their figures.
func Run(ctx context.Context, cfg Config) error {
	for _, name := range cfg.Only {
		if !slices.ContainsFunc(measurements, func(m measurement) bool { return m.name == name }) {
			return fmt.Errorf("bench: there is no measurement %q", name)
		}
	}
	dir := cfg.DataDir
	if dir == "" {
		temporary, err := os.MkdirTemp("/var/tmp", "ledgerline-bench")
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		defer func() { _ = os.RemoveAll(temporary) }()
		if err := os.Chmod(temporary, 0o755); err != nil { //nolint:gosec // the database's user passes through
			return fmt.Errorf("bench: %w", err)
		}
		dir = temporary
	}
	ring, _, err := eventstore.NewKeyring()
	if err != nil {
		return err
	}
	b := &bench{Config: cfg, ring: ring}
	b.server, err = localpg.Start(ctx, localpg.Config{
		DataDir: filepath.Join(dir, "postgres"), Progress: b.say,
		Settings: map[string]string{"fsync": "on", "synchronous_commit": "on", "max_wal_size": "4GB"},
	})
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer func() { _ = b.server.Stop(context.WithoutCancel(ctx)) }()
	_, _ = fmt.Fprintf(b.Out, "ledgerline bench: %d cores, %s, %d callers\n\n", runtime.NumCPU(), runtime.Version(), cfg.Callers)
	for _, m := range measurements {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, m.name) {
			continue
		}
		b.say("measuring " + m.name)
		if err := m.run(ctx, b); err != nil {
			return fmt.Errorf("bench: %s: %w", m.name, err)
		}
	}
	return nil
}

func (b *bench) say(text string) { _, _ = fmt.Fprintln(b.Log, "bench:", text) }

// report prints a figure.
func (b *bench) report(f Figure) {
	if f.Baseline > 0 {
		f.Ratio = f.Value / f.Baseline
	}
	line := fmt.Sprintf("%-9s %-58s %12.1f %-10s", f.Measurement, f.What, f.Value, f.Unit)
	if f.Ratio > 0 {
		line += fmt.Sprintf(" %6.2f × baseline %.1f", f.Ratio, f.Baseline)
	}
	if f.Goal != "" {
		line += "   (goal: " + f.Goal + ")"
	}
	_, _ = fmt.Fprintln(b.Out, strings.TrimRight(line, " "))
	if b.JSON != nil {
		if err := json.NewEncoder(b.JSON).Encode(f); err != nil {
			b.say("a figure was not written: " + err.Error())
		}
	}
}

// database creates an empty database and returns its address.
func (b *bench) database(ctx context.Context) (string, error) {
	b.names++
	name := fmt.Sprintf("bench%d", b.names)
	if err := b.server.EnsureDatabase(ctx, name); err != nil {
		return "", err
	}
	return b.server.DSN(name), nil
}

// site is a node with an organisation, a workspace, three lines and a key.
type site struct {
	*service.Node
	pool   *pgxpool.Pool
	dsn    string
	log    *slog.Logger
	org    uuid.UUID
	wsp    uuid.UUID
	secret string
}

func (b *bench) site(ctx context.Context, roles service.Roles) (*site, error) {
	dsn, err := b.database(ctx)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(b.Log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	node, err := service.Start(ctx, service.Config{
		DSN: dsn, Migrate: true, Keyring: b.ring, Roles: roles, Inside: true, Clock: noon(), Logger: log, Requests: httpapi.Requests{Total: -1},
	})
	if err != nil {
		return nil, err
	}
	s := &site{Node: node, pool: node.Ledger.Pool(), dsn: dsn, log: log}
	if err := s.createData(ctx); err != nil {
		node.Stop()
		return nil, err
	}
	return s, nil
}

func (s *site) request() commands.Request {
	return commands.Request{Organisation: s.org, Workspace: s.wsp, Actor: events.Actor{Type: "operator"}, RequestID: "bench"}
}

func (s *site) createData(ctx context.Context) error {
	org, err := s.App.CreateOrganisation(ctx, s.request(), "Bench", "America/New_York")
	if err != nil {
		return err
	}
	if s.org, err = uuid.Parse(org.Ref); err != nil {
		return err
	}
	if _, err := s.App.SetSendingLimits(ctx, s.request(), roomy()); err != nil {
		return err
	}
	w, err := s.App.CreateWorkspace(ctx, s.request(), "Bench")
	if err != nil {
		return err
	}
	s.wsp = w.ID
	for i := range 3 {
		if _, err := s.App.ProvisionLine(ctx, s.request(), commands.ProvisionLine{
			Phone: fmt.Sprintf("+1212555%04d", 1000+i), State: line.Active, Carrier: service.SimulatorCarrier,
		}); err != nil {
			return err
		}
	}
	key, err := s.App.CreateAPIKey(ctx, s.request(), commands.CreateAPIKey{Name: "Bench", Env: apikey.Live, Scopes: []string{"read", "send", "admin"}})
	if err != nil {
		return err
	}
	s.secret = key.Secret
	return nil
}

// noon returns a clock that starts at the next noon in New York, when quiet hours are over on both coasts.
func noon() clock.Clock {
	c := clock.Running()
	at := c.Now().Truncate(24 * time.Hour).Add(24*time.Hour + 17*time.Hour)
	if _, err := c.Set(at); err != nil {
		panic(err) // noon is in the future
	}
	return c
}

// roomy returns limits that are checked for every message and never reached.
func roomy() line.Limits {
	const plenty = 1 << 30
	l := line.DefaultLimits()
	l.IdenticalTextMaxPerDay, l.NewContactsPerDay, l.NewContactsPerHour, l.SendsPerDay = plenty, plenty, plenty, plenty
	l.PreReplyMaxMessages, l.UnansweredStreakPause, l.ReplyRatioMin = plenty, plenty, 0
	return l
}

// percentile of durations that need not be sorted, in milliseconds.
func percentile(all []time.Duration, p float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	i := min(int(p*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i].Microseconds()) / 1000
}
