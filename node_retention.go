package firn

import (
	"context"
	"fmt"
	"iter"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/retention"
	"github.com/firnlog/firn/tiering/manifest"
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
func (r *retainedLog) View(ctx context.Context) (retention.View, error) {
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
	if !cfg.RemoteStorageEnable { // what is remote is about to go, so that no local copy may
		view.Limits.LocalMs, view.Limits.LocalBytes = retention.Unlimited, retention.Unlimited
	}
	tree, err := r.node.tier.Manifests().Get(ctx, r.partition.ID())
	if err != nil {
		return retention.View{}, err
	}
	live, err := tree.Live(ctx)
	if err != nil {
		return retention.View{}, err
	}
	view.RemoteEnd = tree.End
	for _, item := range live {
		view.Remote = append(view.Remote, remotePart(ctx, tree, item))
	}
	return view, nil
}

// remotePart shows retention an item of a manifest, and what it stands for once that is asked for.
func remotePart(ctx context.Context, tree *manifest.Tree, item command.Item) retention.Segment {
	s := item.Summary()
	part := retention.Segment{
		BaseOffset: s.BaseOffset, EndOffset: s.EndOffset, Bytes: s.DataBytes, Segments: s.Segments,
		MaxTimestamp: s.MaxTimestamp, LastAppendedAt: s.LastAppendedAt,
	}
	reference, sealed := item.(command.Reference)
	if !sealed {
		return part
	}
	if s.MinTimestamp < 0 { // some have no timestamps: then only their append times tell how old they are
		part.MaxTimestamp = -1
	}
	part.Parts = func() iter.Seq2[retention.Segment, error] {
		return func(yield func(retention.Segment, error) bool) {
			inner, err := tree.Open(ctx, reference)
			if err != nil {
				yield(retention.Segment{}, err)
			}
			for _, item := range inner {
				if !yield(remotePart(ctx, tree, item), nil) {
					return
				}
			}
		}
	}
	return part
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
