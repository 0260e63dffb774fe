package storage

import (
	"cmp"
	"math"
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

// Config is what a topic's settings ask of one log. It can change while the log is in use (Log.SetConfig).
type Config struct {
	SegmentBytes       int64 // segment.bytes; 0 = Kafka's default of 1 GiB
	SegmentMs          int64 // segment.ms, of record time; 0 = Kafka's default of seven days
	SegmentJitterMs    int64 // segment.jitter.ms: segments roll up to this much earlier
	SegmentIndexBytes  int32 // segment.index.bytes; 0 = Kafka's default of 10 MiB
	IndexIntervalBytes int32 // index.interval.bytes; 0 = an entry for every batch
	// FlushMessages is flush.messages: an append that leaves so many records unflushed waits for a flush; 0 = off.
	FlushMessages   int64
	FlushMs         int64         // flush.ms: unflushed records are flushed after that time; 0 = off
	FileDeleteDelay time.Duration // file.delete.delay.ms: how long a deleted log's folder stays
}

// Kafka's defaults for settings whose zero would be an illegal value.
const (
	defaultSegmentBytes      = 1 << 30
	defaultSegmentMs         = int64(7 * 24 * time.Hour / time.Millisecond)
	defaultSegmentIndexBytes = 10 << 20
)

// maxSegmentSize is the largest segment whose positions fit the index's int32.
const maxSegmentSize = math.MaxInt32

func (c Config) withDefaults() Config {
	c.SegmentBytes = min(cmp.Or(c.SegmentBytes, defaultSegmentBytes), maxSegmentSize)
	c.SegmentMs = cmp.Or(c.SegmentMs, defaultSegmentMs)
	c.SegmentIndexBytes = cmp.Or(c.SegmentIndexBytes, int32(defaultSegmentIndexBytes))
	if c.FlushMessages <= 0 {
		c.FlushMessages = math.MaxInt64
	}
	if c.FlushMs <= 0 {
		c.FlushMs = math.MaxInt64
	}
	return c
}

// FlushPolicy says when appended records become durable without anybody asking for it.
type FlushPolicy int32

const (
	// FlushGroup flushes what was appended at the latest after 10 ms or 1 MiB, and as soon as somebody waits; the high
	// watermark never passes the flushed offset.
	FlushGroup FlushPolicy = iota
	// FlushOS leaves writing back to the operating system, as Kafka does: replication is the durability. Segments are
	// still flushed when they are sealed, so that start-up stays bound to the active ones.
	FlushOS
)

// String prints the setting's value.
func (p FlushPolicy) String() string {
	if p == FlushOS {
		return "os"
	}
	return "group"
}

// Store is the part of the broker's state database that belongs to logs. Nothing in it is needed to read a log: it
// holds lower bounds and copies that save work at start.
type Store interface {
	// Get returns the value of key, or nil when there is none.
	Get(key []byte) ([]byte, error)
	// Set stores a value; it is visible at once and durable some time later, in the order of the calls.
	Set(key, value []byte) error
	// Delete removes a key, which need not exist.
	Delete(key []byte) error
	// Scan visits all keys with a prefix in order. Key and value are valid during the visit only.
	Scan(prefix []byte, visit func(key, value []byte) error) error
}

// RecoveryCut tells what recovery after an unclean stop threw away: bytes at or above the flushed offset, which
// nobody was promised.
type RecoveryCut struct {
	TopicPartition  kafka.TopicPartition
	Offset          int64  // the log end offset after the cut
	File            string // where the first bad batch was
	Position        int64  // of the first bad batch in File
	Bytes           int64  // cut off, later segments included
	SegmentsRemoved int
	Reason          string
}

// Events are told what happens to logs; each func is optional. They are called without locks held, from the goroutine
// on which it happened, and must not block.
type Events struct {
	SegmentRolled   func(tp kafka.TopicPartition, baseOffset int64)
	RecoveryCut     func(cut RecoveryCut)
	IndexRebuilt    func(segment string, reason error)
	Flushed         func(tp kafka.TopicPartition, flushedOffset int64)
	LogOffline      func(tp kafka.TopicPartition, err error)
	DirectoryFailed func(dir string, err error)
}
