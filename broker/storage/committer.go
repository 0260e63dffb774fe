package storage

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// flushWorkers is how many logs of one directory are flushed at once. The file system's journal and the disk take
// concurrent fsyncs together, which is what makes many partitions cheap; more of them than this gains nothing on one
// disk. A worker that waits for the disk holds a thread.
const flushWorkers = 16

// committer flushes the logs of one directory: those that were asked for at once, the others when their time has
// come. Whatever is appended to a log while it is being flushed shares the log's next flush: that is group commit.
type committer struct {
	work  chan struct{} // a token while ready is not empty
	alarm chan struct{} // a token when the earliest deadline has changed

	mu    sync.Mutex // guards the fields below and the queuePlace of all logs of the directory
	ready []*Log     // asked for first comes first
	due   deadlines
}

// queuePlace is where a log stands with its committer.
type queuePlace struct {
	ready    bool
	flushing bool
	again    bool // was asked for while it was flushing
	waiting  bool // in due
	deadline time.Time
	index    int // in due
}

func newCommitter() *committer {
	return &committer{work: make(chan struct{}, 1), alarm: make(chan struct{}, 1)}
}

// request has a log flushed as soon as possible.
func (c *committer) request(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(l)
}

// enqueue needs mu.
func (c *committer) enqueue(l *Log) {
	if l.queue.flushing {
		l.queue.again = true
		return
	}
	if l.queue.ready {
		return
	}
	l.queue.ready = true
	c.ready = append(c.ready, l)
	signal(c.work)
}

// schedule has a log flushed at a deadline, unless that happens earlier anyway.
func (c *committer) schedule(l *Log, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case l.queue.ready || l.queue.waiting && !deadline.Before(l.queue.deadline):
		return
	case l.queue.waiting:
		l.queue.deadline = deadline
		heap.Fix(&c.due, l.queue.index)
	default:
		l.queue.deadline, l.queue.waiting = deadline, true
		heap.Push(&c.due, l)
	}
	if c.due[0] == l {
		signal(c.alarm)
	}
}

// run flushes until ctx is done. What is still dirty then is left to Manager.Close.
func (c *committer) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.watchDeadlines(ctx) })
	for range flushWorkers {
		group.Go(func() error { return c.flushReady(ctx) })
	}
	return group.Wait()
}

// watchDeadlines moves logs whose time has come to the ready ones.
func (c *committer) watchDeadlines(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next, found := c.expireDeadlines(time.Now()); found {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.alarm:
		case <-timer.C:
		}
	}
}

func (c *committer) expireDeadlines(now time.Time) (next time.Time, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.due) > 0 {
		l := c.due[0]
		if l.queue.deadline.After(now) {
			return l.queue.deadline, true
		}
		heap.Pop(&c.due)
		l.queue.waiting = false
		c.enqueue(l)
	}
	return time.Time{}, false
}

// flushReady is one worker. A failed flush has taken its directory offline and told everybody, so the worker goes on:
// what follows is refused at once.
func (c *committer) flushReady(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.work:
		}
		for l := c.take(); l != nil && ctx.Err() == nil; l = c.take() {
			_ = l.Flush() // reported by directory.fail, and to every caller by Log.Err
			c.done(l)
		}
	}
}

// take removes the first ready log and lets another worker look for the next one.
func (c *committer) take() *Log {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		return nil
	}
	l := c.ready[0]
	copy(c.ready, c.ready[1:]) // short: one entry for each log at most, and workers keep up with them
	c.ready[len(c.ready)-1] = nil
	c.ready = c.ready[:len(c.ready)-1]
	l.queue.ready, l.queue.flushing = false, true
	if len(c.ready) > 0 {
		signal(c.work)
	}
	return l
}

func (c *committer) done(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.queue.flushing = false
	if l.queue.again {
		l.queue.again = false
		c.enqueue(l)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // somebody has already been called
	}
}

// deadlines is a heap of the logs that wait for their time, earliest first.
type deadlines []*Log

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].queue.deadline.Before(d[j].queue.deadline) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].queue.index, d[j].queue.index = i, j
}

func (d *deadlines) Push(x any) {
	l := x.(*Log)
	l.queue.index = len(*d)
	*d = append(*d, l)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	l := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return l
}
