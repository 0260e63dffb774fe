package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/firnlog/firn/cmd/firn/bench"
	"github.com/firnlog/firn/internal/latency"
)

// loadSettings are what a load was measured with.
type loadSettings struct {
	FirnVersion            string   `json:"firn_version"` // of the client
	Brokers                []string `json:"brokers"`
	Topic                  string   `json:"topic"`
	Partitions             int32    `json:"partitions"`
	Clients                int      `json:"clients"`
	Loop                   string   `json:"loop"` // open or closed
	RateRecordsPerSecond   float64  `json:"rate_records_per_second"`
	RateMegabytesPerSecond float64  `json:"rate_megabytes_per_second"`
	WarmUpSeconds          float64  `json:"warm_up_seconds"`
	DurationSeconds        float64  `json:"duration_seconds"`
	Records                int64    `json:"records"`
	RecordSizeBytes        int64    `json:"record_size_bytes"`
	Keys                   int      `json:"keys"`
	Seed                   uint64   `json:"seed"`
	Acks                   string   `json:"acks"`
	Idempotent             bool     `json:"idempotent"`
	Compression            string   `json:"compression"`
	Partitioner            string   `json:"partitioner"`
	InFlight               int      `json:"in_flight"` // requests to a broker
	LingerMs               float64  `json:"linger_ms"`
	BatchSizeBytes         int64    `json:"batch_size_bytes"`
	BufferMemoryBytes      int64    `json:"buffer_memory_bytes"`
}

func (l *loadFlags) describe(topic string, seeds []string, limit topicLimit) loadSettings {
	s := loadSettings{
		FirnVersion: currentVersion().Version, Brokers: seeds, Topic: topic, Partitions: limit.partitions,
		Clients: l.clients, Loop: "closed", RateRecordsPerSecond: l.perSecond(),
		WarmUpSeconds: l.warmUp.Seconds(), DurationSeconds: l.duration.Seconds(), Records: l.records,
		RecordSizeBytes: int64(l.recordBytes), Keys: l.keys, Seed: l.seed, Acks: l.acks, Idempotent: l.idempotent,
		Compression: l.compression, Partitioner: l.partitioner, InFlight: l.inFlight, LingerMs: milliseconds(l.linger),
		BatchSizeBytes: int64(cmp.Or(l.batchBytes, byteCount(limit.maxBytes))), BufferMemoryBytes: int64(l.bufferBytes),
	}
	if s.RateRecordsPerSecond > 0 {
		s.Loop = "open"
		s.RateMegabytesPerSecond = s.RateRecordsPerSecond * float64(l.payloadBytes()) / 1e6
	}
	return s
}

// text is what people want to see beside a result.
func (s *loadSettings) text() string {
	plural := func(n int64, noun string) string { return counted(int(n), noun) }
	text := fmt.Sprintf("records of %d B, %s, %s, acks %s, compression %s, batches of %d B or %g ms",
		s.RecordSizeBytes, plural(int64(s.Partitions), "partition"), plural(int64(s.Clients), "client"), s.Acks,
		s.Compression, s.BatchSizeBytes, s.LingerMs)
	if s.Loop == "closed" {
		return text + ", as fast as it goes"
	}
	return text + fmt.Sprintf(", %s records/s due (%.2f MB/s)", strconv.FormatFloat(s.RateRecordsPerSecond, 'f', -1, 64),
		s.RateMegabytesPerSecond)
}

// latencyMs are the quantiles of a latency in milliseconds.
type latencyMs struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

func newLatencyMs(h *latency.Histogram) latencyMs {
	at := func(share float64) float64 { return milliseconds(h.Quantile(share)) }
	return latencyMs{P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), Max: milliseconds(h.Max()),
		Mean: milliseconds(h.Mean())}
}

func (l latencyMs) row(name string) []string {
	row := []string{name}
	for _, value := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max} {
		row = append(row, strconv.FormatFloat(value, 'f', 3, 64))
	}
	return row
}

// latencyTable prints rows of a latency each.
func latencyTable(w io.Writer, rows ...[]string) error {
	return table(w, []string{"MS", "P50", "P90", "P99", "P99.9", "MAX"}, rows)
}

// milliseconds keeps what a histogram tells apart, and no more.
func milliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// throughput is how much, and how fast.
type throughput struct {
	Records            int64   `json:"records"`
	Bytes              int64   `json:"bytes"` // of their keys and values
	Seconds            float64 `json:"seconds"`
	RecordsPerSecond   float64 `json:"records_per_second"`
	MegabytesPerSecond float64 `json:"megabytes_per_second"`
}

func newThroughput(records, bytes int64, elapsed time.Duration) throughput {
	t := throughput{Records: records, Bytes: bytes, Seconds: elapsed.Seconds()}
	if elapsed > 0 {
		t.RecordsPerSecond = math.Round(10*float64(records)/t.Seconds) / 10
		t.MegabytesPerSecond = math.Round(1e3*float64(bytes)/1e6/t.Seconds) / 1e3
	}
	return t
}

