package e2e_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/processes/carrier"
	"ledgerline/test/app"
)

// outsideCarrier remembers what it accepted, whatever the database forgets.
type outsideCarrier struct {
	node *app.Node

	mu       *sync.Mutex
	accepted map[string]bool // by message id: sent before the backup was restored
	sent     map[string]int
}

func (o outsideCarrier) Send(ctx context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	o.mu.Lock()
	o.sent[out.MessageID]++
	o.mu.Unlock()
	return o.node.Simulator.Send(ctx, out)
}

func (o outsideCarrier) Lookup(ctx context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	o.mu.Lock()
	known := o.accepted[out.MessageID]
	o.mu.Unlock()
	if known {
		return carrier.Accepted{CarrierID: "outside_" + out.MessageID}, true, nil
	}
	return o.node.Simulator.Lookup(ctx, out)
}

func (o outsideCarrier) Reachable(ctx context.Context, through carrier.Line, phone string) (bool, error) {
	return o.node.Simulator.Reachable(ctx, through, phone)
}

func TestNoMessageLeavesDuringARecoveryAndAForgottenSendingIsNotRepeated(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	accepted, sent := map[string]bool{}, map[string]int{}
	a := app.Start(t, app.Carrier(func(n *app.Node) carrier.Carrier { return outsideCarrier{n, &mu, accepted, sent} }))
	later := app.Noon.Add(time.Hour).Format(time.RFC3339)
	forgotten := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Sent already", "send_at": later}).Is(201).Text("id")
	waiting := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Never sent", "send_at": later}).Is(201).Text("id")
	a.Settle()
	mu.Lock()
	accepted[forgotten] = true
	mu.Unlock()
	node := a.Nodes[0]
	require.NoError(t, node.StartRecovery(t.Context(), app.Noon.Add(-time.Hour), "a restored backup"))
	require.Error(t, node.StartRecovery(t.Context(), app.Noon, "again"), "one at a time")
	_, err := a.Clock.Advance(2 * time.Hour)
	require.NoError(t, err)
	fresh := send(a.Live, a.Phone(), "Accepted meanwhile")
	eventually(t, "the tasks of the contacts were postponed", func() bool {
		var postponed int
		a.QueryRow(`select count(*) from scheduled_tasks where process = 'sending' and retry_at is not null and failures = 0`, nil, &postponed)
		return postponed == 3
	})
	mu.Lock()
	require.Empty(t, sent, "nothing leaves before the release")
	mu.Unlock()
	report, err := node.Recovery(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, report.OpenMessages)
	require.NoError(t, node.ReleaseRecovery(t.Context()))
	eventually(t, "everything left", func() bool {
		for _, id := range []string{forgotten, waiting, fresh} {
			if s := status(a.Live, id); s != "sent" && s != "delivered" && s != "read" {
				return false
			}
		}
		return true
	})
	mu.Lock()
	defer mu.Unlock()
	require.Zero(t, sent[forgotten], "the carrier had it already")
	require.Equal(t, 1, sent[waiting])
	require.Equal(t, 1, sent[fresh])
	report, err = node.Recovery(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Reconciled)
}
