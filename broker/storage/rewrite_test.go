package storage

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// rewriteConfig makes segments of three batches.
var rewriteConfig = Config{SegmentBytes: 500, IndexIntervalBytes: 100}

// fillForRewrite appends batches of two records, at rising times, and flushes them.
func fillForRewrite(t tb, l *Log, batches int) {
	t.Helper()
	for i := range batches {
		appendBatch(t, l, batchOf(2, int64(1000+10*i)), 1, int64(5000+i))
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(l.EndOffset())
}

// rewriteKeeping writes the first sealed segments anew with those batches that keep tells, and returns what the batches
// of the whole log are then.
func rewriteKeeping(t tb, l *Log, segments int, keep func(record.Batch) bool) (offsets []int64, err error) {
	t.Helper()
	infos := l.Segments()
	w, err := l.Rewrite(infos[0].BaseOffset, infos[segments].BaseOffset)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	for i, info := range infos {
		if !info.Sealed {
			continue
		}
		kept := keep
		if i >= segments {
			kept = func(record.Batch) bool { return true }
		}
		r, err := l.OpenSegment(info.BaseOffset)
		if err != nil {
			return nil, err
		}
		for {
			batch, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				r.Close()
				return nil, err
			}
			if !kept(batch) {
				continue
			}
			offsets = append(offsets, batch.BaseOffset())
			if i < segments {
				if err := w.Append(batch); err != nil {
					r.Close()
					return nil, err
				}
			}
		}
		r.Close()
	}
	return offsets, w.Commit()
}

