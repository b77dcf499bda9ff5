package projections_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/test/testpg"
)

// node is a process with a ledger, read models and their consumers.
type node struct {
	*eventstore.Ledger
	*projections.Store
	ring     *eventstore.Keyring
	dsn      string
	run      func(...feed.Consumer)
	runner   *feed.Runner // set by run
	registry *events.Registry
	org, wsp uuid.UUID
	viewer   projections.Viewer
}

func newNode(t *testing.T, shards int) *node {
	t.Helper()
	ring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	n := &node{ring: ring, dsn: testpg.Database(t), org: uuid.Must(uuid.NewV7()), wsp: uuid.Must(uuid.NewV7())}
	n.join(t, shards)
	require.NoError(t, projections.Prepare(context.Background(), n.Ledger, slog.Default()))
	return n
}

// other makes a second process on the same database.
func (n *node) other(t *testing.T) *node {
	t.Helper()
	o := &node{ring: n.ring, dsn: n.dsn, org: n.org, wsp: n.wsp}
	o.join(t, 0)
	return o
}

func (n *node) join(t *testing.T, shards int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	pool, err := pgxpool.New(ctx, n.dsn)
	require.NoError(t, err)
	n.Ledger, err = eventstore.Open(ctx, eventstore.Config{Pool: pool, Keyring: n.ring, Clock: clock.System(), Shards: shards, Registry: n.registry})
	require.NoError(t, err)
	progress := feed.NewProgress()
	n.Store = projections.NewStore(n.Ledger, progress)
	n.viewer = projections.Viewer{Workspace: n.wsp, Shard: n.ShardOf(n.org)}
	listening := make(chan struct{})
	go feed.PublishProgress(ctx, n.Ledger, progress, slog.New(slog.DiscardHandler))
	go func() { defer close(listening); feed.Listen(ctx, n.Ledger, progress, slog.New(slog.DiscardHandler)) }()
	n.run = func(extra ...feed.Consumer) {
		var consumers []feed.Consumer
		for _, p := range projections.All() {
			consumers = append(consumers, p)
		}
		r, err := feed.NewRunner(feed.Config{Ledger: n.Ledger, Progress: progress, Consumers: append(consumers, extra...), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		n.runner = r
		done := make(chan struct{})
		go func() { defer close(done); require.NoError(t, r.Run(ctx)) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	t.Cleanup(func() { cancel(); <-listening; n.Ledger.Close(); pool.Close() })
}

func (n *node) append(t *testing.T, streams ...eventstore.StreamEvents) eventstore.Result {
	t.Helper()
	r, err := n.Append(context.Background(), eventstore.Append{
		Organisation: n.org, Workspace: n.wsp, Actor: events.Actor{Type: "key", ID: "key_1"}, RequestID: "r", At: n.Now(), Streams: streams,
	})
	require.NoError(t, err)
	return r
}

func stream(id string, expected int, e ...events.Event) eventstore.StreamEvents {
	return eventstore.StreamEvents{Stream: id, Expected: expected, Events: e}
}

func created(id string) *events.ContactCreated {
	name := "Ada " + id
	return &events.ContactCreated{ContactID: id, NumberHash: "h" + id, Origin: "api", Person: events.ContactPersonal{
		Phone: "+12025550123", FirstName: &name, Fields: map[string]any{"plan": "gold", "n": 3.5},
	}}
}

func optedOut(id string) *events.ContactOptedOut {
	source := "form"
	return &events.ContactOptedOut{ConsentEvidence: events.ConsentEvidence{
		ContactID: id, NumberHash: "h" + id, From: "unknown", To: "opted_out", Source: &source,
		Evidence: events.ConsentPersonal{Phone: "+12025550123", IP: "192.0.2.7"},
	}}
}

// life appends all events of a contact and of a message to it.
func (n *node) life(t *testing.T, i int) (contactID, messageID string) {
	t.Helper()
	contactID, messageID = fmt.Sprintf("ctc_%d", i), fmt.Sprintf("msg_%d", i)
	ref := events.MessageRef{MessageID: messageID, ConversationID: fmt.Sprintf("cnv_%d", i), ContactID: contactID}
	api := "api"
	n.append(t, stream(contactID, 0, created(contactID)),
		stream(ref.ConversationID, 0, &events.ConversationStarted{ConversationID: ref.ConversationID, ContactID: contactID}),
		stream(messageID, 0, &events.MessageQueued{MessageRef: ref, Channel: "chat", Source: &api, Content: events.MessagePersonal{To: "+12025550123", Body: "Hello"}}))
	n.append(t, stream(messageID, 1, &events.MessageRouted{MessageRef: ref, LineID: "ln_1", From: "+12025550100"}, &events.MessageSending{MessageRef: ref, Attempt: 1, LineID: "ln_1", Channel: "chat"}))
	n.append(t, stream(messageID, 3, &events.MessageSent{MessageRef: ref, LineID: "ln_1", Channel: "chat", CarrierID: "c"}))
	n.append(t, stream(messageID, 4, &events.MessageDelivered{MessageRef: ref, At: n.Now()}))
	if i%3 == 0 {
		n.append(t, stream(contactID, 1, optedOut(contactID)))
	}
	if i%4 == 0 {
		r, err := n.Append(context.Background(), eventstore.Append{
			Organisation: n.org, Workspace: n.wsp, Actor: events.Actor{Type: "key"}, At: n.Now(),
			Streams: []eventstore.StreamEvents{stream(contactID, eventstore.AnyVersion, &events.ContactDeleted{ContactID: contactID})}, EraseSubjects: []string{contactID},
		})
		require.NoError(t, err)
		require.NotZero(t, r.Last)
	}
	return contactID, messageID
}

func (n *node) dump(t *testing.T, schema string) map[string][]string {
	t.Helper()
	dump := map[string][]string{}
	for _, p := range projections.All() {
		for _, table := range p.Tables {
			if table.Name == "contact_totals" { // counts writes, and a replay writes less often
				continue
			}
			rows, err := n.Ledger.Pool().Query(context.Background(), "select to_jsonb(x)::text from "+schema+"."+table.Name+" x order by 1")
			require.NoError(t, err)
			dump[table.Name], err = pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
		}
	}
	return dump
}

func TestReadModelsShowTheStateThatFollowsFromTheEvents(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			n := newNode(t, shards)
			n.run()
			_, message := n.life(t, 3)
			require.NoError(t, n.WaitForHead(ctx, n.viewer.Shard, projections.All()...))
			c, found, err := n.Contact(ctx, n.viewer, "ctc_3")
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, "opted_out", c.ConsentStatus)
			require.Equal(t, map[string]any{"plan": "gold", "n": 3.5}, c.Fields)
			require.NotNil(t, c.LastOutboundAt)
			m, found, err := n.Message(ctx, n.viewer, message)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, "delivered", m.Status)
			require.Equal(t, "+12025550100", *m.From)
			trail, err := n.ConsentEvents(ctx, n.viewer, projections.ConsentFilter{ContactID: "ctc_3"}, nil, 10)
			require.NoError(t, err)
			require.Len(t, trail.Rows, 1)
			require.Equal(t, "192.0.2.7", *trail.Rows[0].IP)
			timeline, err := n.Timeline(ctx, message)
			require.NoError(t, err)
			var types []string
			for _, e := range timeline {
				types = append(types, e.Type)
			}
			require.Equal(t, []string{"accepted", "routed", "sending", "sent", "delivered"}, types)

			stranger := n.viewer
			stranger.Workspace = uuid.New()
			_, found, err = n.Contact(ctx, stranger, "ctc_3")
			require.NoError(t, err)
			require.False(t, found, "another workspace sees nothing")
		})
	}
}

