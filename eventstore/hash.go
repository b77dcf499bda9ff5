package eventstore

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// The proof that the ledger is unchanged rests on two definitions, simple enough to be recomputed by an outsider's
// script:
//
//	leaf  = SHA-256(0x00 || the event's fields as netstrings, in the order of leafFields)
//	block = SHA-256(the fields of blockHash as netstrings)
//
// where a netstring is the length in bytes in decimal, a colon, the bytes, a comma. The leaves of a block form a Merkle
// tree as in RFC 6962. The block contains its root and the hash of the block before.

func netstring(h hash.Hash, field string) {
	_, _ = fmt.Fprintf(h, "%d:%s,", len(field), field)
}

func idField(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// leafFields are the columns of an event in the form in which they are hashed.
func leafFields(r *Recorded) []string {
	return []string{
		strconv.Itoa(r.Shard), strconv.FormatInt(r.Position, 10), idField(r.ID), r.Stream, strconv.Itoa(r.Version), r.Type, strconv.Itoa(r.Schema),
		idField(r.OrganisationID), idField(r.WorkspaceID), r.OccurredAt.UTC().Format("2006-01-02T15:04:05.000000Z"), r.Actor.Type, r.Actor.ID,
		r.RequestID, idField(r.CausationID), idField(r.CorrelationID), string(r.Data), r.Subject, base64.StdEncoding.EncodeToString(r.Sealed),
	}
}

// leafHash is the hash of one event. It covers every column.
func leafHash(r *Recorded) []byte { return hashLeaf(leafFields(r)) }

func hashLeaf(fields []string) []byte {
	h := sha256.New()
	h.Write([]byte{0})
	for _, field := range fields {
		netstring(h, field)
	}
	return h.Sum(nil)
}

// Block is a closed stretch of a shard: its events are hashed, and the block is chained to the one before.
type Block struct {
	Shard    int       `json:"shard"`
	Number   int64     `json:"number"` // from 1
	From     int64     `json:"from_position"`
	To       int64     `json:"to_position"`
	Leaves   []byte    `json:"-"` // 32 bytes per event
	Root     []byte    `json:"root"`
	Previous []byte    `json:"previous"` // 32 zero bytes for the first block
	Hash     []byte    `json:"hash"`
	ClosedAt time.Time `json:"closed_at"` // not part of the hash
}

func blockHash(b *Block) []byte {
	h := sha256.New()
	netstring(h, "ledgerline block 1")
	netstring(h, strconv.Itoa(b.Shard))
	netstring(h, strconv.FormatInt(b.Number, 10))
	netstring(h, strconv.FormatInt(b.From, 10))
	netstring(h, strconv.FormatInt(b.To, 10))
	netstring(h, base64.StdEncoding.EncodeToString(b.Root))
	netstring(h, base64.StdEncoding.EncodeToString(b.Previous))
	return h.Sum(nil)
}

// merkleRoot is the root of the Merkle tree of RFC 6962 over leaves of 32 bytes each.
func merkleRoot(leaves []byte) ([]byte, error) {
	factory := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	tree := factory.NewEmptyRange(0)
	for i := 0; i < len(leaves); i += sha256.Size {
		if err := tree.Append(leaves[i:i+sha256.Size:i+sha256.Size], nil); err != nil {
			return nil, fmt.Errorf("eventstore: merkle tree: %w", err)
		}
	}
	root, err := tree.GetRootHash(nil)
	if err != nil {
		return nil, fmt.Errorf("eventstore: merkle tree: %w", err)
	}
	return root, nil
}
