package storage

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// modelLog is a Log beside a slice of the batches that should be in it.
type modelLog struct {
	config  Config
	mem     *vfs.Mem
	store   *memoryStore
	manager *Manager
	log     *Log
	all     []record.Batch // of the log's lineage, those that have been dropped included
	batches []record.Batch // of the local segments
	start   int64          // log start
	end     int64
	flushed int64
	epoch   kafka.LeaderEpoch
	clock   int64
}

func (m *modelLog) open(t *rapid.T) {
	d := &disk{fs: m.mem, store: m.store}
	var result LoadResult
	m.manager, result = d.start(t, m.config)
	if len(result.Offline) > 0 {
		t.Fatalf("offline: %v", result.Offline[0].Err)
	}
	l, err := m.manager.Create(testTopic, testID, m.config, kafka.UUID{})
	if err != nil {
		t.Fatal(err)
	}
	m.log = l
}

func (m *modelLog) appendOne(t *rapid.T) {
	m.clock += rapid.Int64Range(-3, 9).Draw(t, "ms")
	codec := rapid.SampledFrom([]record.Codec{record.None, record.Zstd}).Draw(t, "codec")
	records := rapid.IntRange(1, 6).Draw(t, "records")
	if rapid.IntRange(0, 19).Draw(t, "large") == 0 {
		records = 150
	}
	producer := rapid.Int64Range(-1, 2).Draw(t, "producer")
	batch := batchOf(records, m.clock, func(o *record.BuilderOptions) {
		o.Codec, o.ProducerID = codec, producer
		if producer >= 0 {
			o.ProducerEpoch, o.BaseSequence = 0, m.nextSequence(producer)
		}
	})
	info, err := tryAppend(m.log, batch, m.epoch, time.Now().UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	if info.BaseOffset != m.end || info.EndOffset != m.end+int64(records) {
		t.Fatalf("appended at [%d, %d) instead of %d", info.BaseOffset, info.EndOffset, m.end)
	}
	m.all, m.end = append(m.all, batch), info.EndOffset
	m.chooseLocal()
}

// produced are a producer's batches in the log's lineage.
func (m *modelLog) produced(producer int64) (batches []record.Batch) {
	for _, batch := range m.all {
		if batch.ProducerID() == producer {
			batches = append(batches, batch)
		}
	}
	return batches
}

func (m *modelLog) nextSequence(producer int64) int32 {
	batches := m.produced(producer)
	if len(batches) == 0 {
		return 0
	}
	return nextSequence(batches[len(batches)-1].LastSequence())
}

// retry sends one of a producer's last five batches again, or one that is too old.
func (m *modelLog) retry(t *rapid.T) {
	batches := m.produced(rapid.Int64Range(0, 2).Draw(t, "producer"))
	if len(batches) == 0 {
		return
	}
	n := rapid.IntRange(1, min(len(batches), maxProducerBatches+1)).Draw(t, "how old")
	batch := batches[len(batches)-n]
	info, err := tryAppend(m.log, zeroBase(batch), m.epoch, time.Now().UnixMilli())
	if n > maxProducerBatches {
		if kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
			t.Fatalf("a retry of the %dth batch from the end: %+v, %v", n, info, err)
		}
		return
	}
	if err != nil || !info.Duplicate || info.BaseOffset != batch.BaseOffset() || info.LastOffset != batch.LastOffset() {
		t.Fatalf("a retry of the batch at %d, the %dth from the end: %+v, %v", batch.BaseOffset(), n, info, err)
	}
}

// zeroBase is a batch as its producer sends it.
func zeroBase(batch record.Batch) record.Batch {
	sent := append(record.Batch(nil), batch...)
	sent.SetBaseOffset(0)
	return sent
}

func (m *modelLog) truncate(t *rapid.T) {
	low := max(m.start, m.log.LocalLogStartOffset())
	target := rapid.Int64Range(low, m.end).Draw(t, "target")
	if err := m.log.Truncate(target); err != nil {
		t.Fatal(err)
	}
	if target == m.end {
		return
	}
	kept := 0
	for kept < len(m.all) && m.all[kept].NextOffset() <= target {
		kept++
	}
	m.end = target
	if kept < len(m.all) {
		m.end = min(target, m.all[kept].BaseOffset())
	}
	m.all = m.all[:kept]
	if m.end < m.start { // nothing is left at or above the log start
		m.all, m.start, m.end = nil, target, target
	}
	m.flushed = m.end // a truncation is durable
	m.epoch++
	m.chooseLocal()
}

