// Package exchange keeps, for one contact, what it got from each line and whether it ever replied. From this follow
// the limit of messages before the first reply (rules SND-14 and SND-16), to which lines the contact is new (rule
// SND-45), and which first messages stayed unanswered (rule LIN-15).
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

// Exchange is the state of one contact's exchange. The zero value is a contact that no line has written to.
type Exchange struct {
	Replied             bool                   // the contact has written, ever (rule CON-22)
	MessagesBeforeReply int                    // messages that count toward the limit before the first reply (rule SND-16)
	lastMessageID       string                 // the newest of them
	Lines               map[string]LineHistory // by line id
}

// LineHistory is what a contact got from one line.
type LineHistory struct {
	LastDay            string // usage day of the newest message
	FirstDay           string // usage day of the first message since the contact was new to the line
	FirstMessageID     string // id of that first message
	Unanswered         bool   // the contact has not written since
	UnansweredRecorded bool   // that the first message had no answer for 24 hours is recorded
}

// Apply returns the state after one event of the exchange's stream. It leaves x as it is.
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

// IsNewTo reports whether the contact is new to a line on a usage day: the line has not written to it for windowDays
// usage days (rule SND-45).
func (x Exchange) IsNewTo(lineID string, day line.Day, windowDays int) bool {
	via, known := x.Lines[lineID]
	return !known || day.DaysSince(line.ParseDay(via.LastDay)) >= windowDays
}

// RecordMessage records that a message is routed to a line. again states that the message had another line before.
// After the contact's first reply one record per line and usage day is enough; then it returns no event.
func (x Exchange) RecordMessage(contactID, lineID, messageID string, again bool, day line.Day, windowDays int) []events.Event {
	isNew := x.IsNewTo(lineID, day, windowDays)
	if x.Replied && !isNew && x.Lines[lineID].LastDay == day.Date {
		return nil
	}
	return []events.Event{&events.ContactMessaged{ContactID: contactID, LineID: lineID, MessageID: messageID, Day: day.Date, NewToLine: isNew, Rerouted: again}}
}

// RecordReply records a message from the contact on a line. It returns no event if the contact has replied before and
// no line's first message is unanswered.
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

// RecordUnanswered records that a line's first message had no answer for 24 hours (rule LIN-15). It returns no event
// if the contact has written since, if this is recorded already, or if messageID is not the line's present first
// message.
func (x Exchange) RecordUnanswered(contactID, lineID, messageID string) []events.Event {
	via := x.Lines[lineID]
	if !via.Unanswered || via.UnansweredRecorded || via.FirstMessageID != messageID {
		return nil
	}
	return []events.Event{&events.ContactUnanswered{ContactID: contactID, LineID: lineID, MessageID: messageID}}
}

// RecordUnsent records that a routed message failed without ever having been sent: it no longer counts toward the
// limit before the first reply (rule SND-16). After the first reply it returns no event.
func (x Exchange) RecordUnsent(contactID, messageID string) []events.Event {
	if x.Replied || x.MessagesBeforeReply == 0 {
		return nil
	}
	return []events.Event{&events.ContactMessageUnsent{ContactID: contactID, MessageID: messageID}}
}
