package storage

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

var (
	testTopic = kafka.TopicPartition{Topic: "events", Partition: 0}
	testID    = kafka.TopicID{1, 2, 3}
)

// tb is what the helpers need of a test, be it one of testing or of rapid.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// disk is what survives a restart: files and state database.
type disk struct {
	fs    vfs.FS
	store *memoryStore
}

func newDisk() *disk { return &disk{fs: vfs.NewMem(), store: newMemoryStore()} }

// start opens a manager whose only topic is testTopic.
func (d *disk) start(t tb, config Config, change ...func(*ManagerOptions)) (*Manager, LoadResult) {
	t.Helper()
	opts := ManagerOptions{
		FS: d.fs, Dirs: []Directory{{Path: "data/log"}}, Store: d.store, SyncStore: d.store.sync,
	}
	for _, fn := range change {
		fn(&opts)
	}
	m, err := NewManager(opts)
	if err != nil {
		t.Fatal(err)
	}
	result, err := m.Load(context.Background(), func(tp kafka.TopicPartition, id kafka.TopicID) (Config, bool) {
		return config, tp == testTopic && id == testID
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, result
}

func (d *disk) open(t tb, config Config, change ...func(*ManagerOptions)) (*Manager, *Log) {
	t.Helper()
	m, _ := d.start(t, config, change...)
	l, err := m.Create(testTopic, testID, config, kafka.UUID{})
	if err != nil {
		t.Fatal(err)
	}
	return m, l
}

type appendOpt func(*record.BuilderOptions)

// batchOf builds a producer's batch of n records with timestamps from ts on.
func batchOf(n int, ts int64, opts ...appendOpt) record.Batch {
	options := record.PlainProducer()
	for _, opt := range opts {
		opt(&options)
	}
	b := record.NewBuilder(options)
	for i := range n {
		b.Append(ts+int64(i), fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "value %d at %d", i, ts))
	}
	return b.Build()
}

func appendBatch(t tb, l *Log, batch record.Batch, epoch kafka.LeaderEpoch, now int64) AppendInfo {
	t.Helper()
	info, err := tryAppend(l, batch, epoch, now)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func tryAppend(l *Log, batch record.Batch, epoch kafka.LeaderEpoch, now int64) (AppendInfo, error) {
	return tryAppendWith(l, batch, AppendOptions{LeaderEpoch: epoch, AppendedAt: now})
}

func tryAppendWith(l *Log, batch record.Batch, opts AppendOptions) (AppendInfo, error) {
	batch, summary, err := record.NewValidator().Validate(batch, record.AnyOptions())
	if err != nil {
		return AppendInfo{}, err
	}
	return l.Append(batch, summary, opts)
}

// appendMarker appends the end of a transaction, which no client may write.
func appendMarker(l *Log, batch record.Batch, opts AppendOptions) (AppendInfo, error) {
	opts.Origin = FromCoordinator
	return l.Append(batch, record.Summary{Count: 1, MaxTimestamp: batch.MaxTimestamp(), Size: len(batch)}, opts)
}

// inTransaction is the producer's batch as one of a transaction.
func inTransaction(batch record.Batch) record.Batch {
	o := record.PlainProducer()
	o.ProducerID, o.ProducerEpoch, o.BaseSequence = batch.ProducerID(), batch.ProducerEpoch(), batch.BaseSequence()
	o.Transactional = true
	return batchOf(int(batch.Count()), batch.BaseTimestamp(), func(into *record.BuilderOptions) { *into = o })
}

func startOf(batch record.Batch, bumpsEpoch bool) TransactionStart {
	return TransactionStart{
		ProducerID: batch.ProducerID(), ProducerEpoch: batch.ProducerEpoch(), BaseSequence: batch.BaseSequence(),
		BumpsEpoch: bumpsEpoch,
	}
}

// appendTransactional appends a batch of a transaction that the coordinator knows of, or a marker.
func appendTransactional(t tb, l *Log, batch record.Batch, epoch kafka.LeaderEpoch) AppendInfo {
	t.Helper()
	opts := AppendOptions{LeaderEpoch: epoch, AppendedAt: 1}
	if batch.IsControl() {
		info, err := appendMarker(l, batch, opts)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	opts.Guard = l.BeginVerification(startOf(batch, false))
	info, err := tryAppendWith(l, batch, opts)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// readAll returns the bytes of the log from an offset to its end.
func readAll(t tb, l *Log, offset int64) []byte {
	t.Helper()
	var all []byte
	for offset < l.EndOffset() {
		result, err := l.Read(ReadRequest{Offset: offset, MaxBytes: 1 << 20, AtLeastOne: true, UpTo: l.EndOffset()})
		if err != nil {
			t.Fatal(err)
		}
		if result.Size == 0 {
			t.Fatalf("nothing at offset %d of %d", offset, l.EndOffset())
		}
		all = append(all, regionBytes(t, result.Region)...)
		result.Region.Release()
		offset = result.NextOffset
	}
	return all
}

func regionBytes(t tb, region vfs.Region) []byte {
	t.Helper()
	data := make([]byte, region.Size())
	if n, err := region.ReadAt(data, 0); n < len(data) {
		t.Fatal(err)
	}
	return data
}

func TestWhatIsAppendedIsReadAcrossSegmentsAndRestarts(t *testing.T) {
	d := newDisk()
	config := Config{SegmentBytes: 1000}
	m, l := d.open(t, config)
	var want []byte
	for i := range 50 {
		batch := batchOf(3, int64(1000+i))
		info := appendBatch(t, l, batch, 1, 77)
		if info.BaseOffset != int64(3*i) || info.EndOffset != int64(3*i+3) {
			t.Fatalf("batch %d is at [%d, %d)", i, info.BaseOffset, info.EndOffset)
		}
		want = append(want, batch...)
	}
	if diff := cmp.Diff(want, readAll(t, l, 0)); diff != "" {
		t.Fatal(diff)
	}
	if len(l.Segments()) < 5 {
		t.Fatalf("%d segments", len(l.Segments()))
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := l.FlushedOffset(); got != 150 {
		t.Fatalf("flushed offset %d", got)
	}
	before := l.Segments()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, result := d.start(t, config)
	if !result.Clean || len(result.Offline) > 0 {
		t.Fatalf("%+v", result)
	}
	l, err := m.Log(testTopic)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, readAll(t, l, 0)); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff(before, l.Segments()); diff != "" {
		t.Fatal(diff)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
