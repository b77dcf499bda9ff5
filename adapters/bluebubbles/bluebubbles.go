// Package bluebubbles is the carrier of lines that are iMessage accounts on a Mac with a BlueBubbles server: it sends and
// asks over the server's REST API, hears of receipts and replies through the server's webhooks, and reads after them,
// because a webhook that is not taken is gone.
//
// The server knows our messages by ids of its own, which it makes when it has sent them. A table of the adapter's says
// which are ours; where an answer was lost, the message is looked for among what the server has sent. docs/bluebubbles.md
// tells how a server is connected.
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

// Account is how the server of a line is reached. Its password travels in the query of every request, so that no address
// of a request may be logged.
type Account struct {
	LineID     string
	Phone      string // the line's number, E.164
	URL        string
	Password   string
	Secret     string // in the address that the server reports to
	PrivateAPI bool   // send through the private API, and ask it who is on iMessage
}

// ErrNoAccount says that a line is not, or no longer, served by a BlueBubbles server.
var ErrNoAccount = errors.New("bluebubbles: the line has no account")

// Lines says which lines there are.
type Lines interface {
	// Account gives the account of a line as it is now; ErrNoAccount when it has none.
	Account(ctx context.Context, lineID string) (Account, error)
	// Lines lists the lines that have one.
	Lines(ctx context.Context) ([]string, error)
}

// AEAD seals the names of attachments in addresses. A tink.AEAD is one.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Config says what an adapter needs. Zero values are filled in where a default is stated.
type Config struct {
	Pool  *pgxpool.Pool
	Lines Lines
	AEAD  AEAD
	Inbox carrier.Inbox
	// BaseURL is where this service is reached: servers are told to report there. Without one no server is told, which is
	// logged, and reading after them is all that is heard.
	BaseURL string
	// InsideMedia lets attachments of outgoing messages be fetched from private addresses.
	InsideMedia bool
	Logger      *slog.Logger // default: slog.Default()

	SendTimeout time.Duration // of handing over one text or attachment; default 90 s
	CallTimeout time.Duration // of every other request; default 20 s
	// Settle is how long after a try it may still turn out that the server took it: longer than SendTimeout and the server's own
	// time limit of 5 min together. Default 10 min.
	Settle   time.Duration
	Poll     time.Duration // between two readings of a server; default 60 s
	MaxMedia int64         // bytes of all attachments of a message together; default 100 MiB
}

// Adapter implements carrier.Carrier. It is safe for concurrent use, and several may run on the same database.
type Adapter struct {
	cfg    Config
	http   *http.Client              // to servers, which the operator names
	fetch  *http.Client              // of attachments, which customers name
	known  *lru.Cache[string, bool]  // messages from contacts that the Inbox has
	failed *lru.Cache[string, error] // servers whose trouble was logged, by line

	unreached sync.Once // that no server can report was logged
}

var _ carrier.Carrier = (*Adapter)(nil)

// New makes an adapter. Run reads after the servers; one node does it for each at a time, and a node need not.
func New(cfg Config) (*Adapter, error) {
	if cfg.Pool == nil || cfg.Lines == nil || cfg.AEAD == nil || cfg.Inbox == nil {
		return nil, errors.New("bluebubbles: a pool, lines, an AEAD and an inbox are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	for value, standard := range map[*time.Duration]time.Duration{
		&cfg.SendTimeout: 90 * time.Second, &cfg.CallTimeout: 20 * time.Second, &cfg.Settle: 10 * time.Minute, &cfg.Poll: time.Minute,
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
		http:  outward.Client(outward.Config{Inside: true, Timeout: 30 * time.Minute}), // every call has a deadline of its own
		fetch: outward.Client(outward.Config{Inside: cfg.InsideMedia, Timeout: time.Minute, Redirects: 5}),
	}, nil
}
