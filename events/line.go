package events

// PoolCreated makes a pool of lines. Stream: the pool id.
type PoolCreated struct {
	PoolID   string `json:"pool_id"`
	Name     string `json:"name"`
	Rotation string `json:"rotation"` // sticky or round_robin
	Default  bool   `json:"default,omitempty"`
	// FallbackSMSMode is off (also when it is absent), not_chat or not_chat_or_failed.
	FallbackSMSMode string `json:"fallback_sms_mode,omitempty"`
}

// PoolLineAdded puts a line into a pool, so that the pool alone tells who can send for it. Stream: the pool id.
type PoolLineAdded struct {
	PoolID string `json:"pool_id"`
	LineID string `json:"line_id"`
}

// PoolLineRemoved takes a line out of a pool. Stream: the pool id.
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

// LineUpdated changes what customers may change of a line. Changed names the fields that have another value.
type LineUpdated struct {
	LineID      string      `json:"line_id"`
	Changed     []string    `json:"changed"`                // display_name, pool_id, contact_card
	DisplayName *string     `json:"display_name,omitempty"` // nil: it has none any more
	PoolID      *string     `json:"pool_id,omitempty"`      // nil: it is in no pool any more
	ContactCard ContactCard `json:"contact_card,omitzero"`  // the whole
}

// ContactCard is how a line presents itself: a business's card, not a person's data.
type ContactCard struct {
	Name     string `json:"name,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

// LineProvisioned puts a line into service. Stream: the line id.
type LineProvisioned struct {
	LineID      string  `json:"line_id"`
	Phone       string  `json:"phone"` // E.164; a line's number is the business's own and is not personal data
	DisplayName *string `json:"display_name,omitempty"`
	PoolID      *string `json:"pool_id,omitempty"`
	IsSandbox   bool    `json:"is_sandbox,omitempty"`
	Carrier     string  `json:"carrier"` // the adapter that serves it, for example simulator
	State       string  `json:"state"`
}

// LineStateChanged moves a line between the states of administration 3.1.
type LineStateChanged struct {
	LineID string  `json:"line_id"`
	From   string  `json:"from"`
	To     string  `json:"to"`
	Reason *string `json:"reason,omitempty"`
	// By is platform when the service itself moved it, which alone can take that back; "" otherwise.
	By string `json:"by,omitempty"`
}

// LineContactUnanswered adds to the line's streak of contacts that did not answer.
type LineContactUnanswered struct {
	LineID    string `json:"line_id"`
	ContactID string `json:"contact_id"`
	MessageID string `json:"message_id"`
}

// LineStreakEnded tells that a contact wrote to the line.
type LineStreakEnded struct {
	LineID string `json:"line_id"`
}

// LineHealthScored tells that the line's health has another score.
type LineHealthScored struct {
	LineID string      `json:"line_id"`
	Score  int         `json:"score"` // 0 to 100
	Facts  HealthFacts `json:"facts"`
}

// HealthFacts are what a score was made from: the last seven usage days.
type HealthFacts struct {
	Sends     int `json:"sends"`
	Failed    int `json:"failed"`
	OptOuts   int `json:"opt_outs"`
	Contacted int `json:"contacted"` // contacts that were new to the line
	Replied   int `json:"replied"`   // of them
}

// LineDegraded and LineRecovered tell that the health of a line has passed its bounds.
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
