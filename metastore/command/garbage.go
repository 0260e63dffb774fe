package command

import "github.com/firnlog/firn/internal/kafka"

// GarbageKind says how a piece of garbage came about.
type GarbageKind uint8

const (
	// RemovedSegment was part of the log; its object's key follows from the range, leader epoch and upload id.
	RemovedSegment GarbageKind = 1
	// LapsedUpload is a reservation that was never committed: there may be an object under its upload id. It is found
	// by listing the partition from BaseOffset on, and once more an upload's deadline later, as a PUT may land late.
	LapsedUpload GarbageKind = 2
)

// Garbage is something in the bucket, or perhaps in it, that no log refers to any more.
type Garbage struct {
	Partition   kafka.TopicIDPartition
	Kind        GarbageKind
	UploadID    kafka.UUID
	LeaderEpoch kafka.LeaderEpoch
	BaseOffset  int64 // of a lapsed upload: the remote end when it was reserved
	EndOffset   int64 // exclusive; −1 for a lapsed upload
	ObjectBytes int64 // 0 for a lapsed upload
	ElapsedMs   int64 // elapsed time at which it became garbage; the grace time counts from here
}

// DeletedTopic is the durable trace of a deleted tiered topic: everything under its id in the bucket is garbage.
type DeletedTopic struct {
	ID         kafka.TopicID
	Name       string
	Partitions int32
	ElapsedMs  int64 // elapsed time of the deletion
}
