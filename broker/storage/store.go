package storage

import (
	"encoding/binary"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// What the state database holds for a log. A key is the topic id (16 bytes), the partition (int32), a kind and, for
// segments and producers, an offset (int64), all big-endian, so that a log's keys lie together in order.
//
//	'c'          checkpoint: flushed offset, high watermark and where the log begins
//	's' + base   a segment: its end, size, largest timestamp and append times
//	'p' + offset the producers as of that offset: at the base of each local segment, and the newest at a clean stop
//	'e'          the leader epochs at a clean stop, if the epoch file lagged behind then; of no use after any other
//	'd'          the first offset that the log cleaner has not looked at yet
//	'w' + base   segments that were written anew and are about to take the place of others
//
// Each value begins with a version byte. All of it is a lower bound or a copy: what does not fit the log is dropped.
const (
	checkpointKind = 'c'
	segmentKind    = 's'
	producerKind   = 'p'
	epochsKind     = 'e'
	cleanedKind    = 'd'
	rewriteKind    = 'w'

	storeVersion = 1
	// segmentStateVersion: version 1 had no transaction index.
	segmentStateVersion = 2
)

// logKeys makes the keys of one log.
type logKeys struct{ prefix []byte }

func keysOf(id kafka.TopicID, partition int32) logKeys {
	return logKeys{prefix: binary.BigEndian.AppendUint32(append([]byte(nil), id[:]...), uint32(partition))}
}

func (k logKeys) kind(kind byte) []byte { return append(k.prefix[:len(k.prefix):len(k.prefix)], kind) }

func (k logKeys) at(kind byte, offset int64) []byte {
	return binary.BigEndian.AppendUint64(k.kind(kind), uint64(offset))
}

func offsetOfKey(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[len(key)-8:])) }

// checkpoint is what is written about a log each second if it has changed.
type checkpoint struct {
	FlushedOffset  int64
	FlushedEpoch   kafka.LeaderEpoch // of the last record below the flushed offset
	HighWatermark  int64
	LogStartOffset int64
	LocalStart     int64 // base of the oldest segment that was not given up
}

const checkpointSize = 1 + 8 + 4 + 8 + 8 + 8

func (c checkpoint) append(dst []byte) []byte {
	dst = append(dst, storeVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.FlushedOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.FlushedEpoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.HighWatermark))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.LogStartOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(c.LocalStart))
}

func parseCheckpoint(data []byte) (checkpoint, error) {
	if len(data) != checkpointSize || data[0] != storeVersion {
		return checkpoint{}, fmt.Errorf("a log checkpoint of %d bytes and version % x is not known",
			len(data), data[:min(1, len(data))])
	}
	return checkpoint{
		FlushedOffset:  int64(binary.BigEndian.Uint64(data[1:])),
		FlushedEpoch:   kafka.LeaderEpoch(binary.BigEndian.Uint32(data[9:])),
		HighWatermark:  int64(binary.BigEndian.Uint64(data[13:])),
		LogStartOffset: int64(binary.BigEndian.Uint64(data[21:])),
		LocalStart:     int64(binary.BigEndian.Uint64(data[29:])),
	}, nil
}

const (
	segmentStateSizeV1 = 1 + 1 + 9*8 + 4 + 4
	segmentStateSize   = segmentStateSizeV1 + 4
)

func (s segmentState) append(dst []byte) []byte {
	sealed := byte(0)
	if s.Sealed {
		sealed = 1
	}
	dst = append(dst, segmentStateVersion, sealed)
	for _, field := range []int64{
		s.EndOffset, s.Size, s.FirstTimestamp, s.MaxTimestamp, s.MaxTimestampLast, s.MaxTimestampOffset,
		s.FirstAppendedAt, s.LastAppendedAt, s.NextBaseOffset,
	} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(field))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.OffsetEntries))
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.TimeEntries))
	return binary.BigEndian.AppendUint32(dst, uint32(s.AbortedEntries))
}

