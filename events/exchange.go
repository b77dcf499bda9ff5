package events

// The exchange of messages between a contact and the lines of its workspace, as far as the sending rules depend on it.
// Stream: "xch_" and the contact's id without its prefix.

// ContactMessaged records that a line was chosen for a message to the contact. Until the contact's first reply there is
// one for every message, afterwards one for each line and usage day.
type ContactMessaged struct {
	ContactID string `json:"contact_id"`
	LineID    string `json:"line_id"`
	MessageID string `json:"message_id"`
	Day       string `json:"day"`           // usage day, YYYY-MM-DD
	NewToLine bool   `json:"new,omitempty"` // the contact was new to the line and counts toward its limits
	// Rerouted is true when another line was chosen for the message before: it does not count again as a message before
	// the reply.
	Rerouted bool `json:"again,omitempty"`
}

// ContactReplied records that the contact wrote for the first time, or for the first time after a line first wrote to
// it.
type ContactReplied struct {
	ContactID string    `json:"contact_id"`
	LineID    string    `json:"line_id"` // that the contact wrote to
	MessageID string    `json:"message_id"`
	Answers   []Answers `json:"answers,omitempty"`
}

// Answers is a line whose first message the contact has now answered.
type Answers struct {
	LineID string `json:"line_id"`
	Day    string `json:"day"` // on which the line first wrote
}

// ContactChannelChanged records that the contact's newest message came by another channel, or to another number of an
// SMS connection, than the one before.
type ContactChannelChanged struct {
	ContactID    string `json:"contact_id"`
	ConnectionID string `json:"connection_id,omitempty"` // "" for a line
	Number       string `json:"number,omitempty"`        // of ours, that the contact wrote to
}

// ContactSMSSenderChosen records the number that sends SMS to the contact.
type ContactSMSSenderChosen struct {
	ContactID string `json:"contact_id"`
	Number    string `json:"number"`
}

// ContactUnanswered records that a line's first message to the contact had no answer within 24 hours of its delivery.
type ContactUnanswered struct {
	ContactID string `json:"contact_id"`
	LineID    string `json:"line_id"`
	MessageID string `json:"message_id"`
}

// ContactMessageUnsent records that a message to a contact that had not replied yet failed without being sent. It does
// not count as a message before the reply.
type ContactMessageUnsent struct {
	ContactID string `json:"contact_id"`
	MessageID string `json:"message_id"`
}
