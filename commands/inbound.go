package commands

import (
	"context"
	"errors"
	"strings"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/exchange"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/organisation"
	"ledgerline/domain/smsconnection"
	"ledgerline/events"
)

// InboundMessage is a message from a contact, as a carrier reports it.
type InboundMessage struct {
	LinePhone string // E.164 of the line, or of the number of the SMS connection, that it was sent to
	// ConnectionID is the SMS connection that it was sent to; "" for a line.
	ConnectionID string
	From         string
	Body         string
	Media        []events.Media
	Channel      string // chat or sms; default chat
	CarrierID    string // the carrier's id of the message; "" when the carrier has none
}

// ReceivedMessage is the result of receiving an inbound message.
type ReceivedMessage struct {
	Result
	MessageID        string
	ContactID        string // "" for a duplicate
	ConversationID   string // "" for a duplicate
	Duplicate        bool   // the message had been received before, with MessageID
	Keyword          consent.Keyword
	AutomaticReplyID string // id of the automatic text that answers the message; "" for none
}

// ReceiveMessage records a message from a contact. It finds the line's workspace, creates the contact and starts or
// opens the conversation where needed, and carries out STOP, START and HELP, all in one append (rules INB-21 to INB-24
// and CON-21). The organisation, the workspace and the actor of the request are set here. A message that the carrier
// reports again is recorded once. not_found when no line has the number.
func (a *App) ReceiveMessage(ctx context.Context, req Request, in InboundMessage) (ReceivedMessage, error) {
	from, err := a.engine.Phone(in.From, "/from")
	if err != nil {
		return ReceivedMessage{}, err
	}
	if in.Channel == "" {
		in.Channel = "chat"
	}
	in.Body = strings.ReplaceAll(in.Body, "\x00", "") // PostgreSQL stores no NUL in a text
	var received ReceivedMessage
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		inbound := inboundUnit{unit: u, in: &in, received: ReceivedMessage{MessageID: a.engine.IDs.TypeID("msg")}}
		err := inbound.receive(ctx, from)
		received = inbound.received
		return err
	})
	if duplicate := (*duplicateMessage)(nil); errors.As(err, &duplicate) {
		return ReceivedMessage{MessageID: duplicate.messageID, Duplicate: true}, nil
	}
	if err != nil {
		return ReceivedMessage{}, err
	}
	received.Result = result
	return received, nil
}

// duplicateMessage refuses a message that was received before.
type duplicateMessage struct{ messageID string }

func (e *duplicateMessage) Error() string { return "commands: this message was received before" }

// inboundUnit is the unit of work of receiving one message. receive sets all fields.
type inboundUnit struct {
	*unit
	in       *InboundMessage
	received ReceivedMessage

	line       *engine.Aggregate[line.Line] // nil for an SMS connection
	connection *smsconnection.Connection    // nil for a line
	contact    *engine.Aggregate[contact.Contact]
	number     engine.Number
	ref        events.MessageRef
	word       string // the recognised keyword in its folded form
}

// receive records a message from a number (E.164) and everything that follows from it.
func (u *inboundUnit) receive(ctx context.Context, from string) (err error) {
	receiver, err := u.findReceiver(ctx)
	if err != nil {
		return err
	}
	messageID := u.received.MessageID
	u.Ref = messageID
	if u.in.CarrierID != "" {
		u.Claim("inbound:"+receiver, u.in.CarrierID, messageID, func(owner string) error { return &duplicateMessage{owner} })
	}
	org, err := u.Organisation(ctx)
	if err != nil {
		return err
	}
	if err := u.findOrCreateContact(ctx, from); err != nil {
		return err
	}
	c := &u.contact.State
	u.Request.Actor = events.Actor{Type: "contact", ID: c.ID}
	if err := u.openConversation(ctx, u.contact, u.isTest()); err != nil {
		return err
	}
	u.received.ContactID, u.received.ConversationID = c.ID, c.ConversationID
	u.recognise(&org.State)
	u.ref = events.MessageRef{MessageID: messageID, ConversationID: c.ConversationID, ContactID: c.ID, IsTest: u.isTest()}
	engine.Begin(u.Unit, u.Engine.Messages, messageID).Record(&events.MessageReceived{
		MessageRef: u.ref, LineID: u.lineID(), Channel: u.in.Channel, CarrierID: u.in.CarrierID, Keyword: u.received.Keyword.String(),
		Content: events.MessagePersonal{To: u.in.LinePhone, From: from, Body: u.in.Body, Media: u.in.Media},
	})
	if err := u.recordReply(ctx); err != nil {
		return err
	}
	if u.line == nil {
		return u.applyKeyword(ctx, org.State)
	}
	if err := u.assignLine(ctx); err != nil {
		return err
	}
	if err := u.applyKeyword(ctx, org.State); err != nil {
		return err
	}
	return u.askAgent(ctx)
}

