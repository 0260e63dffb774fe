package main

import (
	"fmt"
	"io"
	"time"
)

// benchConsumed is what `bench consume` has measured.
type benchConsumed struct {
	Bench    string          `json:"bench"`
	Settings consumeSettings `json:"settings"`
	Results  consumeResults  `json:"results"`
}

// consumeSettings are what a reading was measured with.
type consumeSettings struct {
	FirnVersion         string   `json:"firn_version"` // of the client
	Brokers             []string `json:"brokers"`
	Topic               string   `json:"topic"`
	Partitions          int      `json:"partitions"` // that were read
	Offset              string   `json:"offset"`
	Clients             int      `json:"clients"`
	DurationSeconds     float64  `json:"duration_seconds"`
	Records             int64    `json:"records"`
	ReadCommitted       bool     `json:"read_committed"`
	FetchMaxBytes       int64    `json:"fetch_max_bytes"`
	FetchPartitionBytes int64    `json:"fetch_partition_bytes"`
	FetchMinBytes       int64    `json:"fetch_min_bytes"`
	FetchMaxWaitMs      float64  `json:"fetch_max_wait_ms"`
}

type consumeResults struct {
	throughput
	// FirstRecordMs is from the beginning, before there were connections, until a record was at hand.
	FirstRecordMs float64 `json:"first_record_ms"`
}

func (r *benchConsumeRequest) describe(seeds []string, spans topicSpans, clients int) consumeSettings {
	topic := r.choice.names[0]
	return consumeSettings{
		FirnVersion: currentVersion().Version, Brokers: seeds, Topic: topic, Partitions: len(spans[topic]),
		Offset: r.offset, Clients: clients, DurationSeconds: r.duration.Seconds(), Records: r.limit,
		ReadCommitted: r.isolation == readCommitted, FetchMaxBytes: int64(r.maxBytes),
		FetchPartitionBytes: int64(r.partitionBytes), FetchMinBytes: int64(r.minBytes),
		FetchMaxWaitMs: milliseconds(r.maxWait),
	}
}

// result is for a reading that has ended.
func (b *benchReading) result(settings consumeSettings) *benchConsumed {
	var first, last time.Time
	for _, count := range b.counts {
		if count.last.After(last) {
			last = count.last
		}
		if first.IsZero() || !count.first.IsZero() && count.first.Before(first) {
			first = count.first
		}
	}
	result := &benchConsumed{Bench: "consume", Settings: settings}
	if !first.IsZero() {
		records, bytes := b.total()
		result.Results.throughput = newThroughput(records, bytes, last.Sub(b.began))
		result.Results.FirstRecordMs = milliseconds(first.Sub(b.began))
	}
	return result
}

func (b *benchConsumed) writeText(w io.Writer) error {
	s := &b.Settings
	_, err := fmt.Fprintf(w, "%s of %s from %s, %s, fetches of up to %s, %s of a partition\nconsumed %s\n"+
		"the first record after %.3f ms\n", counted(s.Partitions, "partition"), s.Topic, s.Offset,
		counted(s.Clients, "client"), byteSize(s.FetchMaxBytes), byteSize(s.FetchPartitionBytes), b.Results.text(),
		b.Results.FirstRecordMs)
	return err
}
