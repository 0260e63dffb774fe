package wire

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/kafka"
)

// FetchResponse is the answer to a Fetch request.
type FetchResponse struct {
	ThrottleMs int32
	ErrorCode  kafka.Errno // of the session (v7 and later)
	SessionID  int32       // 0: no session
	Topics     []FetchTopicResponse
	// NodeEndpoints tells where the leaders hinted at can be reached (v16 and later).
	NodeEndpoints []Endpoint
}

// FetchTopicResponse answers for the partitions of one topic: named by Name up to v12, by ID from v13 on.
type FetchTopicResponse struct {
	Name       string
	ID         kafka.TopicID
	Partitions []FetchPartitionResponse
}

// FetchPartitionResponse answers for one partition.
type FetchPartitionResponse struct {
	Partition        int32
	ErrorCode        kafka.Errno
	HighWatermark    int64 // −1 when unknown, as the two below
	LastStableOffset int64
	LogStartOffset   int64
	// AbortedTransactions is nil for read_uncommitted, which is null on the wire, and non-nil for read_committed.
	AbortedTransactions []AbortedTransaction
	// PreferredReadReplica is whom a consumer of this rack should ask (v11 and later); −1: stay.
	PreferredReadReplica kafka.BrokerID
	// Records is whole record batches: bytes or a region of a log file. Empty is legal. The encoded response takes over
	// its references.
	Records Chunk
	// DivergingEpoch is set when the asker's log has left ours (v12 and later, KIP-595): where it must truncate to.
	DivergingEpoch *EpochEndOffset
	// CurrentLeader is set with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH when the leader is known (v12 and later).
	CurrentLeader *Leader
}

// AbortedTransaction names a producer whose records from FirstOffset on were aborted.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// EpochEndOffset is a leader epoch and the exclusive offset at which it ended.
type EpochEndOffset struct {
	Epoch     kafka.LeaderEpoch
	EndOffset int64
}

// Versions of Fetch in which its response gained fields.
const (
	fetchLogStartFrom     = 5
	fetchSessionsFrom     = 7
	fetchReadReplicaFrom  = 11
	fetchEpochTagsFrom    = 12
	fetchTopicIDsFrom     = 13
	fetchNodeEndpointFrom = 16
)

// EncodeFetchResponse encodes the answer to a Fetch request of version 4 to 18. Records are not copied: what lies
// between them is built in one piece of memory and cut where they belong. The caller keeps the whole below 2 GiB.
func EncodeFetchResponse(version int16, correlationID int32, response *FetchResponse) *Response {
	sizeHint, records := response.sizeHint()
	e := fetchEncoder{
		appender: newFrame(mustAPI(KeyFetch).Flexible(version), sizeHint),
		version:  version,
		encoded:  NewResponse(),
	}
	if chunks := 2*records + 1; chunks > cap(e.encoded.chunks) {
		e.encoded.chunks = make([]Chunk, 0, chunks)
	}
	e.encoded.throttleMs = response.ThrottleMs
	e.encoded.countError(response.ErrorCode)
	e.int32(response.ThrottleMs)
	if version >= fetchSessionsFrom {
		e.errno(response.ErrorCode)
		e.int32(response.SessionID)
	}
	e.arrayLength(len(response.Topics))
	for i := range response.Topics {
		e.topic(&response.Topics[i])
	}
	if version >= fetchNodeEndpointFrom {
		e.endpointTags(response.NodeEndpoints)
	} else {
		e.noTags()
	}
	return e.assemble(correlationID)
}

// fetchEncoder builds a response whose chunks are, in turn, bytes of dst and records.
type fetchEncoder struct {
	appender
	version int16
	encoded *Response
	start   int // of the bytes that are not yet in a chunk
}

func (e *fetchEncoder) topic(topic *FetchTopicResponse) {
	if e.version >= fetchTopicIDsFrom {
		e.uuid(topic.ID)
	} else {
		e.string(topic.Name)
	}
	e.arrayLength(len(topic.Partitions))
	for i := range topic.Partitions {
		e.partition(&topic.Partitions[i])
	}
	e.noTags()
}

func (e *fetchEncoder) partition(p *FetchPartitionResponse) {
	e.encoded.countError(p.ErrorCode)
	e.int32(p.Partition)
	e.errno(p.ErrorCode)
	e.int64(p.HighWatermark)
	e.int64(p.LastStableOffset)
	if e.version >= fetchLogStartFrom {
		e.int64(p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		e.arrayLength(-1)
	} else {
		e.arrayLength(len(p.AbortedTransactions))
	}
	for i := range p.AbortedTransactions {
		e.int64(p.AbortedTransactions[i].ProducerID)
		e.int64(p.AbortedTransactions[i].FirstOffset)
		e.noTags()
	}
	if e.version >= fetchReadReplicaFrom {
		e.int32(int32(p.PreferredReadReplica))
	}
	e.bytesLength(p.Records.Size())
	if p.Records.Size() > 0 {
		e.cut()
	}
	e.encoded.AppendChunk(p.Records)
	e.partitionTags(p)
}

func (e *fetchEncoder) partitionTags(p *FetchPartitionResponse) {
	if e.version < fetchEpochTagsFrom {
		return
	}
	var count uint32
	if p.DivergingEpoch != nil {
		count++
	}
	if p.CurrentLeader != nil {
		count++
	}
	e.uvarint(count)
	if p.DivergingEpoch != nil {
		e.tag(0, 4+8+1)
		e.int32(int32(p.DivergingEpoch.Epoch))
		e.int64(p.DivergingEpoch.EndOffset)
		e.noTags()
	}
	if p.CurrentLeader != nil {
		e.leaderTag(1, *p.CurrentLeader)
	}
}

// cut makes a chunk of the bytes built since the last one.
func (e *fetchEncoder) cut() {
	e.encoded.AppendChunk(Chunk{Bytes: e.dst[e.start:]})
	e.start = len(e.dst)
}

// assemble adds the last bytes and fills in the header.
func (e *fetchEncoder) assemble(correlationID int32) *Response {
	e.cut()
	// dst may have moved while it grew: let the chunks of bytes, every other one, point to where it is now.
	start := 0
	for i := 0; i < len(e.encoded.chunks); i += 2 {
		end := start + len(e.encoded.chunks[i].Bytes)
		e.encoded.chunks[i].Bytes = e.dst[start:end:end]
		start = end
	}
	binary.BigEndian.PutUint32(e.dst, uint32(e.encoded.size-lengthPrefixSize))
	binary.BigEndian.PutUint32(e.dst[lengthPrefixSize:], uint32(correlationID))
	return e.encoded
}

// sizeHint is about how long all but the records becomes, so that it is allocated once, and how many partitions have
// records.
func (r *FetchResponse) sizeHint() (size, records int) {
	size = 64
	for i := range r.Topics {
		topic := &r.Topics[i]
		size += 24 + len(topic.Name)
		for j := range topic.Partitions {
			size += 80 + 17*len(topic.Partitions[j].AbortedTransactions)
			if topic.Partitions[j].Records.Size() > 0 {
				records++
			}
		}
	}
	return size, records
}
