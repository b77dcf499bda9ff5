package httpapi

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

// Limit is the rate at which a token bucket is filled, and the number of tokens that it holds.
type Limit struct {
	PerSecond float64
	Burst     int
}

// The limits of rule API-25, per API key, and per user and workspace for sessions.
var (
	SendingLimit = Limit{PerSecond: 10, Burst: 20}
	GeneralLimit = Limit{PerSecond: 50, Burst: 50}
)

// Limiter takes a token from a bucket, or returns how long it takes until there is one. It is safe for concurrent use.
// A store that several nodes share could implement it.
type Limiter interface {
	Allow(ctx context.Context, bucket string, limit Limit) (retryAfter time.Duration, ok bool)
}

// countRequest counts a request against the caller's limit. It returns fault rate_limited when that is exceeded.
func (a *API) countRequest(ctx context.Context, c *auth.Caller, sending bool) error {
	if a.cfg.Limiter == nil {
		return nil
	}
	bucket, limit := "general:"+c.RateLimitKey, GeneralLimit
	if sending {
		bucket, limit = "sending:"+c.RateLimitKey, SendingLimit
	}
	if wait, ok := a.cfg.Limiter.Allow(ctx, bucket, limit); !ok {
		return &fault.Fault{Code: fault.RateLimited, Message: "Too many requests. Try again later.", RetryAfter: wait}
	}
	return nil
}

// MemoryLimiter holds the buckets of one node. A bucket that was idle for a minute is full again under every limit, so
// it is removed: memory grows with the callers of the last two minutes. It uses real time and not the service's clock,
// since a stopped clock would never refill a bucket.
type MemoryLimiter struct {
	now     func() time.Time
	mu      sync.Mutex
	buckets map[string]*bucket
	swept   time.Time
}

type bucket struct {
	limiter *rate.Limiter
	used    time.Time
}

const bucketIdle = time.Minute

// NewMemoryLimiter makes a limiter with no buckets.
func NewMemoryLimiter() *MemoryLimiter { return newMemoryLimiter(time.Now) }

func newMemoryLimiter(now func() time.Time) *MemoryLimiter {
	return &MemoryLimiter{now: now, buckets: map[string]*bucket{}, swept: now()}
}

// Allow implements Limiter.
func (m *MemoryLimiter) Allow(_ context.Context, name string, limit Limit) (time.Duration, bool) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.swept) > bucketIdle {
		for name, b := range m.buckets {
			if now.Sub(b.used) > bucketIdle {
				delete(m.buckets, name)
			}
		}
		m.swept = now
	}
	b := m.buckets[name]
	if b == nil {
		b = &bucket{limiter: rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)}
		m.buckets[name] = b
	}
	b.used = now
	reservation := b.limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
		return wait, false
	}
	return 0, true
}
