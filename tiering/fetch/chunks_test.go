package fetch

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

func TestManyReadersOfAChunkShareOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(3)
		r.delay = 100 * time.Millisecond
		reader := r.reader()
		var wait sync.WaitGroup
		for i := range 50 {
			wait.Go(func() {
				result, err := r.read(reader, int64(i%30), mib/2)
				if err != nil || len(result.Data) == 0 {
					t.Errorf("%d bytes, %v", len(result.Data), err)
					return
				}
				result.Release()
			})
		}
		wait.Wait()
		if got := r.requests(); !slices.Equal(got, []string{"0 tail", "0 chunk 0"}) {
			t.Errorf("%q", got)
		}
		if r.listed != 1 {
			t.Errorf("the manifest was decoded %d times", r.listed)
		}
		if held := r.metric("firn_tier_fetch_held_bytes"); held != 0 {
			t.Errorf("%v bytes are held by nobody", held)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		for range 2 {
			r.bigSegment(40)
		}
		const limit = 32 * mib
		reader := r.reader(func(o *Options) { o.MemoryBytes, o.ReadAheadBytes = limit, 32*mib })
		r.delay = 10 * time.Millisecond
		var wait sync.WaitGroup
		for i := range 8 { // eight readers at different places
			wait.Go(func() {
				for offset := int64(100 * i); offset < int64(100*i+90); {
					result, err := r.read(reader, offset, 2*mib)
					if err != nil {
						t.Error(err)
						return
					}
					offset = result.NextOffset
					reader.chunks.mu.Lock()
					bytes, ahead := reader.chunks.bytes, reader.chunks.aheadBytes
					reader.chunks.mu.Unlock()
					if bytes > limit*7/8 || ahead > limit/2 {
						t.Errorf("%d bytes of chunks, %d of them read ahead", bytes, ahead)
					}
					result.Release()
				}
			})
		}
		wait.Wait()
		synctest.Wait() // for what is read ahead
		reader.chunks.mu.Lock()
		defer reader.chunks.mu.Unlock()
		var sum int64
		for _, known := range reader.chunks.known {
			sum += known.size
		}
		if sum != reader.chunks.bytes {
			t.Errorf("%d bytes are in the books, %d in the cache", reader.chunks.bytes, sum)
		}
		if r.mostGet > 7 { // 28 MiB for chunks of 4 MiB
			t.Errorf("%d requests at a time", r.mostGet)
		}
	})
}

// Data stays what it is while it is held, however much is read meanwhile.

// Demand goes first: who waits for an answer does not wait for what is only read ahead.

func TestAChunkThatArrivesDamagedIsAskedForOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(3)
		reader := r.reader()
		r.tail(reader, 0)
		r.damage = 1
		result, err := r.read(reader, 0, 1)
		must(t, err)
		if !bytes.HasPrefix(r.data[0], result.Data) {
			t.Error("damaged data was answered")
		}
		result.Release()
		if got := r.requests(); !slices.Equal(got, []string{"0 tail", "0 chunk 0", "0 chunk 0"}) {
			t.Errorf("%q", got)
		}
	})
}

func TestAnObjectThatStaysDamagedIsAnErrorAndNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		r.bigSegment(3)
		reader := r.reader()
		r.tail(reader, 0)
		r.damage = 2
		if _, err := r.read(reader, 0, mib); kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Errorf("%v", err)
		}
		if corrupt := r.metric("firn_tier_corrupt_objects_total"); corrupt != 1 {
			t.Errorf("%v corrupt objects", corrupt)
		}
		result, err := r.read(reader, 0, mib) // it was the network after all
		must(t, err)
		result.Release()
	})
}

// A scan of many segments does not fill the memory with their tails.

// Whoever finds no room holds nothing, not even for the moment until he knows: who came then was let in for nothing, and
// gave back what nobody had taken.
func TestAnswersOfAChunkHoldItsMemoryOnce(t *testing.T) {
	r := newRemote(t)
	const room = 16 * mib
	reader := r.reader(func(o *Options) { o.MemoryBytes = room })
	in := &chunk{size: 4 * mib}
	free := func() int64 {
		left := int64(0)
		for ; reader.answers.TryAcquire(mib); left++ {
		}
		reader.answers.Release(left * mib)
		return left * mib
	}
	if !reader.answers.TryAcquire(14 * mib) {
		t.Fatal("there is no room at the start")
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 50_000 {
				if reader.chunks.answer(in, false) {
					t.Error("there is room where there is none")
					return
				}
			}
		})
	}
	wait.Wait()
	reader.answers.Release(14 * mib)
	for range 2 {
		if !reader.chunks.answer(in, false) {
			t.Error("there is no room where there is some")
		}
	}
	if left := free(); left != room-4*mib {
		t.Errorf("%d of %d bytes are free while a chunk is sent twice", left, room)
	}
	for range 2 {
		reader.letGo(reader.chunks.sent(in))
	}
	if left := free(); left != room || r.metric("firn_tier_fetch_held_bytes") != 0 {
		t.Errorf("%d of %d bytes are free in the end", left, room)
	}
}
