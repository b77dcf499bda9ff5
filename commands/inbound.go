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
	"ledgerline/events"
)

// InboundMessage is a message that came from a contact.
type InboundMessage struct {
	LinePhone string // E.164 of the line it came to
	From      string
	Body      string
	Media     []events.Media
	Channel   string // chat or sms; default chat
	CarrierID string // the carrier's own id of it; the same one is taken once. "" when the carrier has none
}

// ReceivedMessage is what became of an inbound message.
type ReceivedMessage struct {
	Result
	MessageID        string
	ContactID        string // "" for a duplicate
	ConversationID   string // "" for a duplicate
	Duplicate        bool   // it was taken before, as MessageID
	Keyword          consent.Keyword
	AutomaticReplyID string // of the automatic text that answers it; "" when none does
}

// ReceiveMessage takes a message from a contact: it finds the line's workspace, makes the contact and starts or reopens
// the conversation where needed, and obeys STOP, START and HELP, all in one append. The request says only through what
// it came: organisation, workspace and actor are found here. not_found when no line has the number.
func (a *App) ReceiveMessage(ctx context.Context, req Request, in InboundMessage) (ReceivedMessage, error) {
	from, err := a.engine.Phone(in.From, "/from")
	if err != nil {
		return ReceivedMessage{}, err
	}
	if in.Channel == "" {
		in.Channel = "chat"
	}
	in.Body = strings.ReplaceAll(in.Body, "\x00", "") // no text column can hold it
	var r ReceivedMessage
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		r = ReceivedMessage{MessageID: a.engine.IDs.TypeID("msg")}
		return u.receive(ctx, &in, from, &r)
	})
	if taken := (*alreadyTaken)(nil); errors.As(err, &taken) {
		return ReceivedMessage{MessageID: taken.messageID, Duplicate: true}, nil
	}
	if err != nil {
		return ReceivedMessage{}, err
	}
	r.Result = result
	return r, nil
}

// alreadyTaken says that the carrier delivered a message again.
type alreadyTaken struct{ messageID string }

func (e *alreadyTaken) Error() string { return "commands: this message was taken before" }

// lineOf finds the line with a number. One that is remembered may have been retired, and its number given to another: the
// append leans on it, and when it is retired the ledger is asked whose the number is now.
func (u *unit) lineOf(ctx context.Context, e164 string) (*engine.Aggregate[line.Line], error) {
	for asked := false; ; asked = true {
		id, found, err := u.Engine.Owner(ctx, claimLinePhone, e164)
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
		if l.State.State != line.Retired || asked {
			return l, nil
		}
		u.Engine.DropOwner(claimLinePhone, e164)
	}
}

func (u *unit) receive(ctx context.Context, in *InboundMessage, from string, r *ReceivedMessage) error {
	l, err := u.lineOf(ctx, in.LinePhone)
	if err != nil {
		return err
	}
	lineID := l.State.ID
	u.Request.Organisation, u.Request.Workspace, u.Ref = l.State.Organisation, l.State.Workspace, r.MessageID
	if in.CarrierID != "" {
		u.Claim("inbound:"+lineID, in.CarrierID, r.MessageID, func(owner string) error { return &alreadyTaken{owner} })
	}
	org, err := u.Organisation(ctx)
	if err != nil {
		return err
	}
	num, err := u.Number(ctx, from)
	if err != nil {
		return err
	}
	c, err := u.holder(ctx, num)
	if err != nil {
		return err
	}
	if c == nil {
		c, err = u.newContact(num, contact.NewContact{Person: events.ContactPersonal{Phone: from}, Origin: "inbound", IsTest: l.State.IsSandbox})
		if err != nil {
			return err
		}
	}
	u.Request.Actor = events.Actor{Type: "contact", ID: c.State.ID}
	if err := u.openConversation(ctx, c, l.State.IsSandbox); err != nil {
		return err
	}
	r.ContactID, r.ConversationID = c.State.ID, c.State.ConversationID
	ref := events.MessageRef{MessageID: r.MessageID, ConversationID: r.ConversationID, ContactID: r.ContactID, IsTest: l.State.IsSandbox}
	engine.Begin(u.Unit, u.Engine.Messages, r.MessageID).Record(&events.MessageReceived{
		MessageRef: ref, LineID: lineID, Channel: in.Channel, CarrierID: in.CarrierID,
		Content: events.MessagePersonal{To: l.State.Phone, From: from, Body: in.Body, Media: in.Media},
	})
	if err := u.answered(ctx, c.State.ID, r.MessageID, l); err != nil {
		return err
	}
	if err := u.adopt(ctx, c, l); err != nil {
		return err
	}
	return u.obey(ctx, in, org.State, c, num, ref, lineID, r)
}

