package carrier_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ledgerline/processes/carrier"
)

// memory is a carrier that keeps its messages in memory. A real one must find them again after a restart.
type memory struct {
	mu       sync.Mutex
	accepted map[key]carrier.Accepted
	onChat   map[string]bool
}

// key identifies a message: on another channel it is another message.
type key struct{ messageID, channel string }

var _ carrier.Carrier = (*memory)(nil)

func (m *memory) Send(_ context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if out.Channel == carrier.ChannelChat && !m.onChat[out.To] {
		return carrier.Accepted{}, &carrier.Rejected{Code: "not_on_chat"}
	}
	a := carrier.Accepted{CarrierID: fmt.Sprintf("memory-%d", len(m.accepted)+1)}
	m.accepted[key{out.MessageID, out.Channel}] = a
	return a, nil
}

// Lookup always has a definite answer here: Send accepts a message before it returns. A carrier behind a network
// returns an error for as long as the request may still arrive.
func (m *memory) Lookup(_ context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, found := m.accepted[key{out.MessageID, out.Channel}]
	return a, found, nil
}

func (m *memory) Reachable(_ context.Context, _ carrier.Line, phone string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.onChat[phone], nil
}

func ExampleCarrier() {
	ctx := context.Background()
	var c carrier.Carrier = &memory{
		accepted: map[key]carrier.Accepted{}, onChat: map[string]bool{"+12125550110": true},
	}
	line := carrier.Line{ID: "ln_1", Phone: "+12125550199"}
	to := func(phone string) carrier.Outbound {
		return carrier.Outbound{
			MessageID: "msg_" + phone[8:], LineID: line.ID, From: line.Phone, To: phone, Body: "Hello", Channel: carrier.ChannelChat,
		}
	}

	for _, phone := range []string{"+12125550110", "+12125550120"} {
		reachable, err := c.Reachable(ctx, line, phone)
		fmt.Println(phone, "reachable:", reachable, err)

		var rejected *carrier.Rejected
		switch accepted, err := c.Send(ctx, to(phone)); {
		case err == nil:
			fmt.Println("accepted:", accepted.CarrierID)
		case errors.As(err, &rejected):
			fmt.Println("rejected:", rejected.Code)
		case errors.Is(err, carrier.ErrTransient):
			fmt.Println("to be sent again later")
		default:
			fmt.Println("unknown: to be looked up")
		}

		accepted, found, err := c.Lookup(ctx, to(phone))
		fmt.Println("lookup:", accepted.CarrierID, found, err)
	}
	// Output:
	// +12125550110 reachable: true <nil>
	// accepted: memory-1
	// lookup: memory-1 true <nil>
	// +12125550120 reachable: false <nil>
	// rejected: not_on_chat
	// lookup:  false <nil>
}
