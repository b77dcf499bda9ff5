package carriertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/processes/carrier"
)

// World is a carrier in front of a stand-in for the outside world. The test of an adapter fills it in. A nil function
// says that the event cannot happen with this carrier.
type World struct {
	Carrier carrier.Carrier
	Inbox   *Inbox // the carrier reports to it
	Line    carrier.Line
	OnChat  string // a number on chat; its device receives messages and does nothing by itself
	OffChat string // a number that is not on chat
	SMS     bool   // the carrier sends SMS too

	// Arrived counts how often a message with a text has arrived at a number.
	Arrived func(t *testing.T, number, text string) int
	// Busy makes the carrier refuse, for now, what is sent to the number that it returns; Ready ends that.
	Busy  func(t *testing.T) (number string)
	Ready func(t *testing.T)
	// LoseAnswers makes the outside world accept messages while its answers are lost. LoseRequests makes the requests get
	// lost, so that nothing is accepted and nothing is answered. Restore ends both.
	LoseAnswers  func(t *testing.T)
	LoseRequests func(t *testing.T)
	Restore      func(t *testing.T)
	// EndUncertainty lets the time pass after which the carrier knows whether it accepted a message whose request or
	// answer was lost.
	EndUncertainty func(t *testing.T)
	// Deliver and Read make the device of the number deliver and read its newest message.
	Deliver func(t *testing.T, number string)
	Read    func(t *testing.T, number string)
	// Reply makes a contact write to the line, and returns the contact's number.
	Reply func(t *testing.T, text string) (number string)
	// RepeatReports makes the outside world repeat all its reports.
	RepeatReports func(t *testing.T)
}

// patience is how long the suite waits for a report, in real time.
const patience = 20 * time.Second

// Run runs the suite. Every test opens a world of its own.
func Run(t *testing.T, open func(t *testing.T) *World) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, *World){
		"a message is accepted once and found by our id":                       acceptedOnce,
		"a message that was never sent is not found":                           neverSent,
		"a message on another channel is another message":                      byChannel,
		"a number off chat is reported as unreachable and rejected for good":   offChat,
		"a message that is refused for now was not accepted and may be resent": refusedForNow,
		"after a lost answer the result is unknown until it is looked up":      lostAnswer,
		"a lost request was not accepted once that is certain":                 lostRequest,
		"receipts carry both ids and come in order":                            receipts,
		"a refused report is made again":                                       refusedReports,
		"a message from a contact has one id however often it is reported":     replies,
		"each of many concurrent messages is accepted once":                    manyAtOnce,
		"a canceled Send returns no error only for an accepted message":        canceled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
}

// message returns a chat message through the line.
func (w *World) message(t *testing.T, id, to string) carrier.Outbound {
	t.Helper()
	return carrier.Outbound{
		MessageID: id, LineID: w.Line.ID, From: w.Line.Phone, To: to, Body: "This is " + id + ".", Channel: "chat",
	}
}

func (w *World) send(t *testing.T, out carrier.Outbound) carrier.Accepted {
	t.Helper()
	accepted, err := w.Carrier.Send(t.Context(), out)
	require.NoError(t, err)
	require.NotEmpty(t, accepted.CarrierID)
	return accepted
}

// lookup looks a message up. If the carrier does not know the result yet, it looks again after EndUncertainty.
func (w *World) lookup(t *testing.T, out carrier.Outbound) (carrier.Accepted, bool) {
	t.Helper()
	accepted, found, err := w.Carrier.Lookup(t.Context(), out)
	if err != nil && w.EndUncertainty != nil {
		w.EndUncertainty(t)
		accepted, found, err = w.Carrier.Lookup(t.Context(), out)
	}
	require.NoError(t, err)
	return accepted, found
}

func (w *World) eventually(t *testing.T, description string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 2*time.Millisecond, description)
}

func acceptedOnce(t *testing.T, w *World) {
	out := w.message(t, "msg_1", w.OnChat)
	accepted := w.send(t, out)
	found, ok := w.lookup(t, out)
	require.True(t, ok)
	require.Equal(t, accepted, found)
	require.Equal(t, 1, w.Arrived(t, w.OnChat, out.Body))
}

