package firn

import (
	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/compaction"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
)

// newCleaner makes the pool that compacts logs.
func (n *Node) newCleaner() *compaction.Cleaner {
	return compaction.New(compaction.Options{
		Logger: n.logger, Registerer: n.deps.Registry, Config: n.live.Load().cleaner,
		Partitions: func() []kafka.TopicPartition {
			var compacted []kafka.TopicPartition
			for _, p := range n.replicas.Partitions() {
				if isCompacted(p) {
					compacted = append(compacted, p.TopicPartition())
				}
			}
			return compacted
		},
		Find: func(tp kafka.TopicPartition) compaction.Log {
			p, err := n.replicas.Partition(tp)
			if err != nil || !isCompacted(p) {
				return nil
			}
			log, err := p.Log()
			if err != nil {
				return nil
			}
			if !p.Config().RemoteStorageEnable {
				return &compactedLog{Log: log, partition: p}
			}
			if remote, err := n.rewriter.Log(p.ID()); err == nil {
				return &compactedTier{Log: remote, local: log, partition: p}
			}
			return nil // nothing is remote yet
		},
		Roll: func(tp kafka.TopicPartition) error {
			log, err := n.logs.Log(tp)
			if err != nil {
				return err
			}
			if err := log.Roll(); err != nil {
				return err
			}
			return log.Flush() // only what is flushed is written anew
		},
		Directory: func(tp kafka.TopicPartition) string {
			if log, err := n.logs.Log(tp); err == nil {
				return log.Dir()
			}
			return ""
		},
		MaxPartitionSeries: n.config.Metrics.MaxPartitions,
	})
}

// isCompacted tells whether the cleaner looks after a partition: after its log, or after what is in the bucket of it.
func isCompacted(p *replica.Partition) bool { return p.Config().CleanupCompact }

// compactedLog shows the cleaner a partition's local log.
type compactedLog struct {
	*storage.Log
	partition *replica.Partition
}

var _ compaction.Log = (*compactedLog)(nil)

// View implements compaction.Log. What is not flushed yet is not written anew: a crash could not tell what was there.
func (l *compactedLog) View() (compaction.View, error) {
	if err := l.Err(); err != nil {
		return compaction.View{}, err
	}
	view := compaction.View{
		LastStable: min(l.LastStableOffset(), l.FlushedOffset()), CleanedUntil: l.CleanedOffset(),
		Settings: cleanedBy(l.partition.Config()),
	}
	for _, segment := range l.Segments() {
		last := segment.MaxTimestamp
		if last < 0 {
			last = segment.LastAppendedAt
		}
		view.Segments = append(view.Segments, compaction.Segment{
			BaseOffset: segment.BaseOffset, EndOffset: segment.EndOffset, Size: segment.Size,
			IndexBytes: segment.IndexBytes, FirstTimestamp: segment.FirstTimestamp, LastTimestamp: last,
		})
	}
	return view, nil
}

// cleanedBy are the settings of a topic that the cleaner goes by.
func cleanedBy(cfg *config.TopicConfig) compaction.Settings {
	codec, level := compressedAnew(cfg)
	return compaction.Settings{
		MinDirtyRatio: cfg.MinCleanableDirtyRatio, MinLagMs: cfg.MinCompactionLagMs, MaxLagMs: cfg.MaxCompactionLagMs,
		DeleteRetentionMs: cfg.DeleteRetentionMs, SegmentBytes: cfg.SegmentBytes, IndexBytes: int64(cfg.SegmentIndexBytes),
		Codec: codec, Level: level,
	}
}

// compressedAnew is the codec that the broker itself compresses a topic with, and its level. Where compression.type
// leaves that to the producers there is none.
func compressedAnew(cfg *config.TopicConfig) (codec record.Codec, level int) {
	switch cfg.CompressionType {
	case "gzip":
		return record.Gzip, int(cfg.CompressionGzipLevel)
	case "lz4":
		return record.LZ4, int(cfg.CompressionLZ4Level)
	case "zstd":
		return record.Zstd, int(cfg.CompressionZstdLevel)
	}
	return record.None, record.DefaultLevel
}

// Open implements compaction.Log.
func (l *compactedLog) Open(baseOffset int64) (compaction.Source, error) {
	source, err := l.OpenSegment(baseOffset)
	if err != nil {
		return nil, err // a nil *SegmentReader would be a Source
	}
	return source, nil
}

// Replace implements compaction.Log.
func (l *compactedLog) Replace(firstBase, endBase int64) (compaction.Sink, error) {
	sink, err := l.Rewrite(firstBase, endBase)
	if err != nil {
		return nil, err
	}
	return sink, nil
}

// SetCleaned implements compaction.Log.
func (l *compactedLog) SetCleaned(offset int64) error { return l.SetCleanedOffset(offset) }

// shownCompaction is the cleaner as the HTTP API shows it.
type shownCompaction struct{ cleaner *compaction.Cleaner }

// Compact implements admin.Compaction.
func (s shownCompaction) Compact(tp kafka.TopicPartition) error { return s.cleaner.Compact(tp) }

// Status implements admin.Compaction.
func (s shownCompaction) Status(tp kafka.TopicPartition) (view.PartitionCompaction, error) {
	status, err := s.cleaner.Status(tp)
	if err != nil {
		return view.PartitionCompaction{}, err
	}
	shown := view.PartitionCompaction{
		Partition: tp.Partition, Waiting: status.Waiting, Running: status.Running,
		Passes: status.Passes, LastPassAt: status.LastPassAt,
		DirtyRatio: status.DirtyRatio, DirtyBytes: status.DirtyBytes,
		StartOffset: status.Stats.StartOffset, EndOffset: status.Stats.EndOffset, TargetOffset: status.Stats.TargetOffset,
		BytesToRead: status.Stats.BytesToRead, BytesRead: status.Stats.MapBytesRead + status.Stats.BytesRead,
		BytesWritten: status.Stats.BytesWritten,
		RecordsRead:  status.Stats.RecordsRead, RecordsKept: status.Stats.RecordsKept,
	}
	if status.Failure != nil {
		shown.SetAside = status.Failure.Error()
	}
	if status.BrokenOff != nil {
		shown.BrokenOff = status.BrokenOff.Error()
	}
	return shown, nil
}
