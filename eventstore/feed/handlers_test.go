package feed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

func onLabelCreated(seen *[]string, e *events.LabelCreated, _ *eventstore.Recorded) {
	*seen = append(*seen, "created "+e.Name)
}

func onLabelDeleted(seen *[]string, _ *events.LabelDeleted, r *eventstore.Recorded) {
	*seen = append(*seen, "deleted at "+r.OccurredAt.Format("2006"))
}

func onAny(seen *[]string, r *eventstore.Recorded) { *seen = append(*seen, r.Type) }

func TestEveryEventGoesToTheHandlerOfItsType(t *testing.T) {
	t.Parallel()
	h := feed.NewHandlers(feed.On(onLabelCreated), feed.On(onLabelDeleted), feed.OnType("webhook.tested", onAny))
	require.Equal(t, []string{"label.created", "label.deleted", "webhook.tested"}, h.Types())
	var seen []string
	h.Handle(&seen, []eventstore.Recorded{
		{Type: "label.deleted", Event: &events.LabelDeleted{}},
		{Type: "label.updated", Event: &events.LabelUpdated{}},
		{Type: "webhook.tested"},
		{Type: "label.created", Event: &events.LabelCreated{Name: "VIP"}},
	})
	require.Equal(t, []string{"deleted at 0001", "webhook.tested", "created VIP"}, seen)
}

func TestAMistakenRegistrationPanics(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "feed: no handlers", func() { feed.NewHandlers[*[]string]() })
	require.PanicsWithValue(t, "feed: two handlers for label.created", func() {
		feed.NewHandlers(feed.On(onLabelCreated), feed.OnType("label.created", onAny))
	})
	require.PanicsWithValue(t, "feed: unknown event type: label.renamed", func() { feed.OnType("label.renamed", onAny) })
	require.Panics(t, func() { feed.On(func(*[]string, string, *eventstore.Recorded) {}) }, "not an event")
	require.Panics(t, func() { feed.On(func(*[]string, events.LabelCreated, *eventstore.Recorded) {}) }, "not a pointer")
}

func TestAnEventThatIsNotOfItsTypeIsNotSkippedSilently(t *testing.T) {
	t.Parallel()
	h := feed.NewHandlers(feed.On(onLabelCreated))
	var seen []string
	require.PanicsWithValue(t, "feed: the event label.created at position 7 holds a *events.LabelDeleted, want a *events.LabelCreated", func() {
		h.Handle(&seen, []eventstore.Recorded{{Type: "label.created", Position: 7, Event: &events.LabelDeleted{}}})
	})
}
