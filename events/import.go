package events

import "github.com/google/uuid"

// Import events belong to one import of contacts. The file itself is no part of the ledger: it holds the data of many
// people, and is gone when the job ends. Stream: Stream("imp", id).

// ImportRequested accepts a file.
type ImportRequested struct {
	JobID          uuid.UUID   `json:"job_id"`
	TotalRows      int         `json:"total_rows"`
	LabelIDs       []uuid.UUID `json:"label_ids,omitempty"` // put on every contact of the file
	ConsentSource  *string     `json:"consent_source,omitempty"`
	UpdateExisting bool        `json:"update_existing,omitempty"`
	IsTest         bool        `json:"is_test,omitempty"`
}

// ImportStarted tells that the job is being worked on.
type ImportStarted struct {
	JobID uuid.UUID `json:"job_id"`
}

// ImportProgressed tells how far the job has come. It is appended together with what the rows since the last one changed,
// so that each row is carried out and counted once.
type ImportProgressed struct {
	JobID    uuid.UUID     `json:"job_id"`
	Rows     int           `json:"rows"` // done so far
	Imported int           `json:"imported"`
	Updated  int           `json:"updated"`
	Skipped  int           `json:"skipped"`
	Errors   []ImportError `json:"errors,omitempty"` // of the rows since the last one
}

// ImportError says why a row was skipped, without quoting it.
type ImportError struct {
	Row     int    `json:"row"` // as a spreadsheet numbers it
	Message string `json:"message"`
}

// ImportCompleted ends a job whose rows are all done.
type ImportCompleted struct {
	JobID     uuid.UUID `json:"job_id"`
	TotalRows int       `json:"total_rows"`
	Imported  int       `json:"imported"`
	Updated   int       `json:"updated"`
	Skipped   int       `json:"skipped"`
}

// ImportFailed ends a job that cannot go on. What it has done stays.
type ImportFailed struct {
	JobID  uuid.UUID `json:"job_id"`
	Reason string    `json:"reason"`
}