func TestAReplayGivesTheSameRowsAndReadersNeverSeeAHalfBuiltRevision(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			n := newNode(t, shards)
			n.run()
			for i := range 40 {
				n.life(t, i)
			}
			require.NoError(t, n.WaitForHead(ctx, n.viewer.Shard, projections.All()...))
			live := n.dump(t, "read")
			require.Len(t, live["contacts"], 30)

			stop, watched := make(chan struct{}), make(chan error, 1)
			go func() { // a reader and a writer go on while revisions are swapped
				for i := 1000; ; i++ {
					select {
					case <-stop:
						watched <- nil
						return
					default:
					}
					n.append(t, stream(fmt.Sprintf("lbl_%d", i), 0, &events.LabelCreated{LabelID: uuid.New(), Name: fmt.Sprint(i)}))
					if err := n.WaitForHead(ctx, n.viewer.Shard, projections.Contacts); err != nil {
						watched <- err
						return
					}
					page, err := n.Contacts(ctx, n.viewer, projections.ContactFilter{}, nil, 100)
					if err == nil && len(page.Rows) != 30 {
						err = fmt.Errorf("a reader saw %d contacts", len(page.Rows))
					}
					if err != nil {
						watched <- err
						return
					}
				}
			}()
			for range 3 {
				_, err := readmodel.ReplayAll(ctx, n.Ledger, projections.All(), nil)
				require.NoError(t, err)
			}
			close(stop)
			require.NoError(t, <-watched)
			require.NoError(t, n.WaitForHead(ctx, n.viewer.Shard, projections.All()...))
			again := n.dump(t, "read")
			delete(live, "labels")
			delete(again, "labels")
			require.Equal(t, live, again)
		})
	}
}

