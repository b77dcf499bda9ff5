package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ledgerline/httpapi"
	"ledgerline/localpg"
	"ledgerline/service"
)

// contacts is the number of phone numbers that the messages go to, in rotation.
const contacts = 5000

func measureMessages(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.Roles{Write: true})
	if err != nil {
		return err
	}
	defer s.Stop()
	address, done, err := listen(ctx, s.Handler())
	if err != nil {
		return err
	}
	defer done()
	raw, how, err := b.singleRowInserts(ctx)
	if err != nil {
		return err
	}
	handler, err := b.handwritten(ctx)
	if err != nil {
		return err
	}
	var n atomic.Int64
	post := func(c *client) error {
		i := n.Add(1)
		body := fmt.Sprintf(`{"to":"+1415%07d","body":"Your order %d has shipped and will arrive on Thursday.","external_id":"order-%d"}`, 2000000+i%contacts, i, i)
		return c.post("/v1/messages", s.secret, "bench-"+strconv.FormatInt(i, 10), body)
	}
	node, server := cpu(os.Getpid()), b.serverCPU()
	rate, _, err := b.load(ctx, address, 0, post)
	if err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n.Load()) }
	b.report(Figure{Measurement: "messages", What: "processor time of a request, node and load generator", Value: each(cpu(os.Getpid()) - node), Unit: "µs"})
	b.report(Figure{Measurement: "messages", What: "processor time of a request, PostgreSQL", Value: each(b.serverCPU() - server), Unit: "µs"})
	b.report(Figure{Measurement: "messages", What: "POST /v1/messages, against " + how, Value: rate, Unit: "requests/s", Baseline: raw, Goal: "at least 0.4, aim for 0.6"})
	b.report(Figure{Measurement: "messages", What: "the same, against a hand-written gin handler with one INSERT", Value: rate, Unit: "requests/s", Baseline: handler})
	half, latencies, err := b.load(ctx, address, rate/2, post)
	if err != nil {
		return err
	}
	b.report(Figure{Measurement: "messages", What: fmt.Sprintf("p50 at half that load (%.0f/s)", half), Value: percentile(latencies, 0.5), Unit: "ms"})
	b.report(Figure{Measurement: "messages", What: "p99 at half that load", Value: percentile(latencies, 0.99), Unit: "ms", Goal: "under 25 ms"})
	return nil
}

func listen(ctx context.Context, handler http.Handler) (address string, done func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	run, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- httpapi.Serve(run, httpapi.NewServer(handler, nil), l, time.Second) }()
	return l.Addr().String(), func() { stop(); <-served }, nil
}

// client speaks HTTP/1.1 over one connection. It uses little processor time, which leaves the cores to the service.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	host string
}

func dial(address string) (*client, error) {
	conn, err := net.Dial("tcp", address) //nolint:noctx // loopback, answered or refused at once
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReader(conn), host: address}, nil
}

func (c *client) post(path, secret, key, body string) error {
	head := "POST " + path + " HTTP/1.1\r\nHost: " + c.host + "\r\nContent-Type: application/json\r\n"
	if secret != "" {
		head += "Authorization: Bearer " + secret + "\r\nIdempotency-Key: " + key + "\r\n"
	}
	if _, err := io.WriteString(c.conn, head+"Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("answered %d: %s", response.StatusCode, answer)
	}
	return nil
}

