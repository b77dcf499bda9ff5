package line

import (
	"cmp"
	"net/url"
	"slices"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// The carriers that a line can have.
const (
	Simulator   = "simulator"
	BlueBubbles = "bluebubbles"
)

// Carriers lists them all.
func Carriers() []string { return []string{Simulator, BlueBubbles} }

// needsAccount tells whether a carrier knows lines by an account only.
func needsAccount(carrier string) bool { return carrier == BlueBubbles }

func (l Line) lacksAccount() bool { return needsAccount(l.Carrier) && l.Account.URL == "" }

// How a BlueBubbles server sends: through the Messages app's scripts, or through the private API, which can also tell who
// is on iMessage.
const (
	AppleScript = "apple-script"
	PrivateAPI  = "private-api"
)

const (
	maxURL      = 2048
	maxPassword = 255
)

// ConfigureCarrier gives the line to a carrier. An address and a method that are not given stay as they are, or are "" and
// private-api for a line that comes from another carrier. The account must be what that carrier needs: for BlueBubbles the server's
// address (http or https, nothing behind the path), its password and the method, for the simulator nothing. A retired
// line is refused with conflict, and so is another carrier for a sandbox line.
func (l Line) ConfigureCarrier(carrier string, account events.CarrierAccount) ([]events.Event, error) {
	var issues []fault.Issue
	wrong := func(pointer, code, text string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: text})
	}
	switch carrier {
	case Simulator:
		account = events.CarrierAccount{}
	case BlueBubbles:
		if account.URL == "" {
			account.URL = l.Account.URL
		}
		if account.Method == "" {
			account.Method = cmp.Or(l.Account.Method, PrivateAPI)
		}
		at, err := url.Parse(account.URL)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" || len(account.URL) > maxURL {
			wrong("/url", "invalid_format", "This is not the http or https address of a server.")
		}
		if account.Password == "" || len(account.Password) > maxPassword {
			wrong("/password", "required", "The server's password is needed.")
		}
		if !slices.Contains([]string{AppleScript, PrivateAPI}, account.Method) {
			wrong("/method", "invalid_value", "The method is apple-script or private-api.")
		}
	default:
		wrong("/carrier", "invalid_value", "There is no such carrier.")
	}
	switch {
	case len(issues) > 0:
		return nil, fault.Invalids(issues...)
	case l.State == Retired:
		return nil, fault.New(fault.Conflict, "The line is retired.")
	case l.IsSandbox && carrier != Simulator:
		return nil, fault.New(fault.Conflict, "The simulator serves the sandbox line.")
	}
	return []events.Event{&events.LineCarrierConfigured{LineID: l.ID, Carrier: carrier, Account: account}}, nil
}
