package httpapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
)

// maxCursor is the greatest length of a cursor in characters (rule API-21).
const maxCursor = 512

// minCursorKey is the least length of the key in bytes.
const minCursorKey = 16

// Binding is what a cursor belongs to (rule API-22). A cursor is refused with another list, workspace or filter.
type Binding struct {
	List      string // for example contacts
	Workspace uuid.UUID
	Filters   any    // any value with a JSON form; limit is not a filter
	Param     string // query parameter that holds the cursor; "cursor" when empty
}

// Cursors encrypts the positions of keyset pages. A cursor is not just signed, because a position holds values of the
// row. It is valid on every node, also after a restart, as long as the key is the same. Cursors is safe for concurrent
// use.
type Cursors struct{ seal cipher.AEAD }

// NewCursors derives the encryption key from the installation's key, which has at least 16 bytes.
func NewCursors(key []byte) (*Cursors, error) {
	if len(key) < minCursorKey {
		return nil, fmt.Errorf("httpapi: the cursor key has %d bytes, it needs %d", len(key), minCursorKey)
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "ledgerline cursors", 32)
	if err != nil {
		return nil, fmt.Errorf("derive the cursor key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("cursor cipher: %w", err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("cursor cipher: %w", err)
	}
	return &Cursors{seal: seal}, nil
}

// Seal makes the cursor of a position, which is what the query needs to continue. An error means that the position has
// no JSON form or is too long for a cursor: a mistake of the list and not of its caller.
func (c *Cursors) Seal(b Binding, position any) (string, error) {
	plain, err := json.Marshal(position)
	if err != nil {
		return "", fmt.Errorf("cursor position: %w", err)
	}
	bound, err := b.bytes()
	if err != nil {
		return "", err
	}
	cursor := base64.RawURLEncoding.EncodeToString(c.seal.Seal(nil, nil, plain, bound))
	if len(cursor) > maxCursor {
		return "", fmt.Errorf("a cursor of list %s has %d characters", b.List, len(cursor))
	}
	return cursor, nil
}

// Open decrypts a cursor into position. It returns fault validation_failed at query /cursor for anything that Seal did
// not make for the same binding.
func (c *Cursors) Open(b Binding, cursor string, position any) error {
	bound, err := b.bytes()
	if err != nil {
		return err
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(cursor) > maxCursor || strings.ContainsAny(cursor, "\r\n") { // the decoder ignores line ends
		return b.refuse(err)
	}
	plain, err := c.seal.Open(nil, nil, sealed, bound)
	if err != nil {
		return b.refuse(err)
	}
	if err := json.Unmarshal(plain, position); err != nil {
		return b.refuse(err)
	}
	return nil
}

// bytes is the additional data that is authenticated with every cursor.
func (b Binding) bytes() ([]byte, error) {
	filters, err := json.Marshal(b.Filters)
	if err != nil {
		return nil, fmt.Errorf("cursor filters: %w", err)
	}
	sum := sha256.Sum256(filters)
	bound := append([]byte(b.List), 0)
	bound = append(bound, b.Workspace[:]...)
	return append(bound, sum[:]...), nil
}

func (b Binding) refuse(cause error) error {
	param := b.Param
	if param == "" {
		param = "cursor"
	}
	f := fault.Invalids(fault.Issue{
		Location: "query", Path: "/" + param, Code: "invalid_cursor",
		Message: "This is not a cursor of this list with these filters.",
	})
	f.Cause = errors.Join(errForeignCursor, cause)
	return f
}

var errForeignCursor = errors.New("foreign cursor")
