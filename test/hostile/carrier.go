package hostile

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"ledgerline/processes/carrier"
)

var _ carrier.Carrier = (*Carrier)(nil)

// Carrier is the carrier of one node.
type Carrier struct {
	World *World
	// Killed is closed when the node is killed: nothing of the node reaches the world any more.
	Killed <-chan struct{}
	// Inbox returns the node's inbox, for receipts that arrive before the answer.
	Inbox func() carrier.Inbox
}

func (c *Carrier) isKilled() bool {
	select {
	case <-c.Killed:
		return true
	default:
		return false
	}
}

// The errors after which the sender does not know whether the message was accepted.
var (
	errTimeout   = errors.New("hostile: no answer")
	errUndecided = errors.New("hostile: the call is undecided")
	errKilled    = errors.New("hostile: the node is killed")
)

// Refusing reports whether the carrier rejects every message to a number.
func (w *World) Refusing(phone string) bool { return w.chance("refusing "+phone, 0) < 3 }

// OnChat reports whether a number is on the chat channel.
func (w *World) OnChat(phone string) bool { return w.chance("chat "+phone, 0) >= 6 }

// Reachable implements carrier.Carrier. For some numbers it cannot know, and some calls fail.
func (c *Carrier) Reachable(ctx context.Context, _ carrier.Line, phone string) (bool, error) {
	w := c.World
	w.mu.Lock()
	l := w.historyOf(phone, "reachable")
	l.probes++
	n, gate := l.probes, w.gate
	hangs := w.chance("slow probe "+phone, n) < 20 && w.mayHang(phone)
	w.mu.Unlock()
	if hangs {
		c.wait(ctx, phone, gate)
	}
	switch {
	case c.isKilled():
		return false, errKilled
	case w.chance("mute "+phone, 0) < 4:
		return false, carrier.ErrReachabilityUnknown
	case w.chance("probe "+phone, n) < 3:
		return false, errTimeout
	}
	return w.OnChat(phone), nil
}

// Lookup implements carrier.Carrier.
func (c *Carrier) Lookup(_ context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	w := c.World
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.historyOf(out.MessageID, out.Channel)
	l.lookups++
	switch {
	case c.isKilled():
		return carrier.Accepted{}, false, errKilled
	case l.hanging > 0, w.chance("ask "+out.MessageID, l.lookups) < 5:
		return carrier.Accepted{}, false, errUndecided
	case l.accepted == nil:
		return carrier.Accepted{}, false, nil
	}
	return *l.accepted, true, nil
}

// Send implements carrier.Carrier. It accepts whatever it is given, also twice.
func (c *Carrier) Send(ctx context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	w := c.World
	w.mu.Lock()
	if c.isKilled() || ctx.Err() != nil {
		w.mu.Unlock()
		return carrier.Accepted{}, errKilled
	}
	w.ticks++
	called, at, gate := w.ticks, w.clock.Now(), w.gate
	l := w.historyOf(out.MessageID, out.Channel)
	l.sends++
	about, roll := out.MessageID+out.Channel, w.chance(out.MessageID+out.Channel, l.sends)
	switch {
	case out.Channel == "chat" && !w.OnChat(out.To):
		w.mu.Unlock()
		return carrier.Accepted{}, &carrier.Rejected{Code: "not_on_chat"}
	case !out.Automatic && (w.Refusing(out.To) || w.chance("rejected "+about, 0) < 2):
		w.mu.Unlock()
		return carrier.Accepted{}, &carrier.Rejected{Code: map[string]string{"chat": "carrier_rejected", "sms": "sms_30006"}[out.Channel]}
	case w.chance("never "+about, 0) < 1, roll < 6:
		w.mu.Unlock()
		return carrier.Accepted{}, carrier.ErrTransient
	case roll < 9:
		w.mu.Unlock()
		return carrier.Accepted{}, errTimeout // not accepted, and never will be
	}
	hangs := roll >= 80 && w.mayHang(out.To)
	if hangs && roll < 90 { // hangs before the message is accepted
		l.hanging++
		w.mu.Unlock()
		c.wait(ctx, out.To, gate)
		w.mu.Lock()
		l.hanging--
		if c.isKilled() || ctx.Err() != nil {
			w.mu.Unlock()
			return carrier.Accepted{}, errKilled
		}
	}
	accepted := w.accept(l, out, called, at)
	early := w.scheduleReceipts(out, accepted)
	w.mu.Unlock()
	if early != nil && !c.isKilled() {
		if c.Inbox().Receipt(context.WithoutCancel(ctx), *early) != nil {
			w.ScheduleReceipt(ScheduledReceipt{Receipt: *early})
		}
	}
	switch {
	case hangs && roll >= 90: // hangs after the message is accepted
		c.wait(ctx, out.To, gate)
		if c.isKilled() || ctx.Err() != nil {
			return carrier.Accepted{}, errKilled
		}
	case roll < 13:
		return carrier.Accepted{}, errTimeout // accepted all the same
	}
	return accepted, nil
}