func TestAsOfReturnsTheReadModelsOfAnEarlierTime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	n := newNode(t, 1)
	n.run()
	n.life(t, 1)
	require.NoError(t, n.WaitForHead(ctx, 0, projections.All()...))
	then, before := n.Now(), n.dump(t, "read")
	require.Eventually(t, func() bool { return n.Now().After(then) }, time.Second, time.Millisecond)
	n.append(t, stream("ctc_1", eventstore.AnyVersion, optedOut("ctc_1")))
	n.life(t, 2)
	require.NoError(t, readmodel.AsOf(ctx, n.Ledger, projections.All(), then, "last_week", nil))
	require.Equal(t, before, n.dump(t, "last_week"))
	require.NoError(t, readmodel.AsOf(ctx, n.Ledger, projections.All(), then, "then", nil), "a word of SQL's own will do")
	require.Error(t, readmodel.AsOf(ctx, n.Ledger, projections.All(), then, "last_week", nil), "a schema that exists is not touched")
	require.Error(t, readmodel.AsOf(ctx, n.Ledger, projections.All(), then, "x; drop table ledger_events", nil))
}

func TestAWriteIsVisibleInEveryLaterReadOnAnotherNode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	writer := newNode(t, 4)
	reader := writer.other(t)
	reader.run() // the projections run beside the reader; the writer only appends
	for i := range 200 {
		id := fmt.Sprintf("ctc_%d", i)
		writer.append(t, stream(id, 0, created(id)))
		require.NoError(t, reader.WaitForHead(ctx, reader.viewer.Shard, projections.Contacts))
		_, found, err := reader.Contact(ctx, reader.viewer, id)
		require.NoError(t, err)
		require.True(t, found)
	}
}

func TestTwoNodesRunningTheSameProjectionsWriteEveryEventOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	n := newNode(t, 1)
	n.run()
	n.other(t).run()
	for i := range 60 {
		n.life(t, i)
	}
	require.NoError(t, n.WaitForHead(ctx, 0, projections.All()...))
	live := n.dump(t, "read")
	_, err := readmodel.ReplayAll(ctx, n.Ledger, projections.All(), nil)
	require.NoError(t, err)
	require.Equal(t, live, n.dump(t, "read"))
}

// waitUntilStopped waits until a consumer cannot go on, and returns the error.
func (n *node) waitUntilStopped(t *testing.T, consumer string) error {
	t.Helper()
	var found error
	require.Eventually(t, func() bool {
		for _, stop := range n.runner.Stopped() {
			if stop.Consumer == consumer {
				found = stop.Err
			}
		}
		return found != nil
	}, 20*time.Second, time.Millisecond)
	return found
}

func (n *node) parked(t *testing.T) []feed.ParkedEvent {
	t.Helper()
	list, err := feed.ListParkedEvents(t.Context(), n.Ledger)
	require.NoError(t, err)
	return list
}

