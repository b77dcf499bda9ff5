package events

import (
	"time"

	"github.com/google/uuid"
)

// APIKeyCreated makes a credential. Only the SHA-256 of the secret is known. Stream: the key id.
type APIKeyCreated struct {
	KeyID       string     `json:"key_id"`
	Name        string     `json:"name"`
	Env         string     `json:"env"`    // live or test
	Scopes      []string   `json:"scopes"` // read, send, admin
	Prefix      string     `json:"prefix"` // the 8 public characters
	SecretHash  string     `json:"secret_hash"`
	IPAllowlist []string   `json:"ip_allowlist,omitempty"` // addresses and CIDR blocks; empty allows all
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	IdentityID  *uuid.UUID `json:"identity_id,omitempty"` // of a service identity's token: its scopes count in place of the key's
}

// APIKeyRotated gives a credential another secret; the one before it is good for nothing any more.
type APIKeyRotated struct {
	KeyID      string `json:"key_id"`
	Prefix     string `json:"prefix"`
	SecretHash string `json:"secret_hash"`
}

// APIKeyRevoked ends a credential for good.
type APIKeyRevoked struct {
	KeyID string `json:"key_id"`
}
