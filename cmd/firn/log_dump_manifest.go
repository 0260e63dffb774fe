package main

import (
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/manifest"
)

// dumpedSealed is what a sealed part of a manifest says about itself.
type dumpedSealed struct {
	File        string `json:"file"`
	ClusterID   string `json:"clusterId"`
	Topic       string `json:"topic"`
	TopicID     string `json:"topicId"`
	Partition   int32  `json:"partition"`
	BaseOffset  int64  `json:"baseOffset"`
	EndOffset   int64  `json:"endOffset"` // exclusive
	LeaderEpoch int32  `json:"leaderEpoch"`
	UploadID    string `json:"uploadId"`
	Items       int    `json:"items"`
}

// String prints it as a heading.
func (s dumpedSealed) String() string { return "Manifest: " + s.File + fieldsOf(s) }

// dumpedSegment is one segment object of a manifest. Times are Unix milliseconds, −1 unknown.
type dumpedSegment struct {
	BaseOffset         int64  `json:"baseOffset"`
	EndOffset          int64  `json:"endOffset"` // exclusive
	LeaderEpoch        int32  `json:"leaderEpoch"`
	UploadID           string `json:"uploadId"`
	Origin             int    `json:"origin"` // index in the topic's list of clusters
	DataBytes          int64  `json:"dataBytes"`
	ObjectBytes        int64  `json:"objectBytes"`
	TailBytes          int32  `json:"tailBytes"`
	MinTimestamp       int64  `json:"minTimestamp"`
	MaxTimestamp       int64  `json:"maxTimestamp"`
	MaxTimestampOffset int64  `json:"maxTimestampOffset"`
	FirstAppendedAt    int64  `json:"firstAppendedAt"`
	LastAppendedAt     int64  `json:"lastAppendedAt"`
	HasAborted         bool   `json:"hasAbortedTransactions"`
}

// String prints the entry in one line.
func (s dumpedSegment) String() string { return "| segment" + fieldsOf(s) }

// dumpedReference is one sealed object of a manifest, which lists segments or other references.
type dumpedReference struct {
	Level        int    `json:"level"` // 1 a leaf, 2 a node
	BaseOffset   int64  `json:"baseOffset"`
	EndOffset    int64  `json:"endOffset"` // exclusive
	LeaderEpoch  int32  `json:"leaderEpoch"`
	UploadID     string `json:"uploadId"`
	Origin       int    `json:"origin"`
	Segments     int64  `json:"segments"`
	DataBytes    int64  `json:"dataBytes"`   // of these segments
	ObjectBytes  int64  `json:"objectBytes"` // of these segments
	SealedBytes  int32  `json:"sealedBytes"` // of the sealed object
	Checksum     uint32 `json:"checksum"`    // of the sealed object
	MinTimestamp int64  `json:"minTimestamp"`
	MaxTimestamp int64  `json:"maxTimestamp"`
	HasAborted   bool   `json:"hasAbortedTransactions"`
}

// String prints the reference in one line.
func (r dumpedReference) String() string { return "| reference" + fieldsOf(r) }

func dumpedManifest(name string, sealed *manifest.Sealed) []fmt.Stringer {
	key := sealed.Key
	return append([]fmt.Stringer{dumpedSealed{File: name, ClusterID: key.ClusterID.String(), Topic: sealed.Topic,
		TopicID: key.Partition.ID.String(), Partition: key.Partition.Partition, BaseOffset: key.BaseOffset,
		EndOffset: key.EndOffset, LeaderEpoch: int32(key.LeaderEpoch), UploadID: key.UploadID.Hex(),
		Items: len(sealed.Items)}}, dumpedItems(sealed.Items)...)
}

func dumpedItems(items []command.Item) []fmt.Stringer {
	dumped := make([]fmt.Stringer, 0, len(items))
	for _, item := range items {
		switch item := item.(type) {
		case command.SegmentEntry:
			dumped = append(dumped, dumpedSegment{BaseOffset: item.BaseOffset, EndOffset: item.EndOffset,
				LeaderEpoch: int32(item.LeaderEpoch), UploadID: item.UploadID.Hex(), Origin: item.Origin(),
				DataBytes: item.DataBytes, ObjectBytes: item.ObjectBytes, TailBytes: item.TailBytes,
				MinTimestamp: item.MinTimestamp, MaxTimestamp: item.MaxTimestamp, MaxTimestampOffset: item.MaxTimestampOffset,
				FirstAppendedAt: item.FirstAppendedAt, LastAppendedAt: item.LastAppendedAt,
				HasAborted: item.Flags&command.HasAbortedTransactions != 0})
		case command.Reference:
			dumped = append(dumped, dumpedReference{Level: item.Level, BaseOffset: item.BaseOffset, EndOffset: item.EndOffset,
				LeaderEpoch: int32(item.LeaderEpoch), UploadID: item.UploadID.Hex(), Origin: item.Origin(),
				Segments: item.Segments, DataBytes: item.DataBytes, ObjectBytes: item.ObjectBytes,
				SealedBytes: item.SealedBytes, Checksum: item.Checksum, MinTimestamp: item.MinTimestamp,
				MaxTimestamp: item.MaxTimestamp, HasAborted: item.Flags&command.HasAbortedTransactions != 0})
		}
	}
	return dumped
}

