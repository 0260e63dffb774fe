package compaction

import (
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
)

// Log is a log as the cleaner needs it. It may be truncated or deleted during a pass: what its methods then return ends
// the pass, and nothing is lost.
type Log interface {
	// View is the log at this moment.
	View() (View, error)
	// Open opens the sealed segment with a base offset.
	Open(baseOffset int64) (Source, error)
	// Replace begins a segment that takes the place of the sealed ones in [firstBase, endBase).
	Replace(firstBase, endBase int64) (Sink, error)
	// SetCleaned notes durably that everything below the offset is cleaned.
	SetCleaned(offset int64) error
	Transactions
}

// Transactions is what a log knows of the producers that wrote to it.
type Transactions interface {
	// AbortedTransactions lists the aborted transactions that overlap [start, end), by their first offsets; the end is
	// not above the last stable offset.
	AbortedTransactions(start, end int64) ([]storage.AbortedTransaction, error)
	// LastRecordsOfProducers are those of the producers that are remembered, by producer id.
	LastRecordsOfProducers() map[int64]storage.LastRecord
}

// Source reads a segment from its first batch to its last.
type Source interface {
	// Next is the next batch, whose checksum is right, valid until the next call; io.EOF is the end.
	Next() (record.Batch, error)
	Close()
}

// Sink is a segment in the making. Abort is called when the pass is done with it, also after Commit.
type Sink interface {
	// Append adds whole batches; their offsets rise.
	Append(batches []byte) error
	// KeepAborted adds a row to the transaction index; their last offsets rise.
	KeepAborted(aborted storage.AbortedTransaction)
	// Commit puts the segment into its place, durably and at once.
	Commit() error
	// Abort gives the segment up.
	Abort()
}

// View is what is decided by: which part of a log may be cleaned, and whether it is worth it.
type View struct {
	Segments     []Segment // that are local, oldest first; the last is the active one
	LastStable   int64     // the last stable offset: what begins there is not decided
	CleanedUntil int64     // the first offset that no pass has mapped yet
	Settings     Settings
}

// begin is the first local offset.
func (v View) begin() int64 {
	if len(v.Segments) == 0 {
		return -1
	}
	return v.Segments[0].BaseOffset
}

// Segment is one segment of a View. Times are ms since 1970, −1 if unknown.
type Segment struct {
	BaseOffset     int64
	EndOffset      int64 // where the next one begins, or the end of the log
	Size           int64
	IndexBytes     int64 // of its larger index
	FirstTimestamp int64 // the largest of its first batch
	LastTimestamp  int64 // the largest of its records, or when it was last appended to if they have none
}

// Settings are those of the topic.
type Settings struct {
	MinDirtyRatio     float64 // min.cleanable.dirty.ratio
	MinLagMs          int64   // min.compaction.lag.ms
	MaxLagMs          int64   // max.compaction.lag.ms
	DeleteRetentionMs int64   // delete.retention.ms
	SegmentBytes      int64   // segment.bytes
	IndexBytes        int64   // segment.index.bytes
	// Codec is the one that the broker compresses with where compression.type names one, and Level is how thoroughly;
	// batches of any other codec are the producer's, and its level is not known.
	Codec record.Codec
	Level int
}

// level is the level at which batches of a codec are compressed again.
func (s Settings) level(codec record.Codec) int {
	if codec == s.Codec {
		return s.Level
	}
	return record.DefaultLevel
}
