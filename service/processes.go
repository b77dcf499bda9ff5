package service

import (
	"context"

	"ledgerline/adapters/poster"
	"ledgerline/eventstore/feed"
	"ledgerline/processes"
	"ledgerline/processes/agents"
	"ledgerline/processes/dispatch"
	"ledgerline/processes/outreach"
	"ledgerline/processes/webhooks"
	"ledgerline/processes/workflows"
	"ledgerline/projections"
)

// processList is every process: an empty value, for its name and the events that it consumes, and the function that
// makes it for a node.
var processList = []struct {
	empty feed.Consumer
	make  func(*Node, processes.Config) (processes.Process, error)
}{
	{&dispatch.Process{}, func(n *Node, cfg processes.Config) (processes.Process, error) {
		return dispatch.New(dispatch.Config{Config: cfg, Carriers: n.carriers, SMS: n.sms, Workers: n.cfg.Workers, Metrics: n.metrics})
	}},
	{&processes.Snooze{}, func(_ *Node, cfg processes.Config) (processes.Process, error) { return processes.NewSnooze(cfg) }},
	{&processes.Lines{}, func(_ *Node, cfg processes.Config) (processes.Process, error) { return processes.NewLines(cfg) }},
	{&processes.Importing{}, func(_ *Node, cfg processes.Config) (processes.Process, error) { return processes.NewImporting(cfg) }},
	{&webhooks.Process{}, func(n *Node, cfg processes.Config) (processes.Process, error) {
		post := poster.New(poster.Config{Inside: n.cfg.Inside, TLS: n.cfg.WebhooksTLS})
		n.closers = append(n.closers, post.Close)
		return webhooks.New(webhooks.Config{Config: cfg, Workers: n.cfg.WebhookWorkers}, post)
	}},
	{&agents.Process{}, func(n *Node, cfg processes.Config) (processes.Process, error) { return agents.New(cfg, n.cfg.Model) }},
	{&outreach.Process{}, func(_ *Node, cfg processes.Config) (processes.Process, error) { return outreach.New(cfg) }},
	{&workflows.Process{}, func(_ *Node, cfg processes.Config) (processes.Process, error) { return workflows.New(cfg) }},
	{&processes.Leaving{}, func(_ *Node, cfg processes.Config) (processes.Process, error) { return processes.NewLeaving(cfg) }},
}

// ProcessConsumers are the processes as consumers of the feed, good for their names and event types only.
func ProcessConsumers() []feed.Consumer {
	list := make([]feed.Consumer, len(processList))
	for i, p := range processList {
		list[i] = p.empty
	}
	return list
}

// ConsumerNamed makes the process or finds the projection with a name, to apply parked events. It returns nil when
// there is none. Nothing runs.
func (n *Node) ConsumerNamed(name string) (feed.Consumer, error) {
	if p := projections.Named(name); p != nil {
		return p, nil
	}
	for _, listed := range processList {
		if listed.empty.Name() == name {
			return listed.make(n, n.processConfig())
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

func (n *Node) processConfig() processes.Config {
	return processes.Config{App: n.App, Ledger: n.Ledger, Store: n.Store, Clock: n.Clock, Lease: n.cfg.Lease, Logger: n.cfg.Logger}
}

// startProcesses makes, prepares and runs every process.
func (n *Node) startProcesses(ctx, run context.Context) error {
	cfg := n.processConfig()
	cfg.Metrics = processes.NewMetrics(n.metrics)
	for _, listed := range processList {
		p, err := listed.make(n, cfg)
		if err != nil {
			return err
		}
		if err := processes.Prepare(ctx, n.Ledger, p.Name()); err != nil {
			return err
		}
		n.processes = append(n.processes, p)
		if runs, err := n.mayRun(ctx, p.Name()); err != nil {
			return err
		} else if runs {
			n.run(run, p.Name(), p.Run)
		}
	}
	return nil
}

// WakeWebhooks makes the node look for webhook endpoints to serve now, for tests that change the database themselves.
func (n *Node) WakeWebhooks() {
	for _, p := range n.processes {
		if w, ok := p.(*webhooks.Process); ok {
			w.Wake()
		}
	}
}
