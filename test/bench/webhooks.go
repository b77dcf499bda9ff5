package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/webhook"
	"ledgerline/processes/webhooks/payload"
	"ledgerline/projections"
	"ledgerline/service"
)

// receiver counts webhooks and records when each arrived.
type receiver struct {
	address string
	hang    atomic.Value // the path whose requests are not answered; "" none
	got     atomic.Int64
	mu      sync.Mutex
	arrived map[string]time.Time // by path and event id; nil: not kept
	done    func()
}

func receive(ctx context.Context) (*receiver, error) {
	r := &receiver{}
	r.hang.Store("")
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	r.address, r.done = "http://"+l.Addr().String(), func() { _ = server.Close() }
	return r, nil
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	_, _ = io.Copy(io.Discard, q.Body)
	if hang, _ := r.hang.Load().(string); hang != "" && q.URL.Path == hang {
		<-q.Context().Done()
		return
	}
	r.mu.Lock()
	if r.arrived != nil {
		r.arrived[q.URL.Path+" "+q.Header.Get("webhook-id")] = time.Now()
	}
	r.mu.Unlock()
	r.got.Add(1)
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived = map[string]time.Time{}
}

func (s *site) hooks(ctx context.Context, base string, n int) ([]string, error) {
	var ids []string
	for i := range n {
		made, err := s.App.CreateWebhook(ctx, s.request(), commands.CreateWebhook{URL: base + "/" + strconv.Itoa(i), Events: []string{"contact.created"}})
		if err != nil {
			return nil, err
		}
		ids = append(ids, made.Ref)
	}
	return ids, nil
}

// createEvent creates a contact. It returns the id of the event that webhooks get, and when the append had returned.
func (s *site) createEvent(ctx context.Context, i int64) (event string, at time.Time, err error) {
	made, err := s.App.CreateContact(ctx, s.request(), commands.CreateContact{Phone: fmt.Sprintf("+1415%07d", 2000000+i)})
	if err != nil {
		return "", at, err
	}
	at = time.Now()
	recorded, err := s.Ledger.Load(ctx, made.Ref, 0)
	if err != nil {
		return "", at, err
	}
	return webhook.FormatEventID(recorded[0].ID), at, nil
}

