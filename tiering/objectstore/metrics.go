package objectstore

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the numbers about object stores; every one has the labels bucket and operation:
//
//	firn_objectstore_requests_total, _bytes_total, _retries_total
//	firn_objectstore_errors_total      also by status
//	firn_objectstore_duration_seconds  a histogram
type Metrics struct {
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	retries  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers the metrics, or finds those that another bucket of this process has registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "firn_objectstore_" + name, Help: help},
			append([]string{"bucket", "operation"}, labels...))
	}
	m := &Metrics{
		requests: counter("requests_total", "Operations asked of the object store, each attempt counted."),
		bytes:    counter("bytes_total", "Bytes put or read."),
		errors:   counter("errors_total", "Attempts that failed, by what the store answered.", "status"),
		retries:  counter("retries_total", "Attempts after the first."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "firn_objectstore_duration_seconds",
			Help:    "How long an attempt took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
		}, []string{"bucket", "operation"}),
	}
	for _, vec := range []**prometheus.CounterVec{&m.requests, &m.bytes, &m.errors, &m.retries} {
		if err := register(registerer, vec); err != nil {
			return nil, err
		}
	}
	if err := register(registerer, &m.duration); err != nil {
		return nil, err
	}
	return m, nil
}

func register[C prometheus.Collector](registerer prometheus.Registerer, collector *C) error {
	err := registerer.Register(*collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		existing, ok := already.ExistingCollector.(C)
		if !ok {
			return fmt.Errorf("register metrics of the object store: %w", err)
		}
		*collector = existing
		return nil
	}
	if err != nil {
		return fmt.Errorf("register metrics of the object store: %w", err)
	}
	return nil
}
