package eventstore

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// TreeHead states the tree of a shard's blocks at a size. It is signed with a key that the installation's keyring
// derives, so nobody with access to the database alone can make one. Copies of it that are kept elsewhere show later
// that nothing before it was changed or cut off.
type TreeHead struct {
	Shard     int
	Size      int64  // number of blocks
	Root      []byte // of the tree of blocks
	Position  int64  // of the last event
	At        time.Time
	Signature []byte
}

// text is what is signed: a checkpoint (https://c2sp.org/tlog-checkpoint) with two more lines. name is the signer's.
func (h *TreeHead) text(name string) string {
	return headOrigin(name, h.Shard) + "\n" + strconv.FormatInt(h.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(h.Root) + "\n" +
		"position " + strconv.FormatInt(h.Position, 10) + "\ntime " + h.At.UTC().Format(hashTime) + "\n"
}

func headOrigin(name string, shard int) string { return name + "/shard/" + strconv.Itoa(shard) }

// HeadKey is the public key that tree heads are verified with, as text: the key of a signed note.
func (k *Keyring) HeadKey() string {
	public, _ := k.signKey.Public().(ed25519.PublicKey)
	key, err := note.NewEd25519VerifierKey(k.signName, public)
	if err != nil {
		panic(err) // only for keys of another length
	}
	return key
}

func (k *Keyring) signHead(h *TreeHead) {
	h.Signature = ed25519.Sign(k.signKey, []byte(h.text(k.signName)))
}

func (k *Keyring) hasSigned(h *TreeHead) bool {
	public, _ := k.signKey.Public().(ed25519.PublicKey)
	return ed25519.Verify(public, []byte(h.text(k.signName)), h.Signature)
}

// Note is a tree head as a signed note (https://c2sp.org/signed-note), the form in which heads are published.
func (k *Keyring) Note(h *TreeHead) string {
	verifier, err := note.NewVerifier(k.HeadKey())
	if err != nil {
		panic(err) // the key is our own
	}
	signature := append(binary.BigEndian.AppendUint32(nil, verifier.KeyHash()), h.Signature...)
	return h.text(k.signName) + "\n— " + k.signName + " " + base64.StdEncoding.EncodeToString(signature) + "\n"
}

// ReadHeads reads the signed notes of a text, one after the other, and checks their signatures with key, which HeadKey
// returned. It returns an error that names the line of a note that is not a tree head or whose signature is not valid.
func ReadHeads(text, key string) ([]TreeHead, error) {
	verifier, err := note.NewVerifier(strings.TrimSpace(key))
	if err != nil {
		return nil, errors.New("eventstore: the public key is not that of a signed note: see ledgerline keys public")
	}
	var heads []TreeHead
	var one strings.Builder
	line, began, signed := 0, 1, false
	end := func() error {
		if strings.TrimSpace(one.String()) == "" {
			return nil
		}
		h, err := readHead(one.String(), verifier)
		if err != nil {
			return fmt.Errorf("eventstore: the tree head in line %d: %w", began, err)
		}
		heads = append(heads, h)
		return nil
	}
	for l := range strings.Lines(text) {
		line++
		isSignature := strings.HasPrefix(l, "— ")
		if signed && !isSignature {
			if err := end(); err != nil {
				return nil, err
			}
			one.Reset()
			began = line
		}
		signed = isSignature
		if one.Len() == 0 && strings.TrimSpace(l) == "" {
			began = line + 1
			continue // blank lines between notes
		}
		one.WriteString(l)
	}
	return heads, end()
}

func readHead(text string, verifier note.Verifier) (TreeHead, error) {
	var h TreeHead
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return h, errors.New("it has no valid signature of this installation")
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 6 {
		return h, errors.New("it does not have five lines of text")
	}
	shard, err1 := strconv.Atoi(strings.TrimPrefix(lines[0], headOrigin(verifier.Name(), 0)[:len(headOrigin(verifier.Name(), 0))-1]))
	size, err2 := strconv.ParseInt(lines[1], 10, 64)
	root, err3 := base64.StdEncoding.DecodeString(lines[2])
	position, err4 := strconv.ParseInt(strings.TrimPrefix(lines[3], "position "), 10, 64)
	at, err5 := time.Parse(hashTime, strings.TrimPrefix(lines[4], "time "))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil || len(root) != sha256.Size {
		return h, errors.New("its lines are not those of a tree head")
	}
	h = TreeHead{Shard: shard, Size: size, Root: root, Position: position, At: at}
	if h.text(verifier.Name()) != opened.Text {
		return h, errors.New("its lines are not those of a tree head")
	}
	signature, err := base64.StdEncoding.DecodeString(opened.Sigs[0].Base64)
	if err != nil || len(signature) != 4+ed25519.SignatureSize {
		return h, errors.New("its signature has another length")
	}
	h.Signature = bytes.Clone(signature[4:])
	return h, nil
}
