package replica

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

const (
	// coldWorkers is how many reads of the disk there are at a time: enough for its queue, few enough that they do not
	// take it from those who write.
	coldWorkers = 8
	// maxColdBytes bounds one read, and so, with the workers, what is being read at a time. A single batch may be larger.
	maxColdBytes = 4 << 20
	// maxColdReads bounds those that wait. Who finds no place gets an empty answer, and asks again.
	maxColdReads = 4096
)

// coldLane reads what lies on the local disk and not in memory. Sent right from the file it would hold up a thread, and
// everybody else in the same request, for as long as the disk takes. Such a read brings the records into memory first;
// what does not wait for it finds them there the next time.
type coldLane struct {
	jobs  chan *coldJob
	reads prometheus.Counter
	bytes prometheus.Counter

	mu      sync.Mutex // guards the fields below
	running bool
	known   map[coldKey]*coldJob // waiting, or being read
}

type coldKey struct {
	partition *Partition
	offset    int64
}

// coldJob is one read, for the sake of one reader or more.
type coldJob struct {
	coldKey
	request   storage.RemoteReadRequest
	isolation Isolation
	ctx       context.Context
	done      func(storage.RemoteReadResult, error)
	// others want the same records. They are told when these are in memory.
	others []func(storage.RemoteReadResult, error)
}

func newColdLane(registerer prometheus.Registerer) *coldLane {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	l := &coldLane{
		jobs:  make(chan *coldJob, maxColdReads),
		known: map[coldKey]*coldJob{},
		reads: counter("firn_fetch_cold_reads_total", "Reads of the local disk because records were not in memory."),
		bytes: counter("firn_fetch_cold_bytes_total", "Bytes of records that such reads have brought into memory."),
	}
	if registerer != nil {
		registerer.MustRegister(l.reads, l.bytes)
	}
	return l
}

// Run serves reads of what is not in memory, until ctx ends. As long as it does not run, such reads are made by whoever
// finds out.
func (m *Manager) Run(ctx context.Context) error {
	m.cold.open(true)
	defer m.cold.open(false)
	var workers sync.WaitGroup
	defer workers.Wait()
	for range coldWorkers {
		workers.Go(func() { m.cold.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

func (l *coldLane) open(running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = running
}

func (l *coldLane) isOpen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// start begins a read and returns at once. done is called when it has ended: with the records for the first who asks
// for them, with nothing for the others, who find them in memory.
func (l *coldLane) start(ctx context.Context, read coldRead, done func(storage.RemoteReadResult, error)) {
	key := coldKey{read.partition, read.request.Offset}
	l.mu.Lock()
	defer l.mu.Unlock()
	if job, found := l.known[key]; found {
		job.others = append(job.others, done)
		return
	}
	job := &coldJob{coldKey: key, request: read.request, isolation: read.isolation, ctx: ctx, done: done}
	job.request.MaxBytes = min(job.request.MaxBytes, maxColdBytes)
	select {
	case l.jobs <- job:
		l.known[key] = job
	default:
	}
}

func (l *coldLane) work(ctx context.Context) {
	for {
		select {
		case job := <-l.jobs:
			l.serve(job)
		case <-ctx.Done():
			return
		}
	}
}

func (l *coldLane) serve(job *coldJob) {
	var result storage.RemoteReadResult
	err := job.ctx.Err() // a client that has gone
	if err == nil || l.wanted(job) {
		result, err = job.read()
	}
	if err == nil {
		l.reads.Inc()
		l.bytes.Add(float64(result.Size()))
	}
	l.mu.Lock()
	delete(l.known, job.coldKey)
	others := job.others
	l.mu.Unlock()
	job.done(result, err)
	for _, done := range others {
		done(storage.RemoteReadResult{}, err)
	}
}

// wanted tells whether somebody waits beside the one whose job it is.
func (l *coldLane) wanted(job *coldJob) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(job.others) > 0
}

func (j *coldJob) read() (storage.RemoteReadResult, error) {
	log, err := j.partition.usableLog()
	if err != nil {
		return storage.RemoteReadResult{}, err
	}
	found, err := log.Read(storage.ReadRequest(j.request))
	if err != nil || found.Size == 0 {
		return storage.RemoteReadResult{FirstOffset: found.FirstOffset, NextOffset: found.NextOffset}, err
	}
	result := storage.RemoteReadResult{
		Region: found.Region.Unheld(), Release: found.Region.Release,
		FirstOffset: found.FirstOffset, NextOffset: found.NextOffset,
	}
	if err = found.Region.Load(); err != nil {
		err = fmt.Errorf("read %s from %d: %w: %w", j.partition.topicPartition, j.offset, kafka.KafkaStorageError, err)
	} else if j.isolation == ReadCommitted {
		result.Aborted, err = log.AbortedTransactions(j.offset, found.NextOffset)
	}
	if err != nil {
		found.Region.Release()
		return storage.RemoteReadResult{}, err
	}
	return result, nil
}
