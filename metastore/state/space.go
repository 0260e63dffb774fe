package state

// Space is the first byte of every key: it says whose the rest is. The bytes are for ever.
type Space byte

// The spaces of the state database. The replicated ones are the state machine's alone: they are the same on every
// broker at the same applied index, a snapshot of raft carries them, and restoring one replaces them and nothing else.
const (
	// SpaceApplied holds the index of the last applied command, under the empty key. It is written in the same batch as
	// what the command changed.
	SpaceApplied Space = 'a'
	// SpaceMetadata holds topics, partitions, settings, brokers, the next producer id, the cluster id.
	SpaceMetadata Space = 'm'
	// SpaceTier holds tier state per partition, manifest entries, reservations, garbage, markers of deleted topics.
	SpaceTier Space = 't'

	// SpaceStorage is local to the broker: flushed offsets, high watermarks, producer checkpoints, append times.
	SpaceStorage Space = 's'
	// SpaceCoordinator is local to the broker: what the coordinators have read of their journals.
	SpaceCoordinator Space = 'c'
	// SpaceVerify is local to the broker: how far the verification of the object store is.
	SpaceVerify Space = 'v'
	// SpaceCache is local to the broker: what the disk cache of the object store has.
	SpaceCache Space = 'k'
)

// The spaces of the raft database, which is a separate one in a directory of its own.
const (
	// SpaceRaftLog holds the entries of the raft log by index.
	SpaceRaftLog Space = 'l'
	// SpaceRaftStable holds raft's current term and vote.
	SpaceRaftStable Space = 'v'
	// SpaceRaftSnapshot holds snapshots: descriptions and chunks.
	SpaceRaftSnapshot Space = 'p'
)

// ReplicatedSpaces are those of the state machine, in key order.
func ReplicatedSpaces() []Space { return []Space{SpaceApplied, SpaceMetadata, SpaceTier} }

// key puts the space before a key of it.
func (s Space) key(key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), byte(s)), key...)
}

// end is the first key after all that begin with prefix; nil if there is none.
func end(prefix []byte) []byte {
	limit := append([]byte(nil), prefix...)
	for i := len(limit) - 1; i >= 0; i-- {
		if limit[i] < 0xff {
			limit[i]++
			return limit[:i+1]
		}
	}
	return nil
}
