// Package crash kills the service and its PostgreSQL again and again under load, and checks that nothing is lost. A
// trial is an installation of its own: a private PostgreSQL server with fsync on, a node with all roles as a process of
// its own, and callers that write over HTTP as careful clients do, with an idempotency key that they repeat until they
// are answered. Afterwards everything that was answered must be there, and everything that happened must have happened
// once.
package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"text/tabwriter"
	"time"
)

// Config configures Run.
type Config struct {
	Rounds  int           // kills: of the node in odd rounds, of PostgreSQL in even ones
	Shards  []int         // one trial for each number of shards
	Callers int           // concurrent clients
	For     time.Duration // how long a round lasts, at least
	Seed    uint64        // seed of the writes and of the kill times; 0: random. It is printed, so that a run can be repeated
	Node    []string      // the command that runs Node with its own standard input and output
	DataDir string        // parent of the trials' directories; the system's when empty. The directory of a trial with violations is kept
	Out     io.Writer     // the table and the violations
	Log     io.Writer     // progress
}

// Report is what a trial found.
type Report struct {
	Shards        int
	Rounds        int
	NodeKills     int
	PostgresKills int
	Answered      int   // writes
	Refused       int   // of them: refusals that are stored under their key
	Repeated      int64 // requests that had to be made again: broken connections and 5xx
	Messages      int   // accepted and received
	Events        int64
	Sends         int64 // taken by the simulator
	Reconciled    int   // sends whose result was looked up at the carrier later
	Asked         int   // of them: sends without any receipt
	Rebuilt       int   // answers that a retry built from the read model
	Took          time.Duration
	Violations    []string
}

// ErrViolated says that a trial has found violations; they are in its report.
var ErrViolated = errors.New("crash: a promise of the service was broken")

// Run runs the trials one after the other and prints their reports. The error wraps ErrViolated if a trial found
// violations; any other error means that a trial could not be run.
func Run(ctx context.Context, cfg Config) ([]Report, error) {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64() //nolint:gosec // a seed that is logged is no secret
	}
	if cfg.Rounds < 1 || cfg.Callers < 1 || len(cfg.Shards) == 0 || cfg.For <= 0 || len(cfg.Node) == 0 {
		return nil, errors.New("crash: rounds, callers, shards, a duration and the node's command are needed")
	}
	var reports []Report
	for _, shards := range cfg.Shards {
		r, err := runTrial(ctx, cfg, shards)
		if err != nil {
			return reports, fmt.Errorf("crash: %d shards: %w", shards, err)
		}
		reports = append(reports, r)
	}
	return reports, printReports(cfg, reports)
}

// runTrial makes one trial in a directory of its own.
func runTrial(ctx context.Context, cfg Config, shards int) (Report, error) {
	dir, err := os.MkdirTemp(cfg.DataDir, "ledgerline-crash")
	if err != nil {
		return Report{}, fmt.Errorf("make a directory: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the database's user passes through
		return Report{}, fmt.Errorf("open the directory: %w", err)
	}
	t := &trial{Config: cfg, shards: shards, dir: dir, random: rand.New(rand.NewPCG(cfg.Seed, uint64(shards)))} //nolint:gosec // repeatable on purpose
	t.report.Shards, t.report.Rounds = shards, cfg.Rounds
	began := time.Now()
	err = t.run(ctx)
	t.report.Took, t.report.Violations = time.Since(began), t.violations.list()
	if err == nil && len(t.report.Violations) == 0 {
		return t.report, os.RemoveAll(dir)
	}
	_, _ = fmt.Fprintf(cfg.Log, "crash: the data of this trial is kept in %s\n", dir)
	return t.report, err
}

// printReports prints the table and the violations.
func printReports(cfg Config, reports []Report) error {
	w := tabwriter.NewWriter(cfg.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(cfg.Out, "ledgerline crash: %d callers, seed %d\n\n", cfg.Callers, cfg.Seed)
	_, _ = fmt.Fprintln(w, "shards\trounds\tnode killed\tPostgreSQL killed\twrites answered\trefusals of them\trequests repeated\tmessages\tevents\tsends\treconciled\tby asking\ttook\tviolations\t")
	total := 0
	for i := range reports {
		r := &reports[i]
		_, _ = fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t\n", r.Shards, r.Rounds, r.NodeKills, r.PostgresKills,
			r.Answered, r.Refused, r.Repeated, r.Messages, r.Events, r.Sends, r.Reconciled, r.Asked, r.Took.Round(time.Second), len(r.Violations))
		total += len(r.Violations)
	}
	_ = w.Flush()
	if total == 0 {
		return nil
	}
	for i := range reports {
		for _, v := range reports[i].Violations {
			_, _ = fmt.Fprintf(cfg.Out, "%d shards: %s\n", reports[i].Shards, v)
		}
	}
	return fmt.Errorf("%w: %d violations", ErrViolated, total)
}
