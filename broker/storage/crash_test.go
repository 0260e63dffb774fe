package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// promise is what a crash at some moment must respect.
type promise struct {
	batches  []record.Batch // everything that was in the log, or on its way into it
	flushed  int64          // the least that must be there
	logStart int64
	maxStart int64 // a move of the log start that was under way may have happened
}

// crashPoint is a disk as a power cut has left it, and what had been promised by then.
type crashPoint struct {
	name    string
	disk    *disk
	promise promise
}

// crashRecorder clones a disk just before operations that change it.
type crashRecorder struct {
	mem     *vfs.Mem
	store   *memoryStore
	rng     *rand.Rand
	chance  float64
	points  []crashPoint
	promise func() promise
	off     bool
}

func (c *crashRecorder) see(op vfs.Op) error {
	if c.off || c.promise == nil || !op.Kind.Changes() || c.rng.Float64() >= c.chance {
		return nil
	}
	c.points = append(c.points, crashPoint{
		name:    fmt.Sprintf("before operation %d (%s)", op.Number, op),
		disk:    &disk{fs: c.mem.CrashClone(c.rng), store: c.store.crashClone(c.rng)},
		promise: c.promise(),
	})
	return nil
}

// workload drives a log at random and keeps the model of what is in it.
type workload struct {
	t        *testing.T
	rng      *rand.Rand
	log      *Log
	config   Config
	batches  []record.Batch
	epoch    kafka.LeaderEpoch
	clock    int64
	moving   int64 // a log start that is being moved to
	cutting  int64 // where the log will end after a truncation that is under way; −1 without
	target   int64 // of that truncation
	appended int
}

func (w *workload) promise() promise {
	flushed := w.log.FlushedOffset()
	if w.cutting >= 0 {
		flushed = min(flushed, w.cutting)
		w.moving = max(w.moving, w.target) // where nothing is left the log begins there
	}
	return promise{
		batches: append([]record.Batch(nil), w.batches...), flushed: flushed,
		logStart: w.log.LogStartOffset(), maxStart: max(w.log.LogStartOffset(), w.moving),
	}
}

func (w *workload) step() {
	switch n := w.rng.IntN(100); {
	case n < 60:
		w.append()
	case n < 75:
		w.check(w.log.Flush())
	case n < 82:
		w.check(w.log.Roll())
	case n < 87:
		w.truncate()
	case n < 92:
		w.moveStart()
	case n < 97:
		w.check(w.log.saveCheckpoint())
	default:
		w.epoch++
		w.log.AssignEpoch(w.epoch)
	}
}

func (w *workload) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *workload) append() {
	w.clock += int64(w.rng.IntN(20))
	records := 1 + w.rng.IntN(5)
	if w.rng.IntN(20) == 0 {
		records = 200 // more than a block
	}
	codecs := []record.Codec{record.None, record.None, record.LZ4, record.Zstd}
	batch := batchOf(records, w.clock, func(o *record.BuilderOptions) { o.Codec = codecs[w.rng.IntN(len(codecs))] })
	// The batch counts as "on its way" as soon as the append has begun, with the offsets that it will get.
	coming := append(record.Batch(nil), batch...)
	coming.SetBaseOffset(w.log.EndOffset())
	coming.SetLeaderEpoch(w.epoch)
	w.batches = append(w.batches, coming)
	info := appendBatch(w.t, w.log, batch, w.epoch, w.clock)
	if info.BaseOffset != coming.BaseOffset() {
		w.t.Fatalf("appended at %d instead of %d", info.BaseOffset, coming.BaseOffset())
	}
	w.appended++
}

func (w *workload) truncate() {
	low := w.log.LocalLogStartOffset()
	end := w.log.EndOffset()
	if end == low {
		return
	}
	target := end - w.rng.Int64N(min(end-low, 12)+1)
	w.cutting, w.target = target, target
	for _, batch := range w.batches {
		if batch.BaseOffset() < target && batch.NextOffset() > target {
			w.cutting = batch.BaseOffset()
		}
	}
	w.check(w.log.Truncate(target))
	kept := w.batches[:0:0]
	for _, batch := range w.batches {
		if batch.NextOffset() <= w.log.EndOffset() {
			kept = append(kept, batch)
		}
	}
	w.batches, w.cutting = kept, -1
	w.epoch++ // as after any truncation, a new leader writes on
}

func (w *workload) moveStart() {
	w.log.SetHighWatermark(w.log.EndOffset())
	highWatermark := w.log.HighWatermark()
	start := w.log.LogStartOffset()
	if highWatermark <= start {
		return
	}
	w.moving = start + w.rng.Int64N(highWatermark-start+1)
	w.check(w.log.MoveLogStart(w.moving))
	_, err := w.log.MoveLocalStart(w.moving, "test")
	w.check(err)
}

