package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/service"
)

// replayCommand rebuilds read models from the ledger.
type replayCommand struct {
	installation
	Name []string `arg:"" optional:"" help:"The read models; see: ledgerline projections list."`
	All  bool     `help:"All read models."`
	AsOf string   `help:"Build the read models as they were at this time (RFC 3339), in a schema of their own for analysts. Data that was erased since stays erased." placeholder:"TIME"`
	Into string   `help:"Name of that schema; it must not exist." placeholder:"SCHEMA"`
}

// Run implements the command. Without --as-of it builds a new revision beside the present one and switches to it when
// it has caught up.
func (c *replayCommand) Run(ctx context.Context, con *console) error {
	chosen, err := c.projections()
	if err != nil {
		return err
	}
	var at time.Time
	if (c.AsOf == "") != (c.Into == "") {
		return usage("--as-of and --into belong together")
	}
	if c.AsOf != "" {
		if at, err = time.Parse(time.RFC3339Nano, c.AsOf); err != nil {
			return usage("--as-of %q is not a time in RFC 3339", c.AsOf)
		}
	}
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return err
	}
	defer w.Close()
	p := newProgress(con)
	if c.AsOf != "" {
		if err := readmodel.AsOf(ctx, w.Ledger, chosen, at, c.Into, p.report); err != nil {
			return err
		}
		return con.print(map[string]any{"schema": c.Into, "as_of": at.UTC(), "projections": names(chosen)})
	}
	replayed, err := readmodel.ReplayAll(ctx, w.Ledger, chosen, p.report)
	if err != nil {
		return err
	}
	type line struct {
		Projection string  `json:"projection"`
		Revision   int     `json:"revision"`
		Events     int64   `json:"events"`
		Seconds    float64 `json:"seconds"`
		Rate       int64   `json:"events_per_second"`
	}
	lines := make([]line, len(replayed))
	for i, r := range replayed {
		lines[i] = line{r.Projection, r.Revision, r.Events, float64(r.Took.Milliseconds()) / 1000, rate(r.Events, r.Took)}
	}
	return con.print(map[string]any{"replayed": lines})
}

func (c *replayCommand) projections() ([]*readmodel.Projection, error) {
	all := projections.All()
	known := strings.Join(names(all), ", ")
	if c.All == (len(c.Name) > 0) {
		return nil, usage("name the read models or use --all; there are: %s", known)
	}
	if c.All {
		return all, nil
	}
	var chosen []*readmodel.Projection
	for _, name := range c.Name {
		p := projections.Named(name)
		if p == nil {
			return nil, usage("there is no read model %q; there are: %s", name, known)
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

func names(ps []*readmodel.Projection) []string {
	list := make([]string, len(ps))
	for i, p := range ps {
		list[i] = p.ID
	}
	return list
}

func rate(events int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(events) / took.Seconds())
}

// progress prints how far replays are, at most every reportEvery per read model.
type progress struct {
	con *console

	mu   sync.Mutex
	runs map[string]*replayRun
}

type replayRun struct {
	began, reported time.Time
}

func newProgress(con *console) *progress { return &progress{con: con, runs: map[string]*replayRun{}} }

const reportEvery = 2 * time.Second

func (p *progress) report(of *readmodel.Projection, done, head int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	run := p.runs[of.ID]
	if run == nil {
		run = &replayRun{began: now, reported: now}
		p.runs[of.ID] = run
	}
	if now.Sub(run.reported) < reportEvery {
		return
	}
	run.reported = now
	share := ""
	if head > 0 {
		share = fmt.Sprintf(" (%d %%)", 100*done/head)
	}
	p.con.say("%s: %d of %d%s, %d events/s", of.ID, done, head, share, rate(done, now.Sub(run.began)))
}
