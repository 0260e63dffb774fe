package replica

import (
	"context"
	"slices"

	"github.com/firnlog/firn/broker/storage"
)

// startRemoteReads begins one read per cold partition. They run beside each other; each is bounded by the request.
func (f *Fetch) startRemoteReads(ctx context.Context, cold []coldRead) {
	if len(cold) == 0 {
		return
	}
	f.remote = make(map[*Partition]*remoteRead, len(cold))
	cold = slices.DeleteFunc(cold, func(read coldRead) bool {
		_, twice := f.remote[read.partition] // a request that lists one partition twice is answered once
		f.remote[read.partition] = &remoteRead{upTo: read.request.UpTo}
		return twice
	})
	for _, read := range cold {
		f.manager.options.Remote.StartRead(ctx, read.partition.id, read.request,
			func(result storage.RemoteReadResult, err error) {
				f.remoteDone(read.partition, result, err)
				f.check(read.partition)
			})
	}
}

// remoteDone keeps the result of a remote read, or drops it when the answer has gone out without it: its chunks are
// in the cache then, and the next poll finds them.
func (f *Fetch) remoteDone(p *Partition, result storage.RemoteReadResult, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	read, wanted := f.remote[p]
	if !wanted {
		if err == nil && result.Release != nil {
			result.Release()
		}
		return
	}
	read.result, read.err, read.done = result, err, true
}

// abandonRemote gives up the remote reads that are under way and returns what has been there until now.
func (f *Fetch) abandonRemote() map[*Partition]*remoteRead {
	f.mu.Lock()
	defer f.mu.Unlock()
	remote := f.remote
	f.remote = nil
	return remote
}

// remoteArrived tells whether any remote read has ended: those that are still under way are served by the next poll
// from the cache, as a reader that fell behind on many partitions should not wait for the slowest. A reader who stands
// in a hole that reaches to the end of what it may read got nothing: it waits like any other at the end of a log, until
// cold, as of now, says that it may read more.
func (f *Fetch) remoteArrived(cold []coldRead) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, read := range f.remote {
		if read.done && (read.err != nil || len(read.result.Data) > 0) {
			return true
		}
	}
	for _, now := range cold {
		if read, ok := f.remote[now.partition]; ok && read.done && now.request.UpTo > read.upTo {
			return true
		}
	}
	return false
}

// addRemote puts what has arrived from the object store into the results, as long as the bounds allow it, and gives
// up the rest.
func (f *Fetch) addRemote(results []FetchResult) {
	remote := f.abandonRemote()
	left := f.params.MaxBytes
	empty := true
	for i := range results {
		left -= results[i].Size()
		empty = empty && results[i].Size() == 0
	}
	for i := range results {
		read, ok := remote[f.partitions[i].Partition]
		if !ok || !read.done {
			continue
		}
		delete(remote, f.partitions[i].Partition)
		if read.err != nil {
			results[i] = failed(read.err)
			continue
		}
		size := len(read.result.Data)
		if size > left && !empty || results[i].Err != nil {
			read.result.Release()
			continue
		}
		results[i].Data, results[i].Hold = read.result.Data, read.result.Release
		results[i].Aborted = read.result.Aborted
		left -= size
		empty = empty && size == 0
	}
}
