// Package commands holds everything that can be asked of the service. Each command loads aggregates, lets the domain
// decide, and appends events; package engine carries that out. Package sending has the commands of sending messages.
// The commands know nothing of HTTP.
//
// Every command takes a Request, which names the organisation, the workspace and the caller, and returns a Result.
// A refusal is a *fault.Fault.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"ledgerline/commands/engine"
	"ledgerline/commands/sending"
	"ledgerline/domain/line"
	"ledgerline/domain/workflow"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// Types of other packages that callers of commands need, so that they need not import those packages.
type (
	IDs     = engine.IDs
	Request = engine.Request
	Result  = engine.Result

	Actor                   = events.Actor
	Media                   = events.Media
	Guard                   = eventstore.Guard
	IdempotencyRecord       = eventstore.IdempotencyRecord // the stored answer for an idempotency key
	IdempotencyRecordExists = eventstore.IdempotencyRecordExists
)

// ErrCredentialChanged is engine.ErrCredentialChanged.
var ErrCredentialChanged = engine.ErrCredentialChanged

// Config configures an App. Ledger is required; the other fields have defaults.
type Config struct {
	Ledger *eventstore.Ledger
	IDs    IDs          // default: random TypeIDs and UUIDv7s
	Random io.Reader    // source of secrets; default: crypto/rand
	Logger *slog.Logger // default: slog.Default()
	Cache  int          // number of aggregate states of each kind kept in memory; default 65,536
	// SMS reports whether the carrier of a line can send its messages by SMS; default: none can.
	SMS func(line.Line) bool
	// MayAppend says whether this node may write to the ledger now; default: always. Its error is the cause of a refusal.
	MayAppend func() error
	// InsideWebhooks accepts http and private addresses for webhook endpoints too.
	InsideWebhooks bool
	// Model says that the installation has a model endpoint, without which agents cannot become live.
	Model bool
}

// App carries out commands. It is safe for concurrent use.
type App struct {
	// Sending has the commands of sending messages.
	Sending *sending.Sender

	engine         *engine.Engine
	apiKeyCheck    []byte // key of the check digits that tell our API key secrets from others
	triggerTokens  []byte // key of the tokens of webhook triggers
	insideWebhooks bool
	hasModel       bool // agents can become live
}

// New makes an App.
func New(cfg Config) (*App, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("commands: a ledger is needed")
	}
	e, err := engine.New(engine.Config{
		Ledger: cfg.Ledger, IDs: cfg.IDs, Random: cfg.Random, Logger: cfg.Logger, Cache: cfg.Cache, MayAppend: cfg.MayAppend,
	})
	if err != nil {
		return nil, err
	}
	sender, err := sending.New(sending.Config{Engine: e, SMS: cfg.SMS, Cache: cfg.Cache})
	if err != nil {
		return nil, err
	}
	return &App{
		Sending: sender, engine: e, apiKeyCheck: cfg.Ledger.Keyring().DeriveKey("api key check"),
		triggerTokens: cfg.Ledger.Keyring().DeriveKey(workflow.TokenKey), insideWebhooks: cfg.InsideWebhooks, hasModel: cfg.Model,
	}, nil
}

// unit is the engine's unit of work with the loads and checks that several commands share.
type unit struct {
	*engine.Unit
	app *App
}

// run carries out a command; see engine.Engine.Run.
func (a *App) run(ctx context.Context, req Request, decide func(context.Context, *unit) error) (Result, error) {
	return a.engine.Run(ctx, req, func(ctx context.Context, u *engine.Unit) error { return decide(ctx, &unit{u, a}) })
}

// unit makes a unit of work that is only read from.
func (a *App) unit(req *Request) *unit { return &unit{a.engine.Unit(req), a} }

// random fills b from the source of secrets.
func (a *App) random(b []byte) error {
	if _, err := io.ReadFull(a.engine.Random, b); err != nil {
		return fmt.Errorf("commands: randomness: %w", err)
	}
	return nil
}

// renderAnswer renders the answer of a request, so that it commits with the idempotency record. It is for answers that
// no read model can give again, because they show a secret, and for answers that do not wait for a read model. A nil
// render stores no answer.
func renderAnswer[T any](u *unit, result T, render func(T) ([]byte, error)) (err error) {
	if render == nil {
		return nil
	}
	if u.Body, err = render(result); err != nil {
		return fmt.Errorf("commands: render answer: %w", err)
	}
	return nil
}

// StoreRefusal stores the answer of a refused request in its idempotency record, so that a retry gets the same answer.
// The error wraps *eventstore.IdempotencyRecordExists when another answer was stored first.
func (a *App) StoreRefusal(ctx context.Context, req Request) error {
	_, err := a.run(ctx, req, func(context.Context, *unit) error { return nil })
	return err
}