// askAgent has the agent that handles the conversation answer the message. STOP, HELP and START words, test traffic and
// contacts that opted out get no answer (rule AGT-9).
func (u *inboundUnit) askAgent(ctx context.Context) error {
	optedOut := u.contact.State.Consent == consent.OptedOut || u.number.State.OptedOut
	if u.received.Keyword != consent.None || u.ref.IsTest || optedOut {
		return nil
	}
	conv, err := engine.Load(ctx, u.Unit, u.Engine.Conversations, u.ref.ConversationID)
	if err == nil {
		conv.Record(conv.State.AskAgent(u.ref.MessageID)...)
	}
	return err
}

// findReceiver sets the organisation and the workspace of the request to those of the line or the SMS connection that
// the message was sent to, and returns its id. A message is taken in every status of a connection (rule SMS-27).
func (u *inboundUnit) findReceiver(ctx context.Context) (id string, err error) {
	if u.in.ConnectionID == "" {
		if u.line, err = u.loadLineByPhone(ctx, u.in.LinePhone); err != nil {
			return "", err
		}
		l := &u.line.State
		u.in.LinePhone = l.Phone
		u.Request.Organisation, u.Request.Workspace = l.Organisation, l.Workspace
		return l.ID, nil
	}
	c, err := engine.Load(ctx, u.Unit, u.Engine.SMSConnections, u.in.ConnectionID)
	if err != nil {
		return "", err
	}
	if !c.State.Exists() {
		return "", engine.NotFound("SMS connection")
	}
	u.connection = &c.State
	u.Request.Organisation, u.Request.Workspace = c.State.Organisation, c.State.Workspace
	return c.State.ID, nil
}

// isTest reports whether the message is sandbox traffic.
func (u *inboundUnit) isTest() bool { return u.line != nil && u.line.State.IsSandbox }

// lineID is the line that the message was sent to; "" for an SMS connection.
func (u *inboundUnit) lineID() string {
	if u.line == nil {
		return ""
	}
	return u.line.State.ID
}

// loadLineByPhone loads the line that has a number. The remembered owner of the number may be retired, and another line
// may have its number; then the owner is read from the ledger.
func (u *unit) loadLineByPhone(ctx context.Context, e164 string) (*engine.Aggregate[line.Line], error) {
	for fresh := false; ; fresh = true {
		id, found, err := u.Engine.Owner(ctx, linePhoneClaimScope, e164)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, engine.NotFound("line")
		}
		l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, id)
		if err != nil {
			return nil, err
		}
		if l.State.State != line.Retired || fresh {
			return l, nil
		}
		u.Engine.DropOwner(linePhoneClaimScope, e164)
	}
}

// findOrCreateContact sets u.number and u.contact to the sender of the message. It creates the contact if no contact of
// the workspace has the number.
func (u *inboundUnit) findOrCreateContact(ctx context.Context, from string) (err error) {
	if u.number, err = u.Number(ctx, from); err != nil {
		return err
	}
	if u.contact, err = u.findContact(ctx, u.number); err != nil || u.contact != nil {
		return err
	}
	u.contact, err = u.recordNewContact(u.number, contact.NewContact{
		Person: events.ContactPersonal{Phone: from}, Origin: "inbound", IsTest: u.isTest(),
	})
	return err
}