func (m *modelLog) moveStart(t *rapid.T) {
	m.log.SetHighWatermark(m.end)
	highWatermark := m.log.HighWatermark()
	if highWatermark > m.flushed || highWatermark < m.start {
		t.Fatalf("high watermark %d outside [%d, %d]", highWatermark, m.start, m.flushed)
	}
	target := rapid.Int64Range(m.start, highWatermark).Draw(t, "start")
	if err := m.log.MoveLogStart(target); err != nil {
		t.Fatal(err)
	}
	m.start = target
	if _, err := m.log.MoveLocalStart(target, "test"); err != nil {
		t.Fatal(err)
	}
	m.flushed = m.log.FlushedOffset() // what is about to go is flushed first, for the sake of the producers in it
	m.chooseLocal()
}

// chooseLocal finds the batches that are in the log's segments. A crash may bring segments back whose removal was not
// durable yet; they lie below the log start.
func (m *modelLog) chooseLocal() {
	first, n := m.log.Segments()[0].BaseOffset, 0
	for n < len(m.all) && m.all[n].NextOffset() <= first {
		n++
	}
	m.batches = m.all[n:]
}

func (m *modelLog) flush(t *rapid.T) {
	if err := m.log.Flush(); err != nil {
		t.Fatal(err)
	}
	m.flushed = m.end
}

