package httpapi

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"ledgerline/domain/fault"
)

// Limit is the rate at which a token bucket is filled, and the number of tokens that it holds.
type Limit struct {
	PerSecond float64
	Burst     int
}

// The limits of rules API-25, API-36 and WFL-32.
var (
	SendingLimit      = Limit{PerSecond: 10, Burst: 20}   // per API key, and per user and workspace for sessions
	GeneralLimit      = Limit{PerSecond: 50, Burst: 50}   // likewise
	TriggerLimit      = Limit{PerSecond: 10, Burst: 10}   // per token of a webhook trigger
	OrganisationLimit = Limit{PerSecond: 500, Burst: 500} // per organisation
	AddressLimit      = Limit{PerSecond: 20, Burst: 100}  // per client address, for requests without a known caller
)

// Limiter takes a token from a bucket, or returns how long it takes until there is one. It is safe for concurrent use.
// A store that several nodes share could implement it.
type Limiter interface {
	Allow(ctx context.Context, bucket string, limit Limit) (retryAfter time.Duration, ok bool)
}

// take takes a token. It returns fault rate_limited when the bucket is empty; name says which limit that was.
func (a *API) take(ctx context.Context, bucket string, limit Limit, name, message string) error {
	if a.cfg.Limiter == nil {
		return nil
	}
	if wait, ok := a.cfg.Limiter.Allow(ctx, bucket, limit); !ok {
		return &fault.Fault{Code: fault.RateLimited, Message: message, RetryAfter: wait, Details: map[string]any{"limit": name}}
	}
	return nil
}

// countRequest counts a request against the limits of its caller and of its caller's organisation, before anything is
// asked of the database. It returns fault rate_limited when one is exceeded. The organisation is that of the caller's
// last request; the first one counts when the caller has been authenticated.
func (a *API) countRequest(q *request, sending bool) error {
	id := &q.credentials.Identity
	organisation, known := a.callers.Get(id.Key)
	name := id.Key
	if !known { // a client can make up workspaces, and would get a bucket for each
		name = id.Base
	}
	bucket, limit := "general:"+name, GeneralLimit
	switch {
	case q.credentials.InPath:
		bucket, limit = "trigger:"+name, TriggerLimit
	case sending:
		bucket, limit = "sending:"+name, SendingLimit
	}
	if err := a.take(q.ctx, bucket, limit, "key", "Too many requests. Try again later."); err != nil {
		return err
	}
	if known {
		q.call.OrganisationID = organisation
		return a.countOrganisation(q)
	}
	return nil
}

func (a *API) countOrganisation(q *request) error {
	return a.take(q.ctx, "organisation:"+q.call.OrganisationID.String(), OrganisationLimit, "organisation",
		"The organisation sends too many requests. Try again later.")
}

// countStranger counts a request without a known caller against the limit of its address. It returns refusal, or fault
// rate_limited when the limit is exceeded.
func (a *API) countStranger(c *gin.Context, refusal error) error {
	if err := a.countAddress(c); err != nil {
		return err
	}
	return refusal
}

func (a *API) countAddress(c *gin.Context) error {
	return a.take(c.Request.Context(), "address:"+addressBucket(address(c)), AddressLimit, "address", "Too many requests from this address. Try again later.")
}

// LimitAddress is a middleware for routes without authentication: it counts requests against the limit of their
// client's address.
func (a *API) LimitAddress(c *gin.Context) {
	if err := a.countAddress(c); err != nil {
		a.refuse(c, err)
		return
	}
	c.Next()
}

// addressBucket names the bucket of an address: of IPv6 the network of 64 bits, which one client has all of.
func addressBucket(ip netip.Addr) string {
	if ip.Is6() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}

// MemoryLimiter holds the buckets of one node. It keeps those that were used last, up to maxBuckets of callers and as
// many of addresses, so that addresses never displace callers. It uses real time and not the service's clock, since a
// stopped clock would never refill a bucket.
type MemoryLimiter struct {
	now     func() time.Time
	mu      sync.Mutex
	callers *simplelru.LRU[string, *rate.Limiter]
	address *simplelru.LRU[string, *rate.Limiter]
}

// maxBuckets bounds the memory to about 20 MiB.
const maxBuckets = 1 << 16

// NewMemoryLimiter makes a limiter with no buckets.
func NewMemoryLimiter() *MemoryLimiter { return newMemoryLimiter(time.Now, maxBuckets) }

func newMemoryLimiter(now func() time.Time, size int) *MemoryLimiter {
	m := &MemoryLimiter{now: now}
	m.callers, _ = simplelru.NewLRU[string, *rate.Limiter](size, nil) // an error means a size below 1
	m.address, _ = simplelru.NewLRU[string, *rate.Limiter](size, nil)
	return m
}

// Allow implements Limiter.
func (m *MemoryLimiter) Allow(_ context.Context, name string, limit Limit) (time.Duration, bool) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	buckets := m.callers
	if limit == AddressLimit {
		buckets = m.address
	}
	bucket, found := buckets.Get(name)
	if !found {
		bucket = rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)
		buckets.Add(name, bucket)
	}
	reservation := bucket.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
		return wait, false
	}
	return 0, true
}
