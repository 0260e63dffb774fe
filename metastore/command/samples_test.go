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
		DeleteTopic{ID: id(0x10), ElapsedMs: 123_456},
		CreatePartitions{TopicID: id(0x10), Existing: 2, Partitions: partitions},
		AlterConfigs{Resource: ResourceTopic, Name: "flights", Ops: []ConfigOp{
			{Name: "retention.ms", Value: pointer("1000")}, {Name: "segment.ms"}, {Name: "x", Value: pointer("")},
		}},
		AlterConfigs{Resource: ResourceBroker, Ops: []ConfigOp{{Name: "message.max.bytes", Value: pointer("2000")}}},
		BumpLeaderEpochs{Broker: 1},
		AllocateProducerIDs{Broker: 1, Count: 1000},
		OpenTier{Partition: tp, LeaderEpoch: 7, Start: 1000},
		ReserveUploads{
			Partition: tp, LeaderEpoch: 7, UploadIDs: []kafka.UUID{id(0x90), id(0xa0)},
			ElapsedMs: 60_000, DeadlineMs: 660_000,
		},
		CommitSegment{Partition: tp, LeaderEpoch: 7, Version: 5, Entry: sampleEntry()},
		AdvanceStart{Partition: tp, LeaderEpoch: 7, Start: 2000, ElapsedMs: 70_000},
		Collected{Objects: []CollectedObject{{Partition: tp, UploadID: id(0x90)}}},
		TopicCollected{TopicID: id(0x10)},
		LapseReservations{ElapsedMs: 700_000},
	}
}