func neverSent(t *testing.T, w *World) {
	w.send(t, w.message(t, "msg_1", w.OnChat))
	same := w.message(t, "msg_2", w.OnChat)
	same.Body = "This is msg_1." // the same text is not the same message
	_, found := w.lookup(t, same)
	require.False(t, found)
}

// byChannel sends a message that was accepted on chat by SMS, as a fallback does.
func byChannel(t *testing.T, w *World) {
	chat := w.message(t, "msg_1", w.OnChat)
	sms := chat
	sms.Channel = "sms"
	byChat := w.send(t, chat)
	_, found := w.lookup(t, sms)
	require.False(t, found, "the message was accepted on chat and not by SMS")
	if !w.SMS {
		_, err := w.Carrier.Send(t.Context(), sms)
		var rejected *carrier.Rejected
		require.ErrorAs(t, err, &rejected)
		return
	}
	w.Deliver(t, w.OnChat)
	w.eventually(t, "delivered by chat", func() bool { return len(w.Inbox.Receipts("msg_1")) == 1 })
	bySMS := w.send(t, sms)
	require.NotEqual(t, byChat, bySMS)
	w.Deliver(t, w.OnChat)
	w.eventually(t, "delivered by SMS", func() bool {
		list := w.Inbox.Receipts("msg_1")
		return list[len(list)-1].CarrierID == bySMS.CarrierID
	})
	for out, accepted := range map[*carrier.Outbound]carrier.Accepted{&chat: byChat, &sms: bySMS} {
		got, found := w.lookup(t, *out)
		require.True(t, found)
		require.Equal(t, accepted, got)
	}
	require.Equal(t, 2, w.Arrived(t, w.OnChat, chat.Body))
}

func offChat(t *testing.T, w *World) {
	on, err := w.Carrier.Reachable(t.Context(), w.Line, w.OnChat)
	require.NoError(t, err)
	require.True(t, on)
	on, err = w.Carrier.Reachable(t.Context(), w.Line, w.OffChat)
	require.NoError(t, err)
	require.False(t, on)

	out := w.message(t, "msg_1", w.OffChat)
	_, err = w.Carrier.Send(t.Context(), out)
	var rejected *carrier.Rejected
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, "not_on_chat", rejected.Code)
	require.NotContains(t, err.Error(), w.OffChat[1:], "errors are logged")
	require.Zero(t, w.Arrived(t, w.OffChat, out.Body))
}

func refusedForNow(t *testing.T, w *World) {
	out := w.message(t, "msg_1", w.Busy(t))
	_, err := w.Carrier.Send(t.Context(), out)
	require.ErrorIs(t, err, carrier.ErrTransient)
	require.NotContains(t, err.Error(), out.To[1:], "errors are logged")
	_, found := w.lookup(t, out)
	require.False(t, found)
	w.Ready(t)
	w.send(t, out)
	require.Equal(t, 1, w.Arrived(t, out.To, out.Body))
}

// unknown requires an error that leaves open whether the message was accepted.
func unknown(t *testing.T, err error) {
	t.Helper()
	var rejected *carrier.Rejected
	require.Error(t, err)
	require.NotErrorIs(t, err, carrier.ErrTransient)
	require.NotErrorAs(t, err, &rejected)
}

func lostAnswer(t *testing.T, w *World) {
	if w.LoseAnswers == nil {
		return // answers of this carrier cannot be lost
	}
	out := w.message(t, "msg_1", w.OnChat)
	w.LoseAnswers(t)
	_, err := w.Carrier.Send(t.Context(), out)
	unknown(t, err)
	w.Restore(t)
	accepted, found := w.lookup(t, out)
	require.True(t, found)
	require.NotEmpty(t, accepted.CarrierID)
	again, found := w.lookup(t, out)
	require.True(t, found)
	require.Equal(t, accepted, again)
	require.Equal(t, 1, w.Arrived(t, w.OnChat, out.Body))
	// Another message with the same text is not mistaken for it.
	next := w.message(t, "msg_2", w.OnChat)
	next.Body = out.Body
	_, found = w.lookup(t, next)
	require.False(t, found)
}

