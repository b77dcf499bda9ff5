package events

import (
	"time"

	"github.com/google/uuid"
)

// APIKeyCreated creates an API key. Only the SHA-256 of its secret is stored. Stream: the key id.
type APIKeyCreated struct {
	KeyID       string     `json:"key_id"`
	Name        string     `json:"name"`
	Env         string     `json:"env"`    // live or test
	Scopes      []string   `json:"scopes"` // read, send, admin
	Prefix      string     `json:"prefix"` // the 8 public characters
	SecretHash  string     `json:"secret_hash"`
	IPAllowlist []string   `json:"ip_allowlist,omitempty"` // addresses and CIDR blocks; empty allows all
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	IdentityID  *uuid.UUID `json:"identity_id,omitempty"` // set for the token of a service identity, whose scopes replace those of the key
}

// APIKeyRotated gives an API key a new secret. The old one is no longer accepted.
type APIKeyRotated struct {
	KeyID      string `json:"key_id"`
	Prefix     string `json:"prefix"`
	SecretHash string `json:"secret_hash"`
}

// APIKeyRevoked ends an API key for good.
type APIKeyRevoked struct {
	KeyID string `json:"key_id"`
}
