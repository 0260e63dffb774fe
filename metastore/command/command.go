package command

import (
	"fmt"
)

// Type tells commands apart in the log. The numbers are for ever; a retired one is never used again.
type Type uint8

// The commands of the log.
const (
	TypeInitCluster         Type = 1
	TypeRegisterBroker      Type = 2
	TypeCreateTopics        Type = 3
	TypeDeleteTopic         Type = 4
	TypeCreatePartitions    Type = 5
	TypeAlterConfigs        Type = 6
	TypeBumpLeaderEpochs    Type = 7
	TypeAllocateProducerIDs Type = 8
	TypeOpenTier            Type = 9
	TypeReserveUploads      Type = 10
	TypeCommitSegment       Type = 11
	TypeAdvanceStart        Type = 12
	TypeCollected           Type = 13
	TypeTopicCollected      Type = 14
	TypeLapseReservations   Type = 15
	TypeSeal                Type = 16
	TypeReplaceRange        Type = 17
	TypePinSnapshot         Type = 18
	TypeExtendPin           Type = 19
	TypeUnpin               Type = 20
	TypeCheckpointWritten   Type = 21
	TypeRestoreTopics       Type = 22
	TypeSetNextProducerID   Type = 23
	TypeEmptyTier           Type = 24
)

// String is the command's name, as in metrics and log lines.
func (t Type) String() string {
	names := [...]string{
		TypeInitCluster:         "init_cluster",
		TypeRegisterBroker:      "register_broker",
		TypeCreateTopics:        "create_topics",
		TypeDeleteTopic:         "delete_topic",
		TypeCreatePartitions:    "create_partitions",
		TypeAlterConfigs:        "alter_configs",
		TypeBumpLeaderEpochs:    "bump_leader_epochs",
		TypeAllocateProducerIDs: "allocate_producer_ids",
		TypeOpenTier:            "open_tier",
		TypeReserveUploads:      "reserve_uploads",
		TypeCommitSegment:       "commit_segment",
		TypeAdvanceStart:        "advance_start",
		TypeCollected:           "collected",
		TypeTopicCollected:      "topic_collected",
		TypeLapseReservations:   "lapse_reservations",
		TypeSeal:                "seal",
		TypeReplaceRange:        "replace_range",
		TypePinSnapshot:         "pin_snapshot",
		TypeExtendPin:           "extend_pin",
		TypeUnpin:               "unpin",
		TypeCheckpointWritten:   "checkpoint_written",
		TypeRestoreTopics:       "restore_topics",
		TypeSetNextProducerID:   "set_next_producer_id",
		TypeEmptyTier:           "empty_tier",
	}
	if int(t) < len(names) && names[t] != "" {
		return names[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// The versions of body layouts. A command that gains a field gets a version 2 and keeps decoding version 1, since old
// entries may be replayed.
const (
	version1 = 1
	version2 = 2
)

// bodyVersion is the version that a command's body is written in; older ones are read, too.
func (t Type) bodyVersion() uint8 {
	switch t {
	case TypeDeleteTopic, TypeReserveUploads, TypeAdvanceStart, TypeCollected:
		return version2
	}
	return version1
}

// Command is one entry of the metadata log: exactly the structs of this package, passed by value.
type Command interface {
	// Type tells which command it is.
	Type() Type
	appendBody(dst []byte) []byte
}

// Encode gives the bytes of the log entry: type, version, body.
func Encode(cmd Command) []byte {
	return cmd.appendBody([]byte{byte(cmd.Type()), cmd.Type().bodyVersion()})
}

// UnknownError says that a committed entry was written by a newer program. It must stop the state machine: skipping
// the entry would make this node differ from the others.
type UnknownError struct {
	Type    Type
	Version uint8
}

// Error says what to do about it.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("command %s version %d is not known to this program: run the version that wrote it, or a newer one",
		e.Type, e.Version)
}

// Decode reads a log entry. The command shares no memory with data.
func Decode(data []byte) (Command, error) {
	c := NewCursor(data)
	kind, version := Type(c.Uint8()), c.Uint8()
	if c.err != nil {
		return nil, c.err
	}
	if version < version1 || version > kind.bodyVersion() {
		return nil, &UnknownError{Type: kind, Version: version}
	}
	cmd := readBody(kind, version, &c)
	if cmd == nil {
		return nil, &UnknownError{Type: kind, Version: version}
	}
	if err := c.Finish(); err != nil {
		return nil, fmt.Errorf("command %s: %w", kind, err)
	}
	return cmd, nil
}

func readBody(kind Type, version uint8, c *Cursor) Command {
	switch kind {
	case TypeInitCluster:
		return InitCluster{ClusterID: c.UUID()}
	case TypeRegisterBroker:
		return readRegisterBroker(c)
	case TypeCreateTopics:
		return CreateTopics{Topics: readList(c, minNewTopicBytes, readNewTopic)}
	case TypeDeleteTopic:
		return readDeleteTopic(c, version)
	case TypeCreatePartitions:
		return readCreatePartitions(c)
	case TypeAlterConfigs:
		return readAlterConfigs(c)
	case TypeBumpLeaderEpochs:
		return BumpLeaderEpochs{Broker: c.Broker()}
	case TypeAllocateProducerIDs:
		return AllocateProducerIDs{Broker: c.Broker(), Count: c.Int32()}
	case TypeRestoreTopics:
		return RestoreTopics{Topics: readList(c, minRestoredTopicBytes, readRestoredTopic)}
	case TypeSetNextProducerID:
		return SetNextProducerID{AtLeast: c.Int64()}
	default:
		return readTierBody(kind, version, c)
	}
}

func readTierBody(kind Type, version uint8, c *Cursor) Command {
	switch kind {
	case TypeOpenTier:
		return OpenTier{Partition: c.Partition(), LeaderEpoch: c.LeaderEpoch(), Start: c.Int64()}
	case TypeReserveUploads:
		return readReserveUploads(c, version)
	case TypeCommitSegment:
		return readCommitSegment(c)
	case TypeAdvanceStart:
		return readAdvanceStart(c, version)
	case TypeCollected:
		return readCollected(c, version)
	case TypeTopicCollected:
		return TopicCollected{TopicID: c.UUID()}
	case TypeLapseReservations:
		return LapseReservations{ElapsedMs: c.Int64()}
	case TypeSeal:
		return readSeal(c)
	case TypeReplaceRange:
		return readReplaceRange(c)
	case TypePinSnapshot:
		return PinSnapshot{Pin: c.Pin(), ElapsedMs: c.Int64()}
	case TypeExtendPin:
		return ExtendPin{ID: c.UUID(), DeadlineMs: c.Int64(), ElapsedMs: c.Int64()}
	case TypeUnpin:
		return Unpin{ID: c.UUID()}
	case TypeCheckpointWritten:
		return readCheckpointWritten(c)
	case TypeEmptyTier:
		return EmptyTier{
			Partition: c.Partition(), LeaderEpoch: c.LeaderEpoch(), Start: c.Int64(), ElapsedMs: c.Int64(),
		}
	default:
		return nil
	}
}