func parseSegmentState(data []byte) (segmentState, error) {
	size := segmentStateSize
	if len(data) > 0 && data[0] == storeVersion {
		size = segmentStateSizeV1
	}
	if len(data) != size || data[0] != storeVersion && data[0] != segmentStateVersion {
		return segmentState{}, fmt.Errorf("a segment's state of %d bytes and version % x is not known",
			len(data), data[:min(1, len(data))])
	}
	s := segmentState{Sealed: data[1] == 1}
	at := data[2:]
	for _, field := range []*int64{
		&s.EndOffset, &s.Size, &s.FirstTimestamp, &s.MaxTimestamp, &s.MaxTimestampLast, &s.MaxTimestampOffset,
		&s.FirstAppendedAt, &s.LastAppendedAt, &s.NextBaseOffset,
	} {
		*field, at = int64(binary.BigEndian.Uint64(at)), at[8:]
	}
	s.OffsetEntries, s.TimeEntries = int32(binary.BigEndian.Uint32(at)), int32(binary.BigEndian.Uint32(at[4:]))
	if data[0] == segmentStateVersion {
		s.AbortedEntries = int32(binary.BigEndian.Uint32(at[8:]))
	}
	return s, nil
}

// rewriteNote says what a rewritten segment is and whose place it takes: the bases of neighbouring segments, the first
// of which is its own.
type rewriteNote struct {
	state    segmentState
	replaced []int64
}

func (n rewriteNote) append(dst []byte) []byte {
	dst = n.state.append(append(dst, storeVersion))
	for _, base := range n.replaced {
		dst = binary.BigEndian.AppendUint64(dst, uint64(base))
	}
	return dst
}

func parseRewriteNote(data []byte) (rewriteNote, error) {
	if len(data) < 1+segmentStateSize || data[0] != storeVersion || (len(data)-1-segmentStateSize)%8 != 0 {
		return rewriteNote{}, fmt.Errorf("the note of a rewrite of %d bytes and version % x is not known",
			len(data), data[:min(1, len(data))])
	}
	state, err := parseSegmentState(data[1 : 1+segmentStateSize])
	if err != nil {
		return rewriteNote{}, err
	}
	note := rewriteNote{state: state}
	for at := data[1+segmentStateSize:]; len(at) > 0; at = at[8:] {
		note.replaced = append(note.replaced, int64(binary.BigEndian.Uint64(at)))
	}
	return note, nil
}

// parseSavedEpochs reads the leader epochs: the version and what an epoch file holds.
func parseSavedEpochs(data []byte) ([]EpochEntry, error) {
	if len(data) == 0 || data[0] != storeVersion {
		return nil, fmt.Errorf("leader epochs of %d bytes and version % x are not known", len(data), data[:min(1, len(data))])
	}
	return parseEpochFile(data[1:])
}

// producerCheckpoint is the state of a log's producers at an offset. The epoch is that of the record before it: a
// checkpoint of another lineage is not used.
type producerCheckpoint struct {
	Offset   int64
	Epoch    kafka.LeaderEpoch
	Snapshot []byte // Kafka's .snapshot format
}

const producerCheckpointHeader = 1 + 4

func (c producerCheckpoint) append(dst []byte) []byte {
	dst = append(dst, storeVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Epoch))
	return append(dst, c.Snapshot...)
}

// producerCheckpointEpoch looks at the header only.
func producerCheckpointEpoch(data []byte) (kafka.LeaderEpoch, error) {
	if len(data) < producerCheckpointHeader || data[0] != storeVersion {
		return kafka.NoLeaderEpoch, fmt.Errorf("a producer checkpoint of %d bytes and version % x is not known",
			len(data), data[:min(1, len(data))])
	}
	return kafka.LeaderEpoch(binary.BigEndian.Uint32(data[1:])), nil
}

func parseProducerCheckpoint(offset int64, data []byte) (producerCheckpoint, error) {
	epoch, err := producerCheckpointEpoch(data)
	if err != nil {
		return producerCheckpoint{}, err
	}
	return producerCheckpoint{
		Offset:   offset,
		Epoch:    epoch,
		Snapshot: append([]byte(nil), data[producerCheckpointHeader:]...),
	}, nil
}
