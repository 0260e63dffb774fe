package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// Options say what is to be restored.
type Options struct {
	Bucket  objectstore.Bucket
	Cluster kafka.UUID // zero: the one cluster in the bucket that nobody has taken over
	Topics  []string   // by name; none: the whole cluster
}

// Plan is what would come back.
type Plan struct {
	Cluster        kafka.UUID // from which it comes
	Checkpoint     checkpoint.Root
	NewestKey      string   // of the newest checkpoint that there was, whether it can be read or not
	Damaged        []string // newer checkpoints that cannot be read
	Topics         []Topic  // by name
	Groups         []checkpoint.Group
	Clamps         []Clamp
	NextProducerID int64 // the first one that a new producer may get
}

// Topic is a topic as it would come back.
type Topic struct {
	ID         kafka.TopicID
	Name       string
	Configs    map[string]string
	Origins    []kafka.UUID // clusters that have written its objects, at least one; empty if it is not tiered
	Tiered     bool         // false: nothing of it is in the bucket, and it comes back empty
	Partitions []Partition
}

// Partition is a partition as it would come back.
type Partition struct {
	LeaderEpoch   kafka.LeaderEpoch // above any that the cluster is known to have had
	Tiered        bool              // false: nothing of what follows is set
	Start         int64             // log start offset
	CheckpointEnd int64             // remote end in the checkpoint
	End           int64             // remote end: the log goes on from here
	Version       int64
	Items         []command.Item // the manifest
	Segments      int64          // those that are part of the log
	Bytes         int64
	Found         int                  // segments that are newer than the checkpoint
	Epochs        []segment.EpochStart // from the log start on
	Producers     []byte               // Kafka's .snapshot file, as of End; nil if there are none
	Damaged       []string             // objects that cannot be read
}

// Clamp is a committed offset that is past what comes back.
type Clamp struct {
	Group     string
	Topic     string
	Partition int32
	Committed int64
	Restored  int64
}

const (
	// workers is how many partitions are looked at at a time: they wait for the store, not for the processor.
	workers = 32
	// epochMargin is how far the leader epochs go up. Clients know those of restarts that left nothing in the bucket,
	// and pass over metadata with an epoch below the one they know.
	epochMargin = 1000
	// cacheBytes is for sealed parts of manifests. Hardly any is read, and none twice.
	cacheBytes = 16 << 20
	// producerMargin is how far the producer ids go up, for the same reason: many times what a cluster hands out between
	// two checkpoints.
	producerMargin = 1 << 30
)

// MakePlan reads from the bucket what would come back.
func MakePlan(ctx context.Context, options Options) (*Plan, error) {
	cluster := options.Cluster
	if cluster.IsZero() {
		var err error
		if cluster, err = chooseCluster(ctx, options.Bucket); err != nil {
			return nil, err
		}
	}
	newest, err := checkpoint.NewestKey(ctx, options.Bucket, cluster)
	if err != nil {
		return nil, err
	}
	read, err := checkpoint.Read(ctx, options.Bucket, cluster)
	if err != nil {
		return nil, err
	}
	topics, err := selectTopics(read.Topics, options.Topics)
	if err != nil {
		return nil, err
	}
	p := &planner{
		bucket: options.Bucket, cluster: cluster,
		manifests: manifest.New(manifest.Options{
			Source: read, Bucket: options.Bucket, ClusterID: cluster, CacheBytes: cacheBytes,
		}),
		plan: &Plan{
			Cluster: cluster, Checkpoint: read.Root, NewestKey: newest, Damaged: read.Damaged,
			NextProducerID: read.Root.NextProducerID,
		},
	}
	if err := p.addTopics(ctx, topics); err != nil {
		return nil, err
	}
	p.addGroups(read.Groups, time.Now().UnixMilli())
	p.finish()
	return p.plan, nil
}

