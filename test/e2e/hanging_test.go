package e2e_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/processes/carrier"
	"ledgerline/test/app"
	"ledgerline/test/sink"
)

// hangingCarrier is the simulator, but calls for one line hang until release is closed.
type hangingCarrier struct {
	node    *app.Node
	line    *atomic.Value // string
	release chan struct{}
	hanging *atomic.Int32
}

func (h hangingCarrier) CallsPerLine() int { return 4 }

func (h hangingCarrier) Send(ctx context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	if out.LineID == h.line.Load() {
		h.hanging.Add(1)
		defer h.hanging.Add(-1)
		select {
		case <-h.release:
		case <-ctx.Done():
			return carrier.Accepted{}, ctx.Err()
		}
	}
	return h.node.Simulator.Send(ctx, out)
}

func (h hangingCarrier) Lookup(ctx context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	return h.node.Simulator.Lookup(ctx, out)
}

func (h hangingCarrier) Reachable(ctx context.Context, through carrier.Line, phone string) (bool, error) {
	return h.node.Simulator.Reachable(ctx, through, phone)
}

func TestACarrierServerThatHangsDoesNotDelayOtherLines(t *testing.T) {
	t.Parallel()
	line, release, under := &atomic.Value{}, make(chan struct{}), &atomic.Int32{}
	a := app.Start(t, app.Carrier(func(n *app.Node) carrier.Carrier {
		return hangingCarrier{n, line, release, under}
	}))
	other := a.NewOrganisation("Other")
	line.Store(a.Lines[0].ID)
	var stuck []string
	for i := range 30 { // more than a node has workers
		stuck = append(stuck, a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": fmt.Sprint("Hello ", i), "line_id": a.Lines[0].ID}).Is(201).Text("id"))
	}
	eventually(t, "as many calls as a line may have", func() bool { return under.Load() == 4 })
	sameOrganisation := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "line_id": a.Lines[1].ID}).Is(201).Text("id")
	otherOrganisation := send(other.Live, a.Phone(), "Hello")
	eventually(t, "messages on other lines leave", func() bool {
		return status(a.Live, sameOrganisation) == "read" || status(a.Live, sameOrganisation) == "delivered" && status(other.Live, otherOrganisation) == "delivered"
	})
	require.EqualValues(t, 4, under.Load())
	close(release)
	a.Settle()
	eventually(t, "the line answers again, and everything leaves", func() bool {
		a.Settle()
		for _, id := range stuck {
			if status(a.Live, id) != "delivered" {
				return false
			}
		}
		return true
	})
	_, duplicates, err := a.Nodes[0].Simulator.Sends(t.Context())
	require.NoError(t, err)
	require.Zero(t, duplicates)
}

func TestMoreHangingEndpointsThanWorkersDoNotDelayAHealthyOne(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.WebhookWorkers(4))
	slow, quick := sink.Start(t), sink.Start(t)
	release := hanging(t, slow, 200)
	for range 12 {
		hook(a.Live, slow.URL, "contact.created")
	}
	other := a.NewOrganisation("Other")
	endpoint := hook(other.Live, quick.URL, "contact.created")
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	slow.Wait(8)
	other.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	quick.Wait(1)
	eventually(t, "the delivery is shown", func() bool { return len(deliveries(other.Live, endpoint, "?status=succeeded")) == 1 })
	release()
	slow.Wait(12)
	a.Settle()
}
