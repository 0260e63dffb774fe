package restore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/restore"
	"github.com/firnlog/firn/tiering/segment"
)

func (c *cluster) plan(options restore.Options) *restore.Plan {
	c.t.Helper()
	options.Bucket = c.bucket
	plan, err := restore.MakePlan(c.t.Context(), options)
	must(c.t, err)
	return plan
}

func TestAPlanGoesUpToWhatWasUploadedLast(t *testing.T) {
	c := newCluster(t)
	topic := c.topic("events", 2, true)
	first, _ := c.upload(topic, 0, 0, 10, nil)
	c.commit(topic, 0, first)
	c.checkpoint()
	c.upload(topic, 0, 10, 20, func(tail *segment.Tail) {
		tail.LeaderEpoch, tail.LogStartOffset, tail.ProducerSnapshot = 5, 3, producers(90_000)
		tail.LeaderEpochs = []segment.EpochStart{{Epoch: 2, StartOffset: 3}, {Epoch: 5, StartOffset: 12}}
	})
	plan := c.plan(restore.Options{})
	p := plan.Topics[0].Partitions[0]
	if p.Start != 3 || p.CheckpointEnd != 10 || p.End != 20 || p.Found != 1 || p.Segments != 2 || len(p.Items) != 2 ||
		p.LeaderEpoch <= 5 || p.Producers == nil || len(p.Epochs) != 2 || p.Version != 3 {
		t.Errorf("partition 0: %+v", p)
	}
	if empty := plan.Topics[0].Partitions[1]; !empty.Tiered || empty.End != 0 || len(empty.Items) != 0 || empty.LeaderEpoch <= 2 {
		t.Errorf("partition 1: %+v", empty)
	}
	if plan.NextProducerID < 90_000+1_000_000 || !cmp.Equal(plan.Topics[0].Origins, []kafka.UUID{old}) {
		t.Errorf("next producer id %d, origins %v", plan.NextProducerID, plan.Topics[0].Origins)
	}
}

func TestOffsetsPastTheEndAreMovedBack(t *testing.T) {
	c := newCluster(t)
	topic, local := c.topic("events", 1, true), c.topic("local", 1, false)
	first, _ := c.upload(topic, 0, 0, 10, nil)
	c.commit(topic, 0, first)
	offset := func(topic string, id kafka.TopicID, partition int32, at int64) checkpoint.Offset {
		return checkpoint.Offset{Topic: topic, TopicID: id, Partition: partition, Offset: at, LeaderEpoch: 40, Metadata: "m"}
	}
	until := func(end time.Time) checkpoint.Offset {
		expiring := offset("events", topic.ID, 0, 5)
		expiring.ExpiresAt = end.UnixMilli()
		return expiring
	}
	c.groups = []checkpoint.Group{
		{Name: "a", Offsets: []checkpoint.Offset{offset("events", topic.ID, 0, 10), offset("events", topic.ID, 7, 1)}},
		{Name: "b", Offsets: []checkpoint.Offset{offset("events", kafka.TopicID{}, 0, 11), offset("gone", newID(), 0, 1)}},
		{Name: "c", Offsets: []checkpoint.Offset{offset("events", newID(), 0, 11)}}, // of an earlier topic of that name
		{Name: "d", Offsets: []checkpoint.Offset{offset("local", local.ID, 0, 3)}},
		{Name: "e", Configs: map[string]string{"x": "y"}},
		{Name: "f", Offsets: []checkpoint.Offset{until(time.Now().Add(time.Hour)), until(time.Now())}}, // one is over
	}
	c.checkpoint()
	plan := c.plan(restore.Options{})
	want := []restore.Clamp{
		{Group: "b", Topic: "events", Committed: 11, Restored: 10}, {Group: "d", Topic: "local", Committed: 3},
	}
	if diff := cmp.Diff(want, plan.Clamps); diff != "" {
		t.Errorf("clamps (-want +got):\n%s", diff)
	}
	var text strings.Builder
	for _, group := range plan.Groups {
		fmt.Fprint(&text, group.Name)
		for _, o := range group.Offsets {
			fmt.Fprintf(&text, " %s %d epoch %d %s", o.Topic, o.Offset, o.LeaderEpoch, o.Metadata)
		}
		text.WriteString("\n")
	}
	if got := text.String(); got != "a events 10 epoch 40 m\nb events 10 epoch 2 m\nd local 0 epoch -1 m\ne\n"+
		"f events 5 epoch 40 m\n" {
		t.Errorf("groups:\n%s", got)
	}
	if epoch := plan.Topics[0].Partitions[0].LeaderEpoch; epoch <= 40 {
		t.Errorf("leader epoch %d, although somebody has seen 40", epoch)
	}
}