// chooseCluster finds the one cluster in a bucket that nobody has taken over.
func chooseCluster(ctx context.Context, bucket objectstore.Bucket) (kafka.UUID, error) {
	all, err := checkpoint.Clusters(ctx, bucket)
	if err != nil {
		return kafka.UUID{}, err
	}
	var own []kafka.UUID
	for _, cluster := range all {
		owner, err := checkpoint.Owner(ctx, bucket, cluster)
		if err != nil {
			return kafka.UUID{}, err
		}
		if owner == cluster {
			own = append(own, cluster)
		}
	}
	switch {
	case len(own) == 1:
		return own[0], nil
	case len(own) == 0:
		return kafka.UUID{}, errors.New("there is no cluster in this store: is it the right one, with the right folder?")
	}
	names := make([]string, len(own))
	for i, cluster := range own {
		names[i] = cluster.Hex()
		if read, err := checkpoint.Read(ctx, bucket, cluster); err == nil {
			names[i] += " (" + time.UnixMilli(read.Root.WrittenAt).UTC().Format(time.RFC3339) + ")"
		}
	}
	return kafka.UUID{}, fmt.Errorf("there are %d clusters in this store, with the times of their last checkpoints: %s; "+
		"say which one with --cluster", len(own), strings.Join(names, ", "))
}

// ErrNoTopic says that a checkpoint does not have a topic.
var ErrNoTopic = errors.New("it is not in the newest checkpoint; `firn restore --dry-run` lists the topics that are")

