package replica

import (
	"context"
	"slices"

	"github.com/firnlog/firn/broker/storage"
)

// startColdReads begins one read per cold partition. They run beside each other; each is bounded by the request.
func (f *Fetch) startColdReads(ctx context.Context, cold []coldRead) {
	if len(cold) == 0 {
		return
	}
	f.cold = make(map[*Partition]*pendingRead, len(cold))
	cold = slices.DeleteFunc(cold, func(read coldRead) bool {
		_, twice := f.cold[read.partition] // a request that lists one partition twice is answered once
		f.cold[read.partition] = &pendingRead{upTo: read.request.UpTo}
		return twice
	})
	for _, read := range cold {
		done := func(result storage.RemoteReadResult, err error) {
			f.coldDone(read.partition, result, err)
			f.check(read.partition)
		}
		if read.local {
			f.manager.cold.start(ctx, read, done)
		} else {
			f.manager.options.Remote.StartRead(ctx, read.partition.id, read.request, done)
		}
	}
}

// coldDone keeps the result of a read, or drops it when the answer has gone out without it: it is in memory, or in the
// cache, then, and the next poll finds it.
func (f *Fetch) coldDone(p *Partition, result storage.RemoteReadResult, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	read, wanted := f.cold[p]
	if !wanted {
		read = &pendingRead{result: result, err: err, done: true}
		read.release()
		return
	}
	read.result, read.err, read.done = result, err, true
}

// release gives back what the read has found.
func (r *pendingRead) release() {
	if r.done && r.err == nil {
		Hold(r.result.Release).Release()
	}
}

// abandonCold gives up the reads that are under way and returns what has been there until now.
func (f *Fetch) abandonCold() map[*Partition]*pendingRead {
	f.mu.Lock()
	defer f.mu.Unlock()
	cold := f.cold
	f.cold = nil
	return cold
}

// coldArrived tells whether any read has ended: those that are still under way are served by the next poll from the
// cache, as a reader that fell behind on many partitions should not wait for the slowest. A reader who stands in a hole
// that reaches to the end of what it may read got nothing: it waits like any other at the end of a log, until cold, as
// of now, says that it may read more.
func (f *Fetch) coldArrived(cold []coldRead) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, read := range f.cold {
		if read.done && (read.err != nil || read.result.Size() > 0) {
			return true
		}
	}
	for _, now := range cold {
		if read, ok := f.cold[now.partition]; ok && read.done && now.request.UpTo > read.upTo {
			return true
		}
	}
	return false
}

// addCold puts what has arrived into the results, as long as the bounds allow it, and gives up the rest.
func (f *Fetch) addCold(results []FetchResult) {
	cold := f.abandonCold()
	left := f.params.MaxBytes
	empty := true
	for i := range results {
		left -= results[i].Size()
		empty = empty && results[i].Size() == 0
	}
	for i := range results {
		read, ok := cold[f.partitions[i].Partition]
		if !ok || !read.done {
			continue
		}
		delete(cold, f.partitions[i].Partition)
		size := read.result.Size()
		switch {
		case results[i].Size() > 0 || results[i].Err != nil || size > left && !empty:
			read.release() // it is there by now without it, or not at all, or too much
		case read.err != nil:
			results[i] = failed(read.err)
		default:
			results[i].Data, results[i].Region = read.result.Data, read.result.Region
			results[i].Hold, results[i].Aborted = read.result.Release, read.result.Aborted
			left -= size
			empty = empty && size == 0
		}
	}
}
