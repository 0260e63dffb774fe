package replica

import (
	"context"
	"sync"
	"time"

	"github.com/firnlog/firn/broker/storage"
)

// flushWait bounds how long a fetch that may not wait still waits for the disk, so that it sees what was appended
// before it came. A flush takes milliseconds; a disk that needs longer is not worth holding up a client's loop.
const flushWait = time.Second

// FetchParams are the bounds of one Fetch request.
type FetchParams struct {
	// Session, if there is one, says which partitions are wanted.
	Session   *Session
	MaxWait   time.Duration
	MinBytes  int
	MaxBytes  int
	Isolation Isolation
}

// Fetch is a fetch under way. It is done when enough bytes are there, when something changed that the client must
// learn, or when its time is over; Results then reads once more, so that the answer is as full as it can be. What is
// ready never waits for what is cold: as soon as records in memory reach MinBytes, partitions that need the object
// store or the disk are answered empty, and their records arrive in the cache meanwhile.
type Fetch struct {
	manager    *Manager
	params     FetchParams
	partitions []FetchPartition // of a session those that may have something, as of the last look
	// flush holds, for a fetch that may not wait, the log end offsets at its arrival: it is done when they are flushed.
	flush   []CommitItem
	done    chan struct{} // nil when the fetch was done at once: results then holds the answer
	results []FetchResult
	// looked says that the next attempt would find what has just been found; nothing that results, as of the last look,
	// hold no records, so that they can be the answer if nobody calls for another look.
	looked  bool
	nothing bool
	// deadline is when the wait is over. What comes at that very moment is for the client's next fetch: a look at
	// thousands of partitions only to find that the time is over would be the greater part of what their polling costs.
	deadline time.Time

	mu   sync.Mutex // guards cold and its values
	cold map[*Partition]*pendingRead
}

// pendingRead is one partition's read from the object store, or of the disk.
type pendingRead struct {
	upTo   int64 // of the request
	result storage.RemoteReadResult
	err    error
	done   bool
}

// Fetch starts a fetch. ctx is the connection's: when it ends, remote reads are given up. The slices belong to the
// fetch until Results or Cancel; scratch is memory for the results, which may be of an earlier fetch. With a session
// partitions is no more than memory, too.
func (m *Manager) Fetch(ctx context.Context, params FetchParams, partitions []FetchPartition,
	scratch []FetchResult,
) *Fetch {
	f := &Fetch{manager: m, params: params, partitions: partitions, results: scratch[:0]}
	if params.Session != nil {
		params.Session.waiting.Add(1)
	}
	cold := f.look()
	wait := params.MaxWait
	if len(cold) > 0 {
		wait = max(wait, m.options.RemoteFetchMaxWait())
	}
	answered := complete(f.results, params.MinBytes)
	if !answered && wait <= 0 {
		f.flush = f.unseen()
		if len(f.flush) > 0 {
			wait = flushWait
		}
	}
	f.startColdReads(ctx, cold)
	if answered || wait <= 0 {
		f.abandonCold()
		f.over()
		return f
	}
	releaseAll(f.results)
	f.done = make(chan struct{})
	f.looked, f.deadline = true, time.Now().Add(wait)
	f.nothing = f.nothing && len(f.flush) == 0 // once that is flushed there is something
	f.watch(wait)
	return f
}

func (f *Fetch) watch(wait time.Duration) {
	for i := range f.partitions {
		p := f.partitions[i].Partition
		if p != nil && p.log != nil && p.groupCommit() {
			p.log.RequestFlush() // a long poll is somebody who waits for the disk
		}
	}
	if f.params.Session != nil {
		f.manager.sessions.Watch(f, wait, f.params.Session)
		return
	}
	keys := make([]*Partition, 0, len(f.partitions))
	for i := range f.partitions {
		if p := f.partitions[i].Partition; p != nil {
			keys = append(keys, p)
		}
	}
	f.manager.waiters.Watch(f, wait, keys...)
}

