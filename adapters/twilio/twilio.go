// Package twilio is the SMS provider whose wire is Twilio's REST API. It sends the messages of SMS connections,
// verifies connections, and takes in what the provider reports: messages from contacts, and status callbacks.
//
// The provider knows a message by its own id, the sid, which it gives with its answer. A table of the adapter maps sids
// to our messages. When an answer was lost, the adapter searches for the message by recipient, text and time among
// those of the account. A callback that comes before the answer is kept in another table until the sid is known.
// docs/sms.md shows how to connect an account.
package twilio

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/adapters/outward"
	"ledgerline/processes/carrier"
)

// The provider's hosts: messages and numbers, and messaging services.
const (
	apiURL       = "https://api.twilio.com"
	messagingURL = "https://messaging.twilio.com"
)

// AEAD encrypts the addresses of attachments. tink.AEAD implements it.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Config configures an Adapter. A zero value is replaced by the default where one is stated.
type Config struct {
	Pool     *pgxpool.Pool
	Accounts carrier.SMSAccounts
	AEAD     AEAD
	Inbox    carrier.Inbox
	// URL replaces both hosts of the provider; default: Twilio's own.
	URL string
	// BaseURL is the public address of this service. The provider reports to it, and signs what it reports over it.
	BaseURL string
	// Inside allows the provider to have a private address: for development, and with URL.
	Inside bool
	Logger *slog.Logger // default: slog.Default()

	Calls       int           // calls to the provider at the same time, for each connection; default 8
	CallTimeout time.Duration // for one call; default 10 s
	// AcceptWindow is how long after an attempt the provider may still accept it: longer than CallTimeout. Default 30 s.
	AcceptWindow time.Duration
	// Pause is how long the circuit of a connection stays open; default 30 s.
	Pause time.Duration
	Poll  time.Duration // between two looks at the kept callbacks; default 500 ms
}

// Adapter implements carrier.SMSProvider. It is safe for concurrent use, and several may run on the same database.
type Adapter struct {
	cfg       Config
	api       string // without a slash at the end
	messaging string
	http      *http.Client
	gates     *lru.Cache[string, *gate] // by connection
}

var _ carrier.SMSProvider = (*Adapter)(nil)

// maxGates is how many connections the adapter remembers the failures of.
const maxGates = 4096

// New makes an adapter. A node that also records the kept callbacks calls Run.
func New(cfg Config) (*Adapter, error) {
	if cfg.Pool == nil || cfg.Accounts == nil || cfg.AEAD == nil || cfg.Inbox == nil {
		return nil, errors.New("twilio: a pool, accounts, an AEAD and an inbox are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Calls <= 0 {
		cfg.Calls = 8
	}
	for value, standard := range map[*time.Duration]time.Duration{
		&cfg.CallTimeout: 10 * time.Second, &cfg.AcceptWindow: 30 * time.Second, &cfg.Pause: 30 * time.Second, &cfg.Poll: 500 * time.Millisecond,
	} {
		if *value <= 0 {
			*value = standard
		}
	}
	gates, err := lru.New[string, *gate](maxGates)
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		cfg: cfg, api: apiURL, messaging: messagingURL, gates: gates,
		http: outward.Client(outward.Config{Inside: cfg.Inside, Timeout: time.Minute, Redirects: 3}), // each call has its own deadline
	}
	if cfg.URL != "" {
		a.api, a.messaging = trimSlash(cfg.URL), trimSlash(cfg.URL)
	}
	a.cfg.BaseURL = trimSlash(cfg.BaseURL)
	return a, nil
}

func trimSlash(address string) string {
	for len(address) > 0 && address[len(address)-1] == '/' {
		address = address[:len(address)-1]
	}
	return address
}

// Path is the path to which the provider reports the messages of a connection.
func Path(connectionID string) string { return "/carriers/sms/" + connectionID }

// inboundURL is the address to which the provider reports the messages of a connection.
func (a *Adapter) inboundURL(connectionID string) string { return a.cfg.BaseURL + Path(connectionID) }