// basesFrom reads the log from an offset to its end, and lists the batches found.
func basesFrom(t tb, l *Log, offset int64) (bases []int64) {
	t.Helper()
	for data := readAll(t, l, offset); len(data) > 0; {
		batch, rest, err := record.Next(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := batch.VerifyCRC(); err != nil {
			t.Fatal(err)
		}
		bases, data = append(bases, batch.BaseOffset()), rest
	}
	return bases
}

// everyOther keeps the first, third, … batch of all.
func everyOther(batch record.Batch) bool { return batch.BaseOffset()/2%2 == 0 }

// checkRewritten compares a log with what it should hold: from every offset, by offset and by time (CO-11).
func checkRewritten(t tb, l *Log, offsets []int64, name string) {
	t.Helper()
	for from := l.LogStartOffset(); from < l.EndOffset(); from++ {
		var want []int64
		for _, base := range offsets {
			if base+1 >= from { // batches have two records
				want = append(want, base)
			}
		}
		if got := basesFrom(t, l, from); !slices.Equal(got, want) {
			t.Fatalf("%s: read from %d found the batches %v instead of %v", name, from, got, want)
		}
	}
	for _, base := range offsets {
		found, ok, err := l.OffsetForTimestamp(1000+base/2*10, l.EndOffset())
		if err != nil || !ok || found.Offset != base {
			t.Fatalf("%s: looked up the time of %d and found %+v, %v, %v", name, base, found, ok, err)
		}
	}
}

func TestCO11ARewrittenLogIsReadFromEveryOffsetAndTimeAlsoAfterARestart(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, rewriteConfig)
	fillForRewrite(t, l, 20)
	before, size := l.Segments(), l.Size()
	if len(before) < 5 {
		t.Fatalf("%d segments", len(before))
	}
	offsets, err := rewriteKeeping(t, l, 3, everyOther)
	if err != nil {
		t.Fatal(err)
	}
	offsets = append(offsets, basesFrom(t, l, l.Segments()[len(l.Segments())-1].BaseOffset)...)
	after := l.Segments()
	if len(after) != len(before)-2 || after[0].EndOffset != before[3].BaseOffset || !after[0].Sealed {
		t.Fatalf("segments %+v", after)
	}
	if after[0].FirstAppendedAt != before[0].FirstAppendedAt || after[0].LastAppendedAt != before[2].LastAppendedAt {
		t.Errorf("the append times are [%d, %d]", after[0].FirstAppendedAt, after[0].LastAppendedAt)
	}
	if want := size - before[0].Size - before[1].Size - before[2].Size + after[0].Size; l.Size() != want {
		t.Errorf("the log has %d bytes instead of %d", l.Size(), want)
	}
	checkRewritten(t, l, offsets, "in service")
	if _, err := l.OpenSegment(before[1].BaseOffset); err == nil {
		t.Error("a segment that was replaced can still be opened")
	}
	if err := l.SetCleanedOffset(before[3].BaseOffset); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, l = d.open(t, rewriteConfig)
	checkRewritten(t, l, offsets, "after a restart")
	if got := l.CleanedOffset(); got != before[3].BaseOffset {
		t.Errorf("cleaned up to %d instead of %d", got, before[3].BaseOffset)
	}
	if err := l.Truncate(after[0].EndOffset - 2); err != nil {
		t.Fatal(err)
	}
	if got := l.CleanedOffset(); got > l.EndOffset() {
		t.Errorf("cleaned up to %d of a log that ends at %d", got, l.EndOffset())
	}
	appendBatch(t, l, batchOf(2, 9000), 1, 9000)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestARewriteThatIsOvertakenChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		first    int // of the segments that are written anew, up to the third
		overtake func(l *Log) error
	}{
		"truncated": {0, func(l *Log) error { return l.Truncate(3) }},
		"expired": {0, func(l *Log) error {
			if err := l.MoveLogStart(l.Segments()[1].BaseOffset); err != nil {
				return err
			}
			_, err := l.MoveLocalStart(l.Segments()[1].BaseOffset, "test")
			return err
		}},
		// Not from the same segment on: both would write the same file. A log has one cleaner at a time.
		"rewritten by another": {1, func(l *Log) error {
			_, err := rewriteKeeping(t, l, 2, everyOther)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			m, l := d.open(t, rewriteConfig)
			fillForRewrite(t, l, 20)
			segments := l.Segments()
			w, err := l.Rewrite(segments[c.first].BaseOffset, segments[2].BaseOffset)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.overtake(l); err != nil {
				t.Fatal(err)
			}
			left := readAll(t, l, l.LogStartOffset())
			if err := w.Commit(); !errors.Is(err, ErrSegmentsChanged) {
				t.Errorf("commit: %v", err)
			}
			w.Abort()
			if got := readAll(t, l, l.LogStartOffset()); !slices.Equal(got, left) {
				t.Error("the log has changed")
			}
			checkNoLeftovers(t, d)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func checkNoLeftovers(t tb, d *disk) {
	t.Helper()
	names, err := d.fs.List(scenarioFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, cleanedSuffix) {
			t.Fatalf("%s is left over in %v", name, names)
		}
	}
}

// TestPowerCutAtAnyStepOfARewrite cuts the power before each operation of a rewrite: afterwards the log is the old one
// or the new one, and nothing is left over.
func TestPowerCutAtAnyStepOfARewrite(t *testing.T) {
	for seed := range 6 {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		mem, store := vfs.NewMem(), newMemoryStore()
		recorder := &crashRecorder{mem: mem, store: store, rng: rng, chance: 1}
		d := &disk{fs: vfs.NewFaulty(mem, recorder.see), store: store}
		m, l := d.open(t, rewriteConfig)
		fillForRewrite(t, l, 20)
		if err := m.checkpoint(); err != nil {
			t.Fatal(err)
		}
		old := basesFrom(t, l, 0)
		tail := basesFrom(t, l, l.Segments()[len(l.Segments())-1].BaseOffset)
		recorder.promise = func() promise { return promise{} }
		offsets, err := rewriteKeeping(t, l, 3, everyOther)
		if err != nil {
			t.Fatal(err)
		}
		recorder.off = true
		offsets = append(offsets, tail...)
		checkRewritten(t, l, offsets, "without a crash")
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if len(recorder.points) < 10 {
			t.Fatalf("only %d operations were seen", len(recorder.points))
		}
		finished := 0
		for _, point := range recorder.points {
			name := fmt.Sprintf("seed %d %s", seed, point.name)
			m, result := point.disk.start(t, rewriteConfig)
			if len(result.Offline) > 0 {
				t.Fatalf("%s: offline: %v", name, result.Offline[0].Err)
			}
			l := m.Logs()[0]
			if got := basesFrom(t, l, 0); slices.Equal(got, old) {
				checkRewritten(t, l, old, name)
			} else {
				finished++
				checkRewritten(t, l, offsets, name)
			}
			checkNoLeftovers(t, point.disk)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if finished == 0 || finished == len(recorder.points) {
			t.Errorf("seed %d: %d of %d power cuts left the new segment", seed, finished, len(recorder.points))
		}
	}
}

// TestFailureAtAnyStepOfARewrite injects an error at each operation: the log goes on with the old segments or the new
// one, or it is offline and the next start makes it whole. A full disk alone takes nothing offline.
func TestFailureAtAnyStepOfARewrite(t *testing.T) {
	for name, failed := range map[string]error{"a failing disk": syscall.EIO, "a full disk": syscall.ENOSPC} {
		t.Run(name, func(t *testing.T) { failAtAnyStepOfARewrite(t, failed) })
	}
}

func failAtAnyStepOfARewrite(t *testing.T, failed error) {
	for failing := 0; ; failing++ {
		mem, store := vfs.NewMem(), newMemoryStore()
		armed, seen := false, 0
		var struck vfs.Kind
		d := &disk{store: store, fs: vfs.NewFaulty(mem, func(op vfs.Op) error {
			if !armed || !op.Kind.Changes() {
				return nil
			}
			if seen++; seen == failing+1 {
				struck = op.Kind
				return failed
			}
			return nil
		})}
		m, l := d.open(t, rewriteConfig)
		fillForRewrite(t, l, 20)
		old := basesFrom(t, l, 0)
		armed = true
		_, err := rewriteKeeping(t, l, 3, everyOther)
		armed = false
		if seen <= failing {
			if failing < 10 {
				t.Fatalf("only %d operations were seen", failing)
			}
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		switch struck {
		case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncData:
			if offline := l.Err(); failed == syscall.ENOSPC && offline != nil {
				t.Fatalf("%s %d: %v", struck, failing, offline)
			}
		}
		_ = m.Close() // the log may be offline
		m, result := (&disk{fs: mem, store: store}).start(t, rewriteConfig)
		if len(result.Offline) > 0 {
			t.Fatalf("failure %d: offline after a restart: %v", failing, result.Offline[0].Err)
		}
		l = m.Logs()[0]
		var rewritten []int64
		for _, base := range old {
			if base >= l.Segments()[0].EndOffset || base/2%2 == 0 {
				rewritten = append(rewritten, base)
			}
		}
		if got := basesFrom(t, l, 0); !slices.Equal(got, old) && !slices.Equal(got, rewritten) {
			t.Fatalf("failure %d: %v is neither %v nor %v", failing, got, old, rewritten)
		}
		checkNoLeftovers(t, d)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadersOfAReplacedSegmentFinish holds a region of an old segment across the swap.
func TestReadersOfAReplacedSegmentFinish(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, rewriteConfig)
	fillForRewrite(t, l, 20)
	held, err := l.Read(ReadRequest{Offset: 2, MaxBytes: 1000, UpTo: l.EndOffset()})
	if err != nil {
		t.Fatal(err)
	}
	before := regionBytes(t, held.Region)
	r, err := l.OpenSegment(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := rewriteKeeping(t, l, 2, everyOther); err != nil {
		t.Fatal(err)
	}
	if after := regionBytes(t, held.Region); !slices.Equal(before, after) {
		t.Error("a reader of the old segment sees other bytes")
	}
	batch, err := r.Next()
	if err != nil || batch.BaseOffset() != 2 {
		t.Errorf("a walk over the old segment: %v", err)
	}
	held.Region.Release()
	r.Close()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedSegmentIsNotRewritten(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, rewriteConfig)
	fillForRewrite(t, l, 20)
	file, err := d.fs.OpenReadWrite(segmentPath(scenarioFolder, 0, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{0xff}, 80); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var corrupt *CorruptError
	if _, err := rewriteKeeping(t, l, 2, everyOther); !errors.As(err, &corrupt) {
		t.Errorf("the walk: %v", err)
	}
	if _, err := l.Rewrite(0, l.Segments()[1].BaseOffset); !errors.As(err, &corrupt) {
		t.Errorf("the second attempt: %v", err)
	}
	checkNoLeftovers(t, d)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
