package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/wire"
)

// metrics are what the server counts:
//
//	firn_server_connections{listener}              open connections
//	firn_server_connections_refused_total          closed at once, because the address had too many
//	firn_server_accept_errors_total                failures to accept, such as a lack of file descriptors
//	firn_server_requests_total{api}                requests handed to a handler
//	firn_server_request_errors_total{reason}       connections closed because of a request: malformed,
//	                                               unsupported_version, frame_size, timeout, panic
//	firn_server_request_seconds{api}               from the last byte of a request to the first of its answer
//	firn_server_send_seconds{api}                  from the first byte of an answer to its last
//	firn_server_received_bytes_total, firn_server_sent_bytes_total
//	firn_server_sendfile_bytes_total               the part of what was sent that never entered this process
//	firn_server_buffer_bytes{state}                pooled memory: in_use, idle
type metrics struct {
	connections   *prometheus.GaugeVec
	refused       prometheus.Counter
	acceptErrors  prometheus.Counter
	received      prometheus.Counter
	sent          prometheus.Counter
	bytesSendfile prometheus.Counter

	malformed          prometheus.Counter
	unsupportedVersion prometheus.Counter
	frameSize          prometheus.Counter
	timeout            prometheus.Counter
	panics             prometheus.Counter

	byAPI map[int16]apiMetrics
}

// apiMetrics are the metrics of one API, looked up once.
type apiMetrics struct {
	requests prometheus.Counter
	total    prometheus.Observer
	send     prometheus.Observer
}

func newMetrics(registry prometheus.Registerer, pool *wire.Pool) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "firn_server_" + name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &metrics{
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "firn_server_connections", Help: "Open connections.",
		}, []string{"listener"}),
		refused:       counter("connections_refused_total", "Connections closed because their address had too many."),
		acceptErrors:  counter("accept_errors_total", "Connections that could not be accepted."),
		received:      counter("received_bytes_total", "Bytes of requests received."),
		sent:          counter("sent_bytes_total", "Bytes of answers sent."),
		bytesSendfile: counter("sendfile_bytes_total", "Bytes sent from files without being read."),
		byAPI:         make(map[int16]apiMetrics),
	}
	registry.MustRegister(m.connections)
	m.registerErrors(registry)
	m.registerAPIs(registry)
	registerPool(registry, pool)
	return m
}

func (m *metrics) registerErrors(registry prometheus.Registerer) {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "firn_server_request_errors_total", Help: "Connections closed because of a request.",
	}, []string{"reason"})
	registry.MustRegister(failures)
	m.malformed = failures.WithLabelValues("malformed")
	m.unsupportedVersion = failures.WithLabelValues("unsupported_version")
	m.frameSize = failures.WithLabelValues("frame_size")
	m.timeout = failures.WithLabelValues("timeout")
	m.panics = failures.WithLabelValues("panic")
}

func (m *metrics) registerAPIs(registry prometheus.Registerer) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "firn_server_requests_total", Help: "Requests handed to a handler.",
	}, []string{"api"})
	buckets := prometheus.ExponentialBuckets(50e-6, 4, 10) // 50 µs to 13 s
	total := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "firn_server_request_seconds", Help: "Time from a request to the first byte of its answer.",
		Buckets: buckets,
	}, []string{"api"})
	send := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "firn_server_send_seconds", Help: "Time it took to send an answer.", Buckets: buckets,
	}, []string{"api"})
	registry.MustRegister(requests, total, send)
	for _, api := range wire.APIs() {
		m.byAPI[api.Key] = apiMetrics{
			requests: requests.WithLabelValues(api.Name),
			total:    total.WithLabelValues(api.Name),
			send:     send.WithLabelValues(api.Name),
		}
	}
}

func registerPool(registry prometheus.Registerer, pool *wire.Pool) {
	for state, read := range map[string]func() int64{"in_use": pool.InUseBytes, "idle": pool.IdleBytes} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "firn_server_buffer_bytes", Help: "Memory for requests.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(read()) }))
	}
}

// answered records how long a request took until its answer began and until it was sent.
func (m apiMetrics) answered(receivedAt, sendBegan, sent time.Time) {
	m.total.Observe(sendBegan.Sub(receivedAt).Seconds())
	m.send.Observe(sent.Sub(sendBegan).Seconds())
}
