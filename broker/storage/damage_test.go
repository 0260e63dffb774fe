package storage

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// TestFaultInAMapTakesTheDirectoryOffline cuts an index file under its map: the kernel answers a look-up with a signal.
func TestFaultInAMapTakesTheDirectoryOffline(t *testing.T) {
	l := onRealFiles(t, Config{SegmentBytes: 1 << 30})
	for range 2000 { // an index of several pages
		appendBatch(t, l, batchOf(1, 1000), 0, 1)
	}
	if err := errors.Join(l.Roll(), l.Flush()); err != nil {
		t.Fatal(err)
	}
	req := ReadRequest{Offset: 1900, MaxBytes: 100, AtLeastOne: true, UpTo: 2000}
	result, err := l.Read(req)
	if err != nil {
		t.Fatal(err)
	}
	result.Region.Release()
	if err := os.Truncate(segmentPath(l.folder.path(), 0, offsetIndexSuffix), 0); err != nil {
		t.Fatal(err)
	}
	_, err = l.Read(req)
	var fault *faultError
	if !errors.As(err, &fault) || kafka.CodeOf(err) != kafka.KafkaStorageError || l.dir.err() == nil {
		t.Fatalf("%v; directory: %v", err, l.dir.err())
	}
}

// verified is a partition's folder with two sealed segments and an active one.
func verified(t *testing.T) *disk {
	t.Helper()
	d := newDisk()
	m, l := d.open(t, Config{SegmentBytes: 1200, IndexIntervalBytes: 100})
	for i := range 25 {
		appendBatch(t, l, batchOf(2, int64(1000+10*i)), 0, 1)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	const first, second = "00000000000000000000", "00000000000000000022"
	patch := func(at int64, bytes ...byte) func(vfs.File) error {
		return func(file vfs.File) error {
			_, err := file.WriteAt(bytes, at)
			return err
		}
	}
	cut := func(size int64) func(vfs.File) error {
		return func(file vfs.File) error { return file.Truncate(size) }
	}
	for name, c := range map[string]struct {
		file string
		edit func(vfs.File) error
		want string
	}{
		"nothing":                   {first + logSuffix, func(vfs.File) error { return nil }, ""},
		"a flipped byte":            {first + logSuffix, patch(200, 'x'), "at 109: "},
		"a torn batch":              {first + logSuffix, cut(1198), "data ends inside a record batch"},
		"garbage for a batch":       {second + logSuffix, patch(109+16, 7), "format version 7"},
		"an offset going back":      {second + logSuffix, patch(109, 0, 0, 0, 0, 0, 0, 0, 0), "offset 0 after 24"},
		"overlapping segments":      {first + logSuffix, patch(1090, 0, 0, 0, 0, 0, 0, 0, 99), "ends at offset 101"},
		"an index beside the batch": {first + offsetIndexSuffix, patch(7, 110), "no batch begins at position 110"},
		"an index of another batch": {first + offsetIndexSuffix, patch(3, 4), "ends at offset 3 instead of 4"},
		"an index out of order":     {first + offsetIndexSuffix, patch(11, 1), "not above the one before"},
		"half an index entry":       {first + offsetIndexSuffix, cut(12), "unexpected EOF"},
		"a wrong time":              {first + timeIndexSuffix, patch(7, 0xf4), "largest timestamp"},
		"a time at no batch's end":  {first + timeIndexSuffix, patch(11, 2), "no batch ends at offset 2"},
		"a torn epoch file":         {epochFileName, cut(3), "leader epoch file"},
		"torn metadata":             {metadataFileName, cut(20), "has no topic_id"},
	} {
		t.Run(name, func(t *testing.T) {
			d := verified(t)
			file, err := d.fs.OpenReadWrite(path.Join(scenarioFolder, c.file))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.edit(file), file.Close()); err != nil {
				t.Fatal(err)
			}
			for _, where := range []string{scenarioFolder, "data/log"} {
				report, err := Verify(d.fs, where)
				if err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprint(report.Problems)
				if c.want == "" && (len(report.Problems) > 0 || report.Batches != 25 || report.Records != 50) ||
					!strings.Contains(text, c.want) {
					t.Fatalf("%s: %+v", where, report)
				}
			}
		})
	}
}