// recordReply records a reply of the contact. It lifts the first-message rules for the contact (rule CON-22) and ends
// the line's streak of unanswered contacts (rule LIN-15).
func (u *inboundUnit) recordReply(ctx context.Context) error {
	contactID := u.contact.State.ID
	x, err := engine.Load(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(contactID))
	if err != nil {
		return err
	}
	x.Record(x.State.RecordReply(contactID, u.lineID(), u.ref.MessageID)...)
	x.Record(x.State.RecordChannel(contactID, u.in.ConnectionID, u.in.LinePhone)...)
	if u.line != nil {
		u.line.Record(u.line.State.RecordReply()...)
	}
	return nil
}

// assignLine assigns the line to the contact if the contact has none, or one that is out of service (rule INB-23).
func (u *inboundUnit) assignLine(ctx context.Context) error {
	l := &u.line.State
	if l.IsSandbox || l.OutOfService() {
		return nil
	}
	outOfService := false
	if assigned := u.contact.State.LineID; assigned != "" && assigned != l.ID {
		other, err := engine.Load(ctx, u.Unit, u.Engine.Lines, assigned)
		if err != nil {
			return err
		}
		outOfService = other.State.OutOfService()
	}
	u.contact.Record(u.contact.State.AssignLine(l.ID, outOfService)...)
	return nil
}

// recognise finds out which keyword the message is (rule CON-19).
func (u *inboundUnit) recognise(org *organisation.Organisation) {
	optedOut := u.contact.State.Consent == consent.OptedOut || u.number.State.OptedOut
	u.received.Keyword, u.word = consent.Recognise(u.in.Body, optedOut, org.Settings.StopWords)
}

// applyKeyword carries out STOP, START and HELP (rules CON-19 to CON-21).
func (u *inboundUnit) applyKeyword(ctx context.Context, org organisation.Organisation) error {
	optedOut := u.contact.State.Consent == consent.OptedOut
	source, messageID, channel := "inbound_message", u.ref.MessageID, u.in.Channel
	evidence := consent.Evidence{Source: &source, Keyword: &u.word, Text: u.in.Body, MessageID: &messageID, Channel: &channel}
	if lineID := u.lineID(); lineID != "" {
		evidence.LineID = &lineID
	}
	switch u.received.Keyword {
	case consent.Stop:
		if err := u.changeConsent(ctx, u.contact, u.number, consent.OptedOut, evidence); err != nil {
			return err
		}
		if !optedOut { // an opt-out is confirmed once (rule SND-50)
			u.reply(message.OptOutConfirmation, org.ConfirmationText())
		}
	case consent.Start:
		return u.changeConsent(ctx, u.contact, u.number, consent.OptedIn, evidence)
	case consent.Help:
		if !optedOut && !u.number.State.OptedOut { // rule SND-51
			u.reply(message.Help, org.HelpText())
		}
	case consent.None:
	}
	return nil
}

// reply accepts an automatic text on the line and the channel that the contact wrote on. kind is the kind of the text.
func (u *inboundUnit) reply(kind, text string) {
	ref, replyTo := u.ref, u.ref.MessageID
	ref.MessageID = u.Engine.IDs.TypeID("msg")
	u.received.AutomaticReplyID = ref.MessageID
	e := &events.MessageQueued{
		MessageRef: ref, Channel: u.in.Channel, Automatic: kind, ReplyTo: &replyTo,
		Content: events.MessagePersonal{To: u.contact.State.Phone, Body: text},
	}
	if lineID := u.lineID(); lineID != "" {
		e.LineID = &lineID
	} else {
		e.SMS = &events.SMSRoute{ConnectionID: u.in.ConnectionID, From: u.connection.Sender(ref.ContactID, u.in.LinePhone, "")}
	}
	engine.Begin(u.Unit, u.Engine.Messages, e.MessageID).Record(message.Accept(e, u.Now)...)
}
