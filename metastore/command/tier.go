package command

import (
	"encoding/binary"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// Why the state machine refuses a tier command, besides Kafka's own codes (FencedLeaderEpoch, UnknownLeaderEpoch,
// UnknownTopicID). A refused command has changed nothing, and its result is the current image.TierState.
var (
	// ErrTierMoved: the tier state is not the one the proposer saw. Read it again; after an unknown outcome, look for
	// the own upload id among the items of the manifest.
	ErrTierMoved = fmt.Errorf("the tier state has moved on: %w", kafka.OperationNotAttempted)
	// ErrUploadNotReserved: the upload id was never reserved for this partition, is committed already, or has lapsed.
	ErrUploadNotReserved = fmt.Errorf("the upload id is not reserved: %w", kafka.OperationNotAttempted)
	// ErrTierNotOpen: tiering has not begun for this partition.
	ErrTierNotOpen = fmt.Errorf("the partition is not tiered: %w", kafka.OperationNotAttempted)
	// ErrNoPin: the pin has lapsed, or was ended, or never was.
	ErrNoPin = fmt.Errorf("there is no such pin: %w", kafka.OperationNotAttempted)
)

// OpenTier begins tiering of a partition: its remote range is empty, [Start, Start). Start is its log start offset.
// The result is the image.TierState; a tier that is open already stays as it is.
type OpenTier struct {
	Partition   kafka.TopicIDPartition
	LeaderEpoch kafka.LeaderEpoch
	Start       int64
}

// Type is TypeOpenTier.
func (OpenTier) Type() Type { return TypeOpenTier }

func (c OpenTier) appendBody(dst []byte) []byte {
	dst = appendTierTarget(dst, c.Partition, c.LeaderEpoch)
	return binary.AppendVarint(dst, c.Start)
}

// MaxReservedUploads bounds the ids of one command: a leader reserves a handful ahead.
const MaxReservedUploads = 1024

// ReserveUploads promises that the ids will be committed or collected: an object put under one of them can never be
// forgotten. The result is the image.TierState.
type ReserveUploads struct {
	Partition   kafka.TopicIDPartition
	LeaderEpoch kafka.LeaderEpoch
	UploadIDs   []kafka.UUID
	ElapsedMs   int64
	DeadlineMs  int64 // elapsed time at which the ids lapse; an upload's own hard deadline is earlier
	// Rewrite is set for ids of what takes the place of something: sealed parts of the manifest and rewritten segments,
	// which begin at From or later. Others begin at the remote end.
	Rewrite bool
	From    int64
}

// Type is TypeReserveUploads.
func (ReserveUploads) Type() Type { return TypeReserveUploads }

func (c ReserveUploads) appendBody(dst []byte) []byte {
	dst = appendTierTarget(dst, c.Partition, c.LeaderEpoch)
	dst = AppendUUIDs(dst, c.UploadIDs)
	dst = binary.AppendVarint(dst, c.ElapsedMs)
	dst = binary.AppendVarint(dst, c.DeadlineMs)
	dst = AppendBool(dst, c.Rewrite)
	return binary.AppendVarint(dst, c.From)
}

func readReserveUploads(c *Cursor, version uint8) Command {
	cmd := ReserveUploads{
		Partition:   c.Partition(),
		LeaderEpoch: c.LeaderEpoch(),
		UploadIDs:   c.UUIDs(),
		ElapsedMs:   c.Int64(),
		DeadlineMs:  c.Int64(),
	}
	if version > version1 {
		cmd.Rewrite, cmd.From = c.Bool(), c.Int64()
	}
	return cmd
}

// CommitSegment makes an uploaded object part of the log. It is accepted only if LeaderEpoch is the current one,
// Version is the tier state's, Entry.BaseOffset is the remote end, the entry's origin is the topic's newest, and
// Entry.UploadID is still reserved for this partition; the commit consumes the reservation. The result is the
// image.TierState, with or without an error.
type CommitSegment struct {
	Partition   kafka.TopicIDPartition
	LeaderEpoch kafka.LeaderEpoch
	Version     int64
	Entry       SegmentEntry
}

// Type is TypeCommitSegment.
func (CommitSegment) Type() Type { return TypeCommitSegment }

func (c CommitSegment) appendBody(dst []byte) []byte {
	dst = appendTierTarget(dst, c.Partition, c.LeaderEpoch)
	dst = binary.AppendVarint(dst, c.Version)
	return c.Entry.AppendTo(dst)
}

func readCommitSegment(c *Cursor) Command {
	return CommitSegment{
		Partition:   c.Partition(),
		LeaderEpoch: c.LeaderEpoch(),
		Version:     c.Int64(),
		Entry:       c.segmentEntry(),
	}
}

// AdvanceStart moves the start of the log: retention, or DeleteRecords. Segments wholly below it leave the manifest
// and wait to be collected. A start past the remote end moves the end too, since nothing is remote above it; one that
// is not above the current start changes nothing. A start inside a reference must come with what is Below it, and is
// refused with ErrTierMoved if that is another reference by now. The result is the image.TierState.
type AdvanceStart struct {
	Partition   kafka.TopicIDPartition
	LeaderEpoch kafka.LeaderEpoch
	Start       int64
	ElapsedMs   int64
	Below       Below
}

// Type is TypeAdvanceStart.
func (AdvanceStart) Type() Type { return TypeAdvanceStart }

func (c AdvanceStart) appendBody(dst []byte) []byte {
	dst = appendTierTarget(dst, c.Partition, c.LeaderEpoch)
	dst = binary.AppendVarint(dst, c.Start)
	dst = binary.AppendVarint(dst, c.ElapsedMs)
	return appendBelow(dst, c.Below)
}

func readAdvanceStart(c *Cursor, version uint8) Command {
	cmd := AdvanceStart{
		Partition: c.Partition(), LeaderEpoch: c.LeaderEpoch(), Start: c.Int64(), ElapsedMs: c.Int64(),
	}
	if version > version1 {
		cmd.Below = readBelow(c)
	}
	return cmd
}

// EmptyTier takes everything remote out of a partition's log, since its remote storage was switched off (KIP-950). All
// items become garbage and all reservations lapse. The log and its remote range, which is empty then, begin at Start,
// where the local log does, or where the log began if that is later. It may be proposed again, should the local log
// have moved on meanwhile. The result is the image.TierState.
type EmptyTier struct {
	Partition   kafka.TopicIDPartition
	LeaderEpoch kafka.LeaderEpoch
	Start       int64
	ElapsedMs   int64
}

// Type is TypeEmptyTier.
func (EmptyTier) Type() Type { return TypeEmptyTier }

func (c EmptyTier) appendBody(dst []byte) []byte {
	dst = appendTierTarget(dst, c.Partition, c.LeaderEpoch)
	dst = binary.AppendVarint(dst, c.Start)
	return binary.AppendVarint(dst, c.ElapsedMs)
}

// LapseReservations ends every reservation whose deadline is at or before ElapsedMs: it becomes garbage, and can never
// be committed any more. Pins end likewise. The result is a ReservationsLapsed.
type LapseReservations struct {
	ElapsedMs int64
}

// ReservationsLapsed is the result of LapseReservations.
type ReservationsLapsed struct {
	Uploads int
}

// Type is TypeLapseReservations.
func (LapseReservations) Type() Type { return TypeLapseReservations }

func (c LapseReservations) appendBody(dst []byte) []byte {
	return binary.AppendVarint(dst, c.ElapsedMs)
}

// CollectedObject names one piece of garbage that is gone from the bucket: Garbage.Object.
type CollectedObject struct {
	Partition kafka.TopicIDPartition
	UploadID  kafka.UUID
	To        int64 // of a part of a tree; else 0
}

// minCollectedBytes: topic id, a one-byte partition, upload id.
const minCollectedBytes = 16 + 1 + 16

// Collected forgets garbage whose objects are gone from the bucket. What is not garbage is left alone. It has no
// result beyond the error.
type Collected struct {
	Objects []CollectedObject
}

// Type is TypeCollected.
func (Collected) Type() Type { return TypeCollected }

func (c Collected) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Objects)))
	for _, object := range c.Objects {
		dst = AppendPartition(dst, object.Partition)
		dst = append(dst, object.UploadID[:]...)
		dst = binary.AppendVarint(dst, object.To)
	}
	return dst
}

func readCollected(c *Cursor, version uint8) Command {
	return Collected{Objects: readList(c, minCollectedBytes, func(c *Cursor) CollectedObject {
		object := CollectedObject{Partition: c.Partition(), UploadID: c.UUID()}
		if version > version1 {
			object.To = c.Int64()
		}
		return object
	})}
}

// TopicCollected forgets a deleted topic once nothing of it is left in the bucket. It has no result beyond the error.
type TopicCollected struct {
	TopicID kafka.TopicID
}

// Type is TypeTopicCollected.
func (TopicCollected) Type() Type { return TypeTopicCollected }

func (c TopicCollected) appendBody(dst []byte) []byte { return append(dst, c.TopicID[:]...) }

func appendTierTarget(dst []byte, tp kafka.TopicIDPartition, epoch kafka.LeaderEpoch) []byte {
	dst = AppendPartition(dst, tp)
	return binary.AppendVarint(dst, int64(epoch))
}
