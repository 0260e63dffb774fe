//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/bench/sampler"
)

// side is one of the things that a row compares.
type side struct {
	broker *running // nil if it is about none
	// run does the workload once, of about so many bytes, and returns how many it were and what it measured. before and
	// after, which may be nil, are what each run needs and what it leaves, outside of the measurement.
	run           func(ctx context.Context, bytes int64) (done int64, values report.Values, err error)
	before, after func(ctx context.Context) error

	bytes int64 // of a run, once it is warm
}

func (s *side) name() string {
	if s.broker == nil {
		return "the other side"
	}
	return string(s.broker.kind)
}

// sample is one run.
type sample struct {
	values  report.Values
	bytes   int64
	elapsed time.Duration
}

// once does a side's workload once, with what belongs around it.
func (b *bench) once(ctx context.Context, s *side) (sample, error) {
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return sample{}, err
		}
	}
	result, err := b.measured(ctx, s)
	result.values.Round()
	if err == nil && s.after != nil {
		err = s.after(ctx)
	}
	return result, err
}

// measured does a side's workload and adds what its broker has used.
func (b *bench) measured(ctx context.Context, s *side) (sample, error) {
	machine, err := sampler.OfMachine()
	if err != nil {
		return sample{}, err
	}
	used, err := b.used()
	if err != nil {
		return sample{}, err
	}
	result := sample{}
	work := func() (err error) {
		began := time.Now()
		result.bytes, result.values, err = s.run(ctx, s.bytes)
		result.elapsed = time.Since(began)
		return err
	}
	if s.broker == nil {
		err = work()
	} else if err = s.broker.watch(ctx, &result, work); err != nil {
		err = fmt.Errorf("%s: %w", s.broker.kind, err)
	}
	if err != nil {
		return sample{}, err
	}
	return result, b.disturbance(machine, used)
}

// watch adds to a sample what the broker uses while the work is done.
func (r *running) watch(ctx context.Context, result *sample, work func() error) error {
	before, err := sampler.Of(r.PID)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	resident := make(chan int64, 1)
	go func() { resident <- sampler.Watch(watching, r.PID, 100*time.Millisecond) }()
	err = work()
	stop()
	most := <-resident
	if err != nil {
		return err
	}
	after, err := sampler.Of(r.PID)
	if err != nil {
		return err
	}
	usage, gigabytes := after.Since(before), float64(result.bytes)/1e9
	result.values[report.Busy] = 100 * usage.CPU.Seconds() / result.elapsed.Seconds()
	result.values[report.Resident] = float64(most) / 1e6
	if gigabytes > 0 {
		result.values[report.CPUPerGB] = usage.CPU.Seconds() / gigabytes
		result.values[report.Switches] = float64(usage.Voluntary+usage.Involuntary) / gigabytes
		result.values[report.Calls] = float64(usage.Reads+usage.Writes) / gigabytes
	}
	return nil
}

// used is the processor time of this process, those it has waited for, and all that belong to the row.
func (b *bench) used() (time.Duration, error) {
	own, err := sampler.Of(os.Getpid())
	if err != nil {
		return 0, err
	}
	total, others := own.CPU+own.Children, slices.Clone(b.beside)
	for _, r := range b.brokers {
		others = append(others, r.PID)
	}
	for _, pid := range others {
		p, err := sampler.Of(pid)
		if err != nil {
			return 0, err
		}
		total += p.CPU
	}
	return total, nil
}

// disturbance notes what others have used since two readings.
func (b *bench) disturbance(machine sampler.Machine, used time.Duration) error {
	now, err := sampler.OfMachine()
	if err != nil {
		return err
	}
	usedNow, err := b.used()
	if err != nil {
		return err
	}
	b.foreign = append(b.foreign, now.Foreign(machine, usedNow-used))
	return nil
}

// comparison is how a row gets its figures.
type comparison struct {
	subject side
	base    *side // nil: nothing to compare with
	beside  *side // firn with its default policy; nil if the subject has it
	// steady is the metric of which three runs must agree before it counts; "" needs no warm-up.
	steady report.Metric
	// open says that the workload has a rate of its own: its length is given by time, the brokers have been warmed by the
	// same traffic without one, and a run more is enough.
	open bool
}

// compare warms both sides and runs blocks of base, subject, subject, base.
func (b *bench) compare(ctx context.Context, c comparison) (report.Result, error) {
	var result report.Result
	for _, s := range []*side{c.base, &c.subject, c.beside} {
		if s == nil {
			continue
		}
		warm, steady, err := b.warmUp(ctx, s, c)
		if err != nil {
			return result, err
		}
		result.WarmUp = max(result.WarmUp, float64(warm)/1e9)
		result.Unsteady = result.Unsteady || !steady
	}
	b.foreign = nil
	for range b.options.effort.blocks {
		block, err := b.block(ctx, c)
		if err != nil {
			return result, err
		}
		result.Blocks = append(result.Blocks, block)
		if c.beside != nil {
			run, err := b.once(ctx, c.beside)
			if err != nil {
				return result, err
			}
			result.Default = append(result.Default, run.values)
		}
	}
	return result, nil
}

func (b *bench) block(ctx context.Context, c comparison) (report.Block, error) {
	var block report.Block
	order := []*side{c.base, &c.subject, &c.subject, c.base}
	for _, s := range order {
		if s == nil {
			continue
		}
		run, err := b.once(ctx, s)
		if err != nil {
			return block, err
		}
		if s == c.base {
			block.Base = append(block.Base, run.values)
		} else {
			block.Subject = append(block.Subject, run.values)
		}
	}
	return block, nil
}

// agree is how close three runs must be.
const agree = 0.05

// warmUp runs a side until three runs agree, or it has had enough, and finds out how many bytes make a run of the
// wanted length. It tells how many bytes it took.
func (b *bench) warmUp(ctx context.Context, s *side, c comparison) (total int64, steady bool, err error) {
	effort := b.options.effort
	const first = 32 << 20
	s.bytes = first
	if c.steady == "" {
		return 0, true, nil
	}
	var numbers []float64
	for began := time.Now(); ; {
		run, err := b.once(ctx, s)
		if err != nil {
			return total, false, err
		}
		if run.bytes == 0 {
			return total, false, fmt.Errorf("a run on %s did nothing", s.name())
		}
		total += run.bytes
		if c.open {
			return total, true, nil
		}
		rate := float64(run.bytes) / run.elapsed.Seconds()
		numbers = append(numbers, run.values[c.steady])
		s.bytes = min(max(int64(rate*effort.runSeconds), 1<<20), effort.mostPerRun)
		switch {
		case report.Steady(numbers, agree):
			b.say("%s is warm after %.1f GB: %.4g %s", s.name(), float64(total)/1e9, run.values[c.steady], c.steady)
			return total, true, nil
		case total > effort.warmUpBytes || time.Since(began) > effort.warmUpTime:
			b.say("%s does not agree with itself after %.1f GB: %.4g %s", s.name(), float64(total)/1e9,
				run.values[c.steady], c.steady)
			return total, false, nil
		}
	}
}
