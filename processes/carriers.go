package processes

import (
	"context"
	"fmt"
	"time"

	"ledgerline/commands"
	"ledgerline/domain/line"
	"ledgerline/processes/carrier"
)

var _ commands.Prober = Carriers(nil)

// Carriers are the carriers by the carrier name of lines. Every node has all of them, so that any node can serve any
// line.
type Carriers map[string]carrier.Carrier

// Named returns the carrier with a carrier name of lines; an error when the node does not have it.
func (c Carriers) Named(name string) (carrier.Carrier, error) {
	if found := c[name]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("processes: this node does not have the carrier %q", name)
}

// CallsPerLine returns how many calls to a carrier for one line may be under way.
func (c Carriers) CallsPerLine(name string) int {
	if bounded, ok := c[name].(carrier.Concurrent); ok {
		return bounded.CallsPerLine()
	}
	return carrier.DefaultCalls
}

// probeTimeout bounds the question whether a number is on chat, in real time: an API request waits for the answer.
const probeTimeout = 8 * time.Second

// Probe implements commands.Prober.
func (c Carriers) Probe(ctx context.Context, through line.Line, phone string) (bool, error) {
	found, err := c.Named(through.Carrier)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return found.Reachable(ctx, carrier.Line{ID: through.ID, Phone: through.Phone}, phone)
}
