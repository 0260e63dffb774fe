package command

import (
	"github.com/firnlog/firn/internal/kafka"
)

// id makes an id that is easy to see in a dump.
func id(first byte) kafka.UUID {
	var uuid kafka.UUID
	for i := range uuid {
		uuid[i] = first + byte(i)
	}
	return uuid
}

func pointer(text string) *string { return &text }

func sampleEntry() SegmentEntry {
	return SegmentEntry{
		BaseOffset:         1000,
		EndOffset:          2000,
		LeaderEpoch:        7,
		UploadID:           id(0x90),
		DataBytes:          100_000,
		ObjectBytes:        101_000,
		TailBytes:          1000,
		MinTimestamp:       1_356_998_400_000,
		MaxTimestamp:       1_357_084_800_000,
		MaxTimestampOffset: 1990,
		FirstAppendedAt:    1_700_000_000_000,
		LastAppendedAt:     -1,
		Flags:              HasAbortedTransactions,
	}
}

func sampleReference(level int) Reference {
	return Reference{
		Level: level, BaseOffset: 1000, EndOffset: 9000, LeaderEpoch: 7, UploadID: id(0xa0), Segments: 64,
		DataBytes: 900_000, ObjectBytes: 910_000, SealedBytes: 6500, Checksum: 0xdeadbeef,
		MinTimestamp: 1_356_998_400_000, MaxTimestamp: 1_357_084_800_000, MaxTimestampOffset: 1990,
		FirstAppendedAt: 1_700_000_000_000, LastAppendedAt: -1, Flags: HasAbortedTransactions,
	}.WithOrigin(2)
}

func sampleGarbage(kind GarbageKind) Garbage {
	garbage := Garbage{
		Kind: kind, UploadID: id(0x95), Origin: 1, LeaderEpoch: 6, BaseOffset: 1000, EndOffset: 1500, ObjectBytes: 77,
		ElapsedMs: 70_000, Index: 99,
	}
	if garbage.hasTree() {
		garbage.Tree, garbage.From, garbage.To = sampleReference(LevelLeaf), 1000, 1500
	}
	return garbage
}

// samples has each command at least once, with every field set.
func samples() []Command {
	tp := kafka.TopicIDPartition{ID: id(0x10), Partition: 3}
	partitions := []NewPartition{
		{Replicas: []kafka.BrokerID{1, 2}, Directories: []kafka.UUID{id(0x20), id(0x40)}},
		{Replicas: []kafka.BrokerID{2}, Directories: []kafka.UUID{id(0x40)}},
	}
	return []Command{
		InitCluster{ClusterID: id(0x01)},
		RegisterBroker{
			ID: 1, Incarnation: id(0x02), Rack: pointer("r1"),
			Listeners:   []Endpoint{{Name: "PLAINTEXT", Host: "localhost", Port: 9092, Protocol: "PLAINTEXT"}},
			Directories: []kafka.UUID{id(0x20), id(0x30)},
		},
		RegisterBroker{ID: 2, Incarnation: id(0x03)},
		CreateTopics{Topics: []NewTopic{
			{
				ID: id(0x10), Name: "flights", Configs: map[string]string{"segment.ms": "86400000", "retention.ms": "-1"},
				Partitions: partitions,
			},
			{ID: id(0x11), Name: "__consumer_offsets", Internal: true, Partitions: partitions[:1]},
		}},
		DeleteTopic{ID: id(0x10), ElapsedMs: 123_456, Keep: true},
		CreatePartitions{TopicID: id(0x10), Existing: 2, Partitions: partitions},
		AlterConfigs{Resource: ResourceTopic, Name: "flights", Ops: []ConfigOp{
			{Name: "retention.ms", Value: pointer("1000")}, {Name: "segment.ms"}, {Name: "x", Value: pointer("")},
		}},
		AlterConfigs{Resource: ResourceBroker, Ops: []ConfigOp{{Name: "message.max.bytes", Value: pointer("2000")}}},
		AlterConfigs{Resource: ResourceGroup, Name: "g", Ops: []ConfigOp{{Name: "x", Value: pointer("1")}}},
		BumpLeaderEpochs{Broker: 1},
		AllocateProducerIDs{Broker: 1, Count: 1000},
		OpenTier{Partition: tp, LeaderEpoch: 7, Start: 1000},
		ReserveUploads{
			Partition: tp, LeaderEpoch: 7, UploadIDs: []kafka.UUID{id(0x90), id(0xa0)},
			ElapsedMs: 60_000, DeadlineMs: 660_000, Rewrite: true, From: 500,
		},
		CommitSegment{Partition: tp, LeaderEpoch: 7, Version: 5, Entry: sampleEntry()},
		AdvanceStart{
			Partition: tp, LeaderEpoch: 7, Start: 2000, ElapsedMs: 70_000,
			Below: Below{Reference: id(0xa0), Segments: 3, Bytes: 300_000},
		},
		Collected{Objects: []CollectedObject{{Partition: tp, UploadID: id(0x90), To: 1500}}},
		TopicCollected{TopicID: id(0x10)},
		LapseReservations{ElapsedMs: 700_000},
		EmptyTier{Partition: tp, LeaderEpoch: 7, Start: 2000, ElapsedMs: 70_000},
		Seal{
			Partition: tp, LeaderEpoch: 7, Version: 9, Removed: []kafka.UUID{id(0x90), id(0x91)},
			Reference: sampleReference(LevelLeaf),
		},
		ReplaceRange{
			Partition: tp, LeaderEpoch: 7, Version: 9, Removed: []kafka.UUID{id(0x90), id(0x91)},
			Added: []Item{sampleReference(LevelNode), sampleEntry()}, Consumed: []kafka.UUID{id(0xa0)},
			Discarded: []Garbage{sampleGarbage(RemovedSegment), sampleGarbage(ReplacedManifest)},
			Below:     Below{Reference: id(0xa0), Segments: 1, Bytes: 100}, ElapsedMs: 71_000,
		},
		PinSnapshot{
			Pin: Pin{
				ID: id(0x50), TopicID: id(0x10), Ranges: []PartitionRange{{0, 10, 20}, {3, 0, 1}}, DeadlineMs: 800_000,
			},
			ElapsedMs: 72_000,
		},
		ExtendPin{ID: id(0x50), DeadlineMs: 900_000, ElapsedMs: 73_000},
		Unpin{ID: id(0x50)},
		CheckpointWritten{Checkpoint: Checkpoint{Index: 1234, ID: id(0x60)}, ElapsedMs: 74_000},
		RestoreTopics{Topics: []RestoredTopic{{
			ID: id(0x10), Name: "flights", Internal: true, Configs: map[string]string{"retention.ms": "-1"},
			Origins: []kafka.UUID{id(0x01), id(0x02)}, First: 5,
			Partitions: []RestoredPartition{
				{
					Replicas: []kafka.BrokerID{1}, Directories: []kafka.UUID{id(0x20)}, LeaderEpoch: 1008, Tiered: true,
					Start: 1500, End: 9000, Version: 12, Bytes: 800_000, Segments: 60,
					Items: []Item{sampleReference(LevelLeaf), sampleEntry()},
				},
				{Replicas: []kafka.BrokerID{1}, Directories: []kafka.UUID{id(0x20)}, LeaderEpoch: 1},
			},
		}}},
		SetNextProducerID{AtLeast: 1_000_000},
	}
}
