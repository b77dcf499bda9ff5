package line

import (
	"cmp"
	"net/url"
	"slices"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// The carriers of lines.
const (
	Simulator   = "simulator"
	BlueBubbles = "bluebubbles"
)

// Carriers returns all carriers.
func Carriers() []string { return []string{Simulator, BlueBubbles} }

// needsAccount reports whether a carrier knows its lines by an account (rule LIN-5).
func needsAccount(carrier string) bool { return carrier == BlueBubbles }

func (l Line) lacksAccount() bool { return needsAccount(l.Carrier) && l.Account.URL == "" }

// The ways in which a BlueBubbles server sends: through scripts of the Messages app, or through its private API, which
// can also tell whether a number is on iMessage.
const (
	AppleScript = "apple-script"
	PrivateAPI  = "private-api"
)

const (
	maxURL      = 2048
	maxPassword = 255
)

// ConfigureCarrier assigns the line to a carrier with an account (rule LIN-5). BlueBubbles needs the server's address
// (http or https, without query and credentials), its password and a method; an address or method that is "" stays as
// it is, and the method of a new account is private-api. The simulator needs nothing. A bad account is refused with
// validation_failed; a retired line, and another carrier for a sandbox line, with conflict.
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
		address, err := url.Parse(account.URL)
		if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" || address.User != nil ||
			address.RawQuery != "" || address.Fragment != "" || len(account.URL) > maxURL {
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
