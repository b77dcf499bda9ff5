package service

import (
	"context"

	"ledgerline/adapters/poster"
	"ledgerline/processes"
)

// webhooks starts what tells events to the endpoints of the workspaces.
func (n *Node) webhooks(ctx, run context.Context) (*processes.Webhooks, error) {
	post := poster.New(poster.Config{Inside: n.cfg.Inside, TLS: n.cfg.WebhooksTLS})
	webhooks, err := processes.NewWebhooks(processes.WebhooksConfig{
		App: n.App, Store: n.Store, Ledger: n.Ledger, Clock: n.Clock, Poster: post, Lease: n.cfg.Lease, Logger: n.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	if err := processes.Prepare(ctx, n.Ledger, webhooks.Name()); err != nil {
		return nil, err
	}
	n.wakeWebhooks = webhooks.Wake
	n.goes(run, "webhooks", func(ctx context.Context) error {
		defer post.Close()
		return webhooks.Run(ctx)
	})
	return webhooks, nil
}

// WakeWebhooks has the node look for endpoints to serve now, for tests that changed something behind its back.
func (n *Node) WakeWebhooks() {
	if n.wakeWebhooks != nil {
		n.wakeWebhooks()
	}
}
