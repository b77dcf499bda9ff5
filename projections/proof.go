package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/domain/number"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// ConsentProof is the consent history of a number, with the hashes that prove it (rule CON-28).
type ConsentProof struct {
	eventstore.Proof
	Phone     string         `json:"phone" doc:"E.164, as requested; the proof is of its hash"`
	PhoneHash string         `json:"phone_hash"`
	OptedOut  bool           `json:"opted_out" doc:"Whether the organisation's register contains the number"`
	Consent   []ConsentEvent `json:"consent" nullable:"false" doc:"The workspace's consent events, oldest first, as the trail shows them. Each is one of the entries, by its position; phone, text, ip and user_agent are decrypted from the entry"`
}

// consentPage is how many consent events of a number are read at a time.
const consentPage = 500

// ProveConsent proves the whole history of a number: the events of the number itself in the organisation, and those of
// every contact of the viewer's workspace that ever had the number. headSize is as in eventstore.Ledger.Prove; a head
// that the ledger does not have is refused with validation_failed.
func (s *Store) ProveConsent(ctx context.Context, v Viewer, organisation uuid.UUID, e164 string, headSize int64) (ConsentProof, error) {
	hash := s.Ledger().NumberHash(organisation, e164)
	p := ConsentProof{Phone: e164, PhoneHash: hash, Consent: []ConsentEvent{}}
	history, err := s.Ledger().Load(ctx, number.Stream(hash), 0)
	if err != nil {
		return p, err
	}
	streams := []string{number.Stream(hash)}
	for i := range history {
		switch e := history[i].Event.(type) {
		case *events.NumberLinked:
			if e.WorkspaceID == v.Workspace && !slices.Contains(streams, e.ContactID) {
				streams = append(streams, e.ContactID)
			}
		case *events.NumberOptedOut:
			p.OptedOut = true
		case *events.NumberOptedIn:
			p.OptedOut = false
		}
	}
	if p.Proof, err = s.Ledger().Prove(ctx, v.Shard, headSize, streams...); err != nil {
		if none := (*eventstore.NoSuchHead)(nil); errors.As(err, &none) {
			return p, fault.Invalids(fault.Issue{
				Location: "query", Path: "/head_size", Code: "invalid_value", Message: fmt.Sprintf("The ledger has no head of %d blocks; the newest has %d.", none.Size, none.Newest),
			})
		}
		return p, err
	}
	for after := (*readmodel.Cursor)(nil); ; {
		page, err := s.ConsentEvents(ctx, v, ConsentFilter{NumberHash: hash}, after, consentPage)
		if err != nil {
			return p, err
		}
		p.Consent = append(p.Consent, page.Rows...)
		if after = page.Next; after == nil {
			break
		}
	}
	slices.Reverse(p.Consent)
	return p, nil
}
