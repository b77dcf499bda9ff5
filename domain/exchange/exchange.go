// Package exchange holds, for one contact, which lines have written to the contact and whether the contact ever
// replied. Three rules use this: the limit of messages before the first reply (rules SND-14 and SND-16), to which lines
// the contact is new (rule SND-45), and which first messages stayed unanswered (rule LIN-15).
package exchange

import (
	"maps"
	"slices"
	"strings"

	"ledgerline/domain/line"
	"ledgerline/events"
)

// Stream returns the name of the stream of a contact's exchange.
func Stream(contactID string) string {
	_, id, _ := strings.Cut(contactID, "_")
	return "xch_" + id
}

// Exchange is the state of one contact's exchange. The zero value is the exchange of a contact that no line has written
// to.
type Exchange struct {
	Replied             bool                   // the contact has written at least once (rule CON-22)
	FirstReplyID        string                 // the first message from the contact
	MessagesBeforeReply int                    // messages that count toward the limit before the first reply (rule SND-16)
	lastMessageID       string                 // newest message that MessagesBeforeReply counts
	Lines               map[string]LineHistory // by line id
	SMSConnectionID     string                 // the connection by which the contact's newest message came; "" for a line
	SMSWroteTo          string                 // the number of ours that the contact last wrote to by SMS; "" for none
	SMSSender           string                 // the number of ours that last sent SMS to the contact; "" for none
}

// LineHistory states what one line has sent to the contact.
type LineHistory struct {
	LastDay            string // usage day of the newest message
	FirstDay           string // usage day of the first message; after a long pause the contact is new to the line again, and this starts anew
	FirstMessageID     string // id of the message of FirstDay
	Unanswered         bool   // the contact has not written since the first message
	UnansweredRecorded bool   // it is recorded that the first message had no answer for 24 hours
}

// Apply returns the state after one event of the exchange's stream. It does not modify x.
func (x Exchange) Apply(event events.Event, _ events.Envelope) Exchange {
	switch e := event.(type) {
	case *events.ContactMessaged:
		if !x.Replied && !e.Rerouted && e.MessageID != x.lastMessageID {
			x.MessagesBeforeReply, x.lastMessageID = x.MessagesBeforeReply+1, e.MessageID
		}
		history := x.Lines[e.LineID]
		history.LastDay = e.Day
		if e.NewToLine {
			history = LineHistory{LastDay: e.Day, FirstDay: e.Day, FirstMessageID: e.MessageID, Unanswered: true}
		}
		x = x.withLine(e.LineID, history)
	case *events.ContactReplied:
		if !x.Replied {
			x.Replied, x.FirstReplyID = true, e.MessageID
		}
		for id, history := range x.Lines {
			history.Unanswered = false
			x = x.withLine(id, history)
		}
	case *events.ContactChannelChanged:
		x.SMSConnectionID = e.ConnectionID
		if e.ConnectionID != "" {
			x.SMSWroteTo = e.Number
		}
	case *events.ContactSMSSenderChosen:
		x.SMSSender = e.Number
	case *events.ContactUnanswered:
		history := x.Lines[e.LineID]
		history.UnansweredRecorded = true
		x = x.withLine(e.LineID, history)
	case *events.ContactMessageUnsent:
		x.MessagesBeforeReply = max(x.MessagesBeforeReply-1, 0)
	}
	return x
}

func (x Exchange) withLine(lineID string, history LineHistory) Exchange {
	x.Lines = maps.Clone(x.Lines)
	if x.Lines == nil {
		x.Lines = map[string]LineHistory{}
	}
	x.Lines[lineID] = history
	return x
}

// IsNewTo reports whether the contact is new to a line on a usage day: the line has not written to it for windowDays
// usage days (rule SND-45).
func (x Exchange) IsNewTo(lineID string, day line.Day, windowDays int) bool {
	history, known := x.Lines[lineID]
	return !known || day.DaysSince(line.ParseDay(history.LastDay)) >= windowDays
}

// RecordMessage records that a message is routed to a line. rerouted states that the message had another line before.
// After the contact's first reply, RecordMessage returns one event per line and usage day, and no event for further
// messages of that day.
func (x Exchange) RecordMessage(contactID, lineID, messageID string, rerouted bool, day line.Day, windowDays int) []events.Event {
	isNew := x.IsNewTo(lineID, day, windowDays)
	if x.Replied && !isNew && x.Lines[lineID].LastDay == day.Date {
		return nil
	}
	return []events.Event{&events.ContactMessaged{ContactID: contactID, LineID: lineID, MessageID: messageID, Day: day.Date, NewToLine: isNew, Rerouted: rerouted}}
}

// RecordReply records a message from the contact on a line. It returns no event if the contact has replied before and
// no line's first message is unanswered.
func (x Exchange) RecordReply(contactID, lineID, messageID string) []events.Event {
	var answers []events.Answers
	for _, id := range slices.Sorted(maps.Keys(x.Lines)) {
		if history := x.Lines[id]; history.Unanswered {
			answers = append(answers, events.Answers{LineID: id, Day: history.FirstDay})
		}
	}
	if x.Replied && len(answers) == 0 {
		return nil
	}
	return []events.Event{&events.ContactReplied{ContactID: contactID, LineID: lineID, MessageID: messageID, Answers: answers}}
}

// RecordChannel records by which SMS connection the contact's newest message came, and to which number; "" for a line.
// It returns no event if that is as before.
func (x Exchange) RecordChannel(contactID, connectionID, number string) []events.Event {
	if x.SMSConnectionID == connectionID && (connectionID == "" || x.SMSWroteTo == number) {
		return nil
	}
	return []events.Event{&events.ContactChannelChanged{ContactID: contactID, ConnectionID: connectionID, Number: number}}
}

// RecordSMSSender records the number that sends SMS to the contact; no event if it is as before, or not known.
func (x Exchange) RecordSMSSender(contactID, number string) []events.Event {
	if number == "" || x.SMSSender == number {
		return nil
	}
	return []events.Event{&events.ContactSMSSenderChosen{ContactID: contactID, Number: number}}
}

// RecordUnanswered records that a line's first message had no answer for 24 hours (rule LIN-15). It returns no event
// if the contact has written since, if this is recorded already, or if messageID is not the line's present first
// message.
func (x Exchange) RecordUnanswered(contactID, lineID, messageID string) []events.Event {
	history := x.Lines[lineID]
	if !history.Unanswered || history.UnansweredRecorded || history.FirstMessageID != messageID {
		return nil
	}
	return []events.Event{&events.ContactUnanswered{ContactID: contactID, LineID: lineID, MessageID: messageID}}
}

// RecordUnsent records that a routed message failed before it was sent. The message no longer counts toward the limit
// before the first reply (rule SND-16). After the first reply it returns no event.
func (x Exchange) RecordUnsent(contactID, messageID string) []events.Event {
	if x.Replied || x.MessagesBeforeReply == 0 {
		return nil
	}
	return []events.Event{&events.ContactMessageUnsent{ContactID: contactID, MessageID: messageID}}
}
