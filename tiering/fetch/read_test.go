package fetch

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// bigSegment adds a segment of so many batches of about 1 MiB, ten records each.
func (r *remote) bigSegment(batches int) {
	r.t.Helper()
	var all []record.Batch
	for i := range batches {
		all = append(all, batchOf(10, mib, r.next+int64(10*i)))
	}
	r.add(0, all...)
}

func TestAReaderThatGoesOnInOrderIsReadAheadOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(40) // eleven chunks
		r.bigSegment(20)
		reader := r.reader(func(o *Options) { o.ReadAheadBytes = 16 * mib })
		var got []string
		left := slices.Clone(r.data) // what is still to come, by segment
		offset := int64(0)
		asked := map[string]bool{}
		for offset < 600 {
			result, err := r.read(reader, offset, mib+mib/2)
			must(t, err)
			synctest.Wait() // what is read ahead arrives
			for _, request := range r.requests() {
				if asked[request] {
					t.Errorf("%s was asked for twice", request)
				}
				asked[request] = true
			}
			if offset == 0 || offset == 10 || offset == 40 || offset == 80 || offset == 120 {
				got = append(got, strings.Join(chunksOf(asked), " "))
			}
			offset = result.NextOffset
			if len(left[0]) == 0 {
				left = left[1:]
			}
			if !bytes.HasPrefix(left[0], result.Data) {
				t.Fatalf("what was read up to %d is not what was written", offset)
			}
			left[0] = left[0][len(result.Data):]
			result.Release()
		}
		want := []string{
			"0/0",                         // a first read may be the only one
			"0/0 0/1",                     // going on in it: one chunk ahead
			"0/0 0/1 0/2 0/3",             // two chunks ahead in the next one
			"0/0 0/1 0/2 0/3 0/4 0/5 0/6", // four
			"0/0 0/1 0/2 0/3 0/4 0/5 0/6 0/7",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if len(asked) != 2+11+6 {
			t.Errorf("%d requests in all", len(asked))
		}
		if wasted := r.metric("firn_tier_fetch_chunks_wasted_total"); wasted != 0 {
			t.Errorf("%v chunks were read ahead for nothing", wasted)
		}
	})
}

// chunksOf lists chunks as segment/chunk.
func chunksOf(asked map[string]bool) []string {
	var out []string
	for request := range asked {
		if name, chunk, found := strings.Cut(request, " chunk "); found {
			out = append(out, name+"/"+chunk)
		}
	}
	slices.Sort(out)
	return out
}

func TestAReaderThatSeeksIsNotReadAheadOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(40)
		reader := r.reader()
		for _, offset := range []int64{10, 220, 100, 330} {
			result, err := r.read(reader, offset, mib/2)
			must(t, err)
			result.Release()
		}
		synctest.Wait()
		if got := r.requests(); len(got) != 5 {
			t.Errorf("%q", got)
		}
	})
}

// A consumer whose answer came too late for it asks for the same offset again.
func TestAReaderThatAsksAgainIsTheSameReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(40)
		reader := r.reader()
		for _, offset := range []int64{0, 0, 0, 10, 10, 10} {
			result, err := r.read(reader, offset, mib)
			must(t, err)
			result.Release()
			synctest.Wait()
		}
		if got := r.requests(); !slices.Equal(got, []string{"0 tail", "0 chunk 0", "0 chunk 1"}) {
			t.Errorf("%q", got)
		}
	})
}

func TestHeldDataOutlivesItsChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(40)
		reader := r.reader(func(o *Options) { o.MemoryBytes, o.ReadAheadBytes = 10*mib, 0 })
		first, err := r.read(reader, 0, mib)
		must(t, err)
		before := checksum(first.Data)
		for offset := int64(50); offset < 400; offset += 40 {
			result, err := r.read(reader, offset, mib)
			must(t, err)
			result.Release()
		}
		if reader.chunks.peek(&object{reader: reader, entry: r.entries[0]}, 0) != nil {
			t.Error("the first chunk is still there")
		}
		if checksum(first.Data) != before || !bytes.HasPrefix(r.data[0], first.Data) {
			t.Error("held data has changed")
		}
		first.Release()
		if held := r.metric("firn_tier_fetch_held_bytes"); held != 0 {
			t.Errorf("%v bytes are held by nobody", held)
		}
	})
}

