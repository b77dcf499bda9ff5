package events

// PoolCreated creates a pool of lines. Stream: the pool id.
type PoolCreated struct {
	PoolID   string `json:"pool_id"`
	Name     string `json:"name"`
	Rotation string `json:"rotation"` // sticky or round_robin
	Default  bool   `json:"default,omitempty"`
	// FallbackSMSMode is off (also when it is absent), not_chat or not_chat_or_failed.
	FallbackSMSMode string `json:"fallback_sms_mode,omitempty"`
}

// PoolLineAdded adds a line to a pool. Stream: the pool id, so that the pool's stream alone tells its lines.
type PoolLineAdded struct {
	PoolID string `json:"pool_id"`
	LineID string `json:"line_id"`
}

// PoolLineRemoved removes a line from a pool. Stream: the pool id.
type PoolLineRemoved struct {
	PoolID string `json:"pool_id"`
	LineID string `json:"line_id"`
}

// PoolUpdated changes a pool. Changed names the fields that have another value.
type PoolUpdated struct {
	PoolID          string   `json:"pool_id"`
	Changed         []string `json:"changed"` // name, rotation, fallback_sms_mode
	Name            string   `json:"name,omitempty"`
	Rotation        string   `json:"rotation,omitempty"`
	FallbackSMSMode string   `json:"fallback_sms_mode,omitempty"`
}

// LineUpdated changes the properties of a line that customers can change. Changed names the fields that have another
// value.
type LineUpdated struct {
	LineID      string      `json:"line_id"`
	Changed     []string    `json:"changed"`                // display_name, pool_id, contact_card
	DisplayName *string     `json:"display_name,omitempty"` // nil: removed
	PoolID      *string     `json:"pool_id,omitempty"`      // nil: in no pool
	ContactCard ContactCard `json:"contact_card,omitzero"`  // complete
}

// ContactCard is the card that a line shows to contacts. It is that of a business and not personal data.
type ContactCard struct {
	Name     string `json:"name,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

// LineProvisioned creates a line. Stream: the line id.
type LineProvisioned struct {
	LineID      string  `json:"line_id"`
	Phone       string  `json:"phone"` // E.164; a line's number is the business's own and is not personal data
	DisplayName *string `json:"display_name,omitempty"`
	PoolID      *string `json:"pool_id,omitempty"`
	IsSandbox   bool    `json:"is_sandbox,omitempty"`
	Carrier     string  `json:"carrier"` // the adapter that serves it, for example simulator
	State       string  `json:"state"`
}

// LineStateChanged changes the state of a line (rule LIN-2).
type LineStateChanged struct {
	LineID string  `json:"line_id"`
	From   string  `json:"from"`
	To     string  `json:"to"`
	Reason *string `json:"reason,omitempty"`
	// By is platform when the service itself changed the state, which only the service can undo; "" otherwise.
	By string `json:"by,omitempty"`
}

// LineContactUnanswered adds a contact to the line's streak of contacts that did not answer (rule LIN-15).
type LineContactUnanswered struct {
	LineID    string `json:"line_id"`
	ContactID string `json:"contact_id"`
	MessageID string `json:"message_id"`
}

// LineStreakEnded ends the streak: a contact wrote to the line.
type LineStreakEnded struct {
	LineID string `json:"line_id"`
}

// LineHealthScored changes the health score of the line (rule LIN-21).
type LineHealthScored struct {
	LineID string      `json:"line_id"`
	Score  int         `json:"score"` // 0 to 100
	Facts  HealthFacts `json:"facts"`
}

// HealthFacts are the numbers that a score is computed from, over the last seven usage days.
type HealthFacts struct {
	Sends     int `json:"sends"`
	Failed    int `json:"failed"`
	OptOuts   int `json:"opt_outs"`
	Contacted int `json:"contacted"` // contacts that were new to the line
	Replied   int `json:"replied"`   // contacts among them that replied
}

// LineDegraded records that the health score has fallen below its lower bound, LineRecovered that it has risen above
// the upper.
type (
	LineDegraded struct {
		LineID string `json:"line_id"`
		Score  int    `json:"score"`
	}
	LineRecovered struct {
		LineID string `json:"line_id"`
		Score  int    `json:"score"`
	}
)
