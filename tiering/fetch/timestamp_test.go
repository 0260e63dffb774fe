package fetch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

// TI-07: with thousands of segments a look-up by time reads one of them, or none.
func TestTI07ALookUpByTimeReadsOneSegmentAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		for i := range int64(4000) {
			r.add(0, batchOf(1, 10, 10*i))
		}
		r.delay = 100 * time.Millisecond
		reader := r.reader()
		begun := time.Now()
		for _, c := range []struct {
			timestamp int64
			want      int64 // −1: none
			requests  []string
		}{
			{39_991, -1, nil},
			{20_000, 2000, []string{"2000 tail", "2000 chunk 0"}},
			{19_991, 2000, nil}, // between two records
			{0, 0, []string{"0 tail", "0 chunk 0"}},
		} {
			found, ok, err := reader.OffsetForTimestamp(context.Background(), tp, c.timestamp)
			must(t, err)
			if ok != (c.want >= 0) || ok && found.Offset != c.want {
				t.Errorf("time %d: %+v, %v", c.timestamp, found, ok)
			}
			if ok && found.Epoch != kafka.LeaderEpoch(c.want) { // each segment has an epoch of its own
				t.Errorf("time %d: epoch %d", c.timestamp, found.Epoch)
			}
			if got := r.requests(); !slices.Equal(got, c.requests) {
				t.Errorf("time %d: %q", c.timestamp, got)
			}
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// The largest timestamp is in the manifest, unless the log start has cut its record off.
func TestTheLargestTimestampIsReadOnlyWhereTheLogStartCutsASegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		builder := record.NewBuilder(record.PlainProducer())
		for _, timestamp := range []int64{5, 90, 30, 40, 40} {
			builder.Append(timestamp, nil, []byte("value"))
		}
		r.add(0, builder.Build(), batchOf(2, 10, 35))
		r.add(0, batchOf(3, 10, 10))
		reader := r.reader()
		for _, c := range []struct{ start, offset, timestamp int64 }{
			{0, 1, 90}, {1, 1, 90}, {2, 3, 40}, {4, 4, 40}, {5, 6, 36}, {7, 9, 12}, {9, 9, 12},
		} {
			r.advance(c.start)
			found, ok, err := reader.MaxTimestamp(context.Background(), tp)
			must(t, err)
			if !ok || found.Offset != c.offset || found.Timestamp != c.timestamp {
				t.Errorf("from %d on: %+v, %v", c.start, found, ok)
			}
			if asked := len(r.requests()) > 0; asked != (c.start == 2) { // once; then it is in memory
				t.Errorf("from %d on: the bucket is asked: %v", c.start, asked)
			}
		}
		r.advance(10)
		if found, ok, err := reader.MaxTimestamp(context.Background(), tp); ok || err != nil {
			t.Errorf("of nothing: %+v, %v", found, err)
		}
	})
}

// TI-26: reads of many segments (or partitions) run beside each other.
func TestTI26ColdReadsRunBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		for i := range int64(50) {
			r.add(0, batchOf(1, 1000, i))
		}
		r.delay = 100 * time.Millisecond
		reader := r.reader()
		begun := time.Now()
		var wait sync.WaitGroup
		for i := range int64(50) {
			wait.Go(func() {
				result, err := r.read(reader, i, mib)
				if err != nil {
					t.Error(err)
					return
				}
				result.Release()
			})
		}
		wait.Wait()
		if took := time.Since(begun); took > 1100*time.Millisecond { // 100 requests, ten at a time
			t.Errorf("fifty reads take %v", took)
		}
		if r.mostGet != 10 {
			t.Errorf("%d requests at a time", r.mostGet)
		}
	})
}

func TestALookUpEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.add(0, batchOf(1, 10, 5))
		r.delay = time.Hour
		reader := r.reader()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, _, err := reader.OffsetForTimestamp(ctx, tp, 1); err != context.DeadlineExceeded {
			t.Errorf("%v", err)
		}
	})
}

func TestAReaderThatDoesNotRunRefuses(t *testing.T) {
	r := newRemote(t)
	r.add(0, batchOf(1, 10, 5))
	reader := New(Options{Metadata: r, Bucket: r, MemoryBytes: mib})
	got := <-startRead(context.Background(), reader, storage.RemoteReadRequest{UpTo: 1})
	if kafka.CodeOf(got.err) != kafka.KafkaStorageError {
		t.Errorf("%v", got.err)
	}
}

func TestSlots(t *testing.T) {
	called := func(tickets ...*ticket) (which []bool) {
		for _, ticket := range tickets {
			select {
			case <-ticket.granted:
				which = append(which, true)
			default:
				which = append(which, false)
			}
		}
		return which
	}
	s := newSlots(1)
	running, ahead, later, urgent := s.enter(false), s.enter(false), s.enter(false), s.enter(true)
	gone := s.enter(true)
	s.urge(later)
	s.withdraw(gone)
	steps := [][]bool{
		{true, false, false, false}, {true, false, false, true}, {true, false, true, true}, {true, true, true, true},
	}
	for i, want := range steps {
		if got := called(running, ahead, later, urgent); !slices.Equal(got, want) {
			t.Errorf("step %d: %v", i, got)
		}
		s.leave()
	}
	if s.free != 1 {
		t.Errorf("%d free slots", s.free)
	}
	s.withdraw(s.enter(false)) // one that has been granted
	if s.free != 1 {
		t.Errorf("%d free slots", s.free)
	}
}

func TestTheNumberOfSlotsChangesWhileTheyAreTaken(t *testing.T) {
	s := newSlots(1)
	isIn := func(t *ticket) bool {
		select {
		case <-t.granted:
			return true
		default:
			return false
		}
	}
	first, second, third := s.enter(true), s.enter(false), s.enter(true)
	s.setCount(2)
	if !isIn(first) || isIn(second) || !isIn(third) {
		t.Error("a second slot goes to who is urgent")
	}
	s.setCount(1)
	s.leave()
	if isIn(second) {
		t.Error("one of two has left, and there is one slot for the other")
	}
	s.leave()
	if !isIn(second) {
		t.Error("both have left, and who waits is not let in")
	}
}
