package checkpoint

import (
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/segment"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; released bytes must never change")

func sampleRoot() *Root {
	return &Root{
		ClusterID: ours, Index: 77, ID: id(1), WrittenAt: 1_700_000_000_000, NextProducerID: 5000,
		BrokerConfigs: map[string]string{"log.retention.ms": "9"},
		SingleBrokerConfigs: map[string]map[string]string{
			"1": {"log.retention.ms": "8", "log.cleaner.threads": "2"}, "2": {"log.retention.ms": "7"},
		},
		shards: []shardRef{{
			shardID: shardID{shardOfTopics, 3}, id: id(2), bytes: 500, checksum: 0xfedcba98, digest: id(9),
		}},
	}
}

func sampleShards() []*shard {
	return []*shard{{
		shardID: shardID{shardOfTopics, 3},
		topics: []topicRecord{{topic: Topic{
			ID: id(0x20), Name: "events", Configs: map[string]string{"a": "b"}, Origins: []kafka.UUID{theirs, ours},
		}, partitions: 2}},
		partitions: []partitionRecord{
			{tp: kafka.TopicIDPartition{ID: id(0x20)}, partition: Partition{LeaderEpoch: 4}},
			{tp: kafka.TopicIDPartition{ID: id(0x20), Partition: 1}, partition: Partition{
				LeaderEpoch: 5, Tiered: true, Start: 12, End: 30, Version: 9, Segments: 2, Bytes: 2400,
				Items: []command.Item{entry(10, 20, 0), entry(20, 30, 2).WithOrigin(1)},
			}},
		},
	}, {
		shardID: shardID{shardOfGroups, 15},
		groups: []Group{{Name: "g", Configs: map[string]string{"x": "y"}, Offsets: []Offset{
			{Topic: "events", TopicID: id(0x20), Partition: 1, Offset: 25, LeaderEpoch: 2, Metadata: "m"},
			{Topic: "events", Partition: 2, Offset: 3, LeaderEpoch: -1, ExpiresAt: 1_700_000_000_001},
		}}},
	}}
}

// TestTheFormatIsForEver keeps what was ever written readable: if it fails, the format has changed and needs a new
// version.
func TestTheFormatIsForEver(t *testing.T) {
	objects := [][]byte{seal(segment.KindCheckpoint, sampleRoot().append(nil))}
	for _, s := range sampleShards() {
		objects = append(objects, seal(segment.KindShard, s.append(nil, ours)))
	}
	var text strings.Builder
	for _, object := range objects {
		text.WriteString(hex.EncodeToString(object) + "\n")
	}
	path := filepath.Join("testdata", "checkpoint-v2.golden")
	if *rewrite {
		must(t, os.WriteFile(path, []byte(text.String()), 0o644))
	}
	stored, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(stored), text.String()); diff != "" {
		t.Errorf("the encoding has changed (-golden +now):\n%s", diff)
	}
	expectObjects(t, string(stored), sampleRoot(), sampleShards())
}

// TestTheFirstVersionIsRead: it knew neither settings of single brokers nor when offsets expire.
func TestTheFirstVersionIsRead(t *testing.T) {
	stored, err := os.ReadFile(filepath.Join("testdata", "checkpoint-v1.golden"))
	must(t, err)
	root, shards := sampleRoot(), sampleShards()
	root.SingleBrokerConfigs = nil
	groups := shards[1].groups
	groups[0].Offsets = groups[0].Offsets[:1]
	expectObjects(t, string(stored), root, shards)
}

// expectObjects reads a root and the shards behind it, a line each.
func expectObjects(t *testing.T, lines string, wantRoot *Root, wantShards []*shard) {
	t.Helper()
	for i, line := range strings.Fields(lines) {
		data, err := hex.DecodeString(line)
		must(t, err)
		if i == 0 {
			root, err := parseRoot(data)
			must(t, err)
			if diff := cmp.Diff(wantRoot, root, cmp.AllowUnexported(Root{}, shardRef{}, shardID{})); diff != "" {
				t.Errorf("the root reads back differently (-want +got):\n%s", diff)
			}
			continue
		}
		want := wantShards[i-1]
		got, err := parseShard(data, ours, want.shardID)
		must(t, err)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(shard{}, shardID{}, topicRecord{}, partitionRecord{},
			Checkpoint{})); diff != "" {
			t.Errorf("shard %d reads back differently (-want +got):\n%s", i, diff)
		}
	}
}

