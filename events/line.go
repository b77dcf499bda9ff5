package events

// PoolCreated makes a pool of lines. Stream: the pool id.
type PoolCreated struct {
	PoolID   string `json:"pool_id"`
	Name     string `json:"name"`
	Rotation string `json:"rotation"` // sticky or round_robin
	Default  bool   `json:"default,omitempty"`
}

// PoolLineAdded puts a line into a pool, so that the pool alone tells who can send for it. Stream: the pool id.
type PoolLineAdded struct {
	PoolID string `json:"pool_id"`
	LineID string `json:"line_id"`
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
}
