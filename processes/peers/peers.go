// Package peers bounds the calls of processes to outside systems, such as the servers of carriers and the hosts of
// webhook endpoints, so that one that hangs costs little and delays no other.
//
// Each peer has a bound of calls under way, and a circuit: after some calls in a row without an answer in time the
// circuit opens, and nothing calls the peer for a while. Then one call at a time tries whether the peer answers again.
// A call that is refused comes with a pause. The pauses of many refused callers are spread, so that a peer with a
// hundred thousand waiting tasks is asked about fifty times a second and not by all of them at once.
package peers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"ledgerline/fairqueue"
)

// Config configures Peers. A zero value is replaced by the default where one is stated.
type Config struct {
	Kind     string        // of the peers, in metrics and logs: "carrier", "webhook"
	Waiting  int           // callers that wait for one peer, at most; default 16
	Wait     time.Duration // how long they wait, in real time; default 10 s
	Failures int           // calls in a row without an answer in time that open the circuit; default 3
	Open     time.Duration // real time; how long nothing is called then; default 30 s
	Logger   *slog.Logger  // default: slog.Default()
	Metrics  *Metrics      // nil: none
}

const (
	// maxPeers bounds the memory: the circuits of the peers that were called last are kept.
	maxPeers = 10_000
	// units is how fine the bounds of peers can be: a peer with a bound of n calls has units of them, and a call takes
	// units/n.
	units = 1 << 12
	// busyPause and spread are the first pause of a call to a peer with too many calls under way, and how far the pauses
	// of refused calls are apart.
	busyPause = time.Second
	spread    = 20 * time.Millisecond
)

// Peers are peers of one kind. It is safe for concurrent use.
type Peers struct {
	cfg   Config
	slots *fairqueue.Queue[string]

	mu    sync.Mutex // guards the creation of peers
	peers *lru.Cache[string, *peer]
}

type peer struct {
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu   sync.Mutex
	next time.Time // when the last refused call may be made again
}

// New makes Peers.
func New(cfg Config) *Peers {
	if cfg.Waiting <= 0 {
		cfg.Waiting = 16
	}
	if cfg.Wait <= 0 {
		cfg.Wait = 10 * time.Second
	}
	if cfg.Failures <= 0 {
		cfg.Failures = 3
	}
	if cfg.Open <= 0 {
		cfg.Open = 30 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	p := &Peers{cfg: cfg, slots: fairqueue.New[string](fairqueue.Config{
		Total: maxPeers * units, PerOwner: units, Waiting: cfg.Waiting, Wait: cfg.Wait,
	})}
	p.peers, _ = lru.NewWithEvict(maxPeers, func(_ string, evicted *peer) { // the error is for a size below 1
		if evicted.circuit.State() != gobreaker.StateClosed {
			cfg.Metrics.circuits(cfg.Kind, -1)
		}
	})
	return p
}

// Refused is the error of a call that may not be made now.
type Refused struct {
	Peer  string
	Open  bool          // the circuit of the peer is open; else too many calls to it are under way
	Pause time.Duration // after which to try again, in real time
}

func (e *Refused) Error() string {
	if e.Open {
		return "peers: " + e.Peer + " does not answer"
	}
	return "peers: too many calls to " + e.Peer + " are under way"
}

// Call is a call under way. End it with Ended.
type Call struct {
	peers *Peers
	leave func()
	done  func(error)
	once  sync.Once
}

// Enter waits until a peer may be called: no more than limit calls to it are under way, and its circuit is not open. It
// returns a *Refused, or the error of ctx.
func (p *Peers) Enter(ctx context.Context, name string, limit int) (*Call, error) {
	if err := p.Check(name); err != nil {
		return nil, err
	}
	to := p.peer(name)
	leave, err := p.slots.Enter(ctx, name, int64(units/min(max(limit, 1), units)))
	switch {
	case errors.Is(err, fairqueue.ErrFull), errors.Is(err, fairqueue.ErrBusy):
		return nil, p.refuse(name, to, false)
	case err != nil:
		return nil, err
	}
	done, err := to.circuit.Allow()
	if err != nil {
		leave()
		return nil, p.refuse(name, to, true)
	}
	return &Call{peers: p, leave: leave, done: done}, nil
}

var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// TryEnter is Enter without waiting. Every error is a *Refused.
func (p *Peers) TryEnter(name string, limit int) (*Call, error) {
	call, err := p.Enter(ended, name, limit)
	if refused := (*Refused)(nil); err != nil && !errors.As(err, &refused) {
		err = p.refuse(name, p.peer(name), false)
	}
	return call, err
}

// Check returns a *Refused while the circuit of a peer is open.
func (p *Peers) Check(name string) error {
	if to := p.peer(name); to.circuit.State() == gobreaker.StateOpen {
		return p.refuse(name, to, true)
	}
	return nil
}

func (p *Peers) refuse(name string, to *peer, open bool) error {
	first := busyPause
	if open {
		first = p.cfg.Open
	}
	now := time.Now()
	to.mu.Lock()
	defer to.mu.Unlock()
	earliest := now.Add(first + rand.N(first/2)) //nolint:gosec // jitter is no secret
	if to.next = to.next.Add(spread); to.next.Before(earliest) {
		to.next = earliest
	}
	p.cfg.Metrics.call(p.cfg.Kind, "refused")
	return &Refused{Peer: name, Open: open, Pause: to.next.Sub(now)}
}

// Ended ends the call with the error that it returned. An error that is a timeout counts as no answer, and a nil
// error as an answer. Other errors, such as a refused connection, cost nothing and change nothing. Only the first call
// of Ended counts.
func (c *Call) Ended(err error) {
	c.once.Do(func() {
		c.leave()
		switch {
		case err == nil:
			c.peers.cfg.Metrics.call(c.peers.cfg.Kind, "answered")
		case isTimeout(err):
			c.peers.cfg.Metrics.call(c.peers.cfg.Kind, "timeout")
		default:
			c.peers.cfg.Metrics.call(c.peers.cfg.Kind, "error")
		}
		c.done(err)
	})
}

// Release ends a call that was not made.
func (c *Call) Release() {
	c.once.Do(func() {
		c.leave()
		c.done(errNotMade)
	})
}

var errNotMade = errors.New("peers: not made")

// ErrTimeout is for calls whose own error does not say that they had no answer in time.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string { return "peers: no answer in time" }
func (timeoutError) Timeout() bool { return true }

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrTimeout) {
		return true
	}
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}

