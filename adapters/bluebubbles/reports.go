package bluebubbles

import (
	"context"
	"strings"

	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/processes/carrier"
)

// handle handles a message that a server reports or shows, new or changed, ours or a contact's. Handling it again does
// no harm.
func (a *Adapter) handle(ctx context.Context, account Account, m *wireMessage, isNew bool) error {
	switch {
	case m.GUID == "":
		return nil
	case m.FromMe:
		return a.receipts(ctx, account, m)
	case isNew:
		return a.inbound(ctx, account, m)
	}
	return nil // a contact's message that was edited, or read here
}

// receipts reports the receipts of a message of ours. A message that was typed at the Mac is not ours.
func (a *Adapter) receipts(ctx context.Context, account Account, m *wireMessage) error {
	if m.TempGUID != "" {
		if err := a.recordTempGUID(ctx, account.LineID, m.TempGUID, m.GUID); err != nil {
			return err
		}
	}
	s, found, err := a.sentPart(ctx, account.LineID, m.GUID)
	if err != nil || !found {
		return err
	}
	report := func(level int, r carrier.Receipt) error {
		if s.Reported >= level {
			return nil
		}
		r.MessageID, r.CarrierID = s.MessageID, m.GUID
		if s.First != nil {
			r.CarrierID = *s.First
		}
		if err := a.cfg.Inbox.Receipt(ctx, r); err != nil {
			return err
		}
		s.Reported = level
		return a.recordReported(ctx, &s, level)
	}
	if m.Error != 0 { // of any part: the contact does not have the whole message
		return report(reportedFailed, carrier.Receipt{Kind: carrier.ReceiptFailed, Code: failure(m.Error), At: at(m.Created)})
	}
	if !s.Last {
		return nil
	}
	if m.DateDelivered > 0 || m.DateRead > 0 || m.IsDelivered {
		delivered := m.DateDelivered
		if delivered == 0 {
			delivered = max(m.DateRead, m.Created)
		}
		if err := report(reportedDelivered, carrier.Receipt{Kind: carrier.ReceiptDelivered, At: at(delivered)}); err != nil {
			return err
		}
	}
	if m.DateRead > 0 {
		return report(reportedRead, carrier.Receipt{Kind: carrier.ReceiptRead, At: at(m.DateRead)})
	}
	return nil
}

// maxAttachments is how many attachments of a message are kept.
const maxAttachments = 50

// inbound reports a message from a contact. It skips what no contact can have sent: messages in groups, reactions,
// notices, and messages from e-mail addresses and short codes.
func (a *Adapter) inbound(ctx context.Context, account Account, m *wireMessage) error {
	if m.group() || m.ItemType != 0 || m.AssociatedGUID != "" || m.Handle == nil || strings.Contains(m.Handle.Address, "@") {
		return nil
	}
	known := account.LineID + " " + m.GUID
	if a.known.Contains(known) {
		return nil
	}
	in := carrier.Inbound{CarrierID: m.GUID, LinePhone: account.Phone, From: m.Handle.Address, Body: m.text(), Channel: "chat"}
	if m.Handle.Service != "" && !strings.EqualFold(m.Handle.Service, "iMessage") && !strings.EqualFold(m.Handle.Service, "any") {
		in.Channel = "sms"
	}
	for i := range m.Attachments {
		attached := &m.Attachments[i]
		if attached.Hidden || attached.GUID == "" || len(in.Media) == maxAttachments {
			continue
		}
		path, err := a.mediaPath(account.LineID, attached.GUID)
		if err != nil {
			return err
		}
		in.Media = append(in.Media, events.Media{URL: path, Filename: attached.Name, MIME: attached.MIME, Size: attached.Bytes})
	}
	if in.Body == "" && len(in.Media) == 0 {
		return nil
	}
	_, err := a.cfg.Inbox.Message(ctx, in)
	if fault.Is(err, fault.ValidationFailed) { // a short code, or no number at all
		err = nil
	}
	if err == nil {
		a.known.Add(known, true)
	}
	return err
}