// TestTheSpreadIsForEver: a record that moved to another shard would be in two, or in none.
func TestTheSpreadIsForEver(t *testing.T) {
	tp := kafka.TopicIDPartition{ID: id(0x20), Partition: 3}
	got := []uint32{shardOfTopic(tp.ID).number, shardOfPartition(tp).number, shardOfGroup("group").number}
	if diff := cmp.Diff([]uint32{53, 12, 12}, got); diff != "" {
		t.Errorf("shards (-want +got):\n%s", diff)
	}
}

func TestADamagedCheckpointIsPassedOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		topic := w.createTopic(0x20, "events", 1)
		w.begin()
		w.commit(topic, 0, entry(0, 10, 0))
		w.pass(w.interval + time.Second)
		w.commit(topic, 0, entry(10, 20, 0))
		w.pass(w.interval + time.Second)
		newest := w.writer.newest()
		whole := w.bucket.Clone()
		keys := []string{newest.Key()}
		for i := range newest.shards {
			if ref := &newest.shards[i]; ref.shardID == shardOfPartition(kafka.TopicIDPartition{ID: topic.ID}) {
				keys = append(keys, ref.key(ours))
			}
		}
		for _, key := range keys {
			good := object(t, whole, key)
			damages := [][]byte{nil, good[:len(good)-1], []byte("<html>")}
			for i := 0; i < len(good); i += 7 {
				bad := append([]byte(nil), good...)
				bad[i] ^= 0x40
				damages = append(damages, bad)
			}
			for i, bad := range damages {
				if bad == nil {
					must(t, w.bucket.Delete(t.Context(), key))
				} else {
					put(t, w.bucket, key, bad)
				}
				read := w.read()
				end := read.Topics[0].Partitions[0].End
				if missing := bad == nil && key == newest.Key(); missing && end == 10 {
					continue // nobody can know that it was there
				}
				if end != 10 || len(read.Damaged) != 1 || !strings.Contains(read.Damaged[0], key) {
					t.Errorf("%s, damage %d: end %d, damaged %v", key, i, end, read.Damaged)
				}
			}
			put(t, w.bucket, key, good)
		}
		if read := w.read(); read.Topics[0].Partitions[0].End != 20 || read.Damaged != nil {
			t.Errorf("mended: %+v", read)
		}
		for _, key := range w.keys(rootPrefix(ours)) {
			put(t, w.bucket, key, []byte("damage"))
		}
		if _, err := Read(t.Context(), w.bucket, ours); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("all damaged: %v", err)
		}
	})
}

func TestClustersAreFoundWithoutListingTheirObjects(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, key := range []string{ours.Hex() + "/a/b", ours.Hex() + "/z", theirs.Hex() + "/meta/x", "probe/1", "zz",
			strings.ToUpper(id(0xfa).Hex()) + "/x", third.Hex()} {
			put(t, w.bucket, key, []byte("x"))
		}
		got, err := Clusters(t.Context(), w.bucket)
		must(t, err)
		if diff := cmp.Diff([]kafka.UUID{ours, theirs}, got[:2]); diff != "" || len(got) > 3 {
			t.Errorf("clusters (-want +got):\n%s\n%v", diff, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(sampleRoot().append(nil))
	for _, s := range sampleShards() {
		f.Add(s.append(nil, ours))
	}
	f.Fuzz(func(t *testing.T, contents []byte) {
		if root, err := parseRoot(seal(segment.KindCheckpoint, contents[:len(contents):len(contents)])); err == nil {
			if again, err := parseRoot(seal(segment.KindCheckpoint, root.append(nil))); err != nil {
				t.Errorf("%+v cannot be read back: %v", again, err)
			}
		}
		for _, id := range []shardID{{shardOfTopics, 3}, {shardOfGroups, 15}} {
			s, err := parseShard(seal(segment.KindShard, contents[:len(contents):len(contents)]), ours, id)
			if err == nil {
				_ = (&Checkpoint{}).join([]*shard{s})
			}
		}
	})
}
