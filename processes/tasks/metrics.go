package tasks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of the runners of a node.
type Metrics struct {
	waited  *prometheus.HistogramVec
	running *prometheus.GaugeVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ledgerline_task_wait_seconds",
			Help:    "Time between the moment that a task was due and the moment that a worker took it, by the database's clock.",
			Buckets: []float64{0.005, 0.02, 0.1, 0.5, 1, 2, 5, 15, 60, 300, 1800},
		}, []string{"process"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledgerline_tasks_running",
			Help: "Task runs of this node, by what they do: occupy a worker, or wait for an outside system without one (outside).",
		}, []string{"process", "state"}),
	}
	reg.MustRegister(m.waited, m.running)
	return m
}

func (m *Metrics) taken(process string, waited []time.Duration) {
	if m == nil {
		return
	}
	for _, w := range waited {
		m.waited.WithLabelValues(process).Observe(w.Seconds())
	}
}

func (m *Metrics) runs(process string, working, outside int) {
	if m == nil {
		return
	}
	m.running.WithLabelValues(process, "working").Set(float64(working))
	m.running.WithLabelValues(process, "outside").Set(float64(outside))
}
