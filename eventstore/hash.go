package eventstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// The proof that the ledger is unchanged rests on hashes that are simple enough to be recomputed by an outsider's
// script. All of them are SHA-256, and fields are encoded as netstrings:
//
//	content = SHA-256(the event's columns after shard, position and version, in the order of contentColumns)
//	leaf    = SHA-256(0x00 || shard, position, version, content)
// block   = SHA-256(0x00 || "ledgerline block 2", shard, number, first and last position, root of the tree of its
// leaves)
//
// A netstring is the length in bytes in decimal, a colon, the bytes, a comma. A null is "-:,", which no text is encoded
// as. The leaves of a block form a Merkle tree as in RFC 6962, and so do the blocks of a shard (see tree.go).
//
// content does not depend on the place of the event in the ledger, so that the callers of Append compute it in
// parallel. The committer, which gives out positions and versions, adds the rest.

func netstring(b []byte, field string) []byte {
	b = strconv.AppendInt(b, int64(len(field)), 10)
	b = append(b, ':')
	b = append(b, field...)
	return append(b, ',')
}

func nullable(b []byte, field *string) []byte {
	if field == nil {
		return append(b, "-:,"...)
	}
	return netstring(b, *field)
}

// hashTime is the form in which the time of an event is hashed.
const hashTime = "2006-01-02T15:04:05.000000Z"

// placeColumns are the columns of an event that say where it is, as they are hashed: shard, position and version.
func placeColumns(shard int, position int64, version int) [3]string {
	return [3]string{strconv.Itoa(shard), strconv.FormatInt(position, 10), strconv.Itoa(version)}
}

// contentColumns are the other columns of an event, as they are hashed.
func contentColumns(r *Recorded) []*string {
	present := func(s string) *string { return &s }
	id := func(id uuid.UUID, zero bool) *string {
		if id == uuid.Nil && !zero {
			return nil
		}
		return present(id.String())
	}
	occurred := r.OccurredAt.UTC().Format(hashTime)
	switch {
	case r.unusual&infiniteFuture != 0:
		occurred = "infinity"
	case r.unusual&infinitePast != 0:
		occurred = "-infinity"
	}
	var subject, sealed *string
	if r.Subject != "" || r.unusual&emptySubject != 0 {
		subject = &r.Subject
	}
	if r.Sealed != nil {
		sealed = present(base64.StdEncoding.EncodeToString(r.Sealed))
	}
	return []*string{
		present(r.ID.String()), &r.Stream, &r.Type, present(strconv.Itoa(r.Schema)), present(r.OrganisationID.String()),
		id(r.WorkspaceID, r.unusual&zeroWorkspace != 0), &occurred, &r.Actor.Type, &r.Actor.ID, &r.RequestID,
		id(r.CausationID, r.unusual&zeroCausation != 0), present(r.CorrelationID.String()), present(string(r.Data)), subject, sealed,
	}
}

var hashBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// hashOf returns the SHA-256 hash of what write appends to an empty buffer.
func hashOf(write func(b []byte) []byte) [sha256.Size]byte {
	buffer, _ := hashBuffers.Get().(*[]byte)
	b := write((*buffer)[:0])
	sum := sha256.Sum256(b)
	*buffer = b
	hashBuffers.Put(buffer)
	return sum
}

func hashContent(columns []*string) [sha256.Size]byte {
	return hashOf(func(b []byte) []byte {
		for _, column := range columns {
			b = nullable(b, column)
		}
		return b
	})
}

func hashLeaf(place [3]string, content [sha256.Size]byte) [sha256.Size]byte {
	return hashOf(func(b []byte) []byte {
		b = append(b, 0)
		for _, column := range place {
			b = netstring(b, column)
		}
		return netstring(b, string(content[:]))
	})
}

// leafHash is the hash of one event. It covers every column but the tag, which follows from it.
func leafHash(r *Recorded) []byte {
	leaf := hashLeaf(placeColumns(r.Shard, r.Position, r.Version), hashContent(contentColumns(r)))
	return leaf[:]
}

// tagSize is the length of the tag of an event in bytes: the first half of an HMAC-SHA-256.
const tagSize = 16

// tag returns the tag of an event by its hash. Only a holder of the keyring can compute it, so an event that was
// written to the database by anybody else has none that fits.
func (k *Keyring) tag(leaf []byte) []byte {
	mac := hmac.New(sha256.New, k.tagKey)
	mac.Write(leaf)
	return mac.Sum(nil)[:tagSize]
}

// hasTag tells whether an event has the tag that belongs to its hash.
func (k *Keyring) hasTag(r *Recorded, leaf []byte) bool { return hmac.Equal(k.tag(leaf), r.Tag) }

// Block is a closed stretch of a shard, and a leaf of the tree of the shard's blocks.
type Block struct {
	Shard      int
	Number     int64 // from 1
	From       int64
	To         int64
	Leaves     []byte // hashes of the events, 32 bytes each
	EventsRoot []byte
	Nodes      []byte // of the tree of blocks, as far as this block completes them: its own hash, then upwards
	Head       TreeHead
}

// hash is the hash of a block in the tree of blocks.
func (b *Block) hash() []byte {
	return hashBlock(b.Shard, b.Number, b.From, b.To, b.EventsRoot)
}

func hashBlock(shard int, number, from, to int64, eventsRoot []byte) []byte {
	sum := hashOf(func(b []byte) []byte {
		b = netstring(append(b, 0), "ledgerline block 2")
		for _, n := range []int64{int64(shard), number, from, to} {
			b = netstring(b, strconv.FormatInt(n, 10))
		}
		return netstring(b, string(eventsRoot))
	})
	return sum[:]
}

var merkleRanges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// merkleRoot is the root of the Merkle tree of RFC 6962 over hashes of 32 bytes each.
func merkleRoot(leaves []byte) ([]byte, error) {
	tree := merkleRanges.NewEmptyRange(0)
	for leaf := range slices.Chunk(leaves, sha256.Size) {
		if err := tree.Append(leaf, nil); err != nil {
			return nil, fmt.Errorf("eventstore: merkle tree: %w", err)
		}
	}
	root, err := tree.GetRootHash(nil)
	if err != nil {
		return nil, fmt.Errorf("eventstore: merkle tree: %w", err)
	}
	return root, nil
}
