package crash

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/simulator"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// violationsOf applies events to a history and returns the number of violations by kind.
func violationsOf(t *testing.T, expected []expectation, list []events.Event, seen ...simulator.Seen) map[string]int {
	t.Helper()
	var v violations
	h := newHistory(&v)
	h.expected[ledgerPosition{0, int64(len(list)) + 2}] = expected
	versions := map[string]int{}
	for i, e := range append([]events.Event{
		&events.ContactCreated{ContactID: "ctc"}, &events.NumberLinked{ContactID: "ctc"},
	}, list...) {
		stream := "num"
		if ref := refOf(e); ref != nil {
			stream = ref.MessageID
		}
		versions[stream]++
		h.apply(&eventstore.Recorded{Position: int64(i + 1), Stream: stream, Version: versions[stream], Event: e})
	}
	h.checkFinished()
	h.compareWithSimulator(seen)
	return v.kinds
}

func refOf(e events.Event) *events.MessageRef {
	switch e := e.(type) {
	case *events.MessageQueued:
		return &e.MessageRef
	case *events.MessageSending:
		return &e.MessageRef
	case *events.MessageSent:
		return &e.MessageRef
	case *events.MessageDelivered:
		return &e.MessageRef
	case *events.MessageFailed:
		return &e.MessageRef
	}
	return nil
}

func ref(id string) events.MessageRef { return events.MessageRef{MessageID: id, ContactID: "ctc"} }

func queue(id string) events.Event { return &events.MessageQueued{MessageRef: ref(id)} }
func try(id string, n int) events.Event {
	return &events.MessageSending{MessageRef: ref(id), Attempt: n}
}
func leave(id string) events.Event {
	return &events.MessageSent{MessageRef: ref(id), CarrierID: "c_" + id}
}
func deliver(id string) events.Event { return &events.MessageDelivered{MessageRef: ref(id)} }
func fail(id string) events.Event    { return &events.MessageFailed{MessageRef: ref(id)} }

func optIn() events.Event {
	return &events.ContactOptedIn{ConsentEvidence: events.ConsentEvidence{ContactID: "ctc"}}
}

func optOut() events.Event {
	return &events.ContactOptedOut{ConsentEvidence: events.ConsentEvidence{ContactID: "ctc"}}
}

func arrived(id string, sends int) simulator.Seen {
	return simulator.Seen{MessageID: id, CarrierID: "c_" + id, Sends: sends, Over: true}
}

func TestCorrectHistoryHasNoViolation(t *testing.T) {
	t.Parallel()
	require.Empty(t, violationsOf(t, []expectation{{"ctc", "opted_out"}}, []events.Event{
		queue("a"), queue("b"), queue("c"), try("a", 1), leave("a"), deliver("a"), try("b", 1), fail("b"),
		try("c", 1), &events.MessageRetried{MessageRef: ref("c"), Attempt: 1}, try("c", 2), leave("c"), queue("d"),
		&events.NumberOptedOut{}, fail("d"), optOut(),
	}, arrived("a", 1), arrived("c", 1)))
}

func TestEveryBrokenRuleIsReported(t *testing.T) {
	t.Parallel()
	const order, overtakes = "a message's events are out of order", "messages of one contact overtake each other"
	for name, c := range map[string]struct {
		expected []expectation
		list     []events.Event
		seen     []simulator.Seen
		want     string
	}{
		"no end":                {list: []events.Event{queue("a")}, want: "a message without a final state"},
		"no end of an attempt":  {list: []events.Event{queue("a"), try("a", 1)}, want: "a message without a final state"},
		"two ends":              {list: []events.Event{queue("a"), try("a", 1), leave("a"), fail("a"), deliver("a")}, seen: []simulator.Seen{arrived("a", 1)}, want: order},
		"sent twice":            {list: []events.Event{queue("a"), try("a", 1), leave("a"), leave("a")}, seen: []simulator.Seen{arrived("a", 1)}, want: order},
		"two attempts at once":  {list: []events.Event{queue("a"), try("a", 1), try("a", 2), leave("a")}, seen: []simulator.Seen{arrived("a", 1)}, want: order},
		"accepted twice":        {list: []events.Event{queue("a"), queue("a"), fail("a")}, want: order},
		"failed after delivery": {list: []events.Event{queue("a"), try("a", 1), leave("a"), deliver("a"), fail("a")}, seen: []simulator.Seen{arrived("a", 1)}, want: order},
		"tried out of order":    {list: []events.Event{queue("a"), queue("b"), try("b", 1), leave("b"), try("a", 1), leave("a")}, seen: []simulator.Seen{arrived("a", 1), arrived("b", 1)}, want: overtakes},
		"sent out of order":     {list: []events.Event{queue("a"), queue("b"), try("a", 1), try("b", 1), leave("b"), leave("a")}, seen: []simulator.Seen{arrived("a", 1), arrived("b", 1)}, want: overtakes},
		"after the opt-out":     {list: []events.Event{queue("a"), &events.NumberOptedOut{}, try("a", 1), leave("a")}, seen: []simulator.Seen{arrived("a", 1)}, want: "a message is sent after the opt-out"},
		"arrived twice":         {list: []events.Event{queue("a"), try("a", 1), leave("a")}, seen: []simulator.Seen{arrived("a", 2)}, want: "a message sent twice"},
		"arrived, not recorded": {list: []events.Event{queue("a"), try("a", 1), fail("a")}, seen: []simulator.Seen{arrived("a", 1)}, want: "a message that was sent and is not recorded as sent"},
		"reported and not sent": {list: []events.Event{queue("a"), try("a", 1), leave("a")}, want: "a message that is reported as sent and was not sent"},
		"a lost opt-out":        {expected: []expectation{{"ctc", "opted_out"}}, list: []events.Event{optIn()}, want: "an answered change of consent is not in the ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, violationsOf(t, c.expected, c.list, c.seen...), c.want)
		})
	}
}
