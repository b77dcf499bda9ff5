package events

// Credential is implemented by sealed events whose personal data is a credential. It is never shown or exported.
type Credential interface {
	Sealed
	Credential()
}

// LineCarrierConfigured sets the carrier of a line and its account there. Stream: the line id. A line is no person, but
// the account is encrypted like personal data, under a key of the line that is destroyed when the line is retired.
type LineCarrierConfigured struct {
	LineID  string         `json:"line_id"`
	Carrier string         `json:"carrier"`
	Account CarrierAccount `json:"-"`
}

// CarrierAccount is the account of a line at its carrier. The simulator needs none.
type CarrierAccount struct {
	URL      string `json:"url,omitempty"`
	Password string `json:"password,omitempty"`
	Secret   string `json:"secret,omitempty"` // part of the URL that the carrier reports to
	Method   string `json:"method,omitempty"` // how the carrier sends, if it has several ways
}

// Subject implements Sealed.
func (e *LineCarrierConfigured) Subject() string { return e.LineID }

// Personal implements Sealed.
func (e *LineCarrierConfigured) Personal() any { return &e.Account }

// Credential implements Credential.
func (e *LineCarrierConfigured) Credential() {}
