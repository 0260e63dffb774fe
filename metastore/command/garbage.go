package command

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/kafka"
)

// GarbageKind says how a piece of garbage came about.
type GarbageKind uint8

const (
	// RemovedSegment was part of the log; its object's key follows from the range, leader epoch, origin and upload id.
	RemovedSegment GarbageKind = 1
	// LapsedUpload is a reservation for a segment at the remote end that was never committed: there may be an object
	// under its upload id. It is found by listing the partition's segments from BaseOffset on, and once more an upload's
	// deadline later, as a PUT may land late.
	LapsedUpload GarbageKind = 2
	// ExpiredTree is what the log start has passed of a sealed part of the manifest: Tree. If Whole is set, all segments
	// below it go, then the sealed objects that list them, itself last. Else the segments that end in (From, To] go, and
	// the sealed objects stay: they list others that are still part of the log.
	ExpiredTree GarbageKind = 3
	// ReplacedManifest is a sealed object that others have taken the place of. Only the object itself goes: what it
	// lists may be part of the log still. Its key follows from Tree.
	ReplacedManifest GarbageKind = 4
	// LapsedRewrite is a LapsedUpload of what takes the place of something: it may be a segment, a leaf or a node that
	// begins anywhere from BaseOffset on, so all three folders of the partition must be listed.
	LapsedRewrite GarbageKind = 5
)

// Garbage is something in the bucket, or perhaps in it, that no log refers to any more.
type Garbage struct {
	Partition   kafka.TopicIDPartition
	Kind        GarbageKind
	UploadID    kafka.UUID
	Origin      int // of the object; 0 for a lapsed upload, which is always the present cluster's own
	LeaderEpoch kafka.LeaderEpoch
	BaseOffset  int64 // of a lapsed upload: where it begins at the lowest
	EndOffset   int64 // exclusive; −1 for a lapsed upload
	ObjectBytes int64 // of all objects that go; 0 for a lapsed upload
	ElapsedMs   int64 // elapsed time at which it became garbage; the grace time counts from here
	// Index is that of the command in the metadata log that made it garbage: a checkpoint of that index or a later one
	// does not refer to it.
	Index uint64

	// The fields below are those of ExpiredTree; Tree is that of ReplacedManifest, too.

	Tree  Reference
	Whole bool
	From  int64 // segments that end here or before have gone as earlier pieces; 0 if Whole
	To    int64 // 0 if Whole
}

// Object is how Collected names the piece.
func (g Garbage) Object() CollectedObject {
	return CollectedObject{Partition: g.Partition, UploadID: g.UploadID, To: g.To}
}

// AppendGarbage appends everything but the partition.
func AppendGarbage(dst []byte, g Garbage) []byte {
	dst = append(dst, byte(g.Kind))
	dst = append(dst, g.UploadID[:]...)
	dst = binary.AppendUvarint(dst, uint64(g.Origin))
	dst = binary.AppendVarint(dst, int64(g.LeaderEpoch))
	dst = binary.AppendVarint(dst, g.BaseOffset)
	dst = binary.AppendVarint(dst, g.EndOffset)
	dst = binary.AppendVarint(dst, g.ObjectBytes)
	dst = binary.AppendVarint(dst, g.ElapsedMs)
	dst = binary.AppendUvarint(dst, g.Index)
	if !g.hasTree() {
		return dst
	}
	dst = g.Tree.AppendTo(dst)
	dst = AppendBool(dst, g.Whole)
	dst = binary.AppendVarint(dst, g.From)
	return binary.AppendVarint(dst, g.To)
}

func (g Garbage) hasTree() bool { return g.Kind == ExpiredTree || g.Kind == ReplacedManifest }

// minGarbageBytes: kind, upload id, and seven numbers of a byte.
const minGarbageBytes = 1 + 16 + 7

// Garbage reads what AppendGarbage has written.
func (c *Cursor) Garbage() Garbage {
	g := Garbage{
		Kind: GarbageKind(c.Uint8()), UploadID: c.UUID(), Origin: c.origin(), LeaderEpoch: c.LeaderEpoch(),
		BaseOffset: c.Int64(), EndOffset: c.Int64(), ObjectBytes: c.Int64(), ElapsedMs: c.Int64(), Index: c.Uvarint(),
	}
	if c.err == nil && g.hasTree() {
		g.Tree, g.Whole, g.From, g.To = c.reference(), c.Bool(), c.Int64(), c.Int64()
	}
	return g
}

func (c *Cursor) origin() int {
	origin := c.Uvarint()
	if origin >= MaxOrigins {
		c.Fail("an origin has one byte")
		return 0
	}
	return int(origin)
}

// DeletedTopic is the durable trace of a deleted tiered topic: everything under its id in the bucket, in the folders of
// all its origins, is garbage.
type DeletedTopic struct {
	ID         kafka.TopicID
	Name       string
	Partitions int32
	ElapsedMs  int64        // elapsed time of the deletion
	Index      uint64       // of the command in the metadata log that has deleted it
	Origins    []kafka.UUID // the clusters that have written objects of it; empty means just this one
	Kept       bool         // its objects stay for good: it is a trace and no garbage
}

// Checkpoint is a checkpoint of the cluster that is durable in the bucket.
type Checkpoint struct {
	Index uint64 // of the metadata log: it holds what the log made of things up to here, or something later
	ID    kafka.UUID
}

// PartitionRange is the range [From, To) of a partition.
type PartitionRange struct {
	Partition int32
	From, To  int64
}

// Pin keeps the objects of a fixed range of a topic from being collected until it lapses.
type Pin struct {
	ID         kafka.UUID
	TopicID    kafka.TopicID
	Ranges     []PartitionRange // ascending by partition, each once
	DeadlineMs int64            // elapsed time
}

// AppendPin appends a pin.
func AppendPin(dst []byte, p Pin) []byte {
	dst = append(dst, p.ID[:]...)
	dst = append(dst, p.TopicID[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(p.Ranges)))
	for _, part := range p.Ranges {
		dst = binary.AppendVarint(dst, int64(part.Partition))
		dst = binary.AppendVarint(dst, part.From)
		dst = binary.AppendVarint(dst, part.To)
	}
	return binary.AppendVarint(dst, p.DeadlineMs)
}

// Pin reads a pin.
func (c *Cursor) Pin() Pin {
	const minBytes = 3 // three numbers of a byte
	return Pin{
		ID: c.UUID(), TopicID: c.UUID(),
		Ranges: readList(c, minBytes, func(c *Cursor) PartitionRange {
			return PartitionRange{Partition: c.Int32(), From: c.Int64(), To: c.Int64()}
		}),
		DeadlineMs: c.Int64(),
	}
}
