package events

import "github.com/google/uuid"

// All requests of a workspace for more lines are in one stream, "lrq_" and the workspace's id, because the number of
// open requests is limited.

// LineRequestMade asks the operator for more lines.
type LineRequestMade struct {
	RequestID uuid.UUID `json:"request_id"`
	Count     int       `json:"count"`
	AreaCodes []string  `json:"area_codes,omitempty"`
	Note      *string   `json:"note,omitempty"`
	PoolID    *string   `json:"pool_id,omitempty"`
}

// LineRequestStarted records that the operator works on the request.
type LineRequestStarted struct {
	RequestID uuid.UUID `json:"request_id"`
}

// LineRequestServed records that a line was provisioned for the request.
type LineRequestServed struct {
	RequestID uuid.UUID `json:"request_id"`
	LineID    string    `json:"line_id"`
}

// LineRequestFulfilled closes a request for which all lines were provisioned.
type LineRequestFulfilled struct {
	RequestID uuid.UUID `json:"request_id"`
}

// LineRequestCancelled closes a request for which no further lines will be provisioned.
type LineRequestCancelled struct {
	RequestID uuid.UUID `json:"request_id"`
	Reason    *string   `json:"reason,omitempty"`
}