// load runs the callers for the time, each on its own connection; with a pace they share a schedule, and latencies are
// counted from the moment at which a request was due, so that a stall is not hidden.
func (b *bench) load(ctx context.Context, address string, pace float64, call func(*client) error) (rate float64, latencies []time.Duration, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var slot, count atomic.Int64
	run, stop := context.WithCancel(ctx)
	defer stop()
	started := time.Now()
	warm := started.Add(b.For / 5)
	end := warm.Add(b.For)
	for range b.Callers {
		c, dialErr := dial(address)
		if dialErr != nil {
			return 0, nil, dialErr
		}
		wg.Go(func() {
			defer func() { _ = c.conn.Close() }()
			var mine []time.Duration
			for run.Err() == nil {
				due := time.Now()
				if pace > 0 {
					due = started.Add(time.Duration(float64(slot.Add(1)) / pace * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				if due.After(end) {
					break
				}
				if callErr := call(c); callErr != nil {
					mu.Lock()
					err = errors.Join(err, callErr)
					mu.Unlock()
					stop()
					return
				}
				if due.After(warm) {
					count.Add(1)
					mine = append(mine, time.Since(due))
				}
			}
			mu.Lock()
			latencies = append(latencies, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return float64(count.Load()) / time.Since(warm).Seconds(), latencies, err
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// singleRowInserts is pgbench's rate of single-row inserts of about the size of a message with the same connections;
// without pgbench, it measures the same inserts over pgx.
func (b *bench) singleRowInserts(ctx context.Context) (rate float64, how string, err error) {
	dsn, err := b.database(ctx)
	if err != nil {
		return 0, "", err
	}
	pool, err := service.Connect(ctx, dsn, b.Callers, 0)
	if err != nil {
		return 0, "", err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `create table rows (id bigserial primary key, workspace uuid, recipient text, body text, created_at timestamptz default now())`); err != nil {
		return 0, "", err
	}
	bin, err := localpg.FindBinaries()
	if err == nil { // the directory may hold links to some of the programs only
		if target, linkErr := filepath.EvalSymlinks(filepath.Join(bin, "postgres")); linkErr == nil {
			bin = filepath.Dir(target)
		}
		program := filepath.Join(bin, "pgbench")
		if _, err := os.Stat(program); err == nil {
			script := filepath.Join(os.TempDir(), fmt.Sprintf("ledgerline-bench-%d.sql", os.Getpid()))
			defer func() { _ = os.Remove(script) }()
			statement := `insert into rows (workspace, recipient, body) values ('0190aaaa-0000-7000-8000-000000000001', '+14152000000', 'Your order has shipped and will arrive on Thursday.');`
			if err := os.WriteFile(script, []byte(statement), 0o600); err != nil {
				return 0, "", err
			}
			seconds := strconv.Itoa(max(1, int(b.For.Seconds())))
			out, err := exec.CommandContext(ctx, program, "-n", "-M", "prepared", "-c", strconv.Itoa(b.Callers), "-j", "2", "-T", seconds, "-f", script, dsn).CombinedOutput() //nolint:gosec // our own arguments
			if err != nil {
				return 0, "", fmt.Errorf("pgbench: %w: %s", err, out)
			}
			if found := tps.FindSubmatch(out); found != nil {
				rate, err = strconv.ParseFloat(string(found[1]), 64)
				return rate, "pgbench's single-row inserts", err
			}
			return 0, "", fmt.Errorf("pgbench: no rate in its output: %s", out)
		}
	}
	rate, err = during(ctx, b.For, b.Callers, func(ctx context.Context) error {
		_, err := pool.Exec(ctx, `insert into rows (workspace, recipient, body) values ($1, $2, $3)`, uuid.Nil, "+14152000000", "Your order has shipped and will arrive on Thursday.")
		return err
	})
	return rate, "single-row inserts over pgx (no pgbench here)", err
}

// handwritten measures a minimal HTTP handler without the service: decode, insert, answer.
func (b *bench) handwritten(ctx context.Context) (float64, error) {
	dsn, err := b.database(ctx)
	if err != nil {
		return 0, err
	}
	pool, err := service.Connect(ctx, dsn, 32, 0)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `create table rows (id uuid primary key, recipient text, body text, created_at timestamptz)`); err != nil {
		return 0, err
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/", func(c *gin.Context) {
		var in struct{ To, Body string }
		if err := c.BindJSON(&in); err != nil {
			return
		}
		id := uuid.Must(uuid.NewV7())
		if _, err := pool.Exec(c, `insert into rows values ($1, $2, $3, $4)`, id, in.To, in.Body, time.Now()); err != nil {
			c.Status(http.StatusInternalServerError)
			return
		}
		c.JSON(http.StatusCreated, gin.H{"id": id, "status": "queued"})
	})
	address, done, err := listen(ctx, engine)
	if err != nil {
		return 0, err
	}
	defer done()
	rate, _, err := b.load(ctx, address, 0, func(c *client) error {
		return c.post("/", "", "", `{"to":"+14152000000","body":"Your order has shipped and will arrive on Thursday."}`)
	})
	return rate, err
}
