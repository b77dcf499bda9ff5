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

// World is a carrier in front of a stand-in for the outside world. What is nil cannot happen with this carrier.
type World struct {
	Carrier carrier.Carrier
	Inbox   *Inbox // that the carrier reports to
	Line    carrier.Line
	OnChat  string // a number that is on chat, whose device takes what comes and says nothing by itself
	OffChat string // one that is not
	SMS     bool   // the carrier carries text messages, too

	// Arrived counts how often a message has come to the number, by its text.
	Arrived func(t *testing.T, number, text string) int
	// Busy makes the carrier refuse for now what it is given next, for the number that it names; Ready ends that.
	Busy  func(t *testing.T) (number string)
	Ready func(t *testing.T)
	// LoseAnswers has the carrier take what it is given without an answer coming back; LoseRequests has it take nothing and
	// answer nothing. Restore ends both.
	LoseAnswers  func(t *testing.T)
	LoseRequests func(t *testing.T)
	Restore      func(t *testing.T)
	// Settle brings about whatever makes an unknown outcome certain: that time passes.
	Settle func(t *testing.T)
	// Deliver and Read are what the device of the number does with the newest message.
	Deliver func(t *testing.T, number string)
	Read    func(t *testing.T, number string)
	// Reply has a contact write to the line, and tells its number.
	Reply func(t *testing.T, text string) (number string)
	// Again has the outside world report everything that it reported before.
	Again func(t *testing.T)
}

// patience bounds how long a report is waited for, in real time.
const patience = 20 * time.Second

// Run runs the suite. Every test opens a world of its own.
func Run(t *testing.T, open func(t *testing.T) *World) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, *World){
		"a message is taken once and told by our id":                          taken,
		"what was never sent is not found":                                    neverSent,
		"each channel is a sending of its own":                                byChannel,
		"a number that is not on chat is told before and refused for good":    offChat,
		"what is refused for now was not taken and can be sent again":         refusedForNow,
		"an answer that is lost leaves the outcome unknown until it is asked": lostAnswer,
		"a request that is lost was not taken, once that is certain":          lostRequest,
		"receipts carry our id and the carrier's, in order":                   receipts,
		"a refused report is made again":                                      refusedReports,
		"a message from a contact has one id, however often it is reported":   replies,
		"many at once are each taken once":                                    manyAtOnce,
		"a caller who leaves is told truly, or nothing":                       canceled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
}

// message is a message through the world's line.
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

// outcome is what the carrier says of a message when it is certain.
func (w *World) outcome(t *testing.T, out carrier.Outbound) (carrier.Accepted, bool) {
	t.Helper()
	accepted, found, err := w.Carrier.Lookup(t.Context(), out)
	if err != nil && w.Settle != nil {
		w.Settle(t)
		accepted, found, err = w.Carrier.Lookup(t.Context(), out)
	}
	require.NoError(t, err)
	return accepted, found
}

func (w *World) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 2*time.Millisecond, what)
}

func taken(t *testing.T, w *World) {
	out := w.message(t, "msg_1", w.OnChat)
	accepted := w.send(t, out)
	found, ok := w.outcome(t, out)
	require.True(t, ok)
	require.Equal(t, accepted, found)
	require.Equal(t, 1, w.Arrived(t, w.OnChat, out.Body))
}

func neverSent(t *testing.T, w *World) {
	w.send(t, w.message(t, "msg_1", w.OnChat))
	same := w.message(t, "msg_2", w.OnChat)
	same.Body = "This is msg_1." // the same words are not the same message
	_, found := w.outcome(t, same)
	require.False(t, found)
}

// byChannel is the fallback: a message that chat has taken goes on by SMS.
func byChannel(t *testing.T, w *World) {
	chat := w.message(t, "msg_1", w.OnChat)
	sms := chat
	sms.Channel = "sms"
	byChat := w.send(t, chat)
	_, found := w.outcome(t, sms)
	require.False(t, found, "what chat has taken is not sent by SMS")
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
		told, found := w.outcome(t, *out)
		require.True(t, found)
		require.Equal(t, accepted, told)
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
	_, found := w.outcome(t, out)
	require.False(t, found)
	w.Ready(t)
	w.send(t, out)
	require.Equal(t, 1, w.Arrived(t, out.To, out.Body))
}

// unknown requires an error that says neither that the message was refused nor that it was taken.
func unknown(t *testing.T, err error) {
	t.Helper()
	var rejected *carrier.Rejected
	require.Error(t, err)
	require.NotErrorIs(t, err, carrier.ErrTransient)
	require.NotErrorAs(t, err, &rejected)
}

func lostAnswer(t *testing.T, w *World) {
	if w.LoseAnswers == nil {
		return // its answer cannot be lost
	}
	out := w.message(t, "msg_1", w.OnChat)
	w.LoseAnswers(t)
	_, err := w.Carrier.Send(t.Context(), out)
	unknown(t, err)
	w.Restore(t)
	accepted, found := w.outcome(t, out)
	require.True(t, found)
	require.NotEmpty(t, accepted.CarrierID)
	again, found := w.outcome(t, out)
	require.True(t, found)
	require.Equal(t, accepted, again)
	require.Equal(t, 1, w.Arrived(t, w.OnChat, out.Body))
	// It is the one message and no other: the next one with the same words is not taken for it.
	next := w.message(t, "msg_2", w.OnChat)
	next.Body = out.Body
	_, found = w.outcome(t, next)
	require.False(t, found)
}

func lostRequest(t *testing.T, w *World) {
	if w.LoseRequests == nil {
		return // what it is given, it has
	}
	w.send(t, w.message(t, "msg_0", w.OnChat))
	out := w.message(t, "msg_1", w.OnChat)
	out.Body = "This is msg_0." // what an earlier message said is no proof of this one
	w.LoseRequests(t)
	_, err := w.Carrier.Send(t.Context(), out)
	unknown(t, err)
	w.Restore(t)
	_, _, err = w.Carrier.Lookup(t.Context(), out)
	require.Error(t, err, "it may still be on its way")
	w.Settle(t)
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
	if w.Again != nil {
		w.Again(t)
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
		require.False(t, seen[id], "two messages have the carrier's id %s", id)
		seen[id] = true
		out := w.message(t, fmt.Sprintf("msg_%02d", i), w.OnChat)
		found, ok := w.outcome(t, out)
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
	_, found := w.outcome(t, out)
	require.Equal(t, err == nil, found)
	require.Equal(t, err == nil, w.Arrived(t, w.OnChat, out.Body) == 1)
}