func (m *modelLog) read(t *rapid.T) {
	offset := rapid.Int64Range(m.start-1, m.end+1).Draw(t, "offset")
	upTo := rapid.Int64Range(m.start, m.end).Draw(t, "up to")
	maxBytes := rapid.IntRange(0, 3000).Draw(t, "max bytes")
	atLeastOne := rapid.Bool().Draw(t, "at least one")
	result, err := m.log.Read(ReadRequest{Offset: offset, MaxBytes: maxBytes, AtLeastOne: atLeastOne, UpTo: upTo})
	if offset < m.start || offset > m.end {
		if kafka.CodeOf(err) != kafka.OffsetOutOfRange {
			t.Fatalf("read %d of [%d, %d]: %v", offset, m.start, m.end, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer result.Region.Release()
	want, next := m.expected(offset, upTo, maxBytes, atLeastOne)
	got := regionBytes(t, result.Region)
	if result.Size != len(got) || !bytes.HasPrefix(want, got) || len(want) > 0 && len(got) == 0 {
		t.Fatalf("read of %d up to %d returns %d bytes where there are %d", offset, upTo, len(got), len(want))
	}
	if len(got) == len(want) && result.NextOffset != next {
		t.Fatalf("next offset %d instead of %d", result.NextOffset, next)
	}
	if len(got) < len(want) { // only the end of a segment may cut an answer short
		atBorder := false
		for _, info := range m.log.Segments() {
			atBorder = atBorder || info.BaseOffset == result.NextOffset
		}
		if !atBorder {
			t.Fatalf("read of %d ends at %d with %d of %d bytes", offset, result.NextOffset, len(got), len(want))
		}
	}
}

// expected are the bytes that a read would return if all were one segment.
func (m *modelLog) expected(offset, upTo int64, maxBytes int, atLeastOne bool) (want []byte, next int64) {
	next = offset
	if offset >= upTo {
		return nil, next
	}
	for _, batch := range m.batches {
		if batch.NextOffset() <= offset {
			continue
		}
		if batch.NextOffset() > upTo || len(want)+len(batch) > maxBytes && !(atLeastOne && len(want) == 0) {
			break
		}
		want, next = append(want, batch...), batch.NextOffset()
	}
	return want, next
}

// walkToTime is what a look-up by time has to find in a batch.
func walkToTime(t *rapid.T, batch record.Batch, target, start int64) (TimestampOffset, bool) {
	var records record.Iterator
	if err := records.Reset(batch); err != nil {
		t.Fatal(err)
	}
	for records.Next() {
		if records.Timestamp() >= target && records.Offset() >= start {
			return TimestampOffset{records.Offset(), records.Timestamp(), batch.LeaderEpoch()}, true
		}
	}
	return TimestampOffset{}, false
}

func (m *modelLog) lookUpTime(t *rapid.T) {
	target := m.clock + rapid.Int64Range(-200, 10).Draw(t, "time")
	got, found, err := m.log.OffsetForTimestamp(target, m.end)
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range m.batches {
		want, ok := walkToTime(t, batch, target, m.start)
		if ok {
			if !found || got != want {
				t.Fatalf("time %d is at %+v (%v) instead of %+v", target, got, found, want)
			}
			return
		}
	}
	if found {
		t.Fatalf("time %d is at %+v instead of nowhere", target, got)
	}
}

func (m *modelLog) lookUpMaxTime(t *rapid.T) {
	upTo := rapid.Int64Range(m.start, m.end).Draw(t, "up to")
	got, found, err := m.log.MaxTimestamp(upTo)
	if err != nil {
		t.Fatal(err)
	}
	want := TimestampOffset{Offset: -1, Timestamp: record.NoTimestamp}
	for _, batch := range m.batches {
		if batch.NextOffset() > upTo {
			break
		}
		var records record.Iterator
		if err := records.Reset(batch); err != nil {
			t.Fatal(err)
		}
		for records.Next() {
			if records.Offset() >= m.start && records.Timestamp() > want.Timestamp {
				want = TimestampOffset{
					Offset: records.Offset(), Timestamp: records.Timestamp(), Epoch: batch.LeaderEpoch(),
				}
			}
		}
	}
	if found != (want.Offset >= 0) || found && got != want {
		t.Fatalf("the largest time up to %d is %+v (%v) instead of %+v", upTo, got, found, want)
	}
}

func (m *modelLog) reopen(t *rapid.T) {
	if err := m.manager.Close(); err != nil {
		t.Fatal(err)
	}
	m.flushed = m.end
	m.open(t)
}

// crash cuts the power. What had been flushed is there; of the rest a whole number of batches may be.
func (m *modelLog) crash(t *rapid.T) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	m.mem, m.store = m.mem.CrashClone(rng), m.store.crashClone(rng)
	m.open(t)
	end := m.log.EndOffset()
	if end < m.flushed || end > m.end {
		t.Fatalf("the log ends at %d after a crash, with %d flushed of %d", end, m.flushed, m.end)
	}
	for len(m.all) > 0 && m.all[len(m.all)-1].BaseOffset() >= end {
		m.all = m.all[:len(m.all)-1]
	}
	m.end, m.flushed = end, end
	m.epoch++
	m.chooseLocal()
}

func (m *modelLog) check(t *rapid.T) {
	l := m.log
	if l.EndOffset() != m.end || l.LogStartOffset() != m.start {
		t.Fatalf("the log is [%d, %d) instead of [%d, %d)", l.LogStartOffset(), l.EndOffset(), m.start, m.end)
	}
	if l.FlushedOffset() < m.flushed || l.FlushedOffset() > m.end {
		t.Fatalf("flushed offset %d outside [%d, %d]", l.FlushedOffset(), m.flushed, m.end)
	}
	if hw := l.HighWatermark(); hw > l.FlushedOffset() || hw < m.start {
		t.Fatalf("high watermark %d outside [%d, %d]", hw, m.start, l.FlushedOffset())
	}
	size := int64(0)
	for _, batch := range m.batches {
		size += int64(len(batch))
		for _, offset := range []int64{batch.BaseOffset(), batch.LastOffset()} {
			if offset >= m.start && l.EpochAt(offset) != batch.LeaderEpoch() {
				t.Fatalf("offset %d has epoch %d instead of %d", offset, l.EpochAt(offset), batch.LeaderEpoch())
			}
		}
	}
	if l.Size() != size {
		t.Fatalf("%d bytes instead of %d", l.Size(), size)
	}
}

func TestLogBehavesAsASliceOfBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &modelLog{
			mem: vfs.NewMem(), store: newMemoryStore(), epoch: 1, clock: 1000,
			config: Config{
				SegmentBytes:       rapid.Int64Range(300, 4000).Draw(t, "segment bytes"),
				IndexIntervalBytes: rapid.Int32Range(0, 600).Draw(t, "index interval"),
			},
		}
		m.open(t)
		defer func() { _ = m.manager.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"append": m.appendOne, "append more": m.appendOne, "append much": m.appendOne, "flush": m.flush,
			"roll": func(t *rapid.T) {
				if err := m.log.Roll(); err != nil {
					t.Fatal(err)
				}
			},
			"truncate": m.truncate, "move start": m.moveStart, "read": m.read, "read more": m.read, "retry": m.retry,
			"time": m.lookUpTime, "max time": m.lookUpMaxTime, "reopen": m.reopen, "crash": m.crash,
			"checkpoint": func(t *rapid.T) {
				if err := m.log.saveCheckpoint(); err != nil {
					t.Fatal(err)
				}
			},
			"": m.check,
		})
	})
}
