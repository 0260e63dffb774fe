package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/objectstore"
)

func TestACheckpointHasEverythingThatARestoreNeeds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.createTopic(0x20, "local", 1)
		w.createTopic(0x21, "__consumer_offsets", 3)
		topic := w.createTopic(0x22, "events", 2)
		w.commit(topic, 1, entry(10, 20, 0))
		w.commit(topic, 1, entry(20, 30, 2))
		w.change(func(img *image.Image) (*image.Image, image.Delta) {
			next := img.With(func(next *image.Image) { next.NextProducerID = 4000 })
			next = next.WithBrokerConfig("", map[string]string{"log.retention.ms": "5"})
			return next.WithBrokerConfig("3", map[string]string{"log.cleaner.threads": "7"}), image.Delta{}
		})
		w.meta.groups = []Group{
			{Name: "g", Configs: map[string]string{"x": "y"}, Offsets: []Offset{
				{Topic: "events", TopicID: id(0x22), Partition: 1, Offset: 25, LeaderEpoch: 2, Metadata: "m"},
				{Topic: "events", Partition: 0, Offset: 5, LeaderEpoch: -1, ExpiresAt: 77},
			}},
		}
		w.begin()
		read := w.read()
		if read.Root.ClusterID != ours || read.Root.Index != w.meta.image.Index || read.Root.NextProducerID != 4000 ||
			read.Root.BrokerConfigs["log.retention.ms"] != "5" || len(read.Root.SingleBrokerConfigs) != 1 ||
			read.Root.SingleBrokerConfigs["3"]["log.cleaner.threads"] != "7" || read.Root.WrittenAt != time.Now().UnixMilli() {
			t.Errorf("root %+v", read.Root)
		}
		var text strings.Builder
		for _, topic := range read.Topics {
			fmt.Fprintf(&text, "%s %v\n", topic.Name, topic.Configs)
			for i, p := range topic.Partitions {
				fmt.Fprintf(&text, "  %d tiered %t [%d, %d) version %d, %d items\n", i, p.Tiered, p.Start, p.End, p.Version,
					len(p.Items))
			}
		}
		fmt.Fprintf(&text, "%+v\n", read.Groups)
		want := `events map[remote.storage.enable:true]
  0 tiered false [0, 0) version 0, 0 items
  1 tiered true [10, 30) version 3, 2 items
local map[remote.storage.enable:true]
  0 tiered false [0, 0) version 0, 0 items
[{Name:g Configs:map[x:y] Offsets:[{Topic:events TopicID:AAAAAAAAAAAAAAAAAAAAAA Partition:0 Offset:5 LeaderEpoch:-1 Metadata: ExpiresAt:77} ` +
			`{Topic:events TopicID:IgECAwQFBgcICQoLDA0ODw Partition:1 Offset:25 LeaderEpoch:2 Metadata:m ExpiresAt:0}]}]
`
		if diff := cmp.Diff(want, text.String()); diff != "" {
			t.Errorf("the checkpoint (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(w.meta.items[kafka.TopicIDPartition{ID: id(0x22), Partition: 1}],
			read.Topics[0].Partitions[1].Items); diff != "" {
			t.Errorf("the manifest (-want +got):\n%s", diff)
		}
		_, items, err := read.Items(kafka.TopicIDPartition{ID: id(0x22), Partition: 1})
		shown, _ := read.Image().Partition(kafka.TopicPartition{Topic: "events", Partition: 1})
		if err != nil || len(items) != 2 || shown == nil || shown.Tier.End != 30 || shown.Tier.Segments != 2 {
			t.Errorf("as a source of manifests: %d items, %v, %+v", len(items), err, shown)
		}
		if len(w.meta.recorded) != 1 || w.meta.recorded[0].ID != read.Root.ID {
			t.Errorf("recorded are %+v", w.meta.recorded)
		}
	})
}

func TestOnlyWhatHasChangedIsWrittenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var topics []*image.Topic
		for i := range 40 {
			topics = append(topics, w.createTopic(byte(0x20+i), fmt.Sprint("t", i), 4))
		}
		w.meta.groups = []Group{{Name: "a", Offsets: []Offset{{Topic: "t1"}}}, {Name: "b", Offsets: []Offset{{Topic: "t1"}}}}
		w.begin()
		after := func(what string, shards, roots int, do func()) {
			t.Helper()
			w.puts = nil
			do()
			w.pass(w.interval + time.Second)
			got := map[string]int{}
			for _, key := range w.puts {
				got[key[strings.LastIndexByte(key, '.'):]]++
			}
			if got[shardSuffix] != shards || got[rootSuffix] != roots {
				t.Errorf("%s: %v", what, w.puts)
			}
		}
		after("nothing", 0, 0, func() {})
		after("a segment", 1, 1, func() { w.commit(topics[3], 1, entry(0, 10, 0)) })
		after("a leader epoch that stays what it was", 0, 0, func() {
			w.change(func(img *image.Image) (*image.Image, image.Delta) {
				return img, image.Delta{PartitionsChanged: []kafka.TopicIDPartition{{ID: topics[5].ID}}}
			})
		})
		after("an offset", 1, 1, func() { w.meta.groups[1].Offsets[0].Offset = 7 })
		after("producer ids", 0, 1, func() {
			w.meta.image = w.meta.image.With(func(img *image.Image) { img.NextProducerID = 1000 })
		})
		after("a setting of a broker", 0, 1, func() {
			w.change(func(img *image.Image) (*image.Image, image.Delta) {
				return img.WithBrokerConfig("1", map[string]string{"log.cleaner.threads": "2"}), image.Delta{}
			})
		})
		after("garbage", 0, 1, func() {
			w.change(func(img *image.Image) (*image.Image, image.Delta) { return img, image.Delta{} })
			w.meta.garbage = w.meta.image.Index
		})
		after("garbage that only one checkpoint is without", 0, 1, func() {})
		after("garbage that two checkpoints are without", 0, 0, func() {})
		after("a group that is gone", 0, 1, func() { w.meta.groups = w.meta.groups[:1] })
		after("groups that are being loaded", 0, 0, func() { w.meta.groups, w.meta.groupsErr = nil, ErrLoading })
		if read := w.read(); len(read.Groups) != 1 || len(read.Topics) != 40 {
			t.Errorf("%d groups, %d topics", len(read.Groups), len(read.Topics))
		}
	})
}

func TestOldCheckpointsGoWithWhatOnlyTheyName(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		topic := w.createTopic(0x20, "events", 1)
		put(t, w.bucket, shardPrefix(ours)+id(0x77).Hex()+shardSuffix, []byte("of a checkpoint that was never finished"))
		put(t, w.bucket, shardPrefix(ours)+"note", []byte("of a person"))
		w.begin()
		for i := range int64(3 * kept) {
			w.commit(topic, 0, entry(10*i, 10*i+10, 0))
			w.pass(w.interval + time.Second)
		}
		if roots := w.keys(rootPrefix(ours)); len(roots) != kept {
			t.Errorf("%d checkpoints are left", len(roots))
		}
		// Topic and partition lie in two shards, of which the one of the partition is another one in each checkpoint.
		if shards := w.keys(shardPrefix(ours)); len(shards) != kept+1+1 {
			t.Errorf("left are %v", shards)
		}
		for _, root := range w.writer.roots {
			if _, err := readAt(t.Context(), w.bucket, ours, objectstore.ObjectInfo{Key: root.Key(),
				Size: int64(len(object(t, w.bucket, root.Key())))}); err != nil {
				t.Error(err)
			}
		}
	})
}

// A process that ends between any two of its writes leaves a checkpoint that can be read, the old or the new one; the
// next process makes the new one and leaves no trace of the interruption.
func TestACrashAtEachStepLeavesACheckpoint(t *testing.T) {
	for step := 0; ; step++ {
		finished := false
		inBubble(t, func(t *testing.T, w *world) {
			topic := w.createTopic(0x20, "events", 8)
			w.begin()
			for i := range int64(kept) {
				w.commit(topic, 7, entry(10*i, 10*i+10, 0))
				w.pass(w.interval + time.Second)
			}
			for i := range int32(7) {
				w.commit(topic, i, entry(0, 10, 0))
			}
			calls := 0
			w.failing = func(call objectstore.Call) bool {
				if call.Operation == objectstore.OpPut || call.Operation == objectstore.OpDelete {
					calls++
				}
				return calls > step
			}
			w.pass(w.interval + time.Second)
			w.end()
			w.failing = nil
			finished = calls <= step
			read := w.read()
			if len(read.Damaged) > 0 {
				t.Errorf("step %d: %v", step, read.Damaged)
			}
			segments := 0
			for _, p := range read.Topics[0].Partitions {
				segments += len(p.Items)
			}
			if segments != kept && segments != kept+7 {
				t.Errorf("step %d: %d segments", step, segments)
			}
			w.begin()
			w.pass(time.Second)
			if read := w.read(); read.Topics[0].Partitions[0].End != 10 {
				t.Errorf("step %d: the next process has not gone on", step)
			}
			used := map[string]bool{}
			for _, root := range w.writer.roots {
				for _, ref := range root.shards {
					used[ref.key(ours)] = true
				}
			}
			for _, key := range w.keys(shardPrefix(ours)) {
				if !used[key] {
					t.Errorf("step %d: %s is left over", step, key)
				}
			}
		})
		if finished {
			if step < 8 {
				t.Errorf("only %d steps", step)
			}
			return
		}
	}
}

