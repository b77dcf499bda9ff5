package events

// What has gone back and forth between a contact and the lines of its workspace, as far as the rules of sending need to
// know it. Stream: "xch_" and the contact's id without its prefix.

// ContactMessaged tells that a message to the contact was given to a line. It is recorded for every message before the
// contact's first reply, and from then on once per line and usage day.
type ContactMessaged struct {
	ContactID string `json:"contact_id"`
	LineID    string `json:"line_id"`
	MessageID string `json:"message_id"`
	Day       string `json:"day"`           // usage day, YYYY-MM-DD
	NewToLine bool   `json:"new,omitempty"` // the contact was new to the line, and counts toward its limits
	// Rerouted tells that the message had been given to another line before: it is no further one of those before the reply.
	Rerouted bool `json:"again,omitempty"`
}

// ContactReplied tells that the contact wrote for the first time, or for the first time after a line began to write to it.
type ContactReplied struct {
	ContactID string    `json:"contact_id"`
	LineID    string    `json:"line_id"` // it wrote to
	MessageID string    `json:"message_id"`
	Answers   []Answers `json:"answers,omitempty"`
}

// Answers is a line's first message that had no answer until then.
type Answers struct {
	LineID string `json:"line_id"`
	Day    string `json:"day"` // on which the line first wrote
}

// ContactUnanswered tells that a line's first message to the contact was delivered and had no answer for 24 hours.
type ContactUnanswered struct {
	ContactID string `json:"contact_id"`
	LineID    string `json:"line_id"`
	MessageID string `json:"message_id"`
}

// ContactMessageUnsent tells that a message to the contact, which had not replied yet, failed without having been sent: it is none of those
// that may be sent before the reply.
type ContactMessageUnsent struct {
	ContactID string `json:"contact_id"`
	MessageID string `json:"message_id"`
}