// verify reopens a disk and compares the log with what was promised.
func (p crashPoint) verify(t *testing.T, config Config) {
	t.Helper()
	m, result := p.disk.start(t, config)
	defer func() {
		if err := m.Close(); err != nil {
			t.Errorf("%s: close: %v", p.name, err)
		}
	}()
	if len(result.Offline) > 0 {
		t.Fatalf("%s: offline: %v", p.name, result.Offline[0].Err)
	}
	if len(m.Logs()) == 0 {
		if p.promise.flushed > 0 {
			t.Fatalf("%s: the log is gone, and [0, %d) had been flushed; put aside: %v",
				p.name, p.promise.flushed, result.Strays)
		}
		return
	}
	l := m.Logs()[0]
	p.verifyOffsets(t, l)
	p.verifyContent(t, l)
	// The log goes on.
	info := appendBatch(t, l, batchOf(1, 5), 1000, 5)
	if info.BaseOffset != l.EndOffset()-1 {
		t.Fatalf("%s: appended at %d", p.name, info.BaseOffset)
	}
}

func (p crashPoint) verifyOffsets(t *testing.T, l *Log) {
	t.Helper()
	if l.EndOffset() < p.promise.flushed {
		t.Fatalf("%s: the log ends at %d, and %d had been flushed", p.name, l.EndOffset(), p.promise.flushed)
	}
	if l.FlushedOffset() != l.EndOffset() {
		t.Fatalf("%s: flushed offset %d, end %d after recovery", p.name, l.FlushedOffset(), l.EndOffset())
	}
	if start := l.LogStartOffset(); start < p.promise.logStart || start > p.promise.maxStart {
		t.Fatalf("%s: the log starts at %d instead of [%d, %d]", p.name, start, p.promise.logStart, p.promise.maxStart)
	}
	if local := l.LocalLogStartOffset(); local != l.LogStartOffset() {
		t.Fatalf("%s: the log starts at %d and its local part at %d", p.name, l.LogStartOffset(), local)
	}
	if hw := l.HighWatermark(); hw > l.EndOffset() || hw < l.LogStartOffset() {
		t.Fatalf("%s: high watermark %d outside [%d, %d]", p.name, hw, l.LogStartOffset(), l.EndOffset())
	}
}

func (p crashPoint) verifyContent(t *testing.T, l *Log) {
	t.Helper()
	if l.LocalLogStartOffset() == l.EndOffset() {
		return // nothing is left, at an offset that may lie within a batch that was dropped
	}
	var want []byte
	epochs := leaderEpochs{}
	end := l.LocalLogStartOffset()
	for _, batch := range p.promise.batches {
		if batch.NextOffset() <= l.LocalLogStartOffset() || batch.BaseOffset() >= l.EndOffset() {
			continue
		}
		want = append(want, batch...)
		end = batch.NextOffset()
	}
	for _, batch := range p.promise.batches {
		if batch.NextOffset() <= l.EndOffset() {
			epochs.assign(batch.LeaderEpoch(), batch.BaseOffset())
		}
	}
	if end != l.EndOffset() {
		t.Fatalf("%s: the log ends at %d, which is no end of a batch that was appended (%d)", p.name, l.EndOffset(), end)
	}
	if got := readAll(t, l, l.LocalLogStartOffset()); !bytes.Equal(got, want) {
		t.Fatalf("%s: %d bytes from %d to %d differ from the %d that were appended",
			p.name, len(got), l.LocalLogStartOffset(), l.EndOffset(), len(want))
	}
	for offset := l.LocalLogStartOffset(); offset < l.EndOffset(); offset++ {
		if got, want := l.EpochAt(offset), epochs.at(offset); got != want {
			t.Fatalf("%s: offset %d has leader epoch %d instead of %d", p.name, offset, got, want)
		}
	}
}

// crashSeeds is how many workloads are cut short, each at a dozen moments or more.
const crashSeeds = 15

func TestPowerCutAtAnyOperationKeepsWhatWasFlushedAndInventsNothing(t *testing.T) {
	for seed := range crashSeeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		mem := vfs.NewMem()
		store := newMemoryStore()
		recorder := &crashRecorder{mem: mem, store: store, rng: rng, chance: 0.1}
		d := &disk{fs: vfs.NewFaulty(mem, recorder.see), store: store}
		config := Config{SegmentBytes: 3000, IndexIntervalBytes: 200}
		m, l := d.open(t, config)
		w := &workload{t: t, rng: rng, log: l, config: config, cutting: -1, epoch: 1, clock: 1000}
		recorder.promise = w.promise
		for range 120 {
			w.step()
		}
		recorder.off = true
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for _, point := range recorder.points {
			point.name = fmt.Sprintf("seed %d %s", seed, point.name)
			point.verify(t, config)
		}
	}
}
