package cache

import (
	"container/list"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/invariant"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// ID names a part of an object for ever, since an upload id does.
type ID struct {
	Upload kafka.UUID
	Index  int64
}

// Store is where the list lies; a space of the state database is one.
type Store interface {
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Delete(key []byte) error
	Scan(prefix []byte, visit func(key, value []byte) error) error
}

// Options are what a Cache is made of.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	FS         vfs.FS
	Dir        string // the cache's own
	Store      Store
	SyncStore  func() error // makes what the store was told durable
	Bytes      int64        // of all files; 0 keeps nothing, and gives up what was kept
	// LeaveBytes is how much of the disk stays free: the cache fills up to there, and shrinks when others want more.
	LeaveBytes int64
}

const (
	// minCharge is what a file counts at least, so that many small ones do not make the list long.
	minCharge = 64 << 10
	// maxFills bounds the files that are being written, and the memory they are written from. More are not kept.
	maxFills = 4
	// offFor is how long nothing is written after a failure.
	offFor = time.Minute
	// lookEvery is how often the room on the disk is looked at: nobody tells when a disk fills.
	lookEvery = 10 * time.Second
)

// Cache is a bounded set of files. Its methods may be called concurrently; it is empty before Run has read the list.
// A nil Cache keeps nothing.
type Cache struct {
	options Options
	metrics metrics
	numbers numbers

	mu       sync.Mutex // guards the fields below, and those of entries
	ready    bool       // the list has been read
	known    map[ID]*entry
	used     *list.List  // of *entry, the least recently used first
	bytes    int64       // of files, those being written and those being removed included
	filling  map[ID]bool // what is being written
	asked    history
	clock    int64     // counts what is wanted
	offUntil time.Time // nothing is written before
}

// entry is a file.
type entry struct {
	id       ID
	number   uint32 // names the file
	size     int64
	sum      uint32
	place    *list.Element // nil once it has been dropped
	lastUse  int64         // by the clock
	refs     int
	verified bool // it has been read, or written, since the start
	dropped  bool // it goes with the last reference
}

func charge(size int64) int64 { return max(size, minCharge) }

// New makes a cache. Nothing happens before Run.
func New(options Options) *Cache {
	c := &Cache{
		options: options, metrics: newMetrics(options.Registerer), known: map[ID]*entry{}, used: list.New(),
		filling: map[ID]bool{},
		asked:   newHistory(options.Bytes),
	}
	c.numbers.cache = c
	return c
}

// Run reads the list, and keeps the disk from filling up until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	loaded := c.tryLoad()
	for {
		select {
		case <-look.C:
			if loaded {
				c.relieve()
			} else {
				loaded = c.tryLoad()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// tryLoad reads the list, if that has not failed a moment ago.
func (c *Cache) tryLoad() bool {
	c.mu.Lock()
	off := c.isOff()
	c.mu.Unlock()
	if off {
		return false
	}
	if err := c.load(); err != nil {
		c.failed("read the list", err)
		return false
	}
	return true
}

func (c *Cache) file(number uint32) string {
	return path.Join(c.options.Dir, strconv.FormatUint(uint64(number), 10)+fileSuffix)
}

const fileSuffix = ".chunk"

// Handle is a reference to a file, which stays until Release.
type Handle struct {
	cache *Cache
	entry *entry
	file  vfs.File
}

// Get finds a file; nil if there is none. The file is opened by Open.
func (c *Cache) Get(id ID) *Handle {
	if c == nil || c.options.Bytes == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.known[id]
	if found == nil {
		c.metrics.misses.Inc()
		return nil
	}
	c.metrics.hits.Inc()
	c.clock++
	found.lastUse = c.clock
	c.used.MoveToBack(found.place)
	found.refs++
	return &Handle{cache: c, entry: found}
}

// Has tells whether there is a file. It is no use of it.
func (c *Cache) Has(id ID) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id] != nil
}

// Release gives the reference back. It is called once.
func (h *Handle) Release() {
	if h.file != nil {
		_ = h.file.Close() // it was only read
	}
	c := h.cache
	c.mu.Lock()
	h.entry.refs--
	invariant.Check(h.entry.refs >= 0, "file %d of the cache is released more often than acquired", h.entry.number)
	gone := h.entry.dropped && h.entry.refs == 0
	c.mu.Unlock()
	if gone {
		c.remove(h.entry)
	}
}

// drop forgets a file that is no good. It goes with the last reference.
func (c *Cache) drop(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.dropped {
		return
	}
	e.dropped = true
	c.forget(e)
}

// forget takes a file out of the list; it needs mu. Its bytes count until remove has been called.
func (c *Cache) forget(e *entry) {
	delete(c.known, e.id)
	c.used.Remove(e.place)
	e.place = nil
}

// remove deletes a file that nobody knows any more, and then its entry in the store: the other way round a crash could
// leave a file that is on no list.
func (c *Cache) remove(e *entry) {
	err := c.options.FS.Remove(c.file(e.number))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = c.options.Store.Delete(keyOf(e.id))
	}
	if err != nil { // the next start tries again
		c.failed("remove a file of the cache", err)
		return
	}
	c.numbers.give(e.number)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= charge(e.size)
	c.metrics.bytes.Set(float64(c.bytes))
}

// failed turns writing off for a while. What is there is still read.
func (c *Cache) failed(doing string, err error) {
	if !c.fail() {
		return
	}
	c.options.Logger.Warn("the cache of the object store has failed; reads go on without it",
		"directory", c.options.Dir, "doing", doing, "err", err)
}

// fail tells whether the cache was on until now.
func (c *Cache) fail() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.isOff()
	c.offUntil = time.Now().Add(offFor)
	c.metrics.failures.Inc()
	c.metrics.off.Set(1)
	return !was
}

// isOff needs mu.
func (c *Cache) isOff() bool {
	off := time.Now().Before(c.offUntil)
	if !off {
		c.metrics.off.Set(0)
	}
	return off
}
