package firn

import (
	"context"
	"fmt"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/retention"
)

// newRetention makes the loop that lets old records go.
func (n *Node) newRetention() *retention.Enforcer {
	return retention.New(retention.Options{
		Logger: n.logger, Registerer: n.deps.Registry,
		Interval: n.config.Log.RetentionCheckInterval,
		Partitions: func() []kafka.TopicPartition {
			var all []kafka.TopicPartition
			for _, p := range n.replicas.Partitions() {
				all = append(all, p.TopicPartition())
			}
			return all
		},
		Find: func(tp kafka.TopicPartition) retention.Log {
			if p, err := n.replicas.Partition(tp); err == nil {
				return &retainedLog{node: n, partition: p}
			}
			return nil
		},
	})
}

// retainedLog shows retention a partition: its local log, and its remote part where it has one.
type retainedLog struct {
	node      *Node
	partition *replica.Partition
}

// View implements retention.Log. A topic with remote storage whose tier state is not there yet is left alone: without
// knowing what is remote nothing may go.
func (r *retainedLog) View() (retention.View, error) {
	log, err := r.partition.Log()
	if err != nil {
		return retention.View{}, err
	}
	cfg := r.partition.Config()
	tier := r.tier()
	if cfg.RemoteStorageEnable && tier == nil {
		return retention.View{}, retention.ErrUnknown
	}
	view := retention.View{
		LogStart: log.LogStartOffset(), HighWatermark: log.HighWatermark(), KeepsAll: !cfg.CleanupDelete,
		Limits: retention.Limits{
			Ms: cfg.RetentionMs, Bytes: cfg.RetentionBytes,
			LocalMs: cfg.EffectiveLocalRetentionMs(), LocalBytes: cfg.EffectiveLocalRetentionBytes(),
		},
	}
	for _, segment := range log.Segments() {
		view.Local = append(view.Local, retention.Segment{
			BaseOffset: segment.BaseOffset, EndOffset: segment.EndOffset, Bytes: segment.Size,
			MaxTimestamp: segment.MaxTimestamp, LastAppendedAt: segment.LastAppendedAt, Active: !segment.Sealed,
		})
	}
	if tier == nil {
		return view, nil
	}
	view.Tiered, view.RemoteEnd = true, tier.End
	entries, err := r.node.tier.Entries(r.partition.ID())
	if err != nil {
		return retention.View{}, err
	}
	for _, entry := range entries {
		view.Remote = append(view.Remote, retention.Segment{
			BaseOffset: entry.BaseOffset, EndOffset: entry.EndOffset, Bytes: entry.DataBytes,
			MaxTimestamp: entry.MaxTimestamp, LastAppendedAt: entry.LastAppendedAt,
		})
	}
	return view, nil
}

func (r *retainedLog) tier() *image.TierState {
	if partition, ok := r.node.meta.Image().PartitionByID(r.partition.ID()); ok {
		return partition.Tier
	}
	return nil
}

// Roll implements retention.Log.
func (r *retainedLog) Roll() error {
	return r.withLog(func(log *storage.Log) error { return log.Roll() })
}

// MoveLogStart implements retention.Log: the same way that DeleteRecords goes.
func (r *retainedLog) MoveLogStart(ctx context.Context, offset int64) error {
	return r.partition.MoveLogStart(ctx, offset)
}

// MoveLocalStart implements retention.Log.
func (r *retainedLog) MoveLocalStart(offset int64) error {
	return r.withLog(func(log *storage.Log) error {
		if _, err := log.MoveLocalStart(offset, "retention"); err != nil {
			return fmt.Errorf("remove local segments of %s: %w", r.partition.TopicPartition(), err)
		}
		return nil
	})
}

func (r *retainedLog) withLog(do func(*storage.Log) error) error {
	log, err := r.partition.Log()
	if err != nil {
		return err
	}
	return do(log)
}
