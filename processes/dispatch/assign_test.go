package dispatch

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
)

func TestAMessageThatCannotBeEvaluatedIsCountedAndDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	p := &Process{log: slog.New(slog.DiscardHandler), assignFailures: newAssignFailures()}
	metrics.MustRegister(p.assignFailures)
	failures := func() float64 {
		families, err := metrics.Gather()
		require.NoError(t, err)
		require.Equal(t, "ledgerline_assign_failures_total", families[0].GetName())
		return families[0].GetMetric()[0].GetCounter().GetValue()
	}
	require.NoError(t, p.checkEvaluation(t.Context(), "msg_1", nil))
	require.NoError(t, p.checkEvaluation(t.Context(), "msg_1", fault.New(fault.NotFound, "There is no such message.")))
	unavailable := fault.New(fault.Unavailable, "The database does not answer.")
	require.ErrorIs(t, p.checkEvaluation(t.Context(), "msg_1", unavailable), unavailable, "every other message would fail as well")
	require.Zero(t, failures())
	require.NoError(t, p.checkEvaluation(t.Context(), "msg_1", errors.New("an event cannot be decoded")))
	require.InDelta(t, 1, failures(), 0)
}
