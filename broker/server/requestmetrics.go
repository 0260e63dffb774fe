package server

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

const (
	// lowestCode is the least error code, UNKNOWN_SERVER_ERROR.
	lowestCode = -1
	// codeSlots is how many codes are told apart; Kafka 4.4 has fewer than 140. What is beyond shares the last slot.
	codeSlots = 192
)

// apiMetrics are the metrics of one API. They are atomics, turned into series by requestCollector when somebody looks,
// since every request writes them.
type apiMetrics struct {
	versions []atomic.Int64 // requests by version; the last are those of versions that are not served
	codes    [codeSlots]atomic.Int64

	requestBytes, total, requestQueue, local, remote, throttle, responseQueue, send distribution
}

func newAPIMetrics(api wire.API) *apiMetrics {
	return &apiMetrics{versions: make([]atomic.Int64, int(api.Max)+2)}
}

// received counts a request.
func (m *apiMetrics) received(req *wire.Request, size int) {
	version := len(m.versions) - 1
	if !req.UnsupportedVersion {
		version = int(req.Version)
	}
	m.versions[version].Add(1)
	m.requestBytes.record(int64(size))
}

// answered counts what an answer says and how long each stage took. It was sent between the two times given.
func (m *apiMetrics) answered(reply *pendingReply, began, ended time.Duration) {
	var throttle time.Duration
	if reply.Response != nil {
		for _, one := range reply.Response.ErrorCounts() {
			m.codes[slotOf(one.Code)].Add(int64(one.Count))
		}
		throttle = reply.Response.Throttle()
	}
	t := &reply.times
	m.requestQueue.record((t.waited + t.started - t.received).Microseconds())
	m.local.record((t.handled - t.started).Microseconds())
	m.remote.record((t.ready - t.handled).Microseconds())
	m.throttle.record(throttle.Microseconds())
	m.responseQueue.record((began - t.ready).Microseconds())
	m.send.record((ended - began).Microseconds())
	m.total.record((t.waited + ended - t.received).Microseconds())
}

func slotOf(code kafka.Errno) int { return min(max(int(code)-lowestCode, 0), codeSlots-1) }

// stages are the distributions that are exported, in Kafka's names.
var stages = [...]struct {
	name, help string
	scale      float64 // from the unit recorded to the one exported
	of         func(*apiMetrics) *distribution
}{
	{"totaltimems", "From the last byte of a request to that of its answer.", 1e-3,
		func(m *apiMetrics) *distribution { return &m.total }},
	{"requestqueuetimems", "Waiting for memory, and to be handled.", 1e-3,
		func(m *apiMetrics) *distribution { return &m.requestQueue }},
	{"localtimems", "In the handler.", 1e-3, func(m *apiMetrics) *distribution { return &m.local }},
	{"remotetimems", "Waiting for others: records, replicas, the disk, the object store, the metadata.", 1e-3,
		func(m *apiMetrics) *distribution { return &m.remote }},
	{"throttletimems", "For how long the client was told to wait.", 1e-3,
		func(m *apiMetrics) *distribution { return &m.throttle }},
	{"responsequeuetimems", "Answers that were ready, behind others of their connection.", 1e-3,
		func(m *apiMetrics) *distribution { return &m.responseQueue }},
	{"responsesendtimems", "Until the operating system had taken the answer.", 1e-3,
		func(m *apiMetrics) *distribution { return &m.send }},
	{"requestbytes", "Sizes of requests.", 1, func(m *apiMetrics) *distribution { return &m.requestBytes }},
}

// totalStage is the one that is exported as a histogram as well.
const totalStage = 0

// quantiles are those that the JMX exporter publishes of Kafka's histograms.
var quantiles = [...]float64{0.5, 0.75, 0.95, 0.98, 0.99, 0.999}

// quantileWindow is how long what was recorded counts for the quantiles, and up to twice as long. It begins with a
// scrape, so it is longer where scrapes are rarer.
const quantileWindow = time.Minute

