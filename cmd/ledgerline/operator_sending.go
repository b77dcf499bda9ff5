package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
)

type keyCommand struct {
	Create keyCreateCommand `cmd:"" help:"Create an API key. Its secret is printed now and never again."`
	List   keyListCommand   `cmd:"" help:"List the API keys of all workspaces, or of one, newest first in each. Secrets are never shown."`
	Revoke keyRevokeCommand `cmd:"" help:"Revoke an API key at once and for ever."`
}

type keyCreateCommand struct {
	installation
	Workspace uuid.UUID  `help:"The workspace." required:"" placeholder:"UUID"`
	Name      string     `help:"Its name." required:"" placeholder:"NAME"`
	Env       string     `help:"live, or test for sandbox traffic (default: ${default})." enum:"live,test" default:"live" placeholder:"live|test"`
	Scope     []string   `help:"read, send or admin; may be repeated." enum:"read,send,admin" required:"" placeholder:"SCOPE"`
	IP        []string   `name:"ip" help:"Only address or network from which the key may be used; may be repeated." placeholder:"CIDR"`
	ExpiresAt *time.Time `help:"When the key expires (RFC 3339). Default: never." placeholder:"TIME"`
}

// Run implements the command.
func (c *keyCreateCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.workspaceRequest(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		made, err := w.App.CreateAPIKey(ctx, req, commands.CreateAPIKey{
			Name: c.Name, Env: apikey.Env(c.Env), Scopes: c.Scope, ExpiresAt: c.ExpiresAt, IPAllowlist: c.IP,
		})
		return map[string]any{"key_id": made.ID, "secret": made.Secret, "prefix": made.Prefix, "env": c.Env, "scopes": c.Scope}, err
	})
}

type keyRevokeCommand struct {
	installation
	ID string `arg:"" help:"The key's id, key_…."`
}

// Run implements the command.
func (c *keyRevokeCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.request(ctx, c.ID, "key")
		if err == nil {
			_, err = w.App.RevokeAPIKey(ctx, req, c.ID, nil)
		}
		return map[string]any{"key_id": c.ID, "revoked": true}, err
	})
}

type poolCommand struct {
	Create poolCreateCommand `cmd:"" help:"Create a pool of lines."`
	List   poolListCommand   `cmd:"" help:"List the pools of all workspaces, or of one."`
}

type poolCreateCommand struct {
	installation
	Workspace uuid.UUID `help:"The workspace." required:"" placeholder:"UUID"`
	Name      string    `help:"Its name, unique in the workspace." required:"" placeholder:"NAME"`
	Rotation  string    `help:"sticky: a contact stays with its line; round_robin: it does not (default: ${default})." enum:"sticky,round_robin" default:"sticky" placeholder:"sticky|round_robin"`
	Fallback  string    `name:"fallback-sms" help:"When to send by SMS instead: off, not_chat or not_chat_or_failed (default: ${default})." enum:"off,not_chat,not_chat_or_failed" default:"off" placeholder:"MODE"`
}

// Run implements the command.
func (c *poolCreateCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.workspaceRequest(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		made, err := w.App.CreatePool(ctx, req, commands.CreatePool{Name: c.Name, Rotation: line.Rotation(c.Rotation), Fallback: line.FallbackMode(c.Fallback)})
		return map[string]any{"pool_id": made.Ref}, err
	})
}

type lineCommand struct {
	Create lineCreateCommand `cmd:"" help:"Put a line into service."`
	List   lineListCommand   `cmd:"" help:"The lines of all workspaces, or of one: their state, pool, health and what they did today."`
	State  lineStateCommand  `cmd:"" help:"Move a line to ready, quarantined or retired."`

	Carrier lineCarrierCommand `cmd:"" help:"Say who carries a line's messages, and with which account."`
}

type lineCreateCommand struct {
	installation
	Workspace uuid.UUID `help:"The workspace." required:"" placeholder:"UUID"`
	Phone     string    `help:"Its number." required:"" placeholder:"NUMBER"`
	Name      string    `help:"Its display name." placeholder:"NAME"`
	Pool      string    `help:"Its pool (default: that of the request, else the workspace's default pool)." placeholder:"POOL"`
	Request   uuid.UUID `help:"The request for lines that it serves." placeholder:"UUID"`
	Carrier   string    `help:"Who carries its messages, simulator or bluebubbles; see also: line carrier." required:"" enum:"simulator,bluebubbles" placeholder:"NAME"`
	Simulated bool      `help:"Accept the simulator outside dev mode, although it sends to nobody."`
	State     string    `help:"The state to begin in: provisioning, ready, warming or active (default: ${default}). A line of bluebubbles begins as provisioning." enum:"provisioning,ready,warming,active" default:"provisioning" placeholder:"STATE"`
}

// Run implements the command.
func (c *lineCreateCommand) Run(ctx context.Context, con *console) error {
	if err := c.checkSimulator(c.Carrier, c.Simulated); err != nil {
		return err
	}
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.workspaceRequest(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		in := commands.ProvisionLine{Phone: c.Phone, PoolID: c.Pool, Carrier: c.Carrier, State: line.State(c.State)}
		if c.Name != "" {
			in.DisplayName = &c.Name
		}
		if c.Request != uuid.Nil {
			in.LineRequestID = &c.Request
		}
		made, err := w.App.ProvisionLine(ctx, req, in)
		return map[string]any{"line_id": made.Ref, "state": c.State}, err
	})
}

type lineStateCommand struct {
	installation
	ID     string `arg:"" help:"The line's id, ln_…."`
	State  string `arg:"" help:"ready, quarantined or retired." enum:"ready,quarantined,retired"`
	Reason string `help:"Reason; the customer sees it." placeholder:"TEXT"`
}

// Run implements the command.
func (c *lineStateCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.request(ctx, c.ID, "line")
		if err != nil {
			return nil, err
		}
		var reason *string
		if c.Reason != "" {
			reason = &c.Reason
		}
		_, err = w.App.ChangeLineState(ctx, req, c.ID, line.State(c.State), reason)
		return map[string]any{"line_id": c.ID, "state": c.State}, err
	})
}
