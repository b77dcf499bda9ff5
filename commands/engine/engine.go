// Package engine carries out commands: it loads aggregates, lets a decision record events, appends them to the ledger
// in one step, and decides again when another command has changed one of them meanwhile.
//
// A command first decides on cached states, so that the usual command is a single append without a query before it. The
// append is guarded by the stream versions that the decision was based on. When a guard fails, nothing is written, and
// the command decides again on states loaded from the ledger. A refusal is returned only after a decision on the
// ledger's present state.
package engine

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

	"ledgerline/domain/agent"
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
	"ledgerline/domain/outreach"
	"ledgerline/domain/phone"
	"ledgerline/domain/savedreply"
	"ledgerline/domain/segment"
	"ledgerline/domain/smsconnection"
	"ledgerline/domain/webhook"
	"ledgerline/domain/workflow"
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

// Config configures an Engine. Ledger is required; the other fields have defaults.
type Config struct {
	Ledger *eventstore.Ledger
	IDs    IDs          // default: random TypeIDs and UUIDv7s
	Random io.Reader    // source of secrets; default: crypto/rand
	Logger *slog.Logger // default: slog.Default()
	Cache  int          // number of aggregate states of each kind kept in memory; default 65,536
	// MayAppend says whether this node may append now; default: always.
	MayAppend func() error
}

// Engine runs commands on one ledger. It is safe for concurrent use.
type Engine struct {
	Ledger *eventstore.Ledger
	IDs    IDs
	Random io.Reader
	Log    *slog.Logger

	mayAppend func() error

	Organisations  Kind[organisation.Organisation]
	Workspaces     Kind[organisation.Workspace]
	Users          Kind[organisation.User]
	Teams          Kind[organisation.Team]
	Keys           Kind[apikey.Key]
	Identities     Kind[identity.Identity]
	Labels         Kind[label.Label]
	Segments       Kind[segment.Segment]
	Contacts       Kind[contact.Contact]
	Numbers        Kind[number.Number]
	Conversations  Kind[conversation.Conversation]
	Notes          Kind[conversation.Note]
	SavedReplies   Kind[savedreply.SavedReply]
	Messages       Kind[message.Message]
	Lines          Kind[line.Line]
	Pools          Kind[line.Pool]
	LineRequests   Kind[line.Requests]
	Exchanges      Kind[exchange.Exchange]
	Imports        Kind[importjob.Job]
	Webhooks       Kind[webhook.Endpoint]
	Workflows      Kind[workflow.Workflow]
	Versions       Kind[workflow.Version]
	Runs           Kind[workflow.Run]
	Agents         Kind[agent.Agent]
	SMSConnections Kind[smsconnection.Connection]
	Outreaches     Kind[outreach.Outreach]
	OutreachLists  Kind[outreach.List]
	Recipients     Kind[outreach.Recipient]

	locks           streamLocks
	owners          *lru.Cache[claimName, string] // cache of the owners of claims
	phones          *lru.Cache[string, string]    // cache of E.164 numbers, by the text that was parsed
	onQuotaExceeded []func(*eventstore.QuotaExceeded)
}

// claimName identifies a claim: a key that is unique within its scope.
type claimName struct{ scope, key string }