func TestSealedPartsOfAManifestAreRestoredAsTheyAre(t *testing.T) {
	for name, logStart := range map[string]int64{"as it was": 0, "moved into a leaf": 25, "moved past a leaf": 45} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			topic := c.topic("events", 1, true)
			var leaves []command.Item
			var bytes int64
			for leaf := range int64(2) {
				var items []command.Item
				for i := range int64(4) {
					base := 40*leaf + 10*i
					entry, _ := c.upload(topic, 0, base, base+10, nil)
					items, bytes = append(items, entry), entry.ObjectBytes
				}
				leaves = append(leaves, c.seal(topic, 0, items...))
			}
			c.commit(topic, 0, c.seal(topic, 0, leaves...))
			last, _ := c.upload(topic, 0, 80, 90, nil)
			c.commit(topic, 0, last)
			c.checkpoint()
			c.upload(topic, 0, 90, 100, func(tail *segment.Tail) { tail.LogStartOffset = logStart })
			p := c.plan(restore.Options{}).Topics[0].Partitions[0]
			if p.Start != logStart || p.End != 100 || p.Segments != 10-logStart/10 || len(p.Items) != 3 || len(p.Damaged) > 0 {
				t.Errorf("%+v", p)
			}
			if got, want := p.Bytes, bytes*(10-logStart/10); got < want*9/10 || got > want*11/10 {
				t.Errorf("%d bytes, want about %d", got, want)
			}
		})
	}
}

func TestADamagedTailCostsNoMoreThanItsSegment(t *testing.T) {
	c := newCluster(t)
	topic := c.topic("events", 1, true)
	first, _ := c.upload(topic, 0, 0, 10, func(tail *segment.Tail) { tail.ProducerSnapshot = producers(1) })
	second, key := c.upload(topic, 0, 10, 20, func(tail *segment.Tail) { tail.ProducerSnapshot = producers(2) })
	c.commit(topic, 0, first, second)
	c.checkpoint()
	must(t, c.bucket.Put(t.Context(), key, strings.NewReader("gone bad"), 8, objectstore.PutOptions{}))
	p := c.plan(restore.Options{}).Topics[0].Partitions[0]
	if p.End != 20 || len(p.Damaged) != 1 || len(p.Epochs) != 1 || p.Producers != nil {
		t.Errorf("%+v", p)
	}
	must(t, c.bucket.Delete(t.Context(), key))
	if p := c.plan(restore.Options{}).Topics[0].Partitions[0]; p.End != 20 || len(p.Damaged) != 1 {
		t.Errorf("a segment that is gone: %+v", p)
	}
}

func TestAClusterIsChosenOnlyWhereThereIsNoDoubt(t *testing.T) {
	c := newCluster(t)
	fails := func(want string, options restore.Options) {
		t.Helper()
		options.Bucket = c.bucket
		if _, err := restore.MakePlan(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %q", err, want)
		}
	}
	fails("there is no cluster in this store", restore.Options{})
	c.topic("events", 1, true)
	c.checkpoint()
	other := newID()
	must(t, c.bucket.Put(t.Context(), other.Hex()+"/x", strings.NewReader("x"), 1, objectstore.PutOptions{}))
	fails("there are 2 clusters in this store", restore.Options{})
	fails("topic nothing: it is not in the newest checkpoint", restore.Options{Cluster: old, Topics: []string{"nothing"}})
	must(t, checkpoint.Take(t.Context(), c.bucket, other, newID(), time.Now()))
	if plan := c.plan(restore.Options{Topics: []string{"events", "events"}}); plan.Cluster != old || len(plan.Topics) != 1 {
		t.Errorf("%+v", plan)
	}
}

func TestAStoreThatDoesNotAnswerIsNoEmptyOne(t *testing.T) {
	c := newCluster(t)
	topic := c.topic("events", 1, true)
	first, _ := c.upload(topic, 0, 0, 10, nil)
	c.commit(topic, 0, first)
	c.checkpoint()
	var calls atomic.Int64
	faulty := objectstore.NewFaulty(c.bucket, func(objectstore.Call, objectstore.Fault) { calls.Add(1) })
	if _, err := restore.MakePlan(t.Context(), restore.Options{Bucket: faulty}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= int(calls.Load()); i++ {
		faulty := objectstore.NewFaulty(c.bucket, nil)
		faulty.SetRules(objectstore.Rule{When: objectstore.Times(i, i, objectstore.Always()), Then: objectstore.Refuse()})
		if _, err := restore.MakePlan(t.Context(), restore.Options{Bucket: faulty}); !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("call %d of %d fails: %v", i, calls.Load(), err)
		}
	}
}
