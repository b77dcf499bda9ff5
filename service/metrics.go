package service

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"ledgerline/eventstore/feed"
	"ledgerline/processes/tasks"
)

// nodeMetrics reports what a node knows of its database: connections, parked events and waiting tasks. Metrics that
// need a query are left out while the database does not answer.
type nodeMetrics struct{ node *Node }

// metricsTimeout bounds the queries of one scrape together.
const metricsTimeout = 2 * time.Second

var (
	databaseUp = prometheus.NewDesc("ledgerline_database_up",
		"1 while the node reaches its database, else 0.", nil, nil)
	databaseConnections = prometheus.NewDesc("ledgerline_database_connections",
		"Connections of the node's pools, of processes and of requests, by state: in use, idle, and the greatest number allowed (max).",
		[]string{"pool", "state"}, nil)
	parkedEvents = prometheus.NewDesc("ledgerline_feed_parked_events",
		"Events that a consumer could not apply, until an operator retries or skips them. The same on every node.", []string{"consumer"}, nil)
	tasksOverdue = prometheus.NewDesc("ledgerline_tasks_overdue_seconds",
		"Age of the oldest task of a process that is due and has not finished, by the service's clock. The same on every node.", []string{"process"}, nil)
	tasksRetrying = prometheus.NewDesc("ledgerline_tasks_retrying",
		"Tasks of a process whose last run failed. The same on every node.", []string{"process"}, nil)
)

// Describe implements prometheus.Collector.
func (nodeMetrics) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{databaseUp, databaseConnections, parkedEvents, tasksOverdue, tasksRetrying} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (m nodeMetrics) Collect(metrics chan<- prometheus.Metric) {
	n := m.node
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for name, pool := range map[string]*pgxpool.Pool{"processes": n.pool, "requests": n.requests} {
		stat := pool.Stat()
		gauge(databaseConnections, float64(stat.AcquiredConns()), name, "in_use")
		gauge(databaseConnections, float64(stat.IdleConns()), name, "idle")
		gauge(databaseConnections, float64(stat.MaxConns()), name, "max")
	}
	if n.outage.away.Load() {
		gauge(databaseUp, 0)
		return
	}
	gauge(databaseUp, 1)
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	if parked, err := feed.CountParkedEvents(ctx, n.Ledger); err == nil {
		for consumer, count := range parked {
			gauge(parkedEvents, float64(count), consumer)
		}
	}
	if waiting, err := tasks.ReadWaiting(ctx, n.pool); err == nil {
		now := n.Clock.Now()
		for _, w := range waiting {
			overdue := time.Duration(0)
			if w.OldestDue != nil {
				overdue = max(0, now.Sub(*w.OldestDue))
			}
			gauge(tasksOverdue, overdue.Seconds(), w.Process)
			gauge(tasksRetrying, float64(w.Retrying), w.Process)
		}
	}
}