// New makes an Engine.
func New(cfg Config) (*Engine, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("commands: a ledger is needed")
	}
	if cfg.IDs == nil {
		cfg.IDs = randomIDs{}
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.MayAppend == nil {
		cfg.MayAppend = func() error { return nil }
	}
	if cfg.Cache == 0 {
		cfg.Cache = 1 << 16
	}
	owners, err := lru.New[claimName, string](cfg.Cache)
	if err != nil {
		return nil, fmt.Errorf("commands: cache: %w", err)
	}
	phones, err := lru.New[string, string](cfg.Cache)
	if err != nil {
		return nil, fmt.Errorf("commands: cache: %w", err)
	}
	l, n := cfg.Ledger, cfg.Cache
	l.OnRewind(owners.Purge)
	return &Engine{
		Ledger: l, IDs: cfg.IDs, Random: cfg.Random, Log: cfg.Logger, mayAppend: cfg.MayAppend,
		locks: newStreamLocks(), owners: owners, phones: phones,

		Organisations:  newKind[organisation.Organisation](l, "org_", n),
		Workspaces:     newKind[organisation.Workspace](l, "wsp_", n),
		Users:          newKind[organisation.User](l, "usr_", n),
		Teams:          newKind[organisation.Team](l, "team_", n),
		Keys:           newKind[apikey.Key](l, "key_", n),
		Identities:     newKind[identity.Identity](l, "idn_", n),
		Labels:         newKind[label.Label](l, "lbl_", n),
		Segments:       newKind[segment.Segment](l, "seg_", max(n/16, 1)),
		Contacts:       newKind[contact.Contact](l, "ctc_", n),
		Numbers:        newKind[number.Number](l, "num_", n),
		Conversations:  newKind[conversation.Conversation](l, "cnv_", n),
		Notes:          newKind[conversation.Note](l, "note_", 1), // a note is never loaded after it was made
		SavedReplies:   newKind[savedreply.SavedReply](l, "srp_", max(n/64, 1)),
		Messages:       newKind[message.Message](l, "msg_", max(n/4, 1)), // large states, needed for a short time
		Lines:          newKind[line.Line](l, "ln_", n),
		Pools:          newKind[line.Pool](l, "pool_", n),
		LineRequests:   newKind[line.Requests](l, "lrq_", max(n/64, 1)),
		Exchanges:      newKind[exchange.Exchange](l, "xch_", n),
		Imports:        newKind[importjob.Job](l, "imp_", max(n/64, 1)),
		Webhooks:       newKind[webhook.Endpoint](l, "whk_", n),
		Workflows:      newKind[workflow.Workflow](l, "wfl_", max(n/64, 1)),
		Versions:       newKind[workflow.Version](l, "wfv_", max(n/64, 1)),
		Runs:           newKind[workflow.Run](l, "run_", max(n/4, 1)),
		Agents:         newKind[agent.Agent](l, "agt_", max(n/64, 1)),
		SMSConnections: newKind[smsconnection.Connection](l, "smc_", max(n/64, 1)),
		Outreaches:     newKind[outreach.Outreach](l, "otr_", max(n/64, 1)),
		OutreachLists:  newKind[outreach.List](l, "otl_", 1), // read once, when the outreach starts
		Recipients:     newKind[outreach.Recipient](l, "otm_", 1),
	}, nil
}

// Request names the caller of a command, and the request or event that caused it.
type Request struct {
	Organisation uuid.UUID
	Workspace    uuid.UUID // uuid.Nil for commands on the organisation itself
	Actor        events.Actor
	RequestID    string
	IP           string
	UserAgent    string
	Test         bool // made with a test key
	// Guards are the stream versions at which the caller was authenticated; see commands.Access.
	Guards []eventstore.Guard
	// Idempotency makes the command idempotent; nil for a request without an idempotency key. The caller sets Workspace,
	// Key, Actor, Fingerprint and Status; the command adds Ref, Subject and, where it renders the answer, Body.
	Idempotency *eventstore.IdempotencyRecord
	Causation   uuid.UUID
	Correlation uuid.UUID
}

// Result names the resource that a command created or changed, and the position of the ledger that shows the change.
type Result struct {
	Ref      string // id of the resource
	Shard    int
	Position int64 // a reader that has reached this position sees the change
	At       time.Time
}

// ErrCredentialChanged refuses a command because the caller's credential or role, or the organisation, has changed
// since the caller was authenticated. Nothing was written. Authenticate again on fresh state and repeat the command.
var ErrCredentialChanged = errors.New("commands: the credential that the caller was authenticated with has changed")

// OnQuotaExceeded registers a function that is called whenever an append is refused because it would exceed a quota.
// Register before the first command runs.
func (e *Engine) OnQuotaExceeded(f func(*eventstore.QuotaExceeded)) {
	e.onQuotaExceeded = append(e.onQuotaExceeded, f)
}

// Phone parses a phone number as phone.Parse does, and caches the result, because parsing takes longer than the rest of
// accepting a message. pointer is the JSON pointer that a refusal names.
func (e *Engine) Phone(input, pointer string) (string, error) {
	const longest = 64 // longer inputs are not cached, so that the cache is bounded in bytes too
	if e164, ok := e.phones.Get(input); ok {
		return e164, nil
	}
	e164, err := phone.Parse(input, pointer)
	if err == nil && len(input) <= longest {
		e.phones.Add(strings.Clone(input), e164)
	}
	return e164, err
}

// Owner finds the owner of a claim, from the cache if possible. A cached owner may be old. So use Owner only for claims
// whose owner never changes (the secret of an API key); for others use Unit.Owner and guard the owner's stream.
func (e *Engine) Owner(ctx context.Context, scope, key string) (owner string, found bool, err error) {
	if owner, found = e.owners.Get(claimName{scope, key}); found {
		return owner, true, nil
	}
	if owner, found, err = e.Ledger.ClaimOwner(ctx, scope, key); err != nil {
		return "", false, Unreadable(err)
	}
	if found {
		e.owners.Add(claimName{scope, key}, owner)
	}
	return owner, found, nil
}

// DropOwner removes the owner of a claim from the cache, so that the next Owner reads it from the ledger.
func (e *Engine) DropOwner(scope, key string) { e.owners.Remove(claimName{scope, key}) }

type randomIDs struct{}

func (randomIDs) TypeID(prefix string) string { return typeid.MustGenerate(prefix).String() }
func (randomIDs) UUID() uuid.UUID             { return eventstore.NewID() }
