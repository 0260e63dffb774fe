//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
)

// entry is a row and how it gets its figures.
type entry struct {
	report.Row
	run func(ctx context.Context, b *bench) (report.Result, error)
}

// table is all rows, in the order of the page.
func table() []entry {
	var all []entry
	for _, rows := range [][]entry{
		produceRows(), consumeRows(), endToEndRows(), clientRows(), coordinatorRows(), resourceRows(), startRows(),
		localLogRows(), compactionRows(), tierRows(),
	} {
		all = append(all, rows...)
	}
	return all
}

func entryOf(all []entry, name string) entry {
	for _, e := range all {
		if e.Name == name {
			return e
		}
	}
	return entry{}
}

func sizeName(bytes int) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%dMiB", bytes>>20)
	case bytes >= 1<<10:
		return fmt.Sprintf("%dKiB", bytes>>10)
	}
	return fmt.Sprintf("%dB", bytes)
}

// produceLoad is a cell of the matrix.
type produceLoad struct {
	shape                 replay.Shape
	partitions            int
	acks                  replay.Acks
	class                 string
	connections, inFlight int
}

func (l produceLoad) name() string {
	name := fmt.Sprintf("produce-%s-%s-p%d-acks%s-%s", sizeName(l.shape.RecordBytes), sizeName(l.shape.RequestBytes),
		l.partitions, l.acks, l.shape.Codec)
	if l.class == "B" {
		name += "-fsync"
	}
	return name
}

func (l produceLoad) what() string {
	return fmt.Sprintf("Records of %s in requests of %s to %d partitions in turn, acks=%s, codec %s, %d connections with "+
		"%d requests in flight", sizeName(l.shape.RecordBytes), sizeName(l.shape.RequestBytes), l.partitions, l.acks,
		l.shape.Codec, l.connections, l.inFlight)
}

// matrix is what can be asked for by name. Class B is with acks=all only: firn answers acks=1 before an fsync.
func matrix() []produceLoad {
	var loads []produceLoad
	for _, codec := range []record.Codec{record.None, record.LZ4, record.Zstd} {
		for _, recordBytes := range []int{100, 200, 1 << 10, 10 << 10} {
			for _, requestBytes := range []int{16 << 10, 128 << 10, 1 << 20} {
				for _, partitions := range []int{1, 16, 100} {
					load := produceLoad{
						shape:      replay.Shape{RecordBytes: recordBytes, RequestBytes: requestBytes, Codec: codec},
						partitions: partitions, acks: replay.AcksLeader, class: "A", connections: min(partitions, 4), inFlight: 4,
					}
					loads = append(loads, load)
					load.acks = replay.AcksAll
					loads = append(loads, load)
					load.class, load.connections = "B", 16
					if partitions == 100 {
						load.connections = 20 // a partition's requests stay on one connection
					}
					loads = append(loads, load)
				}
			}
		}
	}
	return loads
}

// produceGoals are the rows of the matrix that have goals, and belong to each run.
func produceGoals() map[string][]report.Goal {
	return map[string][]report.Goal{
		"produce-1KiB-1MiB-p1-acks1-none": {
			{Metric: report.Rate, Value: 2.5}, {Metric: report.CPUPerGB, AtMost: true, Value: 0.35},
		},
		"produce-1KiB-128KiB-p16-acks1-none": {{Metric: report.Rate, Value: 3}},
		"produce-1KiB-16KiB-p1-acks1-none": {
			{Metric: report.Rate, Value: 5}, {Metric: report.CPUPerGB, AtMost: true, Value: 0.2},
		},
		"produce-1KiB-1MiB-p1-acks1-lz4":            {{Metric: report.Rate, Value: 1.5}},
		"produce-1KiB-1MiB-p1-acks1-zstd":           {{Metric: report.Rate, Value: 1.2}},
		"produce-1KiB-16KiB-p16-acksall-none-fsync": {{Metric: report.Rate, Value: 5}},
	}
}

func produceRows() []entry {
	goals := produceGoals()
	var entries []entry
	for _, load := range matrix() {
		name := load.name()
		entries = append(entries, entry{
			Row: report.Row{
				Name: name, Section: "Produce", Class: load.class, What: load.what(), Subject: "firn", Base: "Kafka",
				Metrics: []report.Metric{
					report.Rate, report.CPUPerGB, report.P50, report.P99, report.Busy, report.Resident, report.Switches,
					report.Calls,
				},
				Goals: goals[name], ByName: goals[name] == nil, Seconds: 170,
			},
			run: func(ctx context.Context, b *bench) (report.Result, error) { return b.produceRow(ctx, load) },
		})
	}
	return entries
}

func consumeRows() []entry {
	var entries []entry
	for _, c := range []struct {
		consumers int
		ratio     float64
	}{{1, 1.5}, {8, 1.3}} {
		entries = append(entries, entry{
			Row: report.Row{
				Name: fmt.Sprintf("consume-hot-%d", c.consumers), Section: "Consume", Class: "–",
				What: fmt.Sprintf("%d consumers, each reading a partition of its own from the page cache, 1 MiB a fetch",
					c.consumers),
				Subject: "firn", Base: "Kafka",
				Metrics: []report.Metric{
					report.Rate, report.CPUPerGB, report.P50, report.P99, report.Busy, report.Switches, report.Calls,
				},
				Goals: []report.Goal{
					{Metric: report.Rate, Value: c.ratio}, {Metric: report.CPUPerGB, AtMost: true, Value: 0.5},
				},
				Seconds: 90,
			},
			run: func(ctx context.Context, b *bench) (report.Result, error) { return b.consumeRow(ctx, c.consumers) },
		})
	}
	return entries
}
