package events

import (
	"time"

	"github.com/google/uuid"
)

// OutreachCreated creates an outreach: one message to each of many contacts. Stream: Stream("otr", id).
type OutreachCreated struct {
	OutreachID uuid.UUID  `json:"outreach_id"`
	Name       string     `json:"name"`
	SegmentID  *uuid.UUID `json:"segment_id,omitempty"` // nil: the contacts of OutreachContactsListed
	Total      int        `json:"total"`                // contacts when it was created
	Body       string     `json:"body"`                 // a template
	Media      []Media    `json:"media,omitempty"`
	PoolID     *string    `json:"pool_id,omitempty"`
	LineID     *string    `json:"line_id,omitempty"`
	Fallback   *bool      `json:"fallback,omitempty"`
	SendAt     *time.Time `json:"send_at,omitempty"` // nil: it starts at once
	// EstimatedAt is when every message will have left or failed, as far as that can be told.
	EstimatedAt time.Time `json:"estimated_completion_at"`
}

// OutreachContactsListed has the contacts of an outreach that names them. Stream: Stream("otl", id), so that loading an
// outreach does not load its contacts.
type OutreachContactsListed struct {
	OutreachID uuid.UUID `json:"outreach_id"`
	ContactIDs []string  `json:"contact_ids"`
}

// OutreachStarted records that the audience of an outreach is fixed.
type OutreachStarted struct {
	OutreachID  uuid.UUID `json:"outreach_id"`
	Total       int       `json:"total"` // contacts of the audience
	EstimatedAt time.Time `json:"estimated_completion_at"`
}

// OutreachEstimated records another estimate for a running outreach.
type OutreachEstimated struct {
	OutreachID  uuid.UUID `json:"outreach_id"`
	EstimatedAt time.Time `json:"estimated_completion_at"`
}

// OutreachCompleted records that every message of an outreach has left or failed.
type OutreachCompleted struct {
	OutreachID uuid.UUID `json:"outreach_id"`
}

// OutreachCancelled ends an outreach. Its messages that have not left fail.
type OutreachCancelled struct {
	OutreachID uuid.UUID `json:"outreach_id"`
	From       string    `json:"from"` // scheduled or running
}

// OutreachMessageAccepted records that a contact of the audience gets a message. The same append contains
// message.queued. Stream: one for each outreach and contact, so that a contact gets one message at most.
type OutreachMessageAccepted struct {
	OutreachID uuid.UUID `json:"outreach_id"`
	ContactID  string    `json:"contact_id"`
	MessageID  string    `json:"message_id"`
}

// OutreachContactSkipped records that a contact of the audience gets no message. Stream: as OutreachMessageAccepted.
type OutreachContactSkipped struct {
	OutreachID uuid.UUID `json:"outreach_id"`
	ContactID  string    `json:"contact_id"`
	Reason     string    `json:"reason"` // contact_opted_out, consent_required, template_missing, contact_deleted or reference_missing
}