// What clients do not take stays in memory: many of them on a slow bucket hold no more than the setting allows, get on
// as soon as something is given back, and are told to ask again if nothing is. Answers out of one chunk hold it once.
func TestAnswersThatAreNotGivenBackAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(40)
		r.delay = time.Second // the bucket is slow
		const limit = 16 * mib
		reader := r.reader(func(o *Options) { o.MemoryBytes, o.ReadAheadBytes = limit, 0 })
		var answers []<-chan answer
		for i := range int64(40) {
			answers = append(answers, startRead(context.Background(), reader, storage.RemoteReadRequest{
				Offset: i * 10, MaxBytes: mib, AtLeastOne: true, UpTo: 400,
			}))
		}
		var held []storage.RemoteReadResult
		refused := 0
		collect := func() {
			if got := r.metric("firn_tier_fetch_held_bytes"); got > limit {
				t.Errorf("%v bytes are held", got)
			}
			waiting := answers[:0]
			for _, one := range answers {
				select {
				case got := <-one:
					if got.err == nil {
						held = append(held, got.result)
						continue
					}
					refused++
					if !kafka.CodeOf(got.err).Retriable() || !strings.Contains(got.err.Error(), "firn.tier.fetch.memory.bytes") {
						t.Error(got.err)
					}
				default:
					waiting = append(waiting, one)
				}
			}
			answers = waiting
		}
		time.Sleep(8 * time.Second)
		collect()
		first := len(held)
		if first <= limit/maxChunkBytes || refused > 0 {
			t.Errorf("%d reads were answered and %d refused before anything was given back", first, refused)
		}
		for _, result := range held { // so that others get on
			result.Release()
		}
		held = nil
		time.Sleep(15 * time.Second)
		collect()
		if len(held) == 0 || refused == 0 || first+len(held)+refused != 40 {
			t.Errorf("%d and then %d reads were answered, %d refused", first, len(held), refused)
		}
		for _, result := range held {
			result.Release()
		}
		if held := r.metric("firn_tier_fetch_held_bytes"); held != 0 {
			t.Errorf("%v bytes are held by nobody", held)
		}
		result, err := r.read(reader, 0, mib)
		must(t, err)
		result.Release()
	})
}

// TI-23: a client that has gone is no error, and what it asked for is not thrown away.
func TestTI23WhoLeavesIsNoErrorAndTheDownloadIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(3)
		r.delay = 10 * time.Second
		reader := r.reader()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		got := <-startRead(ctx, reader, storage.RemoteReadRequest{Offset: 0, MaxBytes: mib, AtLeastOne: true, UpTo: 30})
		if !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("%v", got.err)
		}
		time.Sleep(30 * time.Second)
		begun := time.Now()
		result, err := r.read(reader, 0, mib)
		must(t, err)
		result.Release()
		if waited := time.Since(begun); waited > 10*time.Second {
			t.Errorf("the second reader waits for %v", waited)
		}
		if errs := r.metric("kafka_server_brokertopicmetrics_remotefetcherrors_total"); errs != 0 {
			t.Errorf("%v errors", errs)
		}
		if got := r.requests(); !slices.Equal(got, []string{"0 tail", "0 chunk 0"}) {
			t.Errorf("%q", got)
		}
	})
}

func TestTooManyReadsAreRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(1)
		r.delay = time.Second
		reader := r.reader(func(o *Options) { o.Concurrency, o.Queue = 1, 2 })
		req := storage.RemoteReadRequest{Offset: 0, MaxBytes: mib, AtLeastOne: true, UpTo: 10}
		var answers []<-chan answer
		for range 5 {
			answers = append(answers, startRead(context.Background(), reader, req))
		}
		refused := 0
		for _, done := range answers {
			if got := <-done; got.err != nil {
				refused++
				if code := kafka.CodeOf(got.err); !code.Retriable() || code == kafka.OffsetOutOfRange {
					t.Errorf("%v", got.err)
				}
			} else {
				got.result.Release()
			}
		}
		if refused != 2 {
			t.Errorf("%d of 5 reads were refused", refused)
		}
	})
}

func TestReadingAheadDoesNotDelayWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(60)
		r.bigSegment(3)
		reader := r.reader(func(o *Options) { o.Concurrency = 1 })
		for _, offset := range []int64{0, 10, 40, 80} { // 28 MiB are to be read ahead
			result, err := r.read(reader, offset, mib)
			must(t, err)
			result.Release()
			if offset == 40 {
				r.mu.Lock()
				r.delay = time.Second // from here on the store is slow
				r.mu.Unlock()
			}
		}
		begun := time.Now()
		result, err := r.read(reader, 600, mib)
		must(t, err)
		result.Release()
		// One request is under way; then come the tail and the chunk.
		if waited := time.Since(begun); waited > 3*time.Second {
			t.Errorf("it takes %v", waited)
		}
	})
}

// TI-04: behind the last batch of a segment the next segment goes on, at last the local log.
func TestTI04AHoleAtTheEndOfASegmentIsCrossed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.add(5, batchOf(3, 300, 0)) // [0, 3), answers for [0, 8)
		r.add(0, batchOf(3, 300, 8)) // [8, 11)
		r.add(4)                     // [11, 15): nothing at all
		r.add(2, batchOf(1, 100, 15))
		reader := r.reader()
		for offset, want := range map[int64]int64{0: 0, 2: 0, 3: 8, 7: 8, 8: 8, 11: 15, 14: 15} {
			result, err := r.read(reader, offset, 1)
			must(t, err)
			if result.FirstOffset != want || len(result.Data) == 0 {
				t.Errorf("offset %d: batch %d, %d bytes", offset, result.FirstOffset, len(result.Data))
			}
			result.Release()
		}
		r.local = localLog(t, 18)
		r.next = 20
		result, err := r.read(reader, 16, mib)
		must(t, err)
		if result.FirstOffset != 18 || result.NextOffset != 20 || result.Size() == 0 {
			t.Errorf("[%d, %d), %d bytes of the local log", result.FirstOffset, result.NextOffset, result.Size())
		}
		result.Release()
		// Nothing is committed there yet.
		got := <-startRead(context.Background(), reader,
			storage.RemoteReadRequest{Offset: 17, MaxBytes: 1, AtLeastOne: true, UpTo: 18})
		if must(t, got.err); len(got.result.Data) != 0 || got.result.NextOffset != 17 {
			t.Errorf("%+v", got.result)
		}
		got.result.Release()
	})
}

func TestOnlyBelowTheStartIsAnOffsetOutOfRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(1)
		r.bigSegment(1)
		reader := r.reader()
		code := func(offset int64) kafka.Errno {
			result, err := r.read(reader, offset, 1)
			if err == nil {
				result.Release()
			}
			return kafka.CodeOf(err)
		}
		r.advance(12)
		for offset, want := range map[int64]kafka.Errno{
			0: kafka.OffsetOutOfRange, 11: kafka.OffsetOutOfRange, 12: kafka.None,
		} {
			if got := code(offset); got != want {
				t.Errorf("offset %d: %v", offset, got)
			}
		}
		r.next = 40
		if got := code(25); got != kafka.KafkaStorageError { // not remote, although somebody thinks so
			t.Errorf("past the end: %v", got)
		}
		got := make(chan error, 1)
		reader.StartRead(context.Background(), kafka.TopicIDPartition{ID: kafka.TopicID{9}},
			storage.RemoteReadRequest{UpTo: 1}, func(_ storage.RemoteReadResult, err error) { got <- err })
		if code := kafka.CodeOf(<-got); code != kafka.NotLeaderOrFollower {
			t.Errorf("an unknown partition: %v", code)
		}
	})
}