// check lets the fetch look again, as far as one of its partitions is concerned.
func (f *Fetch) check(p *Partition) {
	if f.params.Session != nil {
		f.manager.sessions.Check(f.params.Session)
		return
	}
	f.manager.waiters.Check(p)
}

// over ends the time for which the session is waited for.
func (f *Fetch) over() {
	if f.params.Session != nil {
		f.params.Session.waiting.Add(-1)
	}
}

// Done is closed when the fetch can be answered; nil means that it already can.
func (f *Fetch) Done() <-chan struct{} { return f.done }

// Partitions are those that Results are about. It is called after Results.
func (f *Fetch) Partitions() []FetchPartition { return f.partitions }

// Results returns one result for each partition, in the order of the request. It is called once, after Done; the
// caller releases every result.
func (f *Fetch) Results() []FetchResult {
	if f.done == nil {
		return f.results
	}
	if !f.nothing {
		f.look()
	}
	f.addCold(f.results)
	return f.results
}

// Cancel gives back what the fetch holds, when nobody will ask for Results any more.
func (f *Fetch) Cancel() {
	if f.done == nil {
		releaseAll(f.results)
	}
	for _, read := range f.abandonCold() {
		read.release()
	}
}

// look reads what is in memory, within the bounds, and lists the partitions whose records lie elsewhere.
func (f *Fetch) look() (cold []coldRead) {
	if session := f.params.Session; session != nil {
		before := f.partitions
		f.partitions = session.pending(before[:0])
		clear(before[min(len(f.partitions), len(before)):]) // what was forgotten meanwhile
		clear(f.results[min(len(f.partitions), len(f.results)):])
	}
	f.results = f.results[:0]
	f.nothing = false
	left := f.params.MaxBytes
	empty := true
	for i := range f.partitions {
		result, read := f.manager.read(&f.partitions[i], f.params.Isolation, max(left, 0), empty)
		if read != nil {
			cold = append(cold, *read)
		}
		if size := result.Size(); size > 0 {
			left -= size
			empty = false
		}
		f.results = append(f.results, result)
	}
	f.nothing = empty && len(cold) == 0
	return cold
}

// complete tells whether the results are worth an answer now.
func complete(results []FetchResult, minBytes int) bool {
	size := 0
	for i := range results {
		if results[i].Err != nil || results[i].Diverging != nil {
			return true
		}
		size += results[i].Size()
	}
	return size >= minBytes
}

func releaseAll(results []FetchResult) {
	for i := range results {
		results[i].Release()
	}
}

// TryComplete implements purgatory.Operation.
func (f *Fetch) TryComplete() bool {
	if !f.satisfied() {
		return false
	}
	f.Expire()
	return true
}

// Expire implements purgatory.Operation.
func (f *Fetch) Expire() {
	f.over()
	close(f.done)
}

func (f *Fetch) satisfied() bool {
	if f.manager.draining.Load() {
		return true
	}
	if len(f.flush) > 0 {
		return settled(f.flush)
	}
	if f.looked {
		f.looked = false // the one after this comes when nothing can be missed any more
		return false
	}
	if f.nothing && !time.Now().Before(f.deadline) {
		return false
	}
	cold := f.look()
	defer releaseAll(f.results)
	return complete(f.results, f.params.MinBytes) || f.coldArrived(cold)
}

// unseen lists the log end offsets that were not visible yet to a fetch that found too little. They are compared with
// what its look saw: what has been flushed since must not be missed, as the client may know that it is there.
func (f *Fetch) unseen() []CommitItem {
	var items []CommitItem
	for i := range f.partitions {
		p := f.partitions[i].Partition
		if p == nil || p.log == nil || f.partitions[i].Err != nil {
			continue
		}
		if end := p.log.EndOffset(); end > f.results[i].HighWatermark && f.partitions[i].Offset < end {
			items = append(items, CommitItem{Partition: p, Offset: end})
		}
	}
	return items
}