func selectTopics(all []checkpoint.Topic, names []string) ([]checkpoint.Topic, error) {
	if len(names) == 0 {
		return all, nil
	}
	var selected []checkpoint.Topic
	for _, name := range names {
		i := slices.IndexFunc(all, func(topic checkpoint.Topic) bool { return topic.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("topic %s: %w", name, ErrNoTopic)
		}
		if !slices.ContainsFunc(selected, func(topic checkpoint.Topic) bool { return topic.Name == name }) {
			selected = append(selected, all[i])
		}
	}
	return selected, nil
}

// planner is a plan in the making.
type planner struct {
	bucket    objectstore.Bucket
	cluster   kafka.UUID
	manifests *manifest.Manifests // as of the checkpoint
	plan      *Plan
}

func (p *planner) addTopics(ctx context.Context, topics []checkpoint.Topic) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	p.plan.Topics = make([]Topic, len(topics))
	for i := range topics {
		from, to := &topics[i], &p.plan.Topics[i]
		*to = Topic{
			ID: from.ID, Name: from.Name, Configs: from.Configs, Tiered: from.Tiered(),
			Partitions: make([]Partition, len(from.Partitions)),
		}
		if to.Tiered {
			if to.Origins = from.Origins; len(to.Origins) == 0 {
				to.Origins = []kafka.UUID{p.cluster}
			}
		}
		for j := range from.Partitions {
			to.Partitions[j].LeaderEpoch = from.Partitions[j].LeaderEpoch
			if !from.Partitions[j].Tiered {
				continue
			}
			group.Go(func() error {
				err := p.addPartition(ctx, to, int32(j), &from.Partitions[j])
				if err != nil {
					return fmt.Errorf("partition %d of topic %s: %w", j, to.Name, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// addPartition rolls a partition forward from where the checkpoint has it.
func (p *planner) addPartition(ctx context.Context, topic *Topic, index int32, from *checkpoint.Partition) error {
	to := &topic.Partitions[index]
	tp := kafka.TopicIDPartition{ID: topic.ID, Partition: index}
	to.Tiered, to.Version, to.Items = true, from.Version, from.Items
	to.Segments, to.Bytes = from.Segments, from.Bytes
	to.Start, to.CheckpointEnd, to.End = from.Start, from.End, from.End
	edge := checkpoint.Edge{ClusterID: p.cluster, Partition: tp, End: from.End, LeaderEpoch: kafka.NoLeaderEpoch}
	if len(from.Items) > 0 {
		edge.LeaderEpoch = from.Items[len(from.Items)-1].Summary().LeaderEpoch
	}
	forward, err := p.rollForward(ctx, topic, edge)
	if err != nil {
		return err
	}
	to.Damaged = forward.Damaged
	last := forward.Last
	if last != nil {
		to.take(forward, len(topic.Origins)-1)
		if err := p.cut(ctx, tp, to, forward.Start); err != nil {
			return err
		}
	} else if last, err = p.lastTail(ctx, topic, tp, to); err != nil {
		return err
	}
	if last != nil {
		to.Epochs = last.LeaderEpochs
		if last.EndOffset == to.End {
			to.Producers = last.ProducerSnapshot
		}
	}
	for _, item := range to.Items {
		to.LeaderEpoch = max(to.LeaderEpoch, item.Summary().LeaderEpoch)
	}
	for _, start := range to.Epochs {
		to.LeaderEpoch = max(to.LeaderEpoch, start.Epoch)
	}
	return nil
}

// rollForward finds what is newer than the checkpoint. Where remote storage was switched off nothing is: what lies
// there was removed from the log by that and has not been collected yet. It is switched on again in a checkpoint first.
func (p *planner) rollForward(ctx context.Context, topic *Topic, edge checkpoint.Edge) (*checkpoint.Forward, error) {
	settings, err := config.ResolveTopic(topic.Configs, config.NoBroker)
	if err != nil {
		return nil, err
	}
	if !settings.RemoteStorageEnable {
		return &checkpoint.Forward{Start: -1}, nil
	}
	return checkpoint.RollForward(ctx, p.bucket, edge)
}

// take adds the segments that are newer than the checkpoint.
func (p *Partition) take(forward *checkpoint.Forward, origin int) {
	for _, entry := range forward.Entries {
		p.Items = append(p.Items[:len(p.Items):len(p.Items)], entry.WithOrigin(origin))
		p.Segments, p.Bytes = p.Segments+1, p.Bytes+entry.ObjectBytes
	}
	p.Found, p.End = len(forward.Entries), forward.Last.EndOffset
	p.Version += int64(p.Found)
}

// cut moves the log start forward to where the newest segment has seen it. What it has passed since the checkpoint is
// garbage that no metadata tells of any more: verification finds it.
func (p *planner) cut(ctx context.Context, tp kafka.TopicIDPartition, to *Partition, start int64) error {
	if start <= to.Start {
		return nil
	}
	to.Start, to.Segments, to.Bytes = start, 0, 0
	for len(to.Items) > 0 && to.Items[0].Summary().EndOffset <= start {
		to.Items = to.Items[1:]
	}
	for _, item := range to.Items {
		s := item.Summary()
		to.Segments, to.Bytes = to.Segments+s.Segments, to.Bytes+s.ObjectBytes
	}
	if len(to.Items) == 0 || to.Items[0].Summary().BaseOffset >= start {
		return nil
	}
	// The start may lie in a sealed part of the manifest, which lists segments that are not part of the log any more.
	entries, err := p.entries(ctx, tp, to.Items[0])
	for _, entry := range entries {
		if entry.EndOffset <= start {
			to.Segments, to.Bytes = to.Segments-1, to.Bytes-entry.ObjectBytes
		}
	}
	return err
}

// entries lists the segments that an item stands for.
func (p *planner) entries(ctx context.Context, tp kafka.TopicIDPartition, item command.Item) (
	entries []command.SegmentEntry, err error,
) {
	reference, ok := item.(command.Reference)
	if !ok {
		return []command.SegmentEntry{item.(command.SegmentEntry)}, nil
	}
	items, err := p.manifests.Open(ctx, tp, reference)
	for i := 0; i < len(items) && err == nil; i++ {
		var below []command.SegmentEntry
		below, err = p.entries(ctx, tp, items[i])
		entries = append(entries, below...)
	}
	return entries, err
}

// lastTail reads the tail of the newest segment of the manifest. One that is damaged is passed over for the one before
// it: the epochs of that are those of the log up to there, and the damaged segment says what it is to who reads it.
func (p *planner) lastTail(ctx context.Context, topic *Topic, tp kafka.TopicIDPartition, to *Partition) (
	*segment.Tail, error,
) {
	for _, item := range slices.Backward(to.Items) {
		entries, err := p.entries(ctx, tp, item)
		if manifest.IsCorrupt(err) {
			to.Damaged = append(to.Damaged, err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range slices.Backward(entries) {
			key := segment.KeyOf(topic.Origins[entry.Origin()], tp, entry).String()
			tail, err := segment.ReadTail(ctx, p.bucket, key, entry.ObjectBytes, entry.TailBytes)
			switch {
			case err == nil:
				return tail, nil
			case !isDamage(err):
				return nil, err
			}
			to.Damaged = append(to.Damaged, err.Error())
		}
	}
	return nil, nil
}

// isDamage tells whether an error says that an object is gone, cut short or not what it was, and so will stay.
func isDamage(err error) bool {
	return segment.IsCorrupt(err) || errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, io.ErrUnexpectedEOF)
}
