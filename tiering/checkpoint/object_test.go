package checkpoint

import (
	"testing"

	"github.com/firnlog/firn/tiering/segment"
)

// TestAnObjectTellsByItselfWhatItHolds: for whoever looks into a bucket and has one object of a checkpoint.
func TestAnObjectTellsByItselfWhatItHolds(t *testing.T) {
	object, err := ParseObject(seal(segment.KindCheckpoint, sampleRoot().append(nil)))
	must(t, err)
	shards := object.Root.Shards()
	if object.Shard != nil || object.Root.Index != 77 || len(shards) != 1 || shards[0].Contents != "topics" ||
		shards[0].Number != 3 || shards[0].Bytes != 500 || shards[0].Key != sampleRoot().shards[0].key(ours) {
		t.Errorf("the root: %+v with %+v", object.Root, shards)
	}
	var read []*Shard
	for _, s := range sampleShards() {
		object, err := ParseObject(seal(segment.KindShard, s.append(nil, ours)))
		must(t, err)
		if object.Root != nil || object.Shard.ClusterID != ours || object.Shard.Number != s.number {
			t.Errorf("a shard: %+v", object)
		}
		read = append(read, object.Shard)
	}
	topics, groups := read[0], read[1]
	if topics.Contents != "topics" || len(topics.Topics) != 1 || topics.Topics[0].Name != "events" ||
		topics.Topics[0].PartitionCount != 2 || len(topics.Partitions) != 2 || len(topics.Partitions[1].Items) != 2 ||
		topics.Partitions[1].TopicIDPartition.Partition != 1 {
		t.Errorf("topics: %+v", topics)
	}
	if groups.Contents != "groups" || len(groups.Groups) != 1 || len(groups.Groups[0].Offsets) != 2 {
		t.Errorf("groups: %+v", groups)
	}
}

func TestNoOtherObjectIsTakenForOneOfACheckpoint(t *testing.T) {
	shard := seal(segment.KindShard, sampleShards()[0].append(nil, ours))
	for name, data := range map[string][]byte{
		"nothing":          nil,
		"a leaf":           seal(segment.KindLeaf, []byte("items")),
		"a torn shard":     shard[1:],
		"an unknown shard": seal(segment.KindShard, append([]byte{9, 0}, make([]byte, 16)...)),
	} {
		if object, err := ParseObject(data); err == nil {
			t.Errorf("%s is read as %+v", name, object)
		}
	}
}
