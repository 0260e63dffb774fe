package storage

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/firnlog/firn/broker/record"
)

// FuzzIndexes looks bytes up as if they were indexes: what passes the checks must be safe to use.
func FuzzIndexes(f *testing.F) {
	var offsets, times []byte
	for _, entry := range goldenOffsets {
		offsets = appendOffsetEntry(offsets, entry)
	}
	for _, entry := range goldenTimes {
		times = appendTimeEntry(times, entry)
	}
	f.Add(offsets, times, int64(70000), int64(1<<31))
	f.Add([]byte{}, []byte{1}, int64(0), int64(0))
	f.Fuzz(func(t *testing.T, offsets, times []byte, relativeEnd, size int64) {
		if checkOffsetIndex(offsets, relativeEnd, size) == nil {
			for _, wanted := range []int64{-1, 0, relativeEnd - 1, relativeEnd} {
				if entry, ok := findOffset(offsets, wanted); ok &&
					(int64(entry.relative) > wanted || int64(entry.position) >= size || entry.position < 0) {
					t.Fatalf("offset %d is looked for at %+v of %d bytes", wanted, entry, size)
				}
				if entry, ok := findPosition(offsets, wanted); ok && int64(entry.position) > wanted {
					t.Fatalf("position %d is looked for at %+v", wanted, entry)
				}
			}
		}
		if checkTimeIndex(times, relativeEnd) == nil {
			for _, wanted := range []int64{-1, 0, 1357016400000} {
				if entry, ok := findTime(times, wanted); ok && (entry.timestamp >= wanted || entry.relative < 0) {
					t.Fatalf("time %d is looked for at %+v", wanted, entry)
				}
			}
		}
	})
}

func FuzzProducerSnapshot(f *testing.F) {
	f.Add(AppendProducerSnapshot(nil, goldenSnapshot))
	f.Add([]byte{0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := ParseProducerSnapshot(data)
		if err != nil {
			return
		}
		if again := AppendProducerSnapshot(nil, entries); !bytes.Equal(again, data) {
			t.Fatalf("% x\n% x", data, again)
		}
		state := newProducerState(0, expireAfter(1000))
		state.restore(entries, 10, 0)
		if _, err := ParseProducerSnapshot(AppendProducerSnapshot(nil, state.snapshot())); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzTextFiles(f *testing.F) {
	f.Add(appendEpochFile(nil, goldenEpochs))
	f.Add(goldenMeta.encode())
	f.Add([]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if entries, err := parseEpochFile(data); err == nil {
			again, err := parseEpochFile(appendEpochFile(nil, entries))
			if err != nil || len(again) != len(entries) {
				t.Fatalf("%v became %v: %v", entries, again, err)
			}
		}
		if meta, err := parseMetaProperties(data); err == nil {
			if again, err := parseMetaProperties(meta.encode()); err != nil || again != meta {
				t.Fatalf("%v became %v: %v", meta, again, err)
			}
		}
		_, _ = parsePartitionMetadata(data) // must not panic
	})
}

func FuzzStoreValues(f *testing.F) {
	f.Add(goldenCheckpoint.append(nil))
	f.Add(goldenState.append(nil))
	f.Add(producerCheckpoint{Epoch: 3, Snapshot: []byte{1, 2}}.append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := parseCheckpoint(data); err == nil && !bytes.Equal(c.append(nil), data) {
			t.Fatalf("checkpoint % x became % x", data, c.append(nil))
		}
		if s, err := parseSegmentState(data); err == nil { // of an older version, too: it is written in the newest
			if again, err := parseSegmentState(s.append(nil)); err != nil || again != s {
				t.Fatalf("segment state %+v became %+v: %v", s, again, err)
			}
		}
		if p, err := parseProducerCheckpoint(5, data); err == nil && !bytes.Equal(p.append(nil), data) {
			t.Fatalf("producer checkpoint % x became % x", data, p.append(nil))
		}
	})
}

// FuzzSegment opens bytes as the only segment of a log of which nothing had been flushed: the log opens, ends before
// the first bad batch, and can be read and dumped to there.
func FuzzSegment(f *testing.F) {
	good := bytes.Join([][]byte{goldenBatch(0, 3), goldenBatch(3, 2)}, nil)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(bytes.Clone(good), make([]byte, 300)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newDisk()
		m, _ := d.open(t, Config{})
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		name := segmentPath(scenarioFolder, 0, logSuffix)
		file, err := d.fs.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		d.store = newMemoryStore()
		m, l := d.open(t, Config{})
		if kept := readAll(t, l, l.LogStartOffset()); !bytes.HasPrefix(data, kept) {
			t.Fatalf("% x became % x", data, kept)
		}
		if err := Dump(d.fs, name, DumpOptions{}, func(fmt.Stringer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func goldenBatch(baseOffset int64, records int) record.Batch {
	return batchOf(records, 1000, func(o *record.BuilderOptions) { o.BaseOffset, o.LeaderEpoch = baseOffset, 1 })
}