// TI-01: retention is faster than a reader. The object is gone, and so is the offset.
func TestTI01AnObjectRemovedUnderAReaderIsLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(1)
		r.bigSegment(1)
		reader := r.reader()
		key := segment.KeyOf(cluster, tp, r.entries[0]).String()
		r.onGet = func() {
			r.onGet = nil
			r.advance(10)
			must(t, r.bucket.Delete(context.Background(), key))
		}
		if _, err := r.read(reader, 5, 1); kafka.CodeOf(err) != kafka.OffsetOutOfRange {
			t.Errorf("%v", err)
		}
		if missing := r.metric("firn_tier_missing_objects_total"); missing != 0 {
			t.Errorf("%v objects are missing", missing)
		}
		must(t, r.bucket.Delete(context.Background(), segment.KeyOf(cluster, tp, r.entries[0]).String()))
		if _, err := r.read(reader, 15, 1); kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Errorf("%v", err)
		}
		if missing := r.metric("firn_tier_missing_objects_total"); missing != 1 {
			t.Errorf("%v objects are missing", missing)
		}
	})
}

func TestAnOutageIsRetriable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(1)
		reader := r.reader()
		r.refuse = &objectstore.Error{Operation: objectstore.OpGet, Kind: objectstore.ErrUnavailable, Status: "503"}
		if _, err := r.read(reader, 0, 1); kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Errorf("%v", err)
		}
		r.refuse = nil
		r.tail(reader, 0)
		r.refuse = &objectstore.Error{Operation: objectstore.OpGet, Kind: objectstore.ErrUnavailable, Status: "503"}
		if _, err := r.read(reader, 0, 1); kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Errorf("%v", err)
		}
		if reader.chunks.bytes != 0 || len(reader.chunks.known) != 0 {
			t.Errorf("a failed download leaves %d bytes in the books", reader.chunks.bytes)
		}
		r.refuse = nil
		result, err := r.read(reader, 0, 1)
		must(t, err)
		result.Release()
	})
}

func TestTailsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		for i := range int64(20) {
			r.add(0, batchOf(1, 1000, i))
		}
		reader := r.reader(func(o *Options) { o.MemoryBytes = 8 * 5 * int64(r.entries[19].TailBytes) })
		for i := range 20 {
			r.tail(reader, i)
		}
		if len(reader.tails.known) != 5 || reader.tails.used.Len() != 5 || reader.tails.bytes > reader.tails.limit {
			t.Errorf("%d tails, %d bytes", len(reader.tails.known), reader.tails.bytes)
		}
		r.requests()
		r.tail(reader, 15) // the oldest that is there, and now the newest
		r.tail(reader, 14)
		r.tail(reader, 15)
		r.tail(reader, 16)
		if got := r.requests(); !slices.Equal(got, []string{"14 tail", "16 tail"}) {
			t.Errorf("%q", got)
		}
	})
}

// TI-10: a reader of one segment asks for that one's tail, however many there are behind it, and for none twice.
func TestTI10OnlySegmentsThatAreReadAreLookedInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		for i := range int64(200) {
			r.add(0, batchOf(2, 300, 2*i), batchOf(2, 300, 2*i))
		}
		reader := r.reader(func(o *Options) { o.ReadAheadBytes = 0 })
		for range 3 {
			for offset := int64(100); offset < 104; {
				result, err := r.read(reader, offset, 1)
				must(t, err)
				if len(result.Aborted) != 0 {
					t.Errorf("nothing was aborted, and offset %d is told of %v", offset, result.Aborted)
				}
				offset = result.NextOffset
				result.Release()
			}
		}
		if got := r.requests(); !slices.Equal(got, []string{"25 tail", "25 chunk 0"}) {
			t.Errorf("%q", got)
		}
	})
}