func TestAMissingColumnStopsTheConsumerAndSkipsNoEvent(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	var table string
	require.NoError(t, n.Ledger.Pool().QueryRow(t.Context(),
		`select format('%I.%I', table_schema, table_name) from information_schema.tables where table_name = 'contacts' and table_type = 'BASE TABLE'`).Scan(&table))
	rename := func(from, to string) {
		_, err := n.Ledger.Pool().Exec(t.Context(), fmt.Sprintf(`alter table %s rename column %s to %s`, table, from, to))
		require.NoError(t, err)
	}
	rename("first_name", "given_name")
	n.append(t, stream("ctc_a", 0, created("ctc_a")))
	n.run()
	require.ErrorContains(t, n.waitUntilStopped(t, "contacts"), "42703")
	require.Empty(t, n.parked(t))
	rename("given_name", "first_name")
	require.NoError(t, n.WaitForHead(t.Context(), 0, projections.All()...))
	require.Eventually(t, func() bool { return len(n.runner.Stopped()) == 0 }, 20*time.Second, time.Millisecond)
	_, found, err := n.Contact(t.Context(), n.viewer, "ctc_a")
	require.NoError(t, err)
	require.True(t, found)
}

func TestAnEventOfANewerVersionStopsTheConsumerUntilAProgramThatKnowsItRuns(t *testing.T) {
	t.Parallel()
	old := newNode(t, 1)
	newer := &node{ring: old.ring, dsn: old.dsn, org: old.org, wsp: old.wsp, registry: events.NewRegistry(
		events.Define[events.ContactCreated]("contact.created", 2, func(facts, personal json.RawMessage) (json.RawMessage, json.RawMessage, error) {
			return facts, personal, nil
		}),
	)}
	newer.join(t, 0)
	newer.append(t, stream("ctc_a", 0, created("ctc_a")))
	old.run()
	require.ErrorIs(t, old.waitUntilStopped(t, "contacts"), events.ErrUnknown)
	require.Empty(t, old.parked(t))
}

func TestAnUnprocessableEventIsParkedAndOthersAreProjected(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	n := newNode(t, 1)
	n.append(t, stream("ctc_a", 0, created("ctc_a")))
	bad := n.append(t, stream("ctc_b", 0, created("ctc_b")))
	n.append(t, stream("ctc_c", 0, created("ctc_c")))
	change := func(sql string) {
		_, err := n.Ledger.Pool().Exec(ctx, `begin; set local session_replication_role = replica; `+sql+`; commit`)
		require.NoError(t, err)
	}
	change(fmt.Sprintf(`create table good as select data from ledger_events where position = %d; update ledger_events set data = '{"contact_id": 7}' where position = %d`, bad.Last, bad.Last))
	n.run()
	require.NoError(t, n.WaitForHead(ctx, 0, projections.All()...))
	for id, there := range map[string]bool{"ctc_a": true, "ctc_b": false, "ctc_c": true} {
		_, found, err := n.Contact(ctx, n.viewer, id)
		require.NoError(t, err)
		require.Equal(t, there, found, id)
	}
	parked, err := feed.ListParkedEvents(ctx, n.Ledger)
	require.NoError(t, err)
	wanting := []string{}
	for _, p := range parked {
		require.Equal(t, bad.Last, p.Position)
		wanting = append(wanting, p.Consumer)
	}
	require.ElementsMatch(t, []string{"contacts", "conversations"}, wanting, "by each that wants it")

	require.Error(t, feed.RetryParkedEvent(ctx, n.Ledger, projections.Contacts, 0, bad.Last))
	change(fmt.Sprintf(`update ledger_events set data = (select data from good) where position = %d`, bad.Last))
	require.NoError(t, feed.RetryParkedEvent(ctx, n.Ledger, projections.Contacts, 0, bad.Last))
	_, found, err := n.Contact(ctx, n.viewer, "ctc_b")
	require.NoError(t, err)
	require.True(t, found)
	require.ErrorIs(t, feed.SkipParkedEvent(ctx, n.Ledger, "contacts", 0, bad.Last), feed.ErrNotParked)
}
