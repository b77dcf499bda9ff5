package events

// Credential is implemented by sealed events whose data opens something. It is for whoever uses it, and is never shown
// or exported.
type Credential interface {
	Sealed
	Credential()
}

// LineCarrierConfigured says who carries a line's messages from now on, and with which account. Stream: the line id. A
// line is no person, but what opens its account is sealed like personal data, under a key of the line's own, which is
// destroyed when the line is retired.
type LineCarrierConfigured struct {
	LineID  string         `json:"line_id"`
	Carrier string         `json:"carrier"`
	Account CarrierAccount `json:"-"`
}

// CarrierAccount is how a line's carrier is reached. The simulator needs none.
type CarrierAccount struct {
	URL      string `json:"url,omitempty"`
	Password string `json:"password,omitempty"`
	Secret   string `json:"secret,omitempty"` // in the address that the carrier reports to
	Method   string `json:"method,omitempty"` // how the carrier is to send, where it has several ways
}

// Subject implements Sealed.
func (e *LineCarrierConfigured) Subject() string { return e.LineID }

// Personal implements Sealed.
func (e *LineCarrierConfigured) Personal() any { return &e.Account }

// Credential implements Credential.
func (e *LineCarrierConfigured) Credential() {}
