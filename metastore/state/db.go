package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Sizes that keep an idle node small: a memtable starts at a fraction of its bound, and the cache fills on demand.
const (
	memTableBytes    = 4 << 20
	blockCacheBytes  = 4 << 20
	manifestMaxBytes = 4 << 20
	maxOpenTables    = 128
)

// Options say where a database is and whom to tell about it.
type Options struct {
	FS     vfs.FS
	Dir    string
	Logger *slog.Logger
	// OnFatal is called, from any goroutine and possibly more than once, when a write has failed. The database is
	// unusable from then on and the node must stop: what was written may or may not be there after a restart.
	OnFatal func(error)
}

// DB is one Pebble database. Its methods may be called concurrently, but not after Close.
type DB struct {
	pebble *pebble.DB
	fatal  *fatalError
}

// Open opens the database, or creates it. A directory that is in use by another process is refused, and so is one
// whose write-ahead log is damaged.
func Open(options Options) (*DB, error) {
	db, err := open(options)
	if err != nil {
		return nil, fmt.Errorf("open the database in %s: %w", options.Dir, err)
	}
	return db, nil
}

func open(options Options) (*DB, error) {
	if err := createMissing(options); err != nil {
		return nil, err
	}
	if err := checkLogs(options.FS, options.Dir); err != nil {
		return nil, err
	}
	fatal := &fatalError{dir: options.Dir, notify: options.OnFatal}
	db, err := openPebble(options, fatal)
	if err != nil {
		return nil, err
	}
	return &DB{pebble: db, fatal: fatal}, nil
}

func exists(options Options) (bool, error) {
	if _, err := options.FS.Stat(options.Dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	found, err := pebble.Peek(options.Dir, options.FS)
	if err != nil {
		return false, err
	}
	return found.Exists, nil
}

func openPebble(options Options, fatal *fatalError) (*pebble.DB, error) {
	cache := pebble.NewCache(blockCacheBytes)
	defer cache.Unref()
	return pebble.Open(options.Dir, &pebble.Options{
		FS:                          options.FS,
		Cache:                       cache,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		MaxManifestFileSize:         manifestMaxBytes,
		MaxOpenFiles:                maxOpenTables,
		Logger:                      logger{logger: options.Logger, fatal: fatal},
		EventListener:               listener(options.Logger, fatal),
	})
}

// Close writes out what is in memory and releases the directory. After a failed write it only releases what it can.
func (db *DB) Close() error {
	if db.fatal.wedged.Load() {
		// Pebble panicked inside a write and still holds its locks: closing would wait for them for ever.
		return db.fatal.err()
	}
	if err := db.pebble.Close(); err != nil {
		return fmt.Errorf("close the database in %s: %w", db.fatal.dir, err)
	}
	return db.fatal.err()
}

// Flush makes everything written so far durable, whichever space it is in.
func (db *DB) Flush() error {
	// An empty record forces the write-ahead log, with all before it, to disk.
	return db.write(func() error { return db.pebble.LogData(nil, pebble.Sync) })
}

// Space gives access to one key space.
func (db *DB) Space(space Space) *Keyspace { return &Keyspace{db: db, space: space} }

// write runs a write and finds out about the failures that Pebble does not return: those that it hands to its logger's
// Fatalf, expecting the process to end there, and those that it panics with.
func (db *DB) write(write func() error) (err error) {
	if err := db.fatal.err(); err != nil {
		return err
	}
	defer func() {
		if reason := recover(); reason != nil {
			db.fatal.wedged.Store(true)
			db.fatal.set(fmt.Errorf("panic: %v", reason))
			err = db.fatal.err()
		}
	}()
	if err := write(); err != nil {
		return err
	}
	return db.fatal.err()
}

// fatalError keeps the first failure after which a database must not be used.
type fatalError struct {
	dir    string
	notify func(error)
	first  atomic.Pointer[error]
	wedged atomic.Bool
}

func (f *fatalError) set(reason error) {
	err := fmt.Errorf("write to the database in %s: %w", f.dir, reason)
	f.first.CompareAndSwap(nil, &err)
	if f.notify != nil {
		f.notify(err)
	}
}

func (f *fatalError) err() error {
	if first := f.first.Load(); first != nil {
		return *first
	}
	return nil
}

// get copies a value out of a reader; nil if the key is absent.
func get(reader pebble.Reader, space Space, key []byte) ([]byte, error) {
	value, closer, err := reader.Get(space.key(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state database: %w", err)
	}
	defer closer.Close()
	return append([]byte{}, value...), nil
}

// Range is a part of a space: the keys from Start on (from the first one if nil), before End (to the last one if nil).
type Range struct {
	Start, End []byte
}

// Prefix is the range of the keys that begin with prefix.
func Prefix(prefix []byte) Range { return Range{Start: prefix, End: end(prefix)} }

func (r Range) bounds(space Space) (lower, upper []byte) {
	lower = space.key(r.Start)
	if r.End == nil {
		return lower, []byte{byte(space) + 1}
	}
	return lower, space.key(r.End)
}

// scan visits keys in order. Key and value are valid during the call only; the key comes without its space.
func scan(reader pebble.Reader, space Space, part Range, visit func(key, value []byte) error) (err error) {
	lower, upper := part.bounds(space)
	iterator, err := reader.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("scan the state database: %w", err)
	}
	defer func() { err = errors.Join(err, iterator.Close()) }()
	for more := iterator.First(); more; more = iterator.Next() {
		value, err := iterator.ValueAndErr()
		if err != nil {
			return fmt.Errorf("scan the state database: %w", err)
		}
		if err := visit(iterator.Key()[1:], value); err != nil {
			return err
		}
	}
	if err := iterator.Error(); err != nil {
		return fmt.Errorf("scan the state database: %w", err)
	}
	return nil
}
