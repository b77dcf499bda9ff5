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

// Carrier is one node's access to the world.
type Carrier struct {
	World *World
	// Gone is closed when the node is killed: nothing of it reaches the world any more.
	Gone <-chan struct{}
	// Inbox is the node's own, for receipts that overtake their answer.
	Inbox func() carrier.Inbox
}

func (c *Carrier) dead() bool {
	select {
	case <-c.Gone:
		return true
	default:
		return false
	}
}

// The errors after which nobody knows.
var (
	errTimeout   = errors.New("hostile: no answer")
	errUnsettled = errors.New("hostile: it is not settled yet")
	errDead      = errors.New("hostile: the node is dead")
)

// Refusing tells that a number is one of those that refuse every message.
func (w *World) Refusing(phone string) bool { return w.chance("refusing "+phone, 0) < 3 }

// OnChat tells whether a number is on the chat channel.
func (w *World) OnChat(phone string) bool { return w.chance("chat "+phone, 0) >= 6 }

// Reachable implements carrier.Carrier. For some numbers it does not know, and sometimes it does not answer.
func (c *Carrier) Reachable(ctx context.Context, _ carrier.Line, phone string) (bool, error) {
	w := c.World
	w.mu.Lock()
	l := w.of(phone, "reachable")
	l.probes++
	n, gate := l.probes, w.gate
	hangs := w.chance("slow probe "+phone, n) < 20 && w.mayHang(phone)
	w.mu.Unlock()
	if hangs {
		c.wait(ctx, phone, gate)
	}
	switch {
	case c.dead():
		return false, errDead
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
	l := w.of(out.MessageID, out.Channel)
	l.asks++
	switch {
	case c.dead():
		return carrier.Accepted{}, false, errDead
	case l.underway > 0, w.chance("ask "+out.MessageID, l.asks) < 5:
		return carrier.Accepted{}, false, errUnsettled
	case l.taken == nil:
		return carrier.Accepted{}, false, nil
	}
	return *l.taken, true, nil
}

// Send implements carrier.Carrier. It sends whatever it is given, also twice.
func (c *Carrier) Send(ctx context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	w := c.World
	w.mu.Lock()
	if c.dead() || ctx.Err() != nil {
		w.mu.Unlock()
		return carrier.Accepted{}, errDead
	}
	w.ticks++
	called, at, gate := w.ticks, w.clock.Now(), w.gate
	l := w.of(out.MessageID, out.Channel)
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
		return carrier.Accepted{}, errTimeout // it was not taken and never will be
	}
	hangs := roll >= 80 && w.mayHang(out.To)
	if hangs && roll < 90 { // the way there is slow
		l.underway++
		w.mu.Unlock()
		c.wait(ctx, out.To, gate)
		w.mu.Lock()
		l.underway--
		if c.dead() || ctx.Err() != nil {
			w.mu.Unlock()
			return carrier.Accepted{}, errDead
		}
	}
	accepted := w.take(l, out, called, at)
	early := w.plan(out, accepted)
	w.mu.Unlock()
	if early != nil && !c.dead() {
		if c.Inbox().Receipt(context.WithoutCancel(ctx), *early) != nil {
			w.Later(Due{Receipt: *early})
		}
	}
	switch {
	case hangs && roll >= 90: // the way back is slow
		c.wait(ctx, out.To, gate)
		if c.dead() || ctx.Err() != nil {
			return carrier.Accepted{}, errDead
		}
	case roll < 13:
		return carrier.Accepted{}, errTimeout // it was taken all the same
	}
	return accepted, nil
}

// atOnce is how many calls may hang at a time, so that nodes have others to go on with.
const atOnce = 5

func (w *World) mayHang(phone string) bool {
	select {
	case <-w.gate:
		return false
	default:
	}
	if len(w.hanging) >= atOnce {
		return false
	}
	w.hanging = append(w.hanging, phone)
	return true
}

func (c *Carrier) wait(ctx context.Context, phone string, gate chan struct{}) {
	select {
	case <-gate:
	case <-c.Gone:
	case <-ctx.Done():
	}
	c.World.mu.Lock()
	defer c.World.mu.Unlock()
	i := slices.Index(c.World.hanging, phone)
	c.World.hanging = slices.Delete(c.World.hanging, i, i+1)
}

func (w *World) take(l *history, out carrier.Outbound, called int64, at time.Time) carrier.Accepted {
	if l.taken == nil {
		l.taken = &carrier.Accepted{CarrierID: "far_" + out.Channel + "_" + out.MessageID}
	}
	w.departures = append(w.departures, Departure{Outbound: out, Called: called, CalledAt: at, CarrierID: l.taken.CarrierID})
	return *l.taken
}

// plan puts the receipts of a message on the agenda, and gives one that is told before its sender has an answer.
func (w *World) plan(out carrier.Outbound, accepted carrier.Accepted) (early *carrier.Receipt) {
	now, kind := w.clock.Now(), w.chance("receipts "+out.MessageID+out.Channel, 0)
	seconds := func(what string, under int) time.Duration {
		return time.Duration(1+w.chance(what+out.MessageID, 0)*under/100) * time.Second
	}
	tell := func(after time.Duration, kind, code string) {
		r := carrier.Receipt{MessageID: out.MessageID, CarrierID: accepted.CarrierID, Kind: kind, Code: code, At: now.Add(min(after, time.Minute))}
		w.agenda = append(w.agenda, Due{now.Add(after), r})
	}
	soon, later := seconds("delivered", 5), seconds("read", 600)
	switch {
	case kind < 3: // never
	case kind < 6: // bounced
		code := map[string]string{"chat": "carrier_rejected", "sms": "sms_30003"}[out.Channel]
		tell(soon, carrier.ReceiptFailed, code)
		tell(later, carrier.ReceiptFailed, code)
	case kind < 14: // read before delivered, and delivered again
		tell(soon, carrier.ReceiptRead, "")
		tell(soon+time.Second, carrier.ReceiptDelivered, "")
		tell(later, carrier.ReceiptDelivered, "")
	case kind < 19: // before the answer
		tell(later, carrier.ReceiptRead, "")
		return &carrier.Receipt{MessageID: out.MessageID, CarrierID: accepted.CarrierID, Kind: carrier.ReceiptDelivered, At: now}
	case kind < 23: // hours late
		tell(soon+time.Duration(kind)*30*time.Minute, carrier.ReceiptDelivered, "")
	case kind < 26: // when it has been missed
		tell(25*time.Hour+soon, carrier.ReceiptDelivered, "")
		tell(30*time.Hour+soon, carrier.ReceiptRead, "")
	case kind < 40: // everything twice
		for range 2 {
			tell(soon, carrier.ReceiptDelivered, "")
			tell(later, carrier.ReceiptRead, "")
		}
	case kind < 60: // delivered alone
		tell(soon, carrier.ReceiptDelivered, "")
	default:
		tell(soon, carrier.ReceiptDelivered, "")
		tell(later, carrier.ReceiptRead, "")
	}
	return nil
}

// String tells a departure in a word, for failures.
func (d *Departure) String() string {
	return d.MessageID + " by " + d.LineID + " to " + d.To + " (" + d.Channel + ") at " + d.CalledAt.Format(time.RFC3339) + ", call " + strconv.FormatInt(d.Called, 10)
}