func measureWebhooks(ctx context.Context, b *bench) error {
	for _, part := range []func(context.Context, *bench) error{webhookLatency, webhookRate, webhookIsolation} {
		if err := part(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// latencies creates events at a pace and returns how long each delivery to these paths took.
func (s *site) latencies(ctx context.Context, r *receiver, from, n int64, pause time.Duration, paths []string) ([]time.Duration, error) {
	r.keep()
	created := map[string]time.Time{}
	for i := range n {
		event, at, err := s.createEvent(ctx, from+i)
		if err != nil {
			return nil, err
		}
		created[event] = at
		time.Sleep(pause)
	}
	var all []time.Duration
	deadline := time.Now().Add(20 * time.Second)
	for {
		all = all[:0]
		r.mu.Lock()
		for event, at := range created {
			for _, path := range paths {
				if came, ok := r.arrived[path+" "+event]; ok {
					all = append(all, came.Sub(at))
				}
			}
		}
		r.mu.Unlock()
		if len(all) == len(created)*len(paths) {
			return all, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("only %d of %d webhooks came in", len(all), len(created)*len(paths))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

const pendingSQL = `insert into webhook_deliveries (id, endpoint_id, event_id, event_type, test, status, created_at, next_attempt_at)
	select gen_random_uuid(), $1, (select id from webhook_events limit 1), 'contact.created', false, 'pending', now(), now()
	from generate_series(1, 100000)`

// webhookLatency measures how long an event takes to its receiver: without other work, and while many deliveries wait
// for a failing and a paused endpoint.
func webhookLatency(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	r, err := receive(ctx)
	if err != nil {
		return err
	}
	defer r.done()
	if _, err := s.hooks(ctx, r.address, 1); err != nil {
		return err
	}
	const n = 200
	idle, err := s.latencies(ctx, r, 0, n, 15*time.Millisecond, []string{"/0"})
	if err != nil {
		return err
	}
	b.report(Figure{Measurement: "webhooks", What: "event to receiver, idle, p50", Value: percentile(idle, 0.5), Unit: "ms", Goal: "under 20 ms"})
	b.report(Figure{Measurement: "webhooks", What: "event to receiver, idle, p95", Value: percentile(idle, 0.95), Unit: "ms"})

	nobody, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	refusing := "http://" + nobody.Addr().String()
	if err := nobody.Close(); err != nil {
		return err
	}
	stuck, err := s.hooks(ctx, refusing, 2)
	if err != nil {
		return err
	}
	paused := webhook.Paused
	if _, err := s.App.UpdateWebhook(ctx, s.request(), stuck[1], webhook.Change{Status: &paused}); err != nil {
		return err
	}
	for _, id := range stuck {
		if _, err := s.pool.Exec(ctx, pendingSQL, id); err != nil {
			return err
		}
	}
	if _, _, err := s.createEvent(ctx, n); err != nil { // wakes the failing endpoint's worker
		return err
	}
	time.Sleep(2 * time.Second)
	crowded, err := s.latencies(ctx, r, n+1, n, 15*time.Millisecond, []string{"/0"})
	if err != nil {
		return err
	}
	b.report(Figure{Measurement: "webhooks", What: "the same beside 100,000 pending of a failing and of a paused endpoint, p50", Value: percentile(crowded, 0.5), Unit: "ms", Baseline: percentile(idle, 0.5), Goal: "as idle"})
	b.report(Figure{Measurement: "webhooks", What: "the same, p95", Value: percentile(crowded, 0.95), Unit: "ms", Baseline: percentile(idle, 0.95)})
	return nil
}

// webhookConnections is how many connections the bare client has; our endpoints, at five each, have as many.
const webhookConnections = 64

func webhookRate(ctx context.Context, b *bench) error {
	r, err := receive(ctx)
	if err != nil {
		return err
	}
	defer r.done()
	s, err := b.site(ctx, service.Roles{Write: true, Project: true})
	if err != nil {
		return err
	}
	defer s.Stop()
	const endpoints = (webhookConnections + webhook.MaxInFlight - 1) / webhook.MaxInFlight
	if _, err := s.hooks(ctx, r.address, endpoints); err != nil {
		return err
	}
	events := int64(max(1000, 4000*int(b.For.Seconds())/endpoints))
	var next atomic.Int64
	var makers sync.WaitGroup
	var failed atomic.Pointer[error]
	for range 32 {
		makers.Go(func() {
			for i := next.Add(1); i <= events && failed.Load() == nil; i = next.Add(1) {
				if _, err := s.App.CreateContact(ctx, s.request(), commands.CreateContact{Phone: fmt.Sprintf("+1415%07d", 2000000+i)}); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	makers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	if err := s.Store.WaitForHead(ctx, s.Ledger.ShardOf(s.org), projections.All()...); err != nil {
		return err
	}
	b.say("the bare client")
	bare, err := b.bareClient(ctx, r)
	if err != nil {
		return err
	}
	b.say(fmt.Sprintf("%d deliveries", events*endpoints))
	r.got.Store(0)
	started := time.Now()
	process, err := service.Start(ctx, service.Config{DSN: s.dsn, Keyring: b.ring, Roles: service.Roles{Process: true}, Inside: true, Clock: s.Clock, Logger: s.log})
	if err != nil {
		return err
	}
	defer process.Stop()
	var first time.Time
	for left := events * endpoints; left > 0; {
		time.Sleep(5 * time.Millisecond)
		if first.IsZero() && r.got.Load() > 0 {
			first = time.Now() // the node's own start is not measured
		}
		if r.got.Load() < events*endpoints {
			if time.Since(started) > 3*time.Minute {
				return errors.New("the deliveries do not come to an end")
			}
			continue
		}
		if err := s.pool.QueryRow(ctx, `select count(*) from webhook_deliveries where status = 'pending'`).Scan(&left); err != nil {
			return err
		}
	}
	rate := float64(events*endpoints) / time.Since(first).Seconds()
	b.report(Figure{
		Measurement: "webhooks", What: fmt.Sprintf("deliveries to %d endpoints, against a bare client with %d connections", endpoints, webhookConnections),
		Value: rate, Unit: "webhooks/s", Baseline: bare, Goal: "at least 0.1, aim for 0.2",
	})
	return nil
}

// bareClient measures the rate of a plain HTTP client that posts a signed body.
func (b *bench) bareClient(ctx context.Context, r *receiver) (float64, error) {
	body, err := payload.Example("contact.created", uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()))
	if err != nil {
		return 0, err
	}
	now := time.Now()
	signature, err := webhook.Sign("evt_1", now, body, webhook.NewSecret([32]byte{1}))
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: webhookConnections}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	return during(ctx, b.For, webhookConnections, func(ctx context.Context) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address+"/bare", bytes.NewReader(body))
		if err != nil {
			return err
		}
		q.Header.Set("content-type", "application/json")
		q.Header.Set("webhook-id", "evt_1")
		q.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		q.Header.Set("webhook-signature", signature)
		answer, err := c.Do(q)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.Body.Close()
	})
}

// webhookIsolation measures how much one endpoint that never answers delays the other nineteen.
func webhookIsolation(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	r, err := receive(ctx)
	if err != nil {
		return err
	}
	defer r.done()
	if _, err := s.hooks(ctx, r.address, webhook.MaxPerWorkspace); err != nil {
		return err
	}
	var others []string
	for i := 1; i < webhook.MaxPerWorkspace; i++ {
		others = append(others, "/"+strconv.Itoa(i))
	}
	n := int64(max(50, 20*b.For.Seconds()))
	alone, err := s.latencies(ctx, r, 0, n, 30*time.Millisecond, others)
	if err != nil {
		return err
	}
	r.hang.Store("/0")
	beside, err := s.latencies(ctx, r, n, n, 30*time.Millisecond, others)
	if err != nil {
		return err
	}
	r.hang.Store("")
	b.report(Figure{
		Measurement: "webhooks", What: "19 endpoints beside one that hangs, p95, against 20 that answer", Value: percentile(beside, 0.95), Unit: "ms",
		Baseline: percentile(alone, 0.95), Goal: "as without it",
	})
	b.report(Figure{Measurement: "webhooks", What: "the same, p50", Value: percentile(beside, 0.5), Unit: "ms", Baseline: percentile(alone, 0.5)})
	return nil
}
