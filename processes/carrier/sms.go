package carrier

import (
	"context"
	"errors"
	"time"
)

// SMSAccount is the account of a workspace at an SMS provider.
type SMSAccount struct {
	ConnectionID        string
	AccountSID          string
	AuthToken           string
	MessagingServiceSID string   // "" for none
	FromNumbers         []string // E.164
	Ready               bool     // messages may be sent
}

// SMSAccounts finds accounts by the ids of connections.
type SMSAccounts interface {
	// Account returns the present account of a connection; ErrNoSMSAccount when there is none, or it was deleted.
	Account(ctx context.Context, connectionID string) (SMSAccount, error)
	// Cached is Account from memory where possible: the result may be old.
	Cached(ctx context.Context, connectionID string) (SMSAccount, error)
}

// ErrNoSMSAccount says that a connection does not exist, or was deleted with its credentials.
var ErrNoSMSAccount = errors.New("carrier: there is no such SMS connection")

// SMSProvider is an SMS provider. As a Carrier it sends the messages of connections: Outbound.ConnectionID names the
// account. CONTRIBUTING.md says what another provider needs.
type SMSProvider interface {
	Carrier
	// Verify asks the provider whether the credentials and the sender of an account are good. With inbound it then makes
	// the provider report the account's inbound messages to the service. It returns nil or an *SMSProblem.
	Verify(ctx context.Context, account SMSAccount, inbound bool) error
	// SendText sends a text that is no message of ours, and gets no receipts. Its errors are those of Send, except that an
	// error that wraps ErrTransient is one after which the provider certainly did not get the call.
	SendText(ctx context.Context, account SMSAccount, from, to, body string) (SMSText, error)
}

// SMSText is a text that the provider accepted: its id there, and its status in the provider's words.
type SMSText struct{ ID, Status string }

// SMSProblem is the error of a verification, in words for people and without credentials.
type SMSProblem struct{ Text string }

func (e *SMSProblem) Error() string { return "carrier: " + e.Text }

// Postponed is an ErrTransient of a carrier that asks to be called again after some time.
type Postponed struct {
	After time.Duration
	Cause error
}

func (e *Postponed) Error() string {
	return "carrier: the carrier asks for a pause: " + e.Cause.Error()
}

// Unwrap implements errors.Unwrap.
func (e *Postponed) Unwrap() []error { return []error{ErrTransient, e.Cause} }
