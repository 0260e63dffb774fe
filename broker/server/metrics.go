package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/wire"
)

// metrics are what the server counts. Where Kafka has a metric, it has the name under which the JMX exporter publishes
// Kafka's:
//
//	kafka_network_requestmetrics_requests_total{request,version}   requests handed to a handler
//	kafka_network_requestmetrics_errors_total{request,error}       error codes in answers, NONE included
//	kafka_network_requestmetrics_{totaltimems,requestqueuetimems,localtimems,remotetimems,throttletimems,
//	    responsequeuetimems,responsesendtimems,requestbytes}{request,quantile}
//	kafka_network_socketserver_{memorypoolused,memorypoolavailable}
//	kafka_server_socket_server_metrics_{connection_count,connection_creation_total,connection_close_total,
//	    incoming_byte_total,outgoing_byte_total}{listener}
//	firn_server_request_seconds{request}           from a request to the last byte of its answer
//	firn_server_connections_refused_total          closed at once, because the address had too many
//	firn_server_accept_errors_total                failures to accept, such as a lack of file descriptors
//	firn_server_request_errors_total{reason}       connections closed because of a request: malformed,
//	                                               unsupported_version, frame_size, timeout, panic
//	firn_server_sendfile_bytes_total{listener}     the part of what was sent that never entered this process
//	firn_server_answer_bytes                       memory of answers that are not yet sent
//	firn_server_buffer_bytes{state}                pooled memory: in_use, idle
type metrics struct {
	refused      prometheus.Counter
	acceptErrors prometheus.Counter

	malformed          prometheus.Counter
	unsupportedVersion prometheus.Counter
	frameSize          prometheus.Counter
	timeout            prometheus.Counter
	panics             prometheus.Counter

	byAPI     map[int16]*apiMetrics
	listeners listenerVectors
}

// listenerMetrics are the metrics of one listener, looked up once for each connection.
type listenerMetrics struct {
	open prometheus.Gauge

	opened, closed, received, sent, bytesSendfile prometheus.Counter
}

type listenerVectors struct {
	open *prometheus.GaugeVec

	opened, closed, received, sent, bytesSendfile *prometheus.CounterVec
}

const (
	socketServer = "kafka_server_socket_server_metrics_"
	// memoryPool is what is queued.max.request.bytes in Kafka as well.
	memoryPool = "kafka_network_socketserver_memorypool"
)

func newMetrics(registry prometheus.Registerer, s *Server) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "firn_server_" + name, Help: help})
		registry.MustRegister(c)
		return c
	}
	perListener := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"listener"})
		registry.MustRegister(c)
		return c
	}
	m := &metrics{
		refused:      counter("connections_refused_total", "Connections closed because their address had too many."),
		acceptErrors: counter("accept_errors_total", "Connections that could not be accepted."),
		listeners: listenerVectors{
			open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
				Name: socketServer + "connection_count", Help: "Open connections.",
			}, []string{"listener"}),
			opened:        perListener(socketServer+"connection_creation_total", "Connections accepted."),
			closed:        perListener(socketServer+"connection_close_total", "Connections closed."),
			received:      perListener(socketServer+"incoming_byte_total", "Bytes of requests received."),
			sent:          perListener(socketServer+"outgoing_byte_total", "Bytes of answers sent."),
			bytesSendfile: perListener("firn_server_sendfile_bytes_total", "Bytes sent from files without being read."),
		},
		byAPI: make(map[int16]*apiMetrics),
	}
	registry.MustRegister(m.listeners.open)
	m.registerErrors(registry)
	requests := newRequestCollector()
	for _, api := range wire.APIs() {
		m.byAPI[api.Key] = newAPIMetrics(api)
		requests.add(api.Name, m.byAPI[api.Key])
	}
	registry.MustRegister(requests)
	registerMemory(registry, s)
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

// listener looks up the metrics of a listener.
func (m *metrics) listener(name string) *listenerMetrics {
	v := &m.listeners
	return &listenerMetrics{
		open:   v.open.WithLabelValues(name),
		opened: v.opened.WithLabelValues(name), closed: v.closed.WithLabelValues(name),
		received: v.received.WithLabelValues(name), sent: v.sent.WithLabelValues(name),
		bytesSendfile: v.bytesSendfile.WithLabelValues(name),
	}
}

func registerMemory(registry prometheus.Registerer, s *Server) {
	gauge := func(name, help string, labels prometheus.Labels, read func() int64) {
		registry.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(read()) }))
	}
	gauge("firn_server_buffer_bytes", "Memory for requests.", prometheus.Labels{"state": "in_use"}, s.pool.InUseBytes)
	gauge("firn_server_buffer_bytes", "Memory for requests.", prometheus.Labels{"state": "idle"}, s.pool.IdleBytes)
	gauge("firn_server_answer_bytes", "Bytes of answers that are not yet sent.", nil, s.answers.used.Load)
	gauge(memoryPool+"used", "Bytes of requests being read or handled.", nil, s.requests.used.Load)
	gauge(memoryPool+"available", "Bytes that requests may take besides.", nil,
		func() int64 { return max(s.requests.limit-s.requests.used.Load(), 0) })
}