func (p *Peers) peer(name string) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, known := p.peers.Get(name)
	if !known {
		found = &peer{circuit: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name: name, Timeout: p.cfg.Open,
			ReadyToTrip:   func(counts gobreaker.Counts) bool { return int(counts.ConsecutiveFailures) >= p.cfg.Failures },
			IsExcluded:    func(err error) bool { return err != nil && !isTimeout(err) },
			OnStateChange: p.changed,
		})}
		p.peers.Add(name, found)
	}
	return found
}

// changed logs and counts the change of a circuit. A half-open circuit counts as open.
func (p *Peers) changed(name string, from, to gobreaker.State) {
	switch {
	case from == gobreaker.StateClosed:
		p.cfg.Metrics.circuits(p.cfg.Kind, 1)
		p.cfg.Logger.Warn("peers: a circuit opened: the peer does not answer, calls to it wait", "kind", p.cfg.Kind, "peer", name, "for", p.cfg.Open)
	case to == gobreaker.StateClosed:
		p.cfg.Metrics.circuits(p.cfg.Kind, -1)
		p.cfg.Logger.Info("peers: a circuit closed: the peer answers again", "kind", p.cfg.Kind, "peer", name)
	}
}

// Metrics are the metrics of the peers of a node.
type Metrics struct {
	calls *prometheus.CounterVec
	open  *prometheus.GaugeVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerline_peer_calls_total",
			Help: "Calls to outside systems, by kind and result: answered, timeout, error, or refused (not made, because the circuit is open or too many are under way).",
		}, []string{"kind", "result"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledgerline_peer_circuits_open",
			Help: "Outside systems that this node does not call for now, because they did not answer in time.",
		}, []string{"kind"}),
	}
	reg.MustRegister(m.calls, m.open)
	return m
}

func (m *Metrics) call(kind, result string) {
	if m != nil {
		m.calls.WithLabelValues(kind, result).Inc()
	}
}

func (m *Metrics) circuits(kind string, change float64) {
	if m != nil {
		m.open.WithLabelValues(kind).Add(change)
	}
}
