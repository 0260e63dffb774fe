package storage

import (
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// onRealFiles is a log on the operating system's file system, with indexes as they are in use.
func onRealFiles(tb testing.TB, config Config) *Log {
	tb.Helper()
	d := &disk{fs: vfs.OS(), store: newMemoryStore()}
	m, l := d.open(tb, config, func(o *ManagerOptions) { o.Dirs = []Directory{{Path: tb.TempDir()}} })
	tb.Cleanup(func() {
		if err := m.Close(); err != nil && l.dir.err() == nil {
			tb.Error(err)
		}
	})
	return l
}

func summaryOf(tb testing.TB, batch record.Batch) record.Summary {
	tb.Helper()
	_, summary, err := record.NewValidator().Validate(batch, record.AnyOptions())
	if err != nil {
		tb.Fatal(err)
	}
	return summary
}

func TestAppendAndReadMakeNoGarbage(t *testing.T) {
	l := onRealFiles(t, Config{SegmentBytes: 1 << 20, IndexIntervalBytes: 4096})
	plain := batchOf(20, 1000)
	idempotent := batchOf(20, 1000, func(o *record.BuilderOptions) {
		o.ProducerID, o.ProducerEpoch, o.BaseSequence = 7, 0, 0
	})
	plainSummary, idempotentSummary := summaryOf(t, plain), summaryOf(t, idempotent)
	opts := AppendOptions{LeaderEpoch: 1, AppendedAt: 1000}
	for range 3000 { // several segments
		if _, err := l.Append(plain, plainSummary, opts); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	appendAllocs := testing.AllocsPerRun(500, func() {
		if _, err := l.Append(plain, plainSummary, opts); err != nil {
			t.Fatal(err)
		}
	})
	sequence := int32(0)
	idempotentAllocs := testing.AllocsPerRun(500, func() {
		setSequence(idempotent, sequence)
		sequence += 20
		if _, err := l.Append(idempotent, idempotentSummary, opts); err != nil {
			t.Fatal(err)
		}
	})
	if appendAllocs > 0 || idempotentAllocs > 0 {
		t.Errorf("an append allocates %v times, an idempotent one %v times", appendAllocs, idempotentAllocs)
	}
	end := l.EndOffset()
	offset := int64(0)
	for name, read := range map[string]func(ReadRequest) (ReadResult, error){
		"a read": l.Read, "a read of what is in memory": l.ReadResident,
	} {
		allocs := testing.AllocsPerRun(1000, func() {
			offset = (offset + 997) % end
			result, err := read(ReadRequest{Offset: offset, MaxBytes: 100 << 10, AtLeastOne: true, UpTo: end})
			if err != nil || result.Size == 0 {
				t.Fatal(result, err)
			}
			result.Region.Release()
		})
		if allocs > 0 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
}

// setSequence patches a batch without mending its checksum, which an append does not look at.
func setSequence(batch record.Batch, sequence int32) {
	const atBaseSequence = 53
	batch[atBaseSequence], batch[atBaseSequence+1] = byte(sequence>>24), byte(sequence>>16)
	batch[atBaseSequence+2], batch[atBaseSequence+3] = byte(sequence>>8), byte(sequence)
}

func batchOfBytes(size int) record.Batch {
	b := record.NewBuilder(record.PlainProducer())
	value := make([]byte, 1024)
	for b.Size() < size-1100 {
		b.Append(1000, nil, value)
	}
	return b.Build()
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"16KiB", 16 << 10}, {"1MiB", 1 << 20}} {
		b.Run(size.name, func(b *testing.B) {
			d := &disk{fs: vfs.OS(), store: newMemoryStore()}
			m, l := d.open(b, Config{SegmentBytes: 256 << 20, IndexIntervalBytes: 4096}, func(o *ManagerOptions) {
				o.Dirs, o.Policy = []Directory{{Path: b.TempDir()}}, FlushOS
			})
			batch := batchOfBytes(size.bytes)
			summary := summaryOf(b, batch)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Append(batch, summary, AppendOptions{LeaderEpoch: 1, AppendedAt: 1}); err != nil {
					b.Fatal(err)
				}
				if l.Size() > 1<<30 {
					b.StopTimer()
					l.SetHighWatermark(l.EndOffset())
					if err := l.MoveLogStart(l.EndOffset()); err != nil {
						b.Fatal(err)
					}
					if _, err := l.MoveLocalStart(l.EndOffset(), "benchmark"); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			b.StopTimer()
			if err := m.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	l := onRealFiles(b, Config{SegmentBytes: 16 << 20, IndexIntervalBytes: 4096})
	batch := batchOfBytes(4 << 10)
	summary := summaryOf(b, batch)
	for l.Size() < 128<<20 {
		if _, err := l.Append(batch, summary, AppendOptions{LeaderEpoch: 1, AppendedAt: 1}); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Flush(); err != nil {
		b.Fatal(err)
	}
	end := l.EndOffset()
	for _, place := range []string{"anywhere", "at the tail"} {
		b.Run(place, func(b *testing.B) {
			b.ReportAllocs()
			offset, total := int64(0), int64(0)
			for b.Loop() {
				offset = (offset + 99991) % end
				if place == "at the tail" {
					offset = end - 1
				}
				result, err := l.Read(ReadRequest{Offset: offset, MaxBytes: 1 << 20, AtLeastOne: true, UpTo: end})
				if err != nil {
					b.Fatal(err)
				}
				total += int64(result.Size)
				result.Region.Release()
			}
			b.SetBytes(total / int64(b.N))
		})
	}
}
