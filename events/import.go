package events

import "github.com/google/uuid"

// The events of an import of contacts. The file itself is not in the ledger: it contains the personal data of many
// people and is deleted when the job ends. Stream: Stream("imp", id).

// ImportRequested accepts an import.
type ImportRequested struct {
	JobID          uuid.UUID   `json:"job_id"`
	TotalRows      int         `json:"total_rows"`
	LabelIDs       []uuid.UUID `json:"label_ids,omitempty"` // added to every contact of the file
	ConsentSource  *string     `json:"consent_source,omitempty"`
	UpdateExisting bool        `json:"update_existing,omitempty"`
	IsTest         bool        `json:"is_test,omitempty"`
}

// ImportStarted records that work on the job has begun.
type ImportStarted struct {
	JobID uuid.UUID `json:"job_id"`
}

// ImportProgressed records how many rows are done. One append contains it together with the events of the rows since
// the last one, so that each row is imported and counted once.
type ImportProgressed struct {
	JobID    uuid.UUID     `json:"job_id"`
	Rows     int           `json:"rows"` // done so far
	Imported int           `json:"imported"`
	Updated  int           `json:"updated"`
	Skipped  int           `json:"skipped"`
	Errors   []ImportError `json:"errors,omitempty"` // of the rows since the last such event
}

// ImportError is why a row was skipped. It does not quote the row.
type ImportError struct {
	Row     int    `json:"row"` // as spreadsheets number rows
	Message string `json:"message"`
}

// ImportCompleted ends a job after its last row.
type ImportCompleted struct {
	JobID     uuid.UUID `json:"job_id"`
	TotalRows int       `json:"total_rows"`
	Imported  int       `json:"imported"`
	Updated   int       `json:"updated"`
	Skipped   int       `json:"skipped"`
}

// ImportFailed ends a job that cannot continue. Imported rows stay.
type ImportFailed struct {
	JobID  uuid.UUID `json:"job_id"`
	Reason string    `json:"reason"`
}
