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
	Replied  bool           // ever; any inbound message counts
	Messages int            // that it got before its first reply
	last     string         // the newest of them
	Lines    map[string]Via // by line
}

// Via is what a contact had from one line.
type Via struct {
	Day        string // usage day of the newest message
	First      string // usage day of the first one since the contact was new to the line
	Message    string // that message
	Unanswered bool   // nothing has come from the contact since
	Told       bool   // that it went without an answer for 24 hours is on record
}

// Apply folds one event.
func (x Exchange) Apply(event events.Event, _ events.Envelope) Exchange {
	switch e := event.(type) {
	case *events.ContactMessaged:
		if !x.Replied && !e.Again && e.MessageID != x.last {
			x.Messages, x.last = x.Messages+1, e.MessageID
		}
		via := x.Lines[e.LineID]
		via.Day = e.Day
		if e.New {
			via = Via{Day: e.Day, First: e.Day, Message: e.MessageID, Unanswered: true}
		}
		x = x.with(e.LineID, via)
	case *events.ContactReplied:
		x.Replied = true
		for id, via := range x.Lines {
			via.Unanswered = false
			x = x.with(id, via)
		}
	case *events.ContactUnanswered:
		via := x.Lines[e.LineID]
		via.Told = true
		x = x.with(e.LineID, via)
	case *events.ContactMessageUnsent:
		x.Messages = max(x.Messages-1, 0)
	}
	return x
}

func (x Exchange) with(lineID string, via Via) Exchange {
	x.Lines = maps.Clone(x.Lines)
	if x.Lines == nil {
		x.Lines = map[string]Via{}
	}
	x.Lines[lineID] = via
	return x
}

// NewTo tells whether the contact is new to a line on a day: it had nothing from it for the window, in usage days.
func (x Exchange) NewTo(lineID string, day line.Day, windowDays int) bool {
	via, known := x.Lines[lineID]
	return !known || day.Since(line.DayNamed(via.Day)) >= windowDays
}

// Messaged records that a message is given to a line, perhaps again: to another one than before. After the first reply, one record per line and day is enough.
func (x Exchange) Messaged(contactID, lineID, messageID string, again bool, day line.Day, windowDays int) []events.Event {
	isNew := x.NewTo(lineID, day, windowDays)
	if x.Replied && !isNew && x.Lines[lineID].Day == day.Date {
		return nil
	}
	return []events.Event{&events.ContactMessaged{ContactID: contactID, LineID: lineID, MessageID: messageID, Day: day.Date, New: isNew, Again: again}}
}

// Wrote records a message from the contact, if it is the first one or lines wait for an answer.
func (x Exchange) Wrote(contactID, lineID, messageID string) []events.Event {
	var answers []events.Answers
	for _, id := range slices.Sorted(maps.Keys(x.Lines)) {
		if via := x.Lines[id]; via.Unanswered {
			answers = append(answers, events.Answers{LineID: id, Day: via.First})
		}
	}
	if x.Replied && len(answers) == 0 {
		return nil
	}
	return []events.Event{&events.ContactReplied{ContactID: contactID, LineID: lineID, MessageID: messageID, Answers: answers}}
}

// Silent records that the contact has not answered a line's first message for 24 hours. It is nothing when it has, when that is
// on record, or when that message is not the line's first one any more.
func (x Exchange) Silent(contactID, lineID, messageID string) []events.Event {
	via := x.Lines[lineID]
	if !via.Unanswered || via.Told || via.Message != messageID {
		return nil
	}
	return []events.Event{&events.ContactUnanswered{ContactID: contactID, LineID: lineID, MessageID: messageID}}
}

// Unsent records that a message which was given to a line failed without having been sent. Before the first reply it gives
// its place to another one; later nobody counts.
func (x Exchange) Unsent(contactID, messageID string) []events.Event {
	if x.Replied || x.Messages == 0 {
		return nil
	}
	return []events.Event{&events.ContactMessageUnsent{ContactID: contactID, MessageID: messageID}}
}