func TestDumpShowsEachKindOfFile(t *testing.T) {
	d := verified(t)
	snapshot := AppendProducerSnapshot(nil, goldenSnapshot)
	if err := vfs.WriteFileAtomic(d.fs, path.Join(scenarioFolder, "00000000000000000022.snapshot"), snapshot); err != nil {
		t.Fatal(err)
	}
	aborted := []byte{
		0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 2,
	}
	if err := vfs.WriteFileAtomic(d.fs, path.Join(scenarioFolder, "00000000000000000000.txnindex"), aborted); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	var lines []string
	err := Dump(d.fs, scenarioFolder, DumpOptions{Records: true}, func(item fmt.Stringer) error {
		kinds[fmt.Sprintf("%T", item)]++
		lines = append(lines, item.String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"storage.DumpedFile": 13, "storage.DumpedBatch": 25, "storage.DumpedRecord": 50, "storage.DumpedOffset": 22,
		"storage.DumpedTime": 22, "storage.SnapshotEntry": 3, "storage.EpochEntry": 1, "storage.DumpedMetadata": 1,
		"storage.AbortedTransaction": 1,
	}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("%v", kinds)
	}
	text := strings.Join(lines, "\n")
	for _, part := range []string{
		"producerId: 9 firstOffset: 3 lastOffset: 5 lastStableOffset: 2", "isvalid: true", "topic_id: AQIDAAAAAAAAAAAAAAAAAA",
		"| offset: 49 timestamp: 1241 keySize: 2 valueSize: 15 headers: 0 key: k1 payload: value 1 at 1240",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("nowhere is %q", part)
		}
	}
	for _, name := range []string{"data/log", "data/log/meta.properties", "no/such"} {
		if err := Dump(d.fs, name, DumpOptions{}, func(fmt.Stringer) error { return nil }); err == nil {
			t.Errorf("%s is dumped as a log", name)
		}
	}
}

func TestDumpTellsWhatMarkersSay(t *testing.T) {
	const name = "00000000000000000000.log"
	fs := vfs.NewMem()
	var data []byte
	for i, marker := range []record.EndMarker{{Type: record.Commit, CoordinatorEpoch: 7}, {Type: record.Abort}} {
		batch := record.NewEndMarker(9, 1, 1234, marker)
		batch.SetBaseOffset(int64(i))
		data = append(data, batch...)
	}
	if err := vfs.WriteFileAtomic(fs, name, data); err != nil {
		t.Fatal(err)
	}
	var lines []string
	err := Dump(fs, name, DumpOptions{}, func(item fmt.Stringer) error {
		lines = append(lines, item.String())
		return nil
	})
	if err != nil || len(lines) != 3 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, want := range []string{"endTxnMarker: COMMIT coordinatorEpoch: 7", "endTxnMarker: ABORT coordinatorEpoch: 0"} {
		if !strings.HasSuffix(lines[i+1], "isvalid: true "+want) {
			t.Errorf("the marker prints as %q, want %s", lines[i+1], want)
		}
	}
}

func TestPartitionInTwoDirectoriesServesFromNeither(t *testing.T) {
	mem, store := vfs.NewMem(), newMemoryStore()
	opts := ManagerOptions{FS: mem, Dirs: []Directory{{Path: "a"}}, Store: store}
	for _, dir := range []string{"a", "b"} {
		opts.Dirs[0].Path = dir
		opts.Store = newMemoryStore() // each made on its own
		m, err := NewManager(opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Create(testTopic, testID, Config{}, kafka.UUID{}); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	opts.Dirs = []Directory{{Path: "a"}, {Path: "b"}}
	m, err := NewManager(opts)
	if err != nil {
		t.Fatal(err)
	}
	result, err := m.Load(t.Context(), func(kafka.TopicPartition, kafka.TopicID) (Config, bool) { return Config{}, true })
	if err != nil || len(result.Offline) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if _, err := m.Log(testTopic); kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