func (t throughput) text() string {
	return fmt.Sprintf("%s (%s) in %.2f s: %.0f records/s, %.2f MB/s", counted(int(t.Records), "record"),
		byteSize(t.Bytes), t.Seconds, t.RecordsPerSecond, t.MegabytesPerSecond)
}

// sendingResults are what has become of the records that were due.
type sendingResults struct {
	Failed  int64 `json:"failed"`
	Unknown int64 `json:"unknown"` // without an answer when the run was given up
	Unsent  int64 `json:"unsent"`  // due, and the run was over before they could be sent
	// FirstFailure is why the first failed.
	FirstFailure string `json:"first_failure,omitempty"`
	// AcknowledgedMs counts from when a record was due, or in a closed loop from the call.
	AcknowledgedMs latencyMs `json:"acknowledged_ms"`
	// StartDelayMs is how late records were given to their client.
	StartDelayMs latencyMs `json:"start_delay_ms"`
}

func newSendingResults(p *bench.Produced) sendingResults {
	r := sendingResults{Failed: p.Failed, Unknown: p.Unknown, Unsent: p.Unsent,
		AcknowledgedMs: newLatencyMs(p.Latency), StartDelayMs: newLatencyMs(p.StartDelay)}
	if p.FirstFailure != nil {
		r.FirstFailure = p.FirstFailure.Error()
	}
	return r
}

// failure is why a run is none that was asked for.
func (r *sendingResults) failure(first error) error {
	switch {
	case r.Failed > 0:
		return fmt.Errorf("%s failed, the first with: %w", counted(int(r.Failed), "record"), first)
	case r.Unsent > 0:
		return fmt.Errorf("%s could not be sent in time: the cluster, or this client, is slower than --rate",
			counted(int(r.Unsent), "record"))
	}
	return nil
}

// note tells people what went wrong.
func (r *sendingResults) note() string {
	var notes []string
	for _, what := range []struct {
		count int64
		text  string
	}{{r.Failed, "failed"}, {r.Unknown, "without an answer"}, {r.Unsent, "not sent"}} {
		if what.count > 0 {
			notes = append(notes, fmt.Sprintf(", %d %s", what.count, what.text))
		}
	}
	return strings.Join(notes, "")
}

// benchProduced is what `bench produce` has measured.
type benchProduced struct {
	Bench    string         `json:"bench"`
	Settings loadSettings   `json:"settings"`
	Results  produceResults `json:"results"`
}

type produceResults struct {
	throughput
	sendingResults
}

func (b *benchProduced) writeText(w io.Writer) error {
	from := "due to acknowledged"
	rows := [][]string{b.Results.AcknowledgedMs.row(from), b.Results.StartDelayMs.row("due to sent")}
	if b.Settings.Loop == "closed" {
		rows = [][]string{b.Results.AcknowledgedMs.row("call to acknowledged (closed loop)")}
	}
	_, err := fmt.Fprintf(w, "%s\nproduced %s%s\n", b.Settings.text(), b.Results.text(), b.Results.note())
	return errors.Join(err, latencyTable(w, rows...))
}

// benchEndToEnd is what `bench e2e` has measured.
type benchEndToEnd struct {
	Bench    string          `json:"bench"`
	Settings loadSettings    `json:"settings"`
	Results  endToEndResults `json:"results"`
}

type endToEndResults struct {
	throughput         // of what was received
	Acknowledged int64 `json:"acknowledged"`
	Lost         int64 `json:"lost"`       // acknowledged and not received
	Duplicates   int64 `json:"duplicates"` // received once more
	sendingResults
	ReceivedMs latencyMs `json:"received_ms"` // from when a record was due
}

func (b *benchEndToEnd) writeText(w io.Writer) error {
	r := &b.Results
	_, err := fmt.Fprintf(w, "%s\nreceived %s\n%d acknowledged, %d lost, %d duplicates%s\n", b.Settings.text(), r.text(),
		r.Acknowledged, r.Lost, r.Duplicates, r.note())
	return errors.Join(err, latencyTable(w, r.ReceivedMs.row("due to received"),
		r.AcknowledgedMs.row("due to acknowledged"), r.StartDelayMs.row("due to sent")))
}

// failure is why a run is none that was asked for. What an idempotent producer has sent may not come twice.
func (b *benchEndToEnd) failure(first error) error {
	if b.Results.Lost > 0 {
		return fmt.Errorf("%s acknowledged and not received", counted(int(b.Results.Lost), "record"))
	}
	if b.Results.Duplicates > 0 && b.Settings.Idempotent {
		return fmt.Errorf("%s received twice", counted(int(b.Results.Duplicates), "record"))
	}
	return b.Results.failure(first)
}
