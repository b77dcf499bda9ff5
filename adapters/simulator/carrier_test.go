package simulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/adapters/simulator"
	"ledgerline/clock"
	"ledgerline/eventstore"
	"ledgerline/processes/carrier"
	"ledgerline/processes/carrier/carriertest"
	"ledgerline/test/testpg"
)

// The simulator's contacts only follow the scripts of their numbers: the test gets a reply by sending a message that is
// echoed. Arrived messages are counted by their id, which is part of the suite's texts, because the simulator stores no
// texts.
func TestTheSimulatorPassesTheCarrierSuite(t *testing.T) {
	t.Parallel()
	carriertest.Run(t, func(t *testing.T) *carriertest.World {
		t.Helper()
		pool, err := pgxpool.New(t.Context(), testpg.Database(t))
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		keyring, _, err := eventstore.NewKeyring()
		require.NoError(t, err)
		at, inbox := clock.Frozen(noon), carriertest.NewInbox()
		sim, err := simulator.Open(simulator.Config{Pool: pool, AEAD: keyring.AEAD(), Clock: at, Inbox: inbox, Poll: 50 * time.Millisecond})
		require.NoError(t, err)
		t.Cleanup(sim.Close)
		w := &carriertest.World{Carrier: sim, Inbox: inbox, Line: carrier.Line{ID: "ln_1", Phone: line}, OnChat: number(0), OffChat: number(80), SMS: true}
		w.Arrived = func(t *testing.T, _, text string) int {
			t.Helper()
			list, err := sim.List(t.Context())
			require.NoError(t, err)
			n := 0
			for _, seen := range list {
				if text == "This is "+seen.MessageID+"." {
					n += seen.Sends
				}
			}
			return n
		}
		w.Busy = func(*testing.T) string { return number(86) }
		w.Ready = func(t *testing.T) { // 86 refuses twice
			t.Helper()
			_, err := sim.Send(t.Context(), carrier.Outbound{MessageID: "msg_1", From: line, To: number(86), Channel: "chat"})
			require.ErrorIs(t, err, carrier.ErrTransient)
		}
		w.Deliver = func(*testing.T, string) {} // at once
		w.Read = func(t *testing.T, _ string) {
			t.Helper()
			_, err := at.Advance(2 * time.Second)
			require.NoError(t, err)
		}
		replies := 0
		w.Reply = func(t *testing.T, text string) string {
			t.Helper()
			replies++
			_, err := sim.Send(t.Context(), carrier.Outbound{MessageID: fmt.Sprint("echo_", replies), From: line, To: number(93), Body: text, Channel: "chat"})
			require.NoError(t, err)
			return number(93)
		}
		return w
	})
}
