// Package commands is everything that can be asked of the service: each command loads what it needs, lets the domain
// decide, and appends. It knows nothing of HTTP.
//
// A command first decides on what this process remembers, so that the usual one is a single append and no question to
// the database; the append states the versions it was decided at, and a conflict loads and decides again. A refusal is
// told only after a decision on the ledger's present.
package commands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"go.jetify.com/typeid/v2"

	"ledgerline/domain/apikey"
	"ledgerline/domain/contact"
	"ledgerline/domain/conversation"
	"ledgerline/domain/exchange"
	"ledgerline/domain/identity"
	"ledgerline/domain/importjob"
	"ledgerline/domain/label"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/number"
	"ledgerline/domain/organisation"
	"ledgerline/domain/phone"
	"ledgerline/domain/savedreply"
	"ledgerline/domain/segment"
	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// IDs makes identifiers.
type IDs interface {
	// TypeID makes a prefixed id, for example ctc_01jd….
	TypeID(prefix string) string
	// UUID makes a UUIDv7.
	UUID() uuid.UUID
}

// Config says what an App needs. Zero values are filled in where a default is stated.
type Config struct {
	Ledger *eventstore.Ledger
	IDs    IDs          // default: real ones
	Random io.Reader    // of secrets; default: crypto/rand
	Logger *slog.Logger // default: slog.Default()
	Cache  int          // states of each kind kept in memory; default 65,536
	// SMS tells whether messages of lines with a carrier can go by SMS; default: none can.
	SMS func(carrier string) bool
	// PlainWebhooks takes http:// addresses for webhook endpoints too.
	PlainWebhooks bool
}

// App carries out commands. It is safe for concurrent use.
type App struct {
	ledger   *eventstore.Ledger
	ids      IDs
	random   io.Reader
	log      *slog.Logger
	turns    turns
	checkKey []byte // proves that a secret was made here

	plainWebhooks bool

	organisations kind[organisation.Organisation]
	workspaces    kind[organisation.Workspace]
	users         kind[organisation.User]
	teams         kind[organisation.Team]
	keys          kind[apikey.Key]
	identities    kind[identity.Identity]
	labels        kind[label.Label]
	segments      kind[segment.Segment]
	contacts      kind[contact.Contact]
	numbers       kind[number.Number]
	conversations kind[conversation.Conversation]
	notes         kind[conversation.Note]
	savedReplies  kind[savedreply.SavedReply]
	messages      kind[message.Message]
	lines         kind[line.Line]
	pools         kind[line.Pool]
	lineRequests  kind[line.Requests]
	exchanges     kind[exchange.Exchange]
	imports       kind[importjob.Job]
	webhooks      kind[webhook.Endpoint]

	sms        func(carrier string) bool
	usages     *usages
	zones      *lru.Cache[string, *time.Location]
	textSecret []byte // knows texts by a keyed hash
	// What a claim was found to belong to: phones of lines, secrets of keys, names of labels. Names move: see ownerNow.
	owners *lru.Cache[owned, string]
	// Numbers as they were typed, and in E.164: reading one takes longer than all else that accepting a message asks of
	// the processor.
	phones *lru.Cache[string, string]
}

type owned struct{ scope, key string }

// maxZones is more than there are time zones.
const maxZones = 1024