func TestNoSegmentComesBeforeTheCheckpointOfItsTopic(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.begin()
		await := func(topic *image.Topic) chan error {
			done := make(chan error, 1)
			go func() { done <- w.writer.Await(t.Context(), topic.ID) }()
			synctest.Wait()
			return done
		}
		knows := func(name string) bool {
			for _, topic := range w.read().Topics {
				if topic.Name == name {
					return true
				}
			}
			return false
		}
		w.failing = func(call objectstore.Call) bool { return call.Operation == objectstore.OpPut }
		topic := w.createTopic(0x20, "events", 1)
		done := await(topic)
		w.pass(10 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("the topic is in no checkpoint: %v", err)
		default:
		}
		w.failing = nil
		w.pass(w.interval)
		if err := <-done; err != nil || !knows("events") {
			t.Errorf("%v, in the checkpoint: %v", err, knows("events"))
		}
		w.puts = nil
		w.commit(topic, 0, entry(0, 10, 0))
		if err := <-await(topic); err != nil || len(w.puts) > 0 {
			t.Errorf("the next segment has to wait: %v, %v", err, w.puts)
		}
		other := w.createTopic(0x30, "other", 1) // at once, not after a minute
		if err := <-await(other); err != nil || !knows("other") {
			t.Errorf("%v, in the checkpoint: %v", err, knows("other"))
		}
		w.change(func(img *image.Image) (*image.Image, image.Delta) {
			topic = topic.WithConfigs(map[string]string{"retention.ms": "7"})
			return img.WithTopic(topic), image.Delta{ConfigsChanged: []image.ConfigResource{{Topic: true, Name: "events"}}}
		})
		if err := <-await(topic); err != nil || w.read().Topics[0].Configs["retention.ms"] != "7" {
			t.Errorf("reconfigured: %v, %+v", err, w.read().Topics[0])
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.createTopic(0x31, "late", 1)
		if err := w.writer.Await(ctx, id(0x31)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestAFlushHasWhatCameBeforeIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.begin()
		w.meta.groups = []Group{{Name: "g", Offsets: []Offset{{Topic: "t", Offset: 1}}}}
		must(t, w.writer.Flush(t.Context()))
		if read := w.read(); len(read.Groups) != 1 {
			t.Errorf("groups %+v", read.Groups)
		}
	})
}

func TestAClusterThatIsSupersededStops(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		topic := w.createTopic(0x20, "events", 1)
		w.begin()
		must(t, Take(t.Context(), w.bucket, ours, theirs, time.Now()))
		before := w.keys(rootPrefix(ours))
		w.commit(topic, 0, entry(0, 10, 0))
		w.pass(w.interval + time.Second)
		if diff := cmp.Diff(before, w.keys(rootPrefix(ours))); diff != "" {
			t.Errorf("a checkpoint was written:\n%s", diff)
		}
		if err := w.writer.Await(t.Context(), topic.ID); !errors.Is(err, ErrSuperseded) ||
			!strings.Contains(err.Error(), theirs.Hex()) {
			t.Errorf("the wait for a checkpoint: %v", err)
		}
		must(t, w.bucket.Delete(t.Context(), claimKey(ours))) // a person says so
		w.pass(w.interval + time.Second)
		if err := w.writer.Await(t.Context(), topic.ID); err != nil || w.read().Topics[0].Partitions[0].End != 10 {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestOnlyTheControllerWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.meta.image = w.meta.image.With(func(img *image.Image) { img.Controller = 2 })
		w.createTopic(0x20, "events", 1)
		w.begin()
		w.pass(3 * w.interval)
		if len(w.puts) > 0 {
			t.Errorf("written were %v", w.puts)
		}
		w.meta.image = w.meta.image.With(func(img *image.Image) { img.Controller = 1 })
		w.pass(w.interval + time.Second)
		if len(w.read().Topics) != 1 {
			t.Error("the new controller has written nothing")
		}
	})
}
