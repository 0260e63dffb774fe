package restore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var old = kafka.UUID{0xc1}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newID() (id kafka.UUID) {
	_, _ = rand.Read(id[:])
	return id
}

// cluster is a cluster as its bucket has it: what a test puts there, and one checkpoint of what it says.
type cluster struct {
	t      testing.TB
	bucket *objectstore.Memory
	image  *image.Image
	items  map[kafka.TopicIDPartition][]command.Item
	groups []checkpoint.Group
}

func newCluster(t testing.TB) *cluster {
	return &cluster{
		t: t, bucket: objectstore.NewMemory(), items: map[kafka.TopicIDPartition][]command.Item{},
		image: image.Empty().With(func(next *image.Image) {
			next.ClusterID, next.Controller, next.Index, next.NextProducerID = old, 1, 50, 3000
		}),
	}
}

func (c *cluster) Image() *image.Image { return c.image }

func (c *cluster) Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error) {
	partition, _ := c.image.PartitionByID(tp)
	return partition.Tier, c.items[tp], nil
}

func (c *cluster) Propose(context.Context, command.Command) (any, error) { return nil, nil }

func (c *cluster) ElapsedMs() int64 { return 1 }

// topic adds a topic. Its partitions are tiered from offset 0 on, or not at all.
func (c *cluster) topic(name string, partitions int, tiered bool) *image.Topic {
	topic := &image.Topic{
		ID: newID(), Name: name, Partitions: make([]image.Partition, partitions),
		Configs: map[string]string{"remote.storage.enable": strconv.FormatBool(tiered)},
	}
	for i := range topic.Partitions {
		topic.Partitions[i].Epoch = 2
		if tiered {
			topic.Partitions[i].Tier = &image.TierState{Version: 1}
		}
	}
	c.image = c.image.WithTopic(topic)
	return topic
}

// upload puts a segment of one record per offset, and nothing else.
func (c *cluster) upload(topic *image.Topic, partition int32, base, end int64, change func(*segment.Tail)) (
	command.SegmentEntry, string,
) {
	c.t.Helper()
	builder := record.NewBuilder(record.PlainProducer())
	for offset := base; offset < end; offset++ {
		builder.Append(offset, nil, []byte("v"))
	}
	data := builder.Build()
	data.SetBaseOffset(base)
	tail := segment.Tail{
		ClusterID: old, Partition: kafka.TopicIDPartition{ID: topic.ID, Partition: partition}, Topic: topic.Name,
		BaseOffset: base, EndOffset: end, LeaderEpoch: 2, UploadID: newID(), IndexBaseOffset: base, FirstAppendedAt: 1,
		LastAppendedAt: 1, LeaderEpochs: []segment.EpochStart{{Epoch: 2, StartOffset: 0}},
		Contents: segment.Contents{DataBytes: int64(len(data))},
	}
	if change != nil {
		change(&tail)
	}
	object, err := segment.New(c.t.Context(), bytes.NewReader(data), tail)
	must(c.t, err)
	key := object.Tail.Key().String()
	must(c.t, c.bucket.Put(c.t.Context(), key, object, object.Size(), objectstore.PutOptions{}))
	return object.Tail.Entry(), key
}

// commit makes items part of a partition's log.
func (c *cluster) commit(topic *image.Topic, partition int32, items ...command.Item) {
	tp := kafka.TopicIDPartition{ID: topic.ID, Partition: partition}
	c.items[tp] = append(c.items[tp], items...)
	known, _ := c.image.PartitionByID(tp)
	tier := *known.Tier
	for _, item := range items {
		s := item.Summary()
		tier.End, tier.Segments, tier.Bytes = s.EndOffset, tier.Segments+s.Segments, tier.Bytes+s.ObjectBytes
		tier.Version++
	}
	c.image = c.image.WithTier(tp, &tier)
}

// seal puts a leaf of a run of segments and gives the reference to it.
func (c *cluster) seal(topic *image.Topic, partition int32, items ...command.Item) command.Reference {
	c.t.Helper()
	first, last := items[0].Summary(), items[len(items)-1].Summary()
	level := first.Level + 1
	key := segment.KeyOfItem(old, kafka.TopicIDPartition{ID: topic.ID, Partition: partition}, command.Reference{
		Level: level, BaseOffset: first.BaseOffset, EndOffset: last.EndOffset, LeaderEpoch: 2, UploadID: newID(),
	})
	data, reference := manifest.Seal(key, topic.Name, 0, items)
	must(c.t, c.bucket.Put(c.t.Context(), key.String(), bytes.NewReader(data), int64(len(data)), objectstore.PutOptions{}))
	return reference
}

// checkpoint writes one.
func (c *cluster) checkpoint() {
	c.t.Helper()
	writer := checkpoint.NewWriter(checkpoint.Options{
		Logger: slog.New(slog.DiscardHandler), BrokerID: 1, ClusterID: old, Bucket: c.bucket, Metadata: c,
		Claim:  checkpoint.NewClaim(c.bucket, old, nil),
		Groups: func() ([]checkpoint.Group, error) { return c.groups, nil }, Interval: time.Hour, NewID: newID,
	})
	writer.Apply(c.image, image.Delta{Index: c.image.Index, Reset: true})
	ctx, stop := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		writer.Run(ctx)
	}()
	err := writer.Flush(c.t.Context())
	stop()
	<-done
	must(c.t, err)
}

// producers is a snapshot of one producer.
func producers(id int64) []byte {
	return storage.AppendProducerSnapshot(nil, []storage.SnapshotEntry{{
		ProducerID: id, LastSequence: 1, LastOffset: 1, Timestamp: 1, TxnFirstOffset: -1,
	}})
}
