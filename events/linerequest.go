package events

import "github.com/google/uuid"

// The requests for more lines of a workspace lie in one stream, "lrq_" and the workspace's id, so that how many are open
// is known where a further one is decided on.

// LineRequestMade asks the operator for lines.
type LineRequestMade struct {
	RequestID uuid.UUID `json:"request_id"`
	Count     int       `json:"count"`
	AreaCodes []string  `json:"area_codes,omitempty"`
	Note      *string   `json:"note,omitempty"`
	PoolID    *string   `json:"pool_id,omitempty"`
}

// LineRequestStarted tells that the operator is at it.
type LineRequestStarted struct {
	RequestID uuid.UUID `json:"request_id"`
}

// LineRequestServed tells that a line was provisioned for the request.
type LineRequestServed struct {
	RequestID uuid.UUID `json:"request_id"`
	LineID    string    `json:"line_id"`
}

// LineRequestFulfilled closes a request that was met.
type LineRequestFulfilled struct {
	RequestID uuid.UUID `json:"request_id"`
}

// LineRequestCancelled closes a request that will not be met, or no further.
type LineRequestCancelled struct {
	RequestID uuid.UUID `json:"request_id"`
	Reason    *string   `json:"reason,omitempty"`
}
