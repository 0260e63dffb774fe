package storage

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// A log whose records are all in the bucket goes on from there: it knows the epochs of what is remote, and a producer
// that sends its last batch again is told so, also after a stop or a crash before anything else is appended.
func TestARestoredLogKnowsWhatCameBeforeIt(t *testing.T) {
	remote := RemoteRange{StartOffset: 40, EndOffset: 100}
	tiered := func(opts *ManagerOptions) {
		opts.Remote = func(kafka.TopicIDPartition) (RemoteRange, bool) { return remote, true }
	}
	producers := AppendProducerSnapshot(nil, []SnapshotEntry{{
		ProducerID: 9, ProducerEpoch: 2, LastSequence: 12, LastOffset: 99, OffsetDelta: 2, Timestamp: 1000,
		TxnFirstOffset: -1,
	}})
	restored := &RestoredLog{
		Remote: remote, Producers: producers,
		Epochs: []EpochEntry{{Epoch: 1, StartOffset: 0}, {Epoch: 3, StartOffset: 60}, {Epoch: 4, StartOffset: 100}},
	}
	check := func(when string, l *Log) {
		t.Helper()
		if l.LogStartOffset() != 40 || l.LocalLogStartOffset() != 100 || l.EndOffset() != 100 || l.HighWatermark() != 100 {
			t.Errorf("%s: log start %d, local start %d, end %d, high watermark %d", when, l.LogStartOffset(),
				l.LocalLogStartOffset(), l.EndOffset(), l.HighWatermark())
		}
		want := []EpochEntry{{Epoch: 1, StartOffset: 40}, {Epoch: 3, StartOffset: 60}}
		if diff := cmp.Diff(want, l.Epochs()); diff != "" {
			t.Errorf("%s: epochs (-want +got):\n%s", when, diff)
		}
		if snapshot, err := l.ProducerSnapshotAt(100); err != nil || string(snapshot) != string(producers) {
			t.Errorf("%s: other producers, %v", when, err)
		}
		if _, err := tryAppend(l, produced(9, 2, 14, 1), 7, 1000); kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
			t.Errorf("%s: a batch after a gap: %v", when, err)
		}
		if info, err := tryAppend(l, produced(9, 2, 10, 3), 7, 1000); err != nil || !info.Duplicate || info.BaseOffset != 97 {
			t.Errorf("%s: the last batch again: %+v, %v", when, info, err)
		}
	}
	create := func(d *disk) (*Manager, *Log) {
		m, _ := d.start(t, Config{}, tiered)
		created := m.CreateAll([]NewLog{{TopicPartition: testTopic, TopicID: testID, Restored: restored}})
		if created[0].Err != nil {
			t.Fatal(created[0].Err)
		}
		return m, created[0].Log
	}

	d := newDisk()
	m, l := create(d)
	check("new", l)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, l = d.open(t, Config{}, tiered)
	check("after a stop", l)
	appendBatch(t, l, produced(9, 2, 13, 1), 7, 1000)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	d = newDisk()
	m, _ = create(d)
	if err := d.store.sync(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	left := &disk{fs: d.fs.(*vfs.Mem).CrashCloneStrict(), store: d.store.crashClone(random)}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, l = left.open(t, Config{}, tiered)
	check("after a crash", l)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestARestoredLogWithProducersThatMakeNoSenseIsRefused(t *testing.T) {
	d := newDisk()
	m, _ := d.start(t, Config{})
	created := m.CreateAll([]NewLog{{
		TopicPartition: testTopic, TopicID: testID,
		Restored: &RestoredLog{Remote: RemoteRange{EndOffset: 10}, Producers: []byte("nonsense")},
	}})
	if created[0].Err == nil {
		t.Error("it is accepted")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