// New makes an App.
func New(cfg Config) (*App, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("commands: a ledger is needed")
	}
	if cfg.IDs == nil {
		cfg.IDs = realIDs{}
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.SMS == nil {
		cfg.SMS = func(string) bool { return false }
	}
	if cfg.Cache == 0 {
		cfg.Cache = 1 << 16
	}
	owners, err := lru.New[owned, string](cfg.Cache)
	if err != nil {
		return nil, fmt.Errorf("commands: cache: %w", err)
	}
	phones, err := lru.New[string, string](cfg.Cache)
	if err != nil {
		return nil, fmt.Errorf("commands: cache: %w", err)
	}
	zones, err := lru.New[string, *time.Location](maxZones)
	if err != nil {
		return nil, fmt.Errorf("commands: cache: %w", err)
	}
	used, err := newUsages(cfg.Ledger, cfg.Cache)
	if err != nil {
		return nil, fmt.Errorf("commands: cache: %w", err)
	}
	l, n := cfg.Ledger, cfg.Cache
	return &App{
		sms: cfg.SMS, usages: used, zones: zones, textSecret: l.Keyring().Derive("identical texts"),
		ledger: l, ids: cfg.IDs, random: cfg.Random, log: cfg.Logger, turns: newTurns(), owners: owners, phones: phones,
		checkKey:      l.Keyring().Derive("api key check"),
		organisations: newKind[organisation.Organisation](l, "org_", n),
		workspaces:    newKind[organisation.Workspace](l, "wsp_", n),
		users:         newKind[organisation.User](l, "usr_", n),
		teams:         newKind[organisation.Team](l, "team_", n),
		keys:          newKind[apikey.Key](l, "key_", n),
		identities:    newKind[identity.Identity](l, "idn_", n),
		labels:        newKind[label.Label](l, "lbl_", n),
		segments:      newKind[segment.Segment](l, "seg_", max(n/16, 1)),
		contacts:      newKind[contact.Contact](l, "ctc_", n),
		numbers:       newKind[number.Number](l, "num_", n),
		conversations: newKind[conversation.Conversation](l, "cnv_", n),
		notes:         newKind[conversation.Note](l, "note_", 1), // they are made and never looked at again
		savedReplies:  newKind[savedreply.SavedReply](l, "srp_", max(n/64, 1)),
		messages:      newKind[message.Message](l, "msg_", max(n/4, 1)), // they hold bodies, and are done with soon
		lines:         newKind[line.Line](l, "ln_", n),
		pools:         newKind[line.Pool](l, "pool_", n),
		lineRequests:  newKind[line.Requests](l, "lrq_", max(n/64, 1)),
		exchanges:     newKind[exchange.Exchange](l, "xch_", n),
		imports:       newKind[importjob.Job](l, "imp_", max(n/64, 1)),
		webhooks:      newKind[webhook.Endpoint](l, "whk_", n), plainWebhooks: cfg.PlainWebhooks,
	}, nil
}

// Request is who asks, why, and through what.
type Request struct {
	Organisation uuid.UUID
	Workspace    uuid.UUID // uuid.Nil for what concerns the organisation itself
	Actor        events.Actor
	RequestID    string
	IP           string
	UserAgent    string
	Test         bool // through a test key
	// Guards are the versions at which the caller was let in; see Access.
	Guards []eventstore.Guard
	// Receipt makes the command idempotent. The caller sets Workspace, Key, Fingerprint and Status; the command adds
	// Ref, Subject and, where it knows the answer, Body.
	Receipt     *eventstore.Receipt
	Causation   uuid.UUID
	Correlation uuid.UUID
}

// Result tells what a command made or changed, and from where on it can be read.
type Result struct {
	Ref      string // id of the resource
	Shard    int
	Position int64 // a reader that has come this far sees it
	At       time.Time
}

// ErrCredentialChanged refuses a command because the credential, the role or the organisation it was let in with has
// changed: authenticate again, on fresh state, and repeat it. Nothing was written.
var ErrCredentialChanged = errors.New("commands: what the caller was let in with has changed")

// KeepRefusal stores the answer of a request that was refused, so that a retry gets the same (decisions section 4).
// The receipt carries status and body. An *eventstore.ReceiptExists in the error tells that another answer was first.
func (a *App) KeepRefusal(ctx context.Context, req Request) error {
	_, err := a.run(ctx, req, func(context.Context, *unit) error { return nil })
	return err
}

// phone is phone.Parse with a memory.
func (a *App) phone(input, pointer string) (string, error) {
	const longest = 64 // what is kept is bounded in size too
	if e164, ok := a.phones.Get(input); ok {
		return e164, nil
	}
	e164, err := phone.Parse(input, pointer)
	if err == nil && len(input) <= longest {
		a.phones.Add(strings.Clone(input), e164)
	}
	return e164, err
}

type realIDs struct{}

func (realIDs) TypeID(prefix string) string { return typeid.MustGenerate(prefix).String() }
func (realIDs) UUID() uuid.UUID             { return eventstore.NewID() }
