package workflow

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/google/uuid"
)

// tokenPrefix begins every token of a webhook trigger.
const tokenPrefix = "wft_"

// macBytes of the keyed hash are in a token.
const macBytes = 20

var tokenAlphabet = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// NewToken returns the token that fires the webhook trigger of a workflow (rule WFL-21): the workflow's id with a keyed
// hash of it. Nothing of it is stored: the key belongs to the installation.
func NewToken(id uuid.UUID, key []byte) string {
	return tokenPrefix + tokenAlphabet.EncodeToString(append(id[:], tokenMAC(id, key)...))
}

func tokenMAC(id uuid.UUID, key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(id[:])
	return mac.Sum(nil)[:macBytes]
}

// ParseToken returns the workflow of a token; false for a token that this installation did not make.
func ParseToken(token string, key []byte) (uuid.UUID, bool) {
	text, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return uuid.Nil, false
	}
	raw, err := tokenAlphabet.DecodeString(text)
	if err != nil || len(raw) != len(uuid.Nil)+macBytes {
		return uuid.Nil, false
	}
	id := uuid.UUID(raw[:len(uuid.Nil)])
	return id, hmac.Equal(raw[len(id):], tokenMAC(id, key)) && NewToken(id, key) == token
}

// TokenKey is the purpose for which the key of tokens is derived from the installation's keyring.
const TokenKey = "workflow trigger tokens"
