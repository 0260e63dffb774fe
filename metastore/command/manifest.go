package command

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/kafka"
)

// MaxSealed bounds the items of one sealed object. A leaf has 64 and a node 256.
const MaxSealed = 1024

// Seal puts a reference in the place of a run of items that a sealed object, already in the bucket, lists. It is
// accepted only if LeaderEpoch is the current one, Version is the tier state's, the items from Reference.BaseOffset on
// are exactly those with the upload ids of Removed, all one level below the reference, the reference says what is true
// of them, and its own upload id is still reserved; the command consumes that reservation. Nothing that the log
// consists of changes by it. The result is the image.TierState, with or without an error; where something has changed
// since, the error is ErrTierMoved.
type Seal struct {
	Partition   kafka.TopicIDPartition
	LeaderEpoch kafka.LeaderEpoch
	Version     int64
	Removed     []kafka.UUID
	Reference   Reference
}

// Type is TypeSeal.
func (Seal) Type() Type { return TypeSeal }

func (c Seal) appendBody(dst []byte) []byte {
	dst = appendTierTarget(dst, c.Partition, c.LeaderEpoch)
	dst = binary.AppendVarint(dst, c.Version)
	dst = AppendUUIDs(dst, c.Removed)
	return c.Reference.AppendTo(dst)
}

func readSeal(c *Cursor) Command {
	return Seal{
		Partition:   c.Partition(),
		LeaderEpoch: c.LeaderEpoch(),
		Version:     c.Int64(),
		Removed:     c.UUIDs(),
		Reference:   c.reference(),
	}
}

// Below says what of the reference in which the log start lies is below that start: the segments that end at or before
// it. The state machine cannot read sealed objects, so whoever proposes has to count. It is zero if the start lies in
// no reference.
type Below struct {
	Reference kafka.UUID // upload id of the reference
	Segments  int64
	Bytes     int64 // of these segments' objects
}

func appendBelow(dst []byte, b Below) []byte {
	dst = append(dst, b.Reference[:]...)
	dst = binary.AppendVarint(dst, b.Segments)
	return binary.AppendVarint(dst, b.Bytes)
}

func readBelow(c *Cursor) Below {
	return Below{Reference: c.UUID(), Segments: c.Int64(), Bytes: c.Int64()}
}

// ReplaceRange swaps a run of top-level items for others that answer for the same range: rewritten segments, and sealed
// objects that list them together with what stays. It is accepted only if LeaderEpoch is the current one, Version is
// the tier state's, the items from Added[0] on are exactly those with the upload ids of Removed, Added is contiguous
// and has the same borders, and all ids of Consumed are still reserved; the command consumes them. An added item is
// either one of those removed (it stays) or its id is in Consumed.
//
// What is removed and not added again becomes garbage: a segment as RemovedSegment, a reference as ReplacedManifest,
// which is the sealed object alone. What goes from below a removed reference is listed in Discarded, as RemovedSegment
// or ReplacedManifest. The result is the image.TierState, with or without an error.
type ReplaceRange struct {
	Partition   kafka.TopicIDPartition
	LeaderEpoch kafka.LeaderEpoch
	Version     int64
	Removed     []kafka.UUID
	Added       []Item
	Consumed    []kafka.UUID // of added items and of what is listed below them
	Discarded   []Garbage    // Partition, ElapsedMs and Index are filled in by the state machine
	Below       Below        // if the start lies in an added reference
	ElapsedMs   int64
}

// Type is TypeReplaceRange.
func (ReplaceRange) Type() Type { return TypeReplaceRange }

func (c ReplaceRange) appendBody(dst []byte) []byte {
	dst = appendTierTarget(dst, c.Partition, c.LeaderEpoch)
	dst = binary.AppendVarint(dst, c.Version)
	dst = AppendUUIDs(dst, c.Removed)
	dst = AppendItems(dst, c.Added)
	dst = AppendUUIDs(dst, c.Consumed)
	dst = binary.AppendUvarint(dst, uint64(len(c.Discarded)))
	for _, garbage := range c.Discarded {
		dst = AppendGarbage(dst, garbage)
	}
	dst = appendBelow(dst, c.Below)
	return binary.AppendVarint(dst, c.ElapsedMs)
}

func readReplaceRange(c *Cursor) Command {
	return ReplaceRange{
		Partition:   c.Partition(),
		LeaderEpoch: c.LeaderEpoch(),
		Version:     c.Int64(),
		Removed:     c.UUIDs(),
		Added:       c.Items(),
		Consumed:    c.UUIDs(),
		Discarded:   readList(c, minGarbageBytes, (*Cursor).Garbage),
		Below:       readBelow(c),
		ElapsedMs:   c.Int64(),
	}
}

// MaxPins bounds the pins of a cluster, and MaxPinRanges the partitions of one: whoever forgets to end one must not
// fill the state.
const (
	MaxPins      = 1024
	MaxPinRanges = 100_000
)

// PinSnapshot keeps the objects of a range from collection until its deadline, or until Unpin. Pinning again what is
// pinned already, with the same id and content, changes nothing. It has no result beyond the error.
type PinSnapshot struct {
	Pin       Pin
	ElapsedMs int64
}

// Type is TypePinSnapshot.
func (PinSnapshot) Type() Type { return TypePinSnapshot }

func (c PinSnapshot) appendBody(dst []byte) []byte {
	return binary.AppendVarint(AppendPin(dst, c.Pin), c.ElapsedMs)
}

// ExtendPin gives a pin that has not lapsed another deadline. It has no result beyond the error, which is ErrNoPin if
// there is no such pin (any more): then what it kept may be gone.
type ExtendPin struct {
	ID         kafka.UUID
	DeadlineMs int64
	ElapsedMs  int64
}

// Type is TypeExtendPin.
func (ExtendPin) Type() Type { return TypeExtendPin }

func (c ExtendPin) appendBody(dst []byte) []byte {
	dst = append(dst, c.ID[:]...)
	dst = binary.AppendVarint(dst, c.DeadlineMs)
	return binary.AppendVarint(dst, c.ElapsedMs)
}

// Unpin ends a pin; one that does not exist is no error.
type Unpin struct {
	ID kafka.UUID
}

// Type is TypeUnpin.
func (Unpin) Type() Type { return TypeUnpin }

func (c Unpin) appendBody(dst []byte) []byte { return append(dst, c.ID[:]...) }

// KeptCheckpoints is how many of the newest checkpoints the state remembers.
const KeptCheckpoints = 8

// CheckpointWritten says that a checkpoint is durable in the bucket. One that is older than the newest known is
// refused: somebody else has written it. It has no result beyond the error.
type CheckpointWritten struct {
	Checkpoint Checkpoint
	ElapsedMs  int64
}

// Type is TypeCheckpointWritten.
func (CheckpointWritten) Type() Type { return TypeCheckpointWritten }

func (c CheckpointWritten) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, c.Checkpoint.Index)
	dst = append(dst, c.Checkpoint.ID[:]...)
	return binary.AppendVarint(dst, c.ElapsedMs)
}

func readCheckpointWritten(c *Cursor) Command {
	return CheckpointWritten{Checkpoint: Checkpoint{Index: c.Uvarint(), ID: c.UUID()}, ElapsedMs: c.Int64()}
}
