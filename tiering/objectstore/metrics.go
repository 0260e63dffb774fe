package objectstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the numbers about object stores; every one has the labels bucket and operation:
//
//	firn_objectstore_requests_total, _bytes_total, _retries_total
//	firn_objectstore_errors_total      also by status
//	firn_objectstore_duration_seconds  a histogram
//
// and, of stores that speak Amazon's protocol, with the label bucket:
//
//	firn_objectstore_http_requests_total         by request, as price lists name them
//	firn_objectstore_credentials_expire_seconds  in Unix time; 0: never
//	firn_objectstore_credentials_failures_total
type Metrics struct {
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	retries  *prometheus.CounterVec
	duration *prometheus.HistogramVec

	http                *prometheus.CounterVec
	credentialsExpire   *prometheus.GaugeVec
	credentialsFailures *prometheus.CounterVec
}

// NewMetrics registers the metrics, or finds those that another bucket of this process has registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "firn_objectstore_" + name, Help: help},
			append([]string{"bucket"}, labels...))
	}
	m := &Metrics{
		requests: counter("requests_total", "Operations asked of the object store, each attempt counted.", "operation"),
		bytes:    counter("bytes_total", "Bytes put or read.", "operation"),
		errors:   counter("errors_total", "Attempts that failed, by what the store answered.", "operation", "status"),
		retries:  counter("retries_total", "Attempts after the first.", "operation"),
		http:     counter("http_requests_total", "Requests sent, as a store bills them.", "request"),
		credentialsFailures: counter("credentials_failures_total",
			"Attempts to get credentials that failed; what there is is used as long as it is good."),
		credentialsExpire: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "firn_objectstore_credentials_expire_seconds",
			Help: "When the credentials end, in Unix time; 0: never. They are renewed before."}, []string{"bucket"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "firn_objectstore_duration_seconds",
			Help:    "How long an attempt took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
		}, []string{"bucket", "operation"}),
	}
	for _, vec := range []**prometheus.CounterVec{&m.requests, &m.bytes, &m.errors, &m.retries, &m.http,
		&m.credentialsFailures} {
		if err := register(registerer, vec); err != nil {
			return nil, err
		}
	}
	return m, errors.Join(register(registerer, &m.duration), register(registerer, &m.credentialsExpire))
}

// renewed notes an attempt to get credentials.
func (m *Metrics) renewed(bucket string, expires time.Time, err error) {
	switch {
	case err != nil:
		m.credentialsFailures.WithLabelValues(bucket).Inc()
	case expires.IsZero():
		m.credentialsExpire.WithLabelValues(bucket).Set(0)
	default:
		m.credentialsExpire.WithLabelValues(bucket).Set(float64(expires.Unix()))
	}
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
