// Package exchange is what has gone back and forth between a contact and the lines that write to it: whether it ever
// replied, how many messages it got before that, and to which lines it is new (interface section 1 rules 4 and 5).
package exchange

import (
	"maps"
	"slices"
	"strings"

	"ledgerline/domain/line"
	"ledgerline/events"
)

// Stream names the stream of a contact's exchange.
func Stream(contactID string) string {
	_, id, _ := strings.Cut(contactID, "_")
	return "xch_" + id
}

// Exchange is the state of one contact's exchange. The zero value is a contact that nobody has written to.
type Exchange struct {
	Replied             bool                   // ever; any inbound message counts
	MessagesBeforeReply int                    // that it got before its first reply
	lastMessageID       string                 // the newest of them
	Lines               map[string]LineHistory // by line
}

// LineHistory is what a contact had from one line.
type LineHistory struct {
	LastDay            string // usage day of the newest message
	FirstDay           string // usage day of the first one since the contact was new to the line
	FirstMessageID     string // that message
	Unanswered         bool   // nothing has come from the contact since
	UnansweredRecorded bool   // that it went without an answer for 24 hours is on record
}

// Apply folds one event.
func (x Exchange) Apply(event events.Event, _ events.Envelope) Exchange {
	switch e := event.(type) {
	case *events.ContactMessaged:
		if !x.Replied && !e.Rerouted && e.MessageID != x.lastMessageID {
			x.MessagesBeforeReply, x.lastMessageID = x.MessagesBeforeReply+1, e.MessageID
		}
		via := x.Lines[e.LineID]
		via.LastDay = e.Day
		if e.NewToLine {
			via = LineHistory{LastDay: e.Day, FirstDay: e.Day, FirstMessageID: e.MessageID, Unanswered: true}
		}
		x = x.withLine(e.LineID, via)
	case *events.ContactReplied:
		x.Replied = true
		for id, via := range x.Lines {
			via.Unanswered = false
			x = x.withLine(id, via)
		}
	case *events.ContactUnanswered:
		via := x.Lines[e.LineID]
		via.UnansweredRecorded = true
		x = x.withLine(e.LineID, via)
	case *events.ContactMessageUnsent:
		x.MessagesBeforeReply = max(x.MessagesBeforeReply-1, 0)
	}
	return x
}

func (x Exchange) withLine(lineID string, via LineHistory) Exchange {
	x.Lines = maps.Clone(x.Lines)
	if x.Lines == nil {
		x.Lines = map[string]LineHistory{}
	}
	x.Lines[lineID] = via
	return x
}

// IsNewTo tells whether the contact is new to a line on a day: it had nothing from it for the window, in usage days.
func (x Exchange) IsNewTo(lineID string, day line.Day, windowDays int) bool {
	via, known := x.Lines[lineID]
	return !known || day.DaysSince(line.ParseDay(via.LastDay)) >= windowDays
}

// RecordMessage records that a message is given to a line, perhaps again: to another one than before. After the first reply, one record per line and day is enough.
func (x Exchange) RecordMessage(contactID, lineID, messageID string, again bool, day line.Day, windowDays int) []events.Event {
	isNew := x.IsNewTo(lineID, day, windowDays)
	if x.Replied && !isNew && x.Lines[lineID].LastDay == day.Date {
		return nil
	}
	return []events.Event{&events.ContactMessaged{ContactID: contactID, LineID: lineID, MessageID: messageID, Day: day.Date, NewToLine: isNew, Rerouted: again}}
}

// RecordReply records a message from the contact, if it is the first one or lines wait for an answer.
func (x Exchange) RecordReply(contactID, lineID, messageID string) []events.Event {
	var answers []events.Answers
	for _, id := range slices.Sorted(maps.Keys(x.Lines)) {
		if via := x.Lines[id]; via.Unanswered {
			answers = append(answers, events.Answers{LineID: id, Day: via.FirstDay})
		}
	}
	if x.Replied && len(answers) == 0 {
		return nil
	}
	return []events.Event{&events.ContactReplied{ContactID: contactID, LineID: lineID, MessageID: messageID, Answers: answers}}
}

// RecordUnanswered records that the contact has not answered a line's first message for 24 hours. It is nothing when it has, when that is
// on record, or when that message is not the line's first one any more.
func (x Exchange) RecordUnanswered(contactID, lineID, messageID string) []events.Event {
	via := x.Lines[lineID]
	if !via.Unanswered || via.UnansweredRecorded || via.FirstMessageID != messageID {
		return nil
	}
	return []events.Event{&events.ContactUnanswered{ContactID: contactID, LineID: lineID, MessageID: messageID}}
}

// RecordUnsent records that a message which was given to a line failed without having been sent. Before the first reply it gives
// its place to another one; later nobody counts.
func (x Exchange) RecordUnsent(contactID, messageID string) []events.Event {
	if x.Replied || x.MessagesBeforeReply == 0 {
		return nil
	}
	return []events.Event{&events.ContactMessageUnsent{ContactID: contactID, MessageID: messageID}}
}
