//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/bench/sampler"
)

func resourceRows() []entry {
	row := func(r report.Row, one func(*bench) alone) entry {
		r.Section, r.Subject, r.Base = "Memory and idleness", "firn", "Kafka"
		return entry{Row: r, run: func(ctx context.Context, b *bench) (report.Result, error) {
			return b.eachAlone(ctx, b.options.effort.startRepeats, one(b))
		}}
	}
	return []entry{
		row(report.Row{
			Name: "memory", Class: "A", Seconds: 280,
			What:    "Resident memory 10 s after the start, and after 10 GB in requests of 1 MiB, 128 KiB and 16 KiB",
			Metrics: []report.Metric{report.Idle, report.Loaded},
			Goals: []report.Goal{
				{Metric: report.Idle, AtMost: true, Value: 0.1}, {Metric: report.Loaded, AtMost: true, Value: 0.15},
			},
		}, memory),
		row(report.Row{
			Name: "idle", Class: "–", Seconds: 170, What: "Processor time in 12 s without a client, 10 s after the start",
			Metrics: []report.Metric{report.IdleCPU},
		}, idleCPU),
		row(report.Row{
			Name: "connections-10000", Class: "–", Seconds: 110,
			What:    "Resident memory of the process for each of 10 000 connections that have asked for ApiVersions once",
			Metrics: []report.Metric{report.PerConnected},
		}, idleConnections),
	}
}

// alone is what is measured of a broker that has just been started and has the machine for itself.
type alone func(ctx context.Context, r *running) (report.Values, error)

// eachAlone starts each broker on an empty folder, in turn and again, so many times.
func (b *bench) eachAlone(ctx context.Context, times int, one alone) (report.Result, error) {
	b.stopAll()
	var result report.Result
	for range times {
		var block report.Block
		for _, kind := range []brokerKind{apacheKafka, firnOS} {
			values, err := b.oneAlone(ctx, kind, one)
			if err != nil {
				return result, fmt.Errorf("%s: %w", kind, err)
			}
			if kind == apacheKafka {
				block.Base = append(block.Base, values)
			} else {
				block.Subject = append(block.Subject, values)
			}
		}
		result.Blocks = append(result.Blocks, block)
	}
	return result, nil
}

func (b *bench) oneAlone(ctx context.Context, kind brokerKind, one alone) (report.Values, error) {
	r, err := b.broker(ctx, kind)
	if err != nil {
		return nil, err
	}
	defer b.stopAll()
	machine, err := sampler.OfMachine()
	if err != nil {
		return nil, err
	}
	used, err := b.used()
	if err != nil {
		return nil, err
	}
	values, err := one(ctx, r)
	if err != nil {
		return nil, err
	}
	values.Round()
	return values, b.disturbance(machine, used)
}

// pause lets a broker be.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settling is what a broker does of its own after its start.
const settling = 10 * time.Second

func memory(b *bench) alone {
	return func(ctx context.Context, r *running) (report.Values, error) {
		if err := pause(ctx, settling); err != nil {
			return nil, err
		}
		idle, err := sampler.Of(r.PID)
		if err != nil {
			return nil, err
		}
		total := int64(10e9 * b.options.effort.scale)
		for _, part := range []struct{ requestBytes, partitions int }{{1 << 20, 1}, {128 << 10, 16}, {16 << 10, 1}} {
			load := produceLoad{
				shape:      replay.Shape{RecordBytes: 1 << 10, RequestBytes: part.requestBytes},
				partitions: part.partitions, acks: replay.AcksLeader, class: "A", connections: min(part.partitions, 4), inFlight: 4,
			}
			batch, err := b.events.Encode(load.shape, time.Now().UnixMilli(), 1)
			if err != nil {
				return nil, err
			}
			s, err := b.produceSide(ctx, r.kind, load, batch)
			if err != nil {
				return nil, err
			}
			for left := total / 3; left > 0; left -= s.bytes {
				s.bytes = min(left, b.options.effort.mostPerRun)
				if _, err := b.once(ctx, s); err != nil {
					return nil, err
				}
			}
		}
		loaded, err := sampler.Of(r.PID)
		if err != nil {
			return nil, err
		}
		return report.Values{
			report.Idle: float64(idle.Resident) / 1e6, report.Loaded: float64(loaded.Resident) / 1e6,
		}, nil
	}
}

func idleCPU(b *bench) alone {
	return func(ctx context.Context, r *running) (report.Values, error) {
		return idleFor(ctx, r, time.Duration(b.options.effort.openSeconds*2)*time.Second)
	}
}

// idleFor is the processor time of a broker that nobody asks anything.
func idleFor(ctx context.Context, r *running, d time.Duration) (report.Values, error) {
	r.client.Close()
	if err := pause(ctx, settling); err != nil {
		return nil, err
	}
	before, err := sampler.Of(r.PID)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, d); err != nil {
		return nil, err
	}
	after, err := sampler.Of(r.PID)
	if err != nil {
		return nil, err
	}
	return report.Values{report.IdleCPU: 100 * after.Since(before).CPU.Seconds() / d.Seconds()}, nil
}

func idleConnections(b *bench) alone {
	count := int(10_000 * b.options.effort.scale)
	return func(ctx context.Context, r *running) (report.Values, error) {
		if err := pause(ctx, settling); err != nil {
			return nil, err
		}
		before, err := sampler.Of(r.PID)
		if err != nil {
			return nil, err
		}
		for range count {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.Address)
			if err != nil {
				return nil, err
			}
			defer conn.Close()
			request := kmsg.NewPtrApiVersionsRequest()
			request.SetVersion(0)
			if err := replay.Ask(conn, request); err != nil {
				return nil, err
			}
		}
		after, err := sampler.Of(r.PID)
		if err != nil {
			return nil, err
		}
		return report.Values{
			report.PerConnected: float64(after.Resident-before.Resident) / float64(count) / 1024,
		}, nil
	}
}
