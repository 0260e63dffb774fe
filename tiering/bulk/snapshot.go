package bulk

import (
	"context"
	"errors"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/restore"
)

// Snapshot is what of a topic is in the bucket, as of one moment.
type Snapshot struct {
	ClusterID kafka.UUID // the one that the topic belongs to
	Topic     string
	TopicID   kafka.TopicID
	Origins   []kafka.UUID // clusters that have written objects of the topic; none: ClusterID alone
	// Pin keeps the objects from being collected. Zero: only the grace time (firn.tier.gc.grace.ms) does.
	Pin kafka.UUID
	// WrittenAt is when the checkpoint was written that the snapshot was made from, in Unix milliseconds; 0 if it was not
	// made from one. Segments that were uploaded since are part of the snapshot, too.
	WrittenAt int64
	// Damaged are checkpoints and tails that could not be read, with the reason, and were passed over.
	Damaged    []string
	Partitions []Partition // by number
}

// Partition is what of a partition is in the bucket: [Start, End).
type Partition struct {
	Partition int32
	Start     int64 // the log start offset, or where a pin begins
	End       int64 // the remote end, or where a pin ends. Below it every transaction is decided
	// Items are the top level of the manifest, by offset. They may reach beyond Start and End.
	Items []command.Item
}

// Range is the range [From, To) of a partition.
type Range struct {
	Partition int32
	From, To  int64
}

// Ranges lists what there is of each partition, those left out that have nothing.
func (s *Snapshot) Ranges() []Range {
	ranges, _ := s.RangesFrom(nil)
	return ranges
}

// RangesFrom is Ranges for somebody who has read before and goes on at the next offset of each partition. Offsets that
// he has not read and that are gone since, as the log start has passed them, are returned as skipped.
func (s *Snapshot) RangesFrom(next map[int32]int64) (ranges, skipped []Range) {
	for i := range s.Partitions {
		p := &s.Partitions[i]
		from := p.Start
		if at, known := next[p.Partition]; known {
			if at < p.Start {
				skipped = append(skipped, Range{Partition: p.Partition, From: at, To: p.Start})
			}
			from = max(at, p.Start)
		}
		if from < p.End {
			ranges = append(ranges, Range{Partition: p.Partition, From: from, To: p.End})
		}
	}
	return ranges, skipped
}

var (
	// ErrNoTopic says that a checkpoint has no topic of the name.
	ErrNoTopic = restore.ErrNoTopic
	// ErrNotTiered says that nothing of a topic is in the bucket.
	ErrNotTiered = errors.New("remote.storage.enable is not set, so that nothing of the topic is in the bucket")
)

// FromBucket makes the snapshot of a topic from the newest checkpoint of a cluster and the segments that were uploaded
// since, without a broker: what a restore would bring back. A zero cluster is the only one in the bucket that nobody
// has taken over. Nothing keeps the objects from being collected but the grace time.
func FromBucket(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID, topic string) (*Snapshot, error) {
	plan, err := restore.MakePlan(ctx, restore.Options{Bucket: bucket, Cluster: cluster, Topics: []string{topic}})
	if err != nil {
		return nil, err
	}
	found := &plan.Topics[0]
	if !found.Tiered {
		return nil, fmt.Errorf("topic %s: %w", topic, ErrNotTiered)
	}
	snapshot := &Snapshot{
		ClusterID: plan.Cluster, Topic: found.Name, TopicID: found.ID, Origins: found.Origins,
		WrittenAt: plan.Checkpoint.WrittenAt, Damaged: plan.Damaged,
	}
	for i := range found.Partitions {
		from := &found.Partitions[i]
		snapshot.Damaged = append(snapshot.Damaged, from.Damaged...)
		snapshot.Partitions = append(snapshot.Partitions, Partition{
			Partition: int32(i), Start: from.Start, End: from.End, Items: from.Items,
		})
	}
	return snapshot, nil
}

// partition finds a partition; nil if the snapshot does not have it.
func (s *Snapshot) partition(number int32) *Partition {
	for i := range s.Partitions {
		if s.Partitions[i].Partition == number {
			return &s.Partitions[i]
		}
	}
	return nil
}

// source shows a snapshot to whoever reads manifests.
type source struct {
	snapshot *Snapshot
	image    *image.Image
}

var _ manifest.Source = (*source)(nil)

func newSource(snapshot *Snapshot) *source {
	topic := &image.Topic{ID: snapshot.TopicID, Name: snapshot.Topic, Origins: snapshot.Origins}
	for i := range snapshot.Partitions {
		p := &snapshot.Partitions[i]
		for int(p.Partition) >= len(topic.Partitions) {
			topic.Partitions = append(topic.Partitions, image.Partition{Leader: kafka.NoBroker})
		}
		topic.Partitions[p.Partition].Tier = p.tier()
	}
	return &source{snapshot: snapshot, image: image.Empty().WithTopic(topic)}
}

func (p *Partition) tier() *image.TierState {
	return &image.TierState{Start: p.Start, End: p.End, Version: 1}
}

// Image implements manifest.Source.
func (s *source) Image() *image.Image { return s.image }

// Items implements manifest.Source.
func (s *source) Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error) {
	p := s.snapshot.partition(tp.Partition)
	if p == nil || tp.ID != s.snapshot.TopicID {
		return nil, nil, fmt.Errorf("partition %s is not in the snapshot: %w", tp, kafka.UnknownTopicOrPartition)
	}
	return p.tier(), p.Items, nil
}