// requestCollector exports the metrics of all APIs that were asked for.
type requestCollector struct {
	requests, errors, seconds *prometheus.Desc
	stages                    [len(stages)]*prometheus.Desc
	apis                      []*exportedAPI

	mu sync.Mutex // guards the windows of apis
}

type exportedAPI struct {
	names   []string
	metrics *apiMetrics
	windows [len(stages)]window
}

// window keeps earlier samples of a distribution: quantiles tell of what came since.
type window struct {
	older, newer *sample
	newerAt      time.Time
}

// advance takes in the newest sample and returns the one that quantiles begin with.
func (w *window) advance(now time.Time, current *sample) *sample {
	if now.Sub(w.newerAt) >= quantileWindow {
		w.older, w.newer, w.newerAt = w.newer, current, now
	}
	return w.older
}

func newRequestCollector() *requestCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"request"}, labels...), nil)
	}
	c := &requestCollector{
		requests: desc("kafka_network_requestmetrics_requests_total", "Requests.", "version"),
		errors:   desc("kafka_network_requestmetrics_errors_total", "Error codes in answers; NONE is success.", "error"),
		seconds:  desc("firn_server_request_seconds", stages[totalStage].help),
	}
	for i := range stages {
		c.stages[i] = desc("kafka_network_requestmetrics_"+stages[i].name, stages[i].help)
	}
	return c
}

// add exports the metrics of an API. Those of Fetch have a second name: Kafka tells the fetches of consumers from those
// of followers, and without replication there are none of the latter.
func (c *requestCollector) add(name string, m *apiMetrics) {
	names := []string{name}
	if name == "Fetch" {
		names = append(names, "FetchConsumer")
	}
	c.apis = append(c.apis, &exportedAPI{names: names, metrics: m})
}

// Describe implements prometheus.Collector.
func (c *requestCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range append(c.stages[:], c.requests, c.errors, c.seconds) {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c *requestCollector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, api := range c.apis {
		if c.collectCounts(api, metrics) == 0 {
			continue // a thousand series of what nobody uses would help nobody
		}
		for i := range stages {
			c.collectStage(api, i, now, metrics)
		}
	}
}

// collectCounts exports the counters of an API and returns how many requests there were.
func (c *requestCollector) collectCounts(api *exportedAPI, metrics chan<- prometheus.Metric) (requests int64) {
	counter := func(description *prometheus.Desc, value int64, label string) {
		for _, name := range api.names {
			metrics <- prometheus.MustNewConstMetric(description, prometheus.CounterValue, float64(value), name, label)
		}
	}
	versions := api.metrics.versions
	for version := range versions {
		count := versions[version].Load()
		if count == 0 {
			continue
		}
		requests += count
		label := "unsupported"
		if version < len(versions)-1 {
			label = strconv.Itoa(version)
		}
		counter(c.requests, count, label)
	}
	for slot := range api.metrics.codes {
		if count := api.metrics.codes[slot].Load(); count > 0 {
			counter(c.errors, count, kafka.Errno(slot+lowestCode).Name())
		}
	}
	return requests
}

func (c *requestCollector) collectStage(
	api *exportedAPI, stage int, now time.Time, metrics chan<- prometheus.Metric,
) {
	current := stages[stage].of(api.metrics).sample()
	since := api.windows[stage].advance(now, current)
	scale := stages[stage].scale
	values := make(map[float64]float64, len(quantiles))
	for _, q := range quantiles {
		values[q] = math.NaN()
		if value, known := current.quantile(q, since); known {
			values[q] = value * scale
		}
	}
	for _, name := range api.names {
		metrics <- prometheus.MustNewConstSummary(
			c.stages[stage], current.count, float64(current.sum)*scale, values, name)
		if stage == totalStage {
			metrics <- prometheus.MustNewConstHistogram(
				c.seconds, current.count, float64(current.sum)/1e6, current.histogram(), name)
		}
	}
}
