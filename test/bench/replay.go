package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/service"
)

// eventsPerLife is how many events life writes.
const eventsPerLife = 20

// life returns the history of one contact: created, linked to its number, opted in, and two conversations' worth of
// messages.
func life(i int, wsp uuid.UUID, at time.Time) []eventstore.StreamEvents {
	contact, conversation := fmt.Sprintf("ctc_%026d", i), fmt.Sprintf("cnv_%026d", i)
	phone, name, source, api := fmt.Sprintf("+1415%07d", i%10_000_000), fmt.Sprintf("Contact %d", i), "form", "api"
	streams := []eventstore.StreamEvents{
		{Stream: contact, Events: []events.Event{
			&events.ContactCreated{ContactID: contact, ConversationID: conversation, NumberHash: phone, Origin: "api", Person: events.ContactPersonal{Phone: phone, FirstName: &name, Fields: map[string]any{"plan": "gold"}}},
			&events.ContactOptedIn{ConsentEvidence: events.ConsentEvidence{ContactID: contact, NumberHash: phone, From: "unknown", To: "opted_in", Source: &source, Evidence: events.ConsentPersonal{Phone: phone}}},
		}},
		{Stream: "num_" + contact, Events: []events.Event{&events.NumberLinked{ContactID: contact, WorkspaceID: wsp}}},
		{Stream: conversation, Events: []events.Event{&events.ConversationStarted{ConversationID: conversation, ContactID: contact}}},
	}
	for m := range 2 {
		ref := events.MessageRef{MessageID: fmt.Sprintf("msg_%025d%d", i, m), ConversationID: conversation, ContactID: contact}
		streams = append(streams, eventstore.StreamEvents{Stream: ref.MessageID, Events: []events.Event{
			&events.MessageQueued{MessageRef: ref, Channel: "chat", Source: &api, Content: events.MessagePersonal{To: phone, Body: "Your order has shipped and will arrive on Thursday."}},
			&events.MessageRouted{MessageRef: ref, LineID: "ln_1", From: "+12125551000"},
			&events.MessageSending{MessageRef: ref, Attempt: 1, LineID: "ln_1", Channel: "chat"},
			&events.MessageSent{MessageRef: ref, LineID: "ln_1", Channel: "chat", CarrierID: "c"},
			&events.MessageDelivered{MessageRef: ref, At: at},
			&events.MessageRead{MessageRef: ref, At: at},
		}})
	}
	for m := range 4 {
		ref := events.MessageRef{MessageID: fmt.Sprintf("msg_%024dr%d", i, m), ConversationID: conversation, ContactID: contact}
		streams = append(streams, eventstore.StreamEvents{Stream: ref.MessageID, Events: []events.Event{
			&events.MessageReceived{MessageRef: ref, LineID: "ln_1", Channel: "chat", Content: events.MessagePersonal{From: phone, To: "+12125551000", Body: "Thank you, that is good to know."}},
		}})
	}
	return streams
}

// measureReplay fills a ledger and builds all read models from it.
func measureReplay(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.Roles{Write: true})
	if err != nil {
		return err
	}
	defer s.Stop()
	lives := b.Events / eventsPerLife
	b.say(fmt.Sprintf("writing %d events", lives*eventsPerLife))
	var n atomic.Int64
	var wg sync.WaitGroup
	var failure atomic.Pointer[error]
	started := time.Now()
	for range b.Callers {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(lives); i = n.Add(1) {
				if _, err := s.Ledger.Append(ctx, eventstore.Append{
					Organisation: s.org, Workspace: s.wsp, Actor: events.Actor{Type: "system"}, RequestID: "bench", At: time.Now(),
					Streams: life(int(i), s.wsp, time.Now()),
				}); err != nil {
					failure.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	b.report(Figure{Measurement: "replay", What: fmt.Sprintf("writing the ledger, %d events an append", eventsPerLife), Value: float64(lives*eventsPerLife) / time.Since(started).Seconds(), Unit: "events/s"})
	if _, err := s.pool.Exec(ctx, "checkpoint"); err != nil {
		return err
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before) // heap in use before the replay, for example by caches
	var peak atomic.Uint64
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for watching.Err() == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			time.Sleep(100 * time.Millisecond)
		}
	})
	started = time.Now()
	_, err = readmodel.ReplayAll(ctx, s.Ledger, projections.All(), nil)
	took := time.Since(started)
	stop()
	watcher.Wait()
	if err != nil {
		return err
	}
	b.report(Figure{Measurement: "replay", What: fmt.Sprintf("all read models from %d events", lives*eventsPerLife), Value: float64(lives*eventsPerLife) / took.Seconds(), Unit: "events/s", Goal: "at least 40,000"})
	b.report(Figure{Measurement: "replay", What: "peak heap of it, above what the process had before", Value: (float64(peak.Load()) - float64(before.HeapInuse)) / (1 << 20), Unit: "MiB", Goal: "flat"})
	return nil
}