// maxHanging is how many calls may hang at once, so that the nodes have others to work on.
const maxHanging = 5

func (w *World) mayHang(phone string) bool {
	select {
	case <-w.gate:
		return false
	default:
	}
	if len(w.hanging) >= maxHanging {
		return false
	}
	w.hanging = append(w.hanging, phone)
	return true
}

func (c *Carrier) wait(ctx context.Context, phone string, gate chan struct{}) {
	select {
	case <-gate:
	case <-c.Killed:
	case <-ctx.Done():
	}
	c.World.mu.Lock()
	defer c.World.mu.Unlock()
	i := slices.Index(c.World.hanging, phone)
	c.World.hanging = slices.Delete(c.World.hanging, i, i+1)
}

func (w *World) accept(l *history, out carrier.Outbound, called int64, at time.Time) carrier.Accepted {
	if l.accepted == nil {
		l.accepted = &carrier.Accepted{CarrierID: "far_" + out.Channel + "_" + out.MessageID}
	}
	w.departures = append(w.departures, Departure{Outbound: out, CallOrder: called, CalledAt: at, CarrierID: l.accepted.CarrierID})
	return *l.accepted
}

// scheduleReceipts schedules the receipts of a message. early is one that is sent before the sender has its answer.
func (w *World) scheduleReceipts(out carrier.Outbound, accepted carrier.Accepted) (early *carrier.Receipt) {
	now, kind := w.clock.Now(), w.chance("receipts "+out.MessageID+out.Channel, 0)
	seconds := func(purpose string, under int) time.Duration {
		return time.Duration(1+w.chance(purpose+out.MessageID, 0)*under/100) * time.Second
	}
	schedule := func(after time.Duration, kind, code string) {
		r := carrier.Receipt{MessageID: out.MessageID, CarrierID: accepted.CarrierID, Kind: kind, Code: code, At: now.Add(min(after, time.Minute))}
		w.receipts = append(w.receipts, ScheduledReceipt{now.Add(after), r})
	}
	soon, later := seconds("delivered", 5), seconds("read", 600)
	switch {
	case kind < 3: // no receipt
	case kind < 6: // failed, twice
		code := map[string]string{"chat": "carrier_rejected", "sms": "sms_30003"}[out.Channel]
		schedule(soon, carrier.ReceiptFailed, code)
		schedule(later, carrier.ReceiptFailed, code)
	case kind < 14: // read before delivered, and delivered again
		schedule(soon, carrier.ReceiptRead, "")
		schedule(soon+time.Second, carrier.ReceiptDelivered, "")
		schedule(later, carrier.ReceiptDelivered, "")
	case kind < 19: // before the answer
		schedule(later, carrier.ReceiptRead, "")
		return &carrier.Receipt{MessageID: out.MessageID, CarrierID: accepted.CarrierID, Kind: carrier.ReceiptDelivered, At: now}
	case kind < 23: // hours late
		schedule(soon+time.Duration(kind)*30*time.Minute, carrier.ReceiptDelivered, "")
	case kind < 26: // after receipt_missing
		schedule(25*time.Hour+soon, carrier.ReceiptDelivered, "")
		schedule(30*time.Hour+soon, carrier.ReceiptRead, "")
	case kind < 40: // each receipt twice
		for range 2 {
			schedule(soon, carrier.ReceiptDelivered, "")
			schedule(later, carrier.ReceiptRead, "")
		}
	case kind < 60: // delivered only
		schedule(soon, carrier.ReceiptDelivered, "")
	default:
		schedule(soon, carrier.ReceiptDelivered, "")
		schedule(later, carrier.ReceiptRead, "")
	}
	return nil
}

// String describes a departure for failure messages.
func (d *Departure) String() string {
	return d.MessageID + " by " + d.LineID + " to " + d.To + " (" + d.Channel + ") at " + d.CalledAt.Format(time.RFC3339) + ", call " + strconv.FormatInt(d.CallOrder, 10)
}
