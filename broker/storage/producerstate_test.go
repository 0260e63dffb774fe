package storage

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

func produced(id int64, epoch int16, sequence int32, records int) record.Batch {
	return batchOf(records, 1000, func(o *record.BuilderOptions) {
		o.ProducerID, o.ProducerEpoch, o.BaseSequence = id, epoch, sequence
	})
}

func expireAfter(ms int64) *atomic.Int64 {
	var expireMs atomic.Int64
	expireMs.Store(ms)
	return &expireMs
}

func TestSequencesOfAProducer(t *testing.T) {
	// Each word is epoch:sequence+records and what becomes of the batch: new, again (a duplicate), or an error code.
	for name, batches := range map[string]string{
		"in order":                          "0:0+3=new 0:3+2=new 0:5+1=new",
		"a gap":                             "0:0+3=new 0:4+1=45",
		"an overlap":                        "0:0+3=new 0:2+2=45",
		"a retry":                           "0:0+3=new 0:0+3=again",
		"a retry of another size":           "0:0+3=new 0:0+2=45",
		"unknown, so any first sequence":    "0:77+3=new 0:80+3=new",
		"a new epoch from 0":                "0:7+3=new 1:0+3=new 1:3+1=new",
		"a new epoch from elsewhere":        "0:7+3=new 1:10+3=45",
		"an old epoch":                      "1:0+3=new 0:3+3=47",
		"a retry of the epoch before":       "0:0+3=new 1:0+3=new 0:0+3=47",
		"the same sequences in a new epoch": "0:0+3=new 1:0+3=new 1:0+3=again",
		"wrapped within a batch":            "0:2147483646+4=new 0:2+1=new",
		"a retry of one that wrapped":       "0:2147483646+4=new 0:2147483646+4=again",
		"wrapped between batches":           "0:2147483647+1=new 0:0+1=new 0:2147483647+1=again",
		"wrapped to elsewhere":              "0:2147483647+1=new 0:1+1=45",
		"five remembered, the sixth is not": "0:0+1=new 0:1+1=new 0:2+1=new 0:3+1=new 0:4+1=new 0:0+1=again " +
			"0:5+1=new 0:0+1=45 0:1+1=again",
		"refused ones leave no trace behind": "0:0+1=new 0:5+1=45 0:6+1=45 0:1+1=new",
	} {
		t.Run(name, func(t *testing.T) {
			state, offset := newProducerState(0, expireAfter(1000)), int64(0)
			for _, word := range strings.Fields(batches) {
				var epoch int16
				var sequence int32
				var records int
				var want string
				if _, err := fmt.Sscanf(word, "%d:%d+%d=%s", &epoch, &sequence, &records, &want); err != nil {
					t.Fatal(err)
				}
				batch := produced(9, epoch, sequence, records)
				_, again, err := state.check(batch, AppendOptions{})
				got := "new"
				switch {
				case err != nil:
					got = fmt.Sprint(int16(kafka.CodeOf(err)))
				case again:
					got = "again"
				default:
					batch.SetBaseOffset(offset)
					offset = batch.NextOffset()
					state.update(batch, nil, 0)
				}
				if got != want {
					t.Fatalf("%s is %s (%v)", word, got, err)
				}
			}
		})
	}
}

func TestLastStableOffsetWaitsForTheMarkerBelowTheHighWatermark(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, Config{}, func(o *ManagerOptions) { o.Policy = FlushOS })
	transactional := func(id int64, control bool) record.Batch {
		if control {
			return record.NewEndMarker(id, 0, 1000, record.EndMarker{Type: record.Commit})
		}
		return inTransaction(produced(id, 0, 0, 1))
	}
	add := func(batch record.Batch) {
		t.Helper()
		appendTransactional(t, l, batch, 0)
	}
	expect := func(highWatermark, stable int64) {
		t.Helper()
		l.SetHighWatermark(highWatermark)
		if got := l.LastStableOffset(); got != stable {
			t.Fatalf("last stable offset %d at high watermark %d; wanted %d", got, highWatermark, stable)
		}
	}
	add(batchOf(1, 1000))        // 0
	add(transactional(1, false)) // 1
	add(transactional(2, false)) // 2
	add(batchOf(1, 1000))        // 3
	expect(1, 1)
	expect(4, 1)
	add(transactional(1, true)) // 4 ends the transaction of producer 1
	expect(4, 1)
	expect(5, 2)
	add(transactional(2, true)) // 5
	expect(5, 2)
	expect(6, 6)
	add(transactional(3, false)) // 6
	expect(7, 6)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, l = d.open(t, Config{}, func(o *ManagerOptions) { o.Policy = FlushOS })
	if got := l.LastStableOffset(); got != 6 {
		t.Fatalf("last stable offset %d after a restart", got)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestProducersOfALostRangeAreUnknown(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, Config{})
	for i := range 5 {
		appendBatch(t, l, produced(1, 0, int32(i), 1), 0, 1)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.fs.Remove(segmentPath(scenarioFolder, 0, logSuffix)); err != nil {
		t.Fatal(err)
	}
	m, l = d.open(t, Config{}, func(o *ManagerOptions) {
		o.Remote = func(kafka.TopicIDPartition) (RemoteRange, bool) { return RemoteRange{EndOffset: 50}, true }
	})
	if l.EndOffset() != 50 {
		t.Fatalf("the log ends at %d", l.EndOffset())
	}
	if info := appendBatch(t, l, produced(1, 0, 40, 1), 0, 1); info.BaseOffset != 50 {
		t.Fatalf("%+v", info)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotThatWasNeverSavedIsMadeFromTheOneBefore(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, Config{SegmentBytes: 300})
	for i := range 12 {
		appendBatch(t, l, produced(1, 0, int32(i), 1), 0, 1)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, info := range l.Segments()[1:] {
		want, err := l.ProducerSnapshotAt(info.BaseOffset)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.store.Delete(l.keys.at(producerKind, info.BaseOffset)); err != nil {
			t.Fatal(err)
		}
		got, err := l.ProducerSnapshotAt(info.BaseOffset)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at %d: % x instead of % x, %v", info.BaseOffset, got, want, err)
		}
	}
	if _, err := l.ProducerSnapshotAt(1); kafka.CodeOf(err) != kafka.OffsetOutOfRange {
		t.Fatalf("inside a segment: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLogStartWithinASegmentKeepsIdleProducers is about a checkpoint whose lineage the log start has passed.
func TestLogStartWithinASegmentKeepsIdleProducers(t *testing.T) {
	d := newDisk()
	config := Config{SegmentBytes: 300}
	m, l := d.open(t, config)
	appendBatch(t, l, produced(1, 0, 0, 1), 0, 1)
	for range 6 {
		appendBatch(t, l, batchOf(1, 1000), 2, 1)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(l.EndOffset())
	start := l.Segments()[1].BaseOffset + 1
	if err := l.MoveLogStart(start); err != nil {
		t.Fatal(err)
	}
	if removed, err := l.MoveLocalStart(start, "test"); removed != 1 || err != nil {
		t.Fatal(removed, err)
	}
	crashed := &disk{fs: d.fs.(*vfs.Mem).KillClone(), store: &memoryStore{values: d.store.values}}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for name, disk := range map[string]*disk{"clean": d, "killed": crashed} {
		m, l := disk.open(t, config)
		if info := appendBatch(t, l, produced(1, 0, 0, 1), 2, 1); !info.Duplicate || info.BaseOffset != 0 {
			t.Errorf("%s: a retry is appended again: %+v", name, info)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
