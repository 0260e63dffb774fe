package pertopic

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Counter is a counter by topic. WithLabelValues gives that of one.
type Counter struct {
	*prometheus.CounterVec
	total     *prometheus.Desc
	maxTopics int

	mu   sync.Mutex // guards the field below
	gone float64    // what the topics that are gone had
}

// NewCounter makes a counter whose topics are left out of what is collected while there are more than maxTopics.
func NewCounter(name, help string, maxTopics int) *Counter {
	labels := []string{"topic"}
	return &Counter{
		CounterVec: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels),
		total:      prometheus.NewDesc(name, help, labels, nil),
		maxTopics:  maxTopics,
	}
}

// Forget lets the series of a topic go.
func (c *Counter) Forget(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone += value(c.WithLabelValues(topic))
	c.DeleteLabelValues(topic)
}

// Collect implements prometheus.Collector.
func (c *Counter) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var topics []prometheus.Metric
	found := make(chan prometheus.Metric)
	go func() {
		defer close(found)
		c.CounterVec.Collect(found)
	}()
	sum := c.gone
	for metric := range found {
		sum += value(metric)
		topics = append(topics, metric)
	}
	metrics <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, sum, "")
	if len(topics) > c.maxTopics {
		return
	}
	for _, metric := range topics {
		metrics <- metric
	}
}

func value(metric prometheus.Metric) float64 {
	var written dto.Metric
	if err := metric.Write(&written); err != nil {
		return 0 // a counter always can
	}
	return written.GetCounter().GetValue()
}