// answered notes that the contact wrote: it may get any message from now on, and the line it wrote to has no streak of
// silence any more.
func (u *unit) answered(ctx context.Context, contactID, messageID string, l *engine.Aggregate[line.Line]) error {
	x, err := engine.Load(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(contactID))
	if err != nil {
		return err
	}
	x.Record(x.State.RecordReply(contactID, l.State.ID, messageID)...)
	l.Record(l.State.RecordReply()...)
	return nil
}

// adopt makes the line that a contact writes to its sticky sender when it has none, or its own one is gone: it is answered from
// the number that it wrote to.
func (u *unit) adopt(ctx context.Context, c *engine.Aggregate[contact.Contact], l *engine.Aggregate[line.Line]) error {
	if l.State.IsSandbox || l.State.OutOfService() {
		return nil
	}
	gone := false
	if own := c.State.LineID; own != "" && own != l.State.ID {
		sticky, err := engine.Load(ctx, u.Unit, u.Engine.Lines, own)
		if err != nil {
			return err
		}
		gone = sticky.State.OutOfService()
	}
	c.Record(c.State.AssignLine(l.State.ID, gone)...)
	return nil
}

// obey does what the words STOP, START and HELP ask for.
func (u *unit) obey(ctx context.Context, in *InboundMessage, org organisation.Organisation, c *engine.Aggregate[contact.Contact], num engine.Number, ref events.MessageRef, lineID string, r *ReceivedMessage) error {
	optedOut := c.State.Consent == consent.OptedOut
	keyword, word := consent.Recognise(in.Body, optedOut || num.State.OptedOut, org.Settings.StopWords)
	r.Keyword = keyword
	source := "inbound_message"
	evidence := consent.Evidence{
		Source: &source, Keyword: &word, Text: in.Body, MessageID: &ref.MessageID, LineID: &lineID, Channel: &in.Channel,
	}
	switch keyword {
	case consent.Stop:
		if err := u.changeConsent(ctx, c, num, consent.OptedOut, evidence); err != nil {
			return err
		}
		if !optedOut { // once per opt-out
			u.answer(in, ref, c.State.Phone, lineID, message.OptOutConfirmation, org.ConfirmationText(), r)
		}
	case consent.Start:
		return u.changeConsent(ctx, c, num, consent.OptedIn, evidence)
	case consent.Help:
		if !optedOut && !num.State.OptedOut { // who opted out is never messaged, whatever it asks
			u.answer(in, ref, c.State.Phone, lineID, message.Help, org.HelpText(), r)
		}
	case consent.None:
	}
	return nil
}

// answer queues an automatic text on the line and the channel that the contact wrote on.
func (u *unit) answer(in *InboundMessage, ref events.MessageRef, to, lineID, kind, text string, r *ReceivedMessage) {
	replyTo := ref.MessageID
	ref.MessageID = u.Engine.IDs.TypeID("msg")
	r.AutomaticReplyID = ref.MessageID
	e := &events.MessageQueued{
		MessageRef: ref, Channel: in.Channel, LineID: &lineID, Automatic: kind, ReplyTo: &replyTo,
		Content: events.MessagePersonal{To: to, Body: text},
	}
	engine.Begin(u.Unit, u.Engine.Messages, e.MessageID).Record(message.Accept(e, u.Now)...)
}
