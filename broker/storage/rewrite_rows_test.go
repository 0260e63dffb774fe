package storage

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/firnlog/firn/broker/record"
)

// TestARewriteKeepsTheRowsItIsTold writes segments with aborted transactions anew: of the rows of their transaction
// indexes those are left that were kept, in service and after a restart.
func TestARewriteKeepsTheRowsItIsTold(t *testing.T) {
	for name, kept := range map[string][]int{"all": {0, 1, 2}, "some": {1}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			m, l := d.open(t, rewriteConfig)
			for producer := range int64(3) {
				data := batchOf(2, 1000, func(o *record.BuilderOptions) {
					o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = producer, 0, 0, true
				})
				appendTransactional(t, l, data, 1)
				marker := record.NewEndMarker(producer, 0, 1000, record.EndMarker{Type: record.Abort})
				appendTransactional(t, l, marker, 1)
			}
			markersEnd := l.EndOffset()
			fillForRewrite(t, l, 8)
			rows, err := l.AbortedTransactions(0, l.EndOffset())
			if err != nil || len(rows) != 3 {
				t.Fatalf("%v, %v", rows, err)
			}
			segments := l.Segments()
			last := slices.IndexFunc(segments, func(s SegmentInfo) bool { return s.BaseOffset >= markersEnd })
			var want []AbortedTransaction
			for _, row := range kept {
				want = append(want, rows[row])
			}
			rewriteWithRows(t, l, segments[:last], segments[last].BaseOffset, want)
			if got, err := l.AbortedTransactions(0, l.EndOffset()); err != nil || !slices.Equal(got, want) {
				t.Errorf("in service: %v, %v; want %v", got, err, want)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			m, l = d.open(t, rewriteConfig)
			if got, err := l.AbortedTransactions(0, l.EndOffset()); err != nil || !slices.Equal(got, want) {
				t.Errorf("after a restart: %v, %v; want %v", got, err, want)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// rewriteWithRows makes one segment of some, with all batches and these rows of the transaction index.
func rewriteWithRows(t tb, l *Log, segments []SegmentInfo, endBase int64, rows []AbortedTransaction) {
	t.Helper()
	w, err := l.Rewrite(segments[0].BaseOffset, endBase)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, segment := range segments {
		r, err := l.OpenSegment(segment.BaseOffset)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for {
			batch, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Append(batch); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, row := range rows {
		w.KeepAborted(row)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestReadersOfAnExpiredSegmentFinish holds a region of a segment, and walks over another, while retention removes them:
// their files have no names any more, and the readers get what was in them.
func TestReadersOfAnExpiredSegmentFinish(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, rewriteConfig)
	fillForRewrite(t, l, 20)
	held, err := l.Read(ReadRequest{Offset: 2, MaxBytes: 1000, UpTo: l.EndOffset()})
	if err != nil {
		t.Fatal(err)
	}
	before := regionBytes(t, held.Region)
	second := l.Segments()[1].BaseOffset
	r, err := l.OpenSegment(second)
	if err != nil {
		t.Fatal(err)
	}
	start := l.Segments()[3].BaseOffset
	if err := l.MoveLogStart(start); err != nil {
		t.Fatal(err)
	}
	if _, err := l.MoveLocalStart(start, "test"); err != nil {
		t.Fatal(err)
	}
	for _, base := range []int64{0, second} {
		if _, err := d.fs.Stat(segmentPath(scenarioFolder, base, logSuffix)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("segment %d is still there: %v", base, err)
		}
	}
	if after := regionBytes(t, held.Region); !slices.Equal(before, after) || len(before) == 0 {
		t.Error("a reader of the expired segment sees other bytes")
	}
	if batch, err := r.Next(); err != nil || batch.BaseOffset() != second {
		t.Errorf("a walk over an expired segment: %v", err)
	}
	held.Region.Release()
	r.Close()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
