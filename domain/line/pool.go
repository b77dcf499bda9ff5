package line

import (
	"hash/fnv"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Rotation is how a pool chooses among its lines.
type Rotation string

// The rotations of administration 2.4.
const (
	Sticky     Rotation = "sticky"
	RoundRobin Rotation = "round_robin"
)

// Pool is the state of one pool. The zero value does not exist.
type Pool struct {
	ID        string
	Workspace uuid.UUID
	Name      string
	Rotation  Rotation
	LineIDs   []string // in the order in which they came
}

// Apply folds one event.
func (p Pool) Apply(event events.Event, in events.Envelope) Pool {
	switch e := event.(type) {
	case *events.PoolCreated:
		return Pool{ID: e.PoolID, Workspace: in.Workspace, Name: e.Name, Rotation: Rotation(e.Rotation)}
	case *events.PoolLineAdded:
		p.LineIDs = append(slices.Clone(p.LineIDs), e.LineID)
	}
	return p
}

// Choose picks the line for a contact among the pool's lines (decisions section 8): its sticky line when the pool is
// sticky and that line can send, else the one that the contact's id falls on, which spreads contacts evenly over the
// lines and gives a contact the same line while the pool stays as it is. found is false when none can send.
func (p Pool) Choose(lines []Line, contactID, stickyLineID string) (chosen Line, found bool) {
	var best uint64
	for _, l := range lines {
		if !l.CanSend() || l.IsSandbox {
			continue
		}
		if p.Rotation == Sticky && l.ID == stickyLineID {
			return l, true
		}
		if weight := weigh(l.ID, contactID); !found || weight > best {
			chosen, best, found = l, weight, true
		}
	}
	return chosen, found
}

// weigh is the weight of a line for a contact in rendezvous hashing.
func weigh(lineID, contactID string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(lineID + " " + contactID))
	sum := h.Sum64() // FNV leaves the high bits of similar inputs alike: mix them
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	return sum ^ sum>>33
}

// maxPoolName is the longest name, in characters (administration section 8).
const maxPoolName = 80

// CreatePool makes a pool.
func CreatePool(e events.PoolCreated) ([]events.Event, error) {
	var issues []fault.Issue
	switch {
	case strings.TrimSpace(e.Name) == "":
		issues = append(issues, fault.Issue{Location: "body", Path: "/name", Code: "required", Message: "A pool needs a name."})
	case utf8.RuneCountInString(e.Name) > maxPoolName:
		issues = append(issues, fault.Issue{Location: "body", Path: "/name", Code: "too_long", Message: "The name is too long."})
	}
	if r := Rotation(e.Rotation); r != Sticky && r != RoundRobin {
		issues = append(issues, fault.Issue{Location: "body", Path: "/rotation", Code: "invalid_value", Message: "The rotation is sticky or round_robin."})
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	return []events.Event{&e}, nil
}
