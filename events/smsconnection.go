package events

import "github.com/google/uuid"

// SMSConnectionCreated connects a workspace to its account at the SMS provider. Stream: the connection id. The
// credentials are encrypted like personal data, under a key of the connection's own that is destroyed with it.
type SMSConnectionCreated struct {
	ConnectionID        string         `json:"connection_id"`
	MessagingServiceSID *string        `json:"messaging_service_sid"`
	FromNumbers         []string       `json:"from_numbers"` // E.164
	PrefixOrgName       bool           `json:"prefix_org_name"`
	Credentials         SMSCredentials `json:"-"`
}

// SMSCredentials are the encrypted data of a connection.
type SMSCredentials struct {
	AccountSID string `json:"account_sid,omitempty"`
	AuthToken  string `json:"auth_token,omitempty"`
}

// Subject implements Sealed.
func (e *SMSConnectionCreated) Subject() string { return e.ConnectionID }

// Personal implements Sealed.
func (e *SMSConnectionCreated) Personal() any { return &e.Credentials }

// SMSConnectionUpdated changes fields of a connection. The fields that did not change are empty.
type SMSConnectionUpdated struct {
	ConnectionID        string   `json:"connection_id"`
	Changed             []string `json:"changed"` // account_sid, auth_token, messaging_service_sid, from_numbers, prefix_org_name
	MessagingServiceSID *string  `json:"messaging_service_sid,omitempty"`
	FromNumbers         []string `json:"from_numbers,omitempty"`
	PrefixOrgName       bool     `json:"prefix_org_name,omitempty"`
	// Unverified is true when credentials or sender changed: the connection is pending until it is verified again.
	Unverified  bool           `json:"unverified,omitempty"`
	Credentials SMSCredentials `json:"-"` // those that changed
}

// Subject implements Sealed.
func (e *SMSConnectionUpdated) Subject() string { return e.ConnectionID }

// Personal implements Sealed.
func (e *SMSConnectionUpdated) Personal() any { return &e.Credentials }

// SMSConnectionVerified records that the provider accepted the credentials and the sender: the connection is active.
type SMSConnectionVerified struct {
	ConnectionID string `json:"connection_id"`
}

// SMSConnectionFailing records that a verification failed.
type SMSConnectionFailing struct {
	ConnectionID string `json:"connection_id"`
	Error        string `json:"error"` // for people; contains no credentials
}

// SMSInboundConfigured records that the provider reports inbound messages to the service.
type SMSInboundConfigured struct {
	ConnectionID string `json:"connection_id"`
}

// SMSConnectionDisabled stops a connection.
type SMSConnectionDisabled struct {
	ConnectionID string `json:"connection_id"`
}

// SMSConnectionEnabled ends that. The connection is pending until it is verified.
type SMSConnectionEnabled struct {
	ConnectionID string `json:"connection_id"`
}

// SMSComplianceConfirmed records that a user confirmed that the account is registered for the messages that it sends.
type SMSComplianceConfirmed struct {
	ConnectionID string    `json:"connection_id"`
	UserID       uuid.UUID `json:"user_id"`
}

// SMSComplianceWithdrawn takes the confirmation back.
type SMSComplianceWithdrawn struct {
	ConnectionID string `json:"connection_id"`
}

// SMSConnectionDeleted deletes a connection. The key of its credentials is destroyed with the same append.
type SMSConnectionDeleted struct {
	ConnectionID string `json:"connection_id"`
}

// SMSTextTested records that a test text is about to be sent. Stream: Stream("smt", test id).
type SMSTextTested struct {
	ConnectionID string    `json:"connection_id"`
	TestID       uuid.UUID `json:"test_id"`
}

// SMSTextTestEnded records what became of a test text. Stream: as SMSTextTested.
type SMSTextTestEnded struct {
	ConnectionID string    `json:"connection_id"`
	TestID       uuid.UUID `json:"test_id"`
	ProviderID   string    `json:"provider_message_id,omitempty"`
	Status       string    `json:"status,omitempty"`        // as the provider gives it
	ProviderCode string    `json:"provider_code,omitempty"` // of a refusal
}
