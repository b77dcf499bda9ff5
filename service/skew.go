package service

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"ledgerline/clock"
)

const (
	// maxSkew is how far the clock of a node may be from that of the database. Nodes are therefore at most twice as far
	// from each other. Limits per hour and idempotency keys depend on it: the times in the ledger are those of nodes.
	maxSkew     = 3 * time.Second
	skewEvery   = 5 * time.Second
	skewTimeout = 2 * time.Second
)

var clockSkew = prometheus.NewDesc("ledgerline_clock_skew_seconds",
	"How far the node's clock is ahead of the database's, at least; negative when it is behind.", nil, nil)

// skew measures how far the clock of the node is from that of the database. The nil skew measures nothing and allows
// everything. It is safe for concurrent use.
type skew struct {
	clock clock.Clock
	pool  *pgxpool.Pool
	log   *slog.Logger
	ahead atomic.Int64 // nanoseconds
}

func newSkew(c clock.Clock, pool *pgxpool.Pool, log *slog.Logger) *skew {
	return &skew{clock: c, pool: pool, log: log}
}

// run measures every few seconds, until ctx ends.
func (s *skew) run(ctx context.Context) {
	tick := time.NewTicker(skewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.measure(ctx)
		}
	}
}

// measure reads the clock of the database. Without an answer the last measurement stays.
func (s *skew) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, skewTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx) // waiting for a connection must not count
	if err != nil {
		return
	}
	defer conn.Release()
	var database time.Time
	before := s.clock.Now()
	err = conn.QueryRow(ctx, `select clock_timestamp()`).Scan(&database)
	after := s.clock.Now()
	if err != nil {
		return
	}
	// The database read its clock between before and after. Only what is certain counts.
	ahead := time.Duration(0)
	switch {
	case before.After(database):
		ahead = before.Sub(database)
	case after.Before(database):
		ahead = after.Sub(database)
	}
	was := time.Duration(s.ahead.Swap(int64(ahead)))
	switch is := tooFar(ahead); {
	case is && !tooFar(was):
		s.log.Error("service: the clock of this node differs from the database's: it writes and sends nothing until that is repaired", "ahead", ahead, "allowed", maxSkew)
	case !is && tooFar(was):
		s.log.Info("service: the clock of this node is right again", "ahead", ahead)
	}
}

func tooFar(ahead time.Duration) bool { return ahead.Abs() > maxSkew }

// check returns an error while the clocks differ too much.
func (s *skew) check() error {
	if s == nil {
		return nil
	}
	if ahead := time.Duration(s.ahead.Load()); tooFar(ahead) {
		return fmt.Errorf("the clock of this node is %s ahead of the database's, and %s are allowed", ahead.Round(time.Millisecond), maxSkew)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (s *skew) Describe(descs chan<- *prometheus.Desc) { descs <- clockSkew }

// Collect implements prometheus.Collector.
func (s *skew) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.MustNewConstMetric(clockSkew, prometheus.GaugeValue, time.Duration(s.ahead.Load()).Seconds())
}