// dumpedCheckpoint is the root of a checkpoint.
type dumpedCheckpoint struct {
	File           string            `json:"file"`
	ClusterID      string            `json:"clusterId"`
	Index          uint64            `json:"index"` // of the metadata log
	ID             string            `json:"id"`
	WrittenAt      int64             `json:"writtenAt"` // Unix milliseconds
	NextProducerID int64             `json:"nextProducerId"`
	BrokerConfigs  map[string]string `json:"brokerConfigs"`
	// SingleBrokerConfigs are those of single brokers, by their ids.
	SingleBrokerConfigs map[string]map[string]string `json:"singleBrokerConfigs"`
}

// String prints it as a heading.
func (c dumpedCheckpoint) String() string { return "Checkpoint: " + c.File + fieldsOf(c) }

// dumpedShardName is one shard that a checkpoint consists of.
type dumpedShardName struct {
	Key      string `json:"key"`
	Contents string `json:"contents"` // topics or groups
	Number   uint32 `json:"number"`
	Bytes    int64  `json:"bytes"`
}

// String prints it in one line.
func (s dumpedShardName) String() string { return "| shard" + fieldsOf(s) }

// dumpedShard is what a shard of a checkpoint says about itself.
type dumpedShard struct {
	File      string `json:"file"`
	ClusterID string `json:"clusterId"`
	Contents  string `json:"contents"`
	Number    uint32 `json:"number"`
}

// String prints it as a heading.
func (s dumpedShard) String() string { return "Shard: " + s.File + fieldsOf(s) }

// dumpedTopic is a topic in a checkpoint. Its partitions are in lines of their own, also in other shards.
type dumpedTopic struct {
	Topic      string            `json:"topic"`
	TopicID    string            `json:"topicId"`
	Partitions int               `json:"partitions"`
	Configs    map[string]string `json:"configs"`
	Origins    []string          `json:"origins"` // clusters that have written its objects; none: the checkpoint's own
}

// String prints it in one line.
func (t dumpedTopic) String() string { return "| topic" + fieldsOf(t) }

// dumpedPartition is a partition in a checkpoint. The items of its manifest follow.
type dumpedPartition struct {
	TopicID     string `json:"topicId"`
	Partition   int32  `json:"partition"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	Tiered      bool   `json:"tiered"`
	StartOffset int64  `json:"startOffset"` // of what is remote
	EndOffset   int64  `json:"endOffset"`   // exclusive
	Version     int64  `json:"version"`
	Segments    int64  `json:"segments"`
	ObjectBytes int64  `json:"objectBytes"`
	Items       int    `json:"items"`
}

// String prints it in one line.
func (p dumpedPartition) String() string { return "| partition" + fieldsOf(p) }

// dumpedGroup is a group in a checkpoint. Its offsets follow.
type dumpedGroup struct {
	Group   string            `json:"group"`
	Configs map[string]string `json:"configs"`
	Offsets int               `json:"offsets"`
}

// String prints it in one line.
func (g dumpedGroup) String() string { return "| group" + fieldsOf(g) }

// dumpedCommit is an offset that a group has committed.
type dumpedCommit struct {
	Group       string `json:"group"`
	Topic       string `json:"topic"`
	TopicID     string `json:"topicId"`
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	Metadata    string `json:"metadata"`
	ExpiresAt   int64  `json:"expiresAt"` // Unix milliseconds, as the client has said; 0: it has not
}

// String prints it in one line.
func (c dumpedCommit) String() string { return "| commit" + fieldsOf(c) }

func dumpedCheckpointObject(name string, object *checkpoint.Object) []fmt.Stringer {
	if root := object.Root; root != nil {
		items := []fmt.Stringer{dumpedCheckpoint{File: name, ClusterID: root.ClusterID.String(), Index: root.Index,
			ID: root.ID.Hex(), WrittenAt: root.WrittenAt, NextProducerID: root.NextProducerID,
			BrokerConfigs: root.BrokerConfigs, SingleBrokerConfigs: root.SingleBrokerConfigs}}
		for _, shard := range root.Shards() {
			items = append(items, dumpedShardName(shard))
		}
		return items
	}
	shard := object.Shard
	items := []fmt.Stringer{dumpedShard{File: name, ClusterID: shard.ClusterID.String(), Contents: shard.Contents,
		Number: shard.Number}}
	for i := range shard.Topics {
		topic := &shard.Topics[i]
		items = append(items, dumpedTopic{Topic: topic.Name, TopicID: topic.ID.String(), Partitions: topic.PartitionCount,
			Configs: topic.Configs, Origins: texts(topic.Origins)})
	}
	for i := range shard.Partitions {
		p := &shard.Partitions[i]
		items = append(items, dumpedPartition{TopicID: p.ID.String(), Partition: p.TopicIDPartition.Partition,
			LeaderEpoch: int32(p.LeaderEpoch), Tiered: p.Tiered, StartOffset: p.Start, EndOffset: p.End, Version: p.Version,
			Segments: p.Segments, ObjectBytes: p.Bytes, Items: len(p.Items)})
		items = append(items, dumpedItems(p.Items)...)
	}
	for i := range shard.Groups {
		group := &shard.Groups[i]
		items = append(items, dumpedGroup{Group: group.Name, Configs: group.Configs, Offsets: len(group.Offsets)})
		for _, offset := range group.Offsets {
			items = append(items, dumpedCommit{Group: group.Name, Topic: offset.Topic, TopicID: offset.TopicID.String(),
				Partition: offset.Partition, Offset: offset.Offset, LeaderEpoch: int32(offset.LeaderEpoch),
				Metadata: offset.Metadata, ExpiresAt: offset.ExpiresAt})
		}
	}
	return items
}

func texts(ids []kafka.UUID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return list
}
