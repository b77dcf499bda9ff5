package eventstore

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/google/uuid"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyring contains the installation's secrets: the keyset that encrypts (wraps) the keys of subjects, which is rotated
// (see RotateSubjectKeys), a keyset for other data, and a root secret from which other keys are derived, one for each
// purpose. Without the keyring all personal data is lost.
type Keyring struct {
	wrap   tink.AEAD // of the keys of subjects
	wrapID uint32    // id of the key of the keyset that encrypts

	aead      tink.AEAD
	root      []byte
	numberKey []byte
	tagKey    []byte // of the tags of events
	signKey   ed25519.PrivateKey
	signName  string // of the signer of tree heads
}

type keyringFile struct {
	SubjectKeyset json.RawMessage `json:"subject_keyset"`
	Keyset        json.RawMessage `json:"keyset"`
	Root          string          `json:"root"`
}

// NewKeyring creates new secrets. It also returns them as the text that ParseKeyring reads.
func NewKeyring() (*Keyring, []byte, error) {
	file := keyringFile{}
	for _, set := range []*json.RawMessage{&file.SubjectKeyset, &file.Keyset} {
		handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
		if err != nil {
			return nil, nil, fmt.Errorf("eventstore: create keyset: %w", err)
		}
		if *set, err = writeKeyset(handle); err != nil {
			return nil, nil, err
		}
	}
	root := make([]byte, 32)
	if _, err := rand.Read(root); err != nil {
		return nil, nil, fmt.Errorf("eventstore: create root secret: %w", err)
	}
	file.Root = base64.StdEncoding.EncodeToString(root)
	text, err := file.text()
	if err != nil {
		return nil, nil, err
	}
	k, err := ParseKeyring(text)
	return k, text, err
}

// ParseKeyring reads the text of a keyring. Its errors do not contain secrets.
func ParseKeyring(text []byte) (*Keyring, error) {
	var file keyringFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, errors.New("eventstore: the keyring is not valid JSON")
	}
	root, err := base64.StdEncoding.DecodeString(file.Root)
	if err != nil || len(root) != 32 {
		return nil, errors.New("eventstore: the keyring's root secret is not 32 bytes of base64")
	}
	subjects, err := readKeyset(file.SubjectKeyset)
	if err != nil {
		return nil, err
	}
	others, err := readKeyset(file.Keyset)
	if err != nil {
		return nil, err
	}
	info := subjects.KeysetInfo()
	k := &Keyring{root: root, wrapID: info.GetPrimaryKeyId()}
	if k.wrap, err = aead.New(subjects); err == nil {
		k.aead, err = aead.New(others)
	}
	if err != nil {
		return nil, fmt.Errorf("eventstore: the keyring's keyset: %w", err)
	}
	k.numberKey, k.tagKey = k.DeriveKey("number hash"), k.DeriveKey("event tags")
	k.signKey = ed25519.NewKeyFromSeed(k.DeriveKey("tree heads"))
	public, _ := k.signKey.Public().(ed25519.PublicKey)
	id := sha256.Sum256(public)
	k.signName = "ledgerline/" + hex.EncodeToString(id[:6])
	return k, nil
}

func (f *keyringFile) text() ([]byte, error) {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("eventstore: write keyring: %w", err)
	}
	return text, nil
}

func writeKeyset(handle *keyset.Handle) (json.RawMessage, error) {
	var set bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&set)); err != nil {
		return nil, fmt.Errorf("eventstore: write keyset: %w", err)
	}
	return set.Bytes(), nil
}

func readKeyset(text json.RawMessage) (*keyset.Handle, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, fmt.Errorf("eventstore: the keyring's keyset: %w", err)
	}
	return handle, nil
}

// RotateSubjectKeys returns the text of a keyring with a new key that encrypts the keys of subjects from now on. The
// keys before it still decrypt, until DropOldSubjectKeys removes them.
func RotateSubjectKeys(text []byte) ([]byte, error) {
	return changeSubjectKeyset(text, func(m *keyset.Manager, _ *keyset.Handle) error {
		id, err := m.Add(aead.AES256GCMKeyTemplate())
		if err == nil {
			err = m.SetPrimary(id)
		}
		return err
	})
}

// DropOldSubjectKeys returns the text of a keyring without the keys that only decrypt the keys of subjects. What they
// encrypted can never be read again; see Ledger.RewrapKeys.
func DropOldSubjectKeys(text []byte) ([]byte, error) {
	return changeSubjectKeyset(text, func(m *keyset.Manager, handle *keyset.Handle) error {
		info := handle.KeysetInfo()
		for _, key := range info.GetKeyInfo() {
			if key.GetKeyId() == info.GetPrimaryKeyId() {
				continue
			}
			if err := m.Delete(key.GetKeyId()); err != nil {
				return err
			}
		}
		return nil
	})
}

func changeSubjectKeyset(text []byte, change func(*keyset.Manager, *keyset.Handle) error) ([]byte, error) {
	if _, err := ParseKeyring(text); err != nil {
		return nil, err
	}
	var file keyringFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, errors.New("eventstore: the keyring is not valid JSON")
	}
	handle, err := readKeyset(file.SubjectKeyset)
	if err != nil {
		return nil, err
	}
	m := keyset.NewManagerFromHandle(handle)
	if err := change(m, handle); err != nil {
		return nil, fmt.Errorf("eventstore: change keyset: %w", err)
	}
	if handle, err = m.Handle(); err != nil {
		return nil, fmt.Errorf("eventstore: change keyset: %w", err)
	}
	if file.SubjectKeyset, err = writeKeyset(handle); err != nil {
		return nil, err
	}
	return file.text()
}

// OpenKeyring reads the keyring file at path. It refuses a file that anybody but its owner can use, and one that is not
// a regular file. The error wraps fs.ErrNotExist when there is no file.
func OpenKeyring(path string) (*Keyring, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("eventstore: read keyring: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("eventstore: read keyring: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&^keyringMode != 0 {
		return nil, fmt.Errorf("eventstore: the keys file %s has the mode %04o: it must be readable by its owner only. Run: chmod 600 %[1]s", path, mode.Perm())
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("eventstore: read keyring: %w", err)
	}
	return ParseKeyring(text)
}

// keyringMode has the widest permissions of a keyring file.
const keyringMode fs.FileMode = 0o600

// DeriveKey returns the 32-byte key for a purpose. It is always the same for one keyring and purpose.
func (k *Keyring) DeriveKey(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, k.root, nil, "ledgerline "+purpose, 32)
	if err != nil {
		panic(err) // only for impossible lengths
	}
	return key
}

// AEAD encrypts data that has no subject whose erasure destroys it, such as secrets of the installation and stored
// answers.
func (k *Keyring) AEAD() tink.AEAD { return k.aead }

// NumberHash is the name of a phone number in an organisation's register of opt-outs: an HMAC, so that the register can
// outlive the erasure of contacts without containing numbers.
func (k *Keyring) NumberHash(organisation uuid.UUID, e164 string) string {
	mac := hmac.New(sha256.New, k.numberKey)
	mac.Write(organisation[:])
	mac.Write([]byte(e164))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
