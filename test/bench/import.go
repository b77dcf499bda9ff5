package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/projections"
	"ledgerline/service"
)

const (
	importedRows = 50_000 // the maximum of a file
	importPace   = 100.0  // messages/s that are accepted meanwhile
)

// measureImport imports the largest allowed file while messages are accepted at a steady pace, with all components
// running.
func measureImport(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	address, done, err := listen(ctx, s.Handler())
	if err != nil {
		return err
	}
	defer done()
	raw, err := copyRows(ctx, s)
	if err != nil {
		return err
	}
	var file strings.Builder
	file.WriteString("phone,first_name,last_name,company,email,tags,city,consent\n")
	for i := range importedRows {
		fmt.Fprintf(&file, "+1415%07d,First %d,Last %d,\"Company, %d\",c%d@example.com,tag %d,City %d,opted_in\n", 2_000_000+i, i, i, i, i, i%20, i%100)
	}
	body, err := json.Marshal(map[string]any{
		"csv": file.String(), "consent_source": "bench", "labels": []string{"bench"},
		"mapping": map[string]string{
			"phone": "phone", "first_name": "first_name", "last_name": "last_name", "company": "company", "email": "email", "tags": "labels", "city": "fields.city", "consent": "consent_status",
		},
	})
	if err != nil {
		return err
	}
	var sent atomic.Int64
	alone, err := s.sends(ctx, address, b.Callers, b.For, &sent)
	if err != nil {
		return err
	}
	runtime.GC()
	peak := watchHeap()
	run, stop := context.WithCancel(ctx)
	var meanwhile []time.Duration
	var failed error
	var sender sync.WaitGroup
	sender.Go(func() { meanwhile, failed = s.sends(run, address, b.Callers, time.Hour, &sent) })
	node, server := cpu(os.Getpid()), b.serverCPU()
	took, accepted, err := s.importFile(ctx, "http://"+address+"/v1/contacts/import", string(body))
	node, server = cpu(os.Getpid())-node, b.serverCPU()-server
	stop()
	sender.Wait()
	highest := peak()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	b.report(Figure{Measurement: "import", What: fmt.Sprintf("%d rows from the request to completed, 100 messages/s meanwhile", importedRows), Value: took.Seconds(), Unit: "s", Goal: "under 60"})
	b.report(Figure{Measurement: "import", What: "the same, against COPY into the read model's table", Value: importedRows / took.Seconds(), Unit: "rows/s", Baseline: raw})
	b.report(Figure{Measurement: "import", What: "processor time meanwhile, node and sender", Value: node.Seconds(), Unit: "s"})
	b.report(Figure{Measurement: "import", What: "processor time meanwhile, PostgreSQL", Value: server.Seconds(), Unit: "s"})
	b.report(Figure{Measurement: "import", What: "the request", Value: accepted.Seconds(), Unit: "s"})
	b.report(Figure{Measurement: "import", What: "peak heap of the whole node meanwhile", Value: float64(highest) / (1 << 20), Unit: "MiB"})
	for _, p := range []float64{0.5, 0.99} {
		b.report(Figure{Measurement: "import", What: fmt.Sprintf("p%.0f of POST /v1/messages meanwhile, against the same before", 100*p), Value: percentile(meanwhile, p), Unit: "ms", Baseline: percentile(alone, p)})
	}
	return nil
}

// copyRows returns the rate of a COPY of as many rows of about that size into PostgreSQL.
func copyRows(ctx context.Context, s *site) (rate float64, err error) {
	if _, err := s.pool.Exec(ctx, `create table raw_contacts (id text primary key, workspace_id uuid, phone text, first_name text, last_name text, company text, email text,
		fields jsonb, created_at timestamptz default now())`); err != nil {
		return 0, err
	}
	started := time.Now()
	_, err = s.pool.CopyFrom(ctx, pgx.Identifier{"raw_contacts"}, []string{"id", "workspace_id", "phone", "first_name", "last_name", "company", "email", "fields"},
		pgx.CopyFromSlice(importedRows, func(i int) ([]any, error) {
			return []any{
				fmt.Sprintf("ctc_%026d", i), s.wsp, fmt.Sprintf("+1415%07d", 2_000_000+i), fmt.Sprint("First ", i), fmt.Sprint("Last ", i), fmt.Sprint("Company, ", i),
				fmt.Sprintf("c%d@example.com", i), map[string]any{"city": fmt.Sprint("City ", i%100)},
			}, nil
		}))
	return importedRows / time.Since(started).Seconds(), err
}

// importFile sends a file and waits until its job has completed, as a reader sees it.
func (s *site) importFile(ctx context.Context, url, body string) (took, accepted time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+s.secret)
	request.Header.Set("Content-Type", "application/json")
	started := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, 0, err
	}
	accepted = time.Since(started)
	var job struct {
		ID uuid.UUID `json:"id"`
	}
	if response.StatusCode != http.StatusAccepted || json.Unmarshal(answer, &job) != nil {
		return 0, 0, fmt.Errorf("the import answered %s: %.500s", response.Status, answer)
	}
	v := projections.Viewer{Workspace: s.wsp, Shard: s.Ledger.ShardOf(s.org)}
	for {
		found, _, err := s.Store.Import(ctx, v, job.ID)
		switch {
		case err != nil:
			return 0, 0, err
		case found.Status == "completed" && found.Imported != importedRows:
			return 0, 0, fmt.Errorf("%d rows were imported, %d skipped", found.Imported, found.Skipped)
		case found.Status == "completed":
			return time.Since(started), accepted, nil
		case time.Since(started) > 5*time.Minute:
			return 0, 0, fmt.Errorf("the import has not completed: %d rows", found.Imported)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sends posts messages at a steady pace, over as many connections as there are callers, until the time is over or ctx
// ends, and returns how long each took from the moment at which it was due.
func (s *site) sends(ctx context.Context, address string, callers int, d time.Duration, n *atomic.Int64) (latencies []time.Duration, failed error) {
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	var mu sync.Mutex
	var slot atomic.Int64
	var wg sync.WaitGroup
	started := time.Now()
	for range callers {
		wg.Go(func() {
			c, err := dial(address)
			for err == nil {
				due := started.Add(time.Duration(float64(slot.Add(1)) / importPace * float64(time.Second)))
				select {
				case <-ctx.Done():
					_ = c.conn.Close()
					return
				case <-time.After(time.Until(due)):
				}
				i := n.Add(1)
				err = c.post("/v1/messages", s.secret, fmt.Sprint("bench-", i), fmt.Sprintf(`{"to":"+1212%07d","body":"Your order has shipped."}`, 2_000_000+i))
				mu.Lock()
				latencies = append(latencies, time.Since(due))
				mu.Unlock()
			}
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		})
	}
	wg.Wait()
	return latencies, failed
}
