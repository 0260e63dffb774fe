package fetch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/storage"
)

// farStore is a store across a network: each request waits, and all answers together have a rate.
type farStore struct {
	*remote
	delay          time.Duration
	bytesPerSecond int64

	mu   sync.Mutex // guards the field below
	free time.Time  // when the network is free again
}

func (f *farStore) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	f.mu.Lock()
	now := time.Now()
	begin := now.Add(f.delay)
	if f.free.After(begin) {
		begin = f.free
	}
	f.free = begin.Add(time.Duration(int64(len(dst)) * int64(time.Second) / f.bytesPerSecond))
	until := f.free
	f.mu.Unlock()
	time.Sleep(until.Sub(now))
	return f.remote.Get(ctx, key, offset, dst)
}

// Readers in order, each in a part of its own, get together what the store gives, although the memory has no room for
// what all of them would like to have read ahead; nearly nothing is asked for twice, and none of them is left behind.
func TestTI26ManyReadersTogetherAreAsFastAsTheStore(t *testing.T) {
	for _, readers := range []int{1, 8, 20, 40} {
		synctest.Test(t, func(t *testing.T) {
			r := newRemote(t)
			const segmentMiB = 8
			segments := max(readers, 4)
			for range segments {
				r.bigSegment(segmentMiB)
			}
			far := &farStore{remote: r, delay: 30 * time.Millisecond, bytesPerSecond: 200e6}
			reader := r.reader(func(o *Options) { o.Bucket, o.MemoryBytes = far, 64*mib })
			begun := time.Now()
			var wait sync.WaitGroup
			var first, last time.Duration
			var mu sync.Mutex
			each := int64(segments / readers * segmentMiB * 10)
			for i := range int64(readers) {
				wait.Go(func() {
					for offset := i * each; offset < (i+1)*each; {
						got := <-startRead(context.Background(), reader, storage.RemoteReadRequest{
							Offset: offset, MaxBytes: mib + mib/4, AtLeastOne: true, UpTo: r.next,
						})
						if got.err != nil {
							t.Error(got.err)
							return
						}
						time.Sleep(time.Millisecond) // it goes to the client, which asks again
						offset = got.result.NextOffset
						got.result.Release()
					}
					mu.Lock()
					defer mu.Unlock()
					if first == 0 {
						first = time.Since(begun)
					}
					last = time.Since(begun)
				})
			}
			wait.Wait()
			synctest.Wait()
			took := time.Since(begun)
			total := 0
			for _, data := range r.data {
				total += len(data)
			}
			least := time.Duration(total) * time.Second / 200e6
			gets, chunks := r.chunkGets(t), segments*(segmentMiB/4+1) // what is in batches is a little more
			t.Logf("%d readers: %v instead of %v, %d requests for %d chunks", readers, took, least, gets, chunks)
			if took > 2*least+200*time.Millisecond { // beside the beginning
				t.Errorf("%d readers take %v, the store would take %v", readers, took, least)
			}
			if gets > chunks*5/4 {
				t.Errorf("%d readers ask %d times for %d chunks", readers, gets, chunks)
			}
			if first < last/2 {
				t.Errorf("the first of %d readers is done after %v, the last after %v", readers, first, last)
			}
		})
	}
}

// What was read ahead of consumers that have left stays for a while, and then is in nobody's way: the next one has as
// much read ahead as the first.
func TestWhatWasReadAheadOfOthersIsNotInTheWayForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		for range 30 {
			r.bigSegment(8)
		}
		far := &farStore{remote: r, delay: 30 * time.Millisecond, bytesPerSecond: 200e6}
		reader := r.reader(func(o *Options) { o.Bucket, o.MemoryBytes, o.ReadAheadBytes = far, 64*mib, 16*mib })
		consume := func(from, to int64) time.Duration {
			begun := time.Now()
			for offset := from; offset < to; {
				got := <-startRead(context.Background(), reader, storage.RemoteReadRequest{
					Offset: offset, MaxBytes: mib + mib/4, AtLeastOne: true, UpTo: r.next,
				})
				must(t, got.err)
				offset = got.result.NextOffset
				got.result.Release()
			}
			return time.Since(begun)
		}
		alone := consume(0, 600)
		for from := int64(1200); from < 2000; from += 200 { // none of them comes to what is read ahead of it
			consume(from, from+100)
		}
		time.Sleep(aheadFor)
		if took := consume(0, 600); took > alone*5/4 {
			t.Errorf("it takes %v, the first one took %v", took, alone)
		}
	})
}
