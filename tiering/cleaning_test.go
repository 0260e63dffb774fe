package tiering_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/compaction"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/compact"
)

// cleanedTier shows the log cleaner what is in the bucket, as a node does.
type cleanedTier struct {
	*compact.Log
	local    *storage.Log
	settings compaction.Settings
	perform  func(name string, deed func() error) error
}

var _ compaction.Log = (*cleanedTier)(nil)

// View implements compaction.Log.
func (l *cleanedTier) View() (compaction.View, error) {
	entries, err := l.Segments()
	if err != nil {
		return compaction.View{}, err
	}
	view := compaction.View{CleanedUntil: l.local.CleanedOffset(), Settings: l.settings}
	for _, entry := range entries {
		view.Segments = append(view.Segments, compaction.Segment{
			BaseOffset: entry.BaseOffset, EndOffset: entry.EndOffset, Size: entry.DataBytes,
			IndexBytes: int64(entry.TailBytes), FirstTimestamp: entry.MinTimestamp, LastTimestamp: entry.MaxTimestamp,
		})
		view.LastStable = entry.EndOffset
	}
	view.Segments = append(view.Segments, compaction.Segment{
		BaseOffset: view.LastStable, EndOffset: l.local.EndOffset(), FirstTimestamp: -1, LastTimestamp: -1,
	})
	return view, nil
}

// Open implements compaction.Log.
func (l *cleanedTier) Open(base int64) (compaction.Source, error) {
	source, err := l.Log.Open(base)
	if err != nil {
		return nil, err
	}
	return source, nil
}

// Replace implements compaction.Log.
func (l *cleanedTier) Replace(firstBase, endBase int64) (compaction.Sink, error) {
	sink, err := l.Log.Replace(firstBase, endBase)
	if err != nil {
		return nil, err
	}
	return sink, nil
}

// SetCleaned implements compaction.Log.
func (l *cleanedTier) SetCleaned(offset int64) error {
	return l.perform("set cleaned", func() error { return l.local.SetCleanedOffset(offset) })
}

// LastRecordsOfProducers implements compaction.Log.
func (l *cleanedTier) LastRecordsOfProducers() map[int64]storage.LastRecord {
	return l.local.LastRecordsOfProducers()
}

// cleanBy are the settings of a pass that puts segments together up to a size.
func cleanBy(segmentBytes int64, deleteRetention time.Duration) compaction.Settings {
	return compaction.Settings{
		MinDirtyRatio: 1, MaxLagMs: math.MaxInt64, DeleteRetentionMs: deleteRetention.Milliseconds(),
		SegmentBytes: segmentBytes, IndexBytes: 10 << 20,
	}
}

// clean has the log cleaner make one pass over what is in the bucket.
func (b *broker) clean(settings compaction.Settings, step func(name string) error) compaction.Status {
	b.t.Helper()
	remote := get[*compact.Log](b.t)(b.rewriter(step).Log(eventsID))
	log := &cleanedTier{Log: remote, local: b.log(), settings: settings, perform: (&setup{step: step}).perform}
	cleaner := compaction.New(compaction.Options{
		Logger: slog.New(slog.DiscardHandler),
		Config: compaction.Config{
			Enable: true, Threads: 1, DedupeBufferBytes: 1 << 20, LoadFactor: 0.9, MaxBytesPerSecond: math.MaxFloat64,
			Backoff: 24 * time.Hour, // a pass that is broken off is not tried again by itself
		},
		Partitions: func() []kafka.TopicPartition { return []kafka.TopicPartition{events} },
		Find:       func(kafka.TopicPartition) compaction.Log { return log },
		Roll:       func(kafka.TopicPartition) error { return nil },
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cleaner.Run(ctx) }()
	synctest.Wait()
	must(b.t, cleaner.Compact(events))
	var status compaction.Status
	for running := true; running; running = status.Running {
		b.sleep(time.Second)
		status = get[compaction.Status](b.t)(cleaner.Status(events))
	}
	stop()
	must(b.t, <-done)
	return status
}

// written is a record that was produced.
type written struct {
	offset     int64
	key, value string
	tombstone  bool
}

func (w written) String() string {
	if w.tombstone {
		return fmt.Sprintf("%d %s", w.offset, w.key)
	}
	return fmt.Sprintf("%d %s=%s", w.offset, w.key, w.value)
}

// recordsIn reads batches, all but those of control.
func (b *broker) recordsIn(batches []byte) (records []written) {
	b.t.Helper()
	var it record.Iterator
	for len(batches) > 0 {
		batch, rest, err := record.Next(batches)
		must(b.t, err)
		must(b.t, batch.VerifyCRC())
		batches = rest
		if batch.IsControl() {
			continue
		}
		must(b.t, it.Reset(batch))
		for it.Next() {
			r := it.Record()
			records = append(records, written{it.Offset(), string(r.Key), string(r.Value), r.Value == nil})
		}
		must(b.t, it.Err())
	}
	return records
}