func lostRequest(t *testing.T, w *World) {
	if w.LoseRequests == nil {
		return // requests to this carrier cannot be lost
	}
	w.send(t, w.message(t, "msg_0", w.OnChat))
	out := w.message(t, "msg_1", w.OnChat)
	out.Body = "This is msg_0." // an earlier message with the same text proves nothing
	w.LoseRequests(t)
	_, err := w.Carrier.Send(t.Context(), out)
	unknown(t, err)
	w.Restore(t)
	_, _, err = w.Carrier.Lookup(t.Context(), out)
	require.Error(t, err, "the request may still be on its way")
	w.EndUncertainty(t)
	_, found, err := w.Carrier.Lookup(t.Context(), out)
	require.NoError(t, err)
	require.False(t, found)
	w.send(t, out)
	require.Equal(t, 2, w.Arrived(t, w.OnChat, out.Body))
}

func receipts(t *testing.T, w *World) {
	out := w.message(t, "msg_1", w.OnChat)
	accepted := w.send(t, out)
	w.Deliver(t, w.OnChat)
	w.eventually(t, "delivered", func() bool { return len(w.Inbox.Receipts("msg_1")) == 1 })
	w.Read(t, w.OnChat)
	w.eventually(t, "read", func() bool { return len(w.Inbox.Receipts("msg_1")) == 2 })
	require.Equal(t, []string{carrier.ReceiptDelivered, carrier.ReceiptRead}, w.Inbox.Kinds("msg_1"))
	for _, r := range w.Inbox.Receipts("msg_1") {
		require.Equal(t, accepted.CarrierID, r.CarrierID)
		require.False(t, r.At.IsZero())
		require.Empty(t, r.Code)
	}
}

func refusedReports(t *testing.T, w *World) {
	w.send(t, w.message(t, "msg_1", w.OnChat))
	w.Inbox.Refuse(2)
	w.Deliver(t, w.OnChat)
	from := w.Reply(t, "Hello?")
	w.eventually(t, "the receipt", func() bool { return len(w.Inbox.Receipts("msg_1")) > 0 })
	w.eventually(t, "the reply", func() bool { return len(w.Inbox.From(from)) > 0 })
	require.False(t, w.Inbox.Refusing())
}

func replies(t *testing.T, w *World) {
	w.send(t, w.message(t, "msg_1", w.OnChat))
	var from string
	for _, text := range []string{"Hello?", "Hello?", "“STOP”"} {
		from = w.Reply(t, text)
	}
	w.eventually(t, "the replies", func() bool { return len(w.Inbox.From(from)) == 3 })
	if w.RepeatReports != nil {
		w.RepeatReports(t)
	}
	texts := []string{}
	for _, in := range w.Inbox.From(from) {
		texts = append(texts, in.Body)
		require.NotEmpty(t, in.CarrierID)
		require.Equal(t, w.Line.Phone, in.LinePhone)
		require.Equal(t, "chat", in.Channel)
	}
	require.ElementsMatch(t, []string{"Hello?", "Hello?", "“STOP”"}, texts)
}

func manyAtOnce(t *testing.T, w *World) {
	const many = 40
	var all sync.WaitGroup
	ids := make([]string, many)
	for i := range many {
		all.Go(func() {
			accepted, err := w.Carrier.Send(t.Context(), w.message(t, fmt.Sprintf("msg_%02d", i), w.OnChat))
			if err != nil {
				t.Errorf("send: %v", err)
			}
			ids[i] = accepted.CarrierID
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for i, id := range ids {
		require.False(t, seen[id], "two messages have the carrier id %s", id)
		seen[id] = true
		out := w.message(t, fmt.Sprintf("msg_%02d", i), w.OnChat)
		found, ok := w.lookup(t, out)
		require.True(t, ok)
		require.Equal(t, id, found.CarrierID)
		require.Equal(t, 1, w.Arrived(t, w.OnChat, out.Body))
	}
}

func canceled(t *testing.T, w *World) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := w.message(t, "msg_1", w.OnChat)
	_, err := w.Carrier.Send(ctx, out)
	_, found := w.lookup(t, out)
	require.Equal(t, err == nil, found)
	require.Equal(t, err == nil, w.Arrived(t, w.OnChat, out.Body) == 1)
}
