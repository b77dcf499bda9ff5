// Package sending has the commands that bring an accepted message to its carrier: begin an attempt, complete it, record
// receipts, cancel. The rules themselves are pure and live in domain/rules.
package sending

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
)

// Config configures a Sender. Engine is required.
type Config struct {
	Engine *engine.Engine
	// SMS reports whether the carrier of a line can send its messages by SMS; default: none can. Messages of other lines
	// need an SMS connection.
	SMS   func(line.Line) bool
	Cache int // number of lines whose usage is remembered; default 65,536
}

// Sender carries out the commands of sending. It is safe for concurrent use.
type Sender struct {
	engine     *engine.Engine
	sms        func(line.Line) bool
	usage      *usageCache
	zones      *lru.Cache[string, *time.Location]
	textSecret []byte // key of the hashes of texts, see textHash
}

// SMSOptedOut is the error code of a message that the SMS provider refuses because the number opted out there, and
// SourceSMSProvider the source of the opt-out that follows (rule SMS-22).
const (
	SMSOptedOut       = "sms_21610"
	SourceSMSProvider = "sms_provider"
)

// maxZones is more than the number of time zones that exist.
const maxZones = 1024

// New makes a Sender.
func New(cfg Config) (*Sender, error) {
	if cfg.SMS == nil {
		cfg.SMS = func(line.Line) bool { return false }
	}
	if cfg.Cache == 0 {
		cfg.Cache = 1 << 16
	}
	zones, err := lru.New[string, *time.Location](maxZones)
	if err != nil {
		return nil, fmt.Errorf("commands: cache: %w", err)
	}
	used, err := newUsageCache(cfg.Engine.Ledger, cfg.Cache)
	if err != nil {
		return nil, fmt.Errorf("commands: cache: %w", err)
	}
	cfg.Engine.Ledger.OnRewind(used.lines.Purge)
	cfg.Engine.Ledger.OnRewind(used.identities.Purge)
	cfg.Engine.OnQuotaExceeded(used.quotaExceeded)
	return &Sender{
		engine: cfg.Engine, sms: cfg.SMS, usage: used, zones: zones, textSecret: cfg.Engine.Ledger.Keyring().DeriveKey("identical texts"),
	}, nil
}

// unit is the engine's unit of work, extended for the commands of sending.
type unit struct {
	*engine.Unit
	sender *Sender
	// dryRun: read usage from the ledger, because no append will reveal that the cached usage is wrong.
	dryRun bool
	// nothingUsed: assume that lines and identities have used nothing, because the dry run is for another usage day.
	nothingUsed bool
}

func (s *Sender) run(ctx context.Context, req engine.Request, decide func(context.Context, *unit) error) (engine.Result, error) {
	return s.engine.Run(ctx, req, func(ctx context.Context, u *engine.Unit) error { return decide(ctx, &unit{Unit: u, sender: s}) })
}
