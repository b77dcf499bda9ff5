// Package bluebubbles is the carrier of lines that are iMessage accounts on a Mac with a BlueBubbles server. It sends
// over the server's REST API and gets receipts and replies through the server's webhooks. The server does not repeat a
// webhook that failed, so the adapter also polls the server.
//
// The server gives a message its id after it has sent it. A table of the adapter maps these ids to our messages. When
// an answer was lost, the adapter searches for the message among those that the server has sent. docs/bluebubbles.md
// explains how to connect a server.
package bluebubbles

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/adapters/outward"
	"ledgerline/processes/carrier"
)

// Account is how to reach the server of a line. The password is in the query of every request, so the address of a
// request must not be logged.
type Account struct {
	LineID     string
	Phone      string // the line's number, E.164
	URL        string
	Password   string
	Secret     string // in the address to which the server posts its webhooks
	PrivateAPI bool   // send through the private API, and ask it whether a number is on iMessage
}

// ErrNoAccount says that a line is not, or no longer, served by a BlueBubbles server.
var ErrNoAccount = errors.New("bluebubbles: the line has no account")

// Lines reads the lines with a BlueBubbles server.
type Lines interface {
	// Account returns the present account of a line; ErrNoAccount when it has none.
	Account(ctx context.Context, lineID string) (Account, error)
	// Lines lists the ids of the lines that have an account.
	Lines(ctx context.Context) ([]string, error)
}

// AEAD encrypts the ids of attachments in addresses. tink.AEAD implements it.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Config configures an Adapter. A zero value is replaced by the default where one is stated.
type Config struct {
	Pool  *pgxpool.Pool
	Lines Lines
	AEAD  AEAD
	Inbox carrier.Inbox
	// BaseURL is the address of this service, to which servers post their webhooks. Without it the adapter only polls, and
	// logs a warning.
	BaseURL string
	// InsideMedia allows attachments of outbound messages to be fetched from private addresses.
	InsideMedia bool
	Logger      *slog.Logger // default: slog.Default()

	SendTimeout time.Duration // for one text or attachment; default 90 s
	CallTimeout time.Duration // for every other request; default 20 s
	// AcceptWindow is how long after an attempt the server may still accept it: longer than SendTimeout and the server's
	// own time limit of 5 min together. Default 10 min.
	AcceptWindow time.Duration
	Poll         time.Duration // between two polls of a server; default 60 s
	MaxMedia     int64         // bytes of all attachments of a message together; default 100 MiB
}

// Adapter implements carrier.Carrier. It is safe for concurrent use, and several may run on the same database.
type Adapter struct {
	cfg    Config
	http   *http.Client              // to servers; the operator names their addresses
	fetch  *http.Client              // to attachments; customers name their addresses
	known  *lru.Cache[string, bool]  // messages from contacts that the Inbox has accepted
	failed *lru.Cache[string, error] // the last logged error of each line's server

	noBaseURL sync.Once // guards the warning about a missing BaseURL
}

var _ carrier.Carrier = (*Adapter)(nil)

// CallsPerLine implements carrier.Concurrent. A Mac sends one message after the other.
func (*Adapter) CallsPerLine() int { return 4 }

// New makes an adapter. A node that also polls the servers calls Run; each server is polled by one node at a time.
func New(cfg Config) (*Adapter, error) {
	if cfg.Pool == nil || cfg.Lines == nil || cfg.AEAD == nil || cfg.Inbox == nil {
		return nil, errors.New("bluebubbles: a pool, lines, an AEAD and an inbox are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	for value, standard := range map[*time.Duration]time.Duration{
		&cfg.SendTimeout: 90 * time.Second, &cfg.CallTimeout: 20 * time.Second, &cfg.AcceptWindow: 10 * time.Minute, &cfg.Poll: time.Minute,
	} {
		if *value <= 0 {
			*value = standard
		}
	}
	if cfg.MaxMedia <= 0 {
		cfg.MaxMedia = 100 << 20
	}
	known, err := lru.New[string, bool](10_000)
	if err != nil {
		return nil, err
	}
	failed, err := lru.New[string, error](1000)
	if err != nil {
		return nil, err
	}
	return &Adapter{
		cfg: cfg, known: known, failed: failed,
		http:  outward.Client(outward.Config{Inside: true, Timeout: 30 * time.Minute}), // each request has its own deadline
		fetch: outward.Client(outward.Config{Inside: cfg.InsideMedia, Timeout: time.Minute, Redirects: 5}),
	}, nil
}
