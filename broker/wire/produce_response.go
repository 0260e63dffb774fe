package wire

import "github.com/firnlog/firn/internal/kafka"

// ProduceResponse is the answer to a Produce request.
type ProduceResponse struct {
	Topics     []ProduceTopicResponse
	ThrottleMs int32
	// NodeEndpoints tells where the leaders hinted at can be reached (v10 and later).
	NodeEndpoints []Endpoint
}

// ProduceTopicResponse answers for the partitions of one topic: named by Name up to v12, by ID from v13 on.
type ProduceTopicResponse struct {
	Name       string
	ID         kafka.TopicID
	Partitions []ProducePartitionResponse
}

// ProducePartitionResponse answers for one partition.
type ProducePartitionResponse struct {
	Partition int32
	ErrorCode kafka.Errno
	// BaseOffset is the offset of the first record; −1 with an error.
	BaseOffset int64
	// LogAppendTime is the broker's time given to the records; −1 when the topic keeps the producer's times.
	LogAppendTime int64
	// LogStartOffset is answered from v5 on; −1 with an error.
	LogStartOffset int64
	// RecordErrors and ErrorMessage say what was wrong with which record (v8 and later, KIP-467).
	RecordErrors []RecordError
	ErrorMessage string
	// CurrentLeader is set with NOT_LEADER_OR_FOLLOWER when the leader is known (v10 and later, KIP-951).
	CurrentLeader *Leader
}

// RecordError says what was wrong with one record of a refused batch.
type RecordError struct {
	// BatchIndex is the record's place in the batch, from 0.
	BatchIndex int32
	Message    string
}

// Versions of Produce in which its response gained fields.
const (
	produceLogStartFrom     = 5
	produceRecordErrorsFrom = 8
	produceLeadersFrom      = 10
)

// EncodeProduceResponse encodes the answer to a Produce request of version 3 to 13.
func EncodeProduceResponse(version int16, correlationID int32, response *ProduceResponse) *Response {
	a := newFrame(mustAPI(KeyProduce).Flexible(version), response.sizeHint())
	a.arrayLength(len(response.Topics))
	for i := range response.Topics {
		topic := &response.Topics[i]
		if version >= topicIDsFrom {
			a.uuid(topic.ID)
		} else {
			a.string(topic.Name)
		}
		a.arrayLength(len(topic.Partitions))
		for j := range topic.Partitions {
			topic.Partitions[j].appendTo(&a, version)
		}
		a.noTags()
	}
	a.int32(response.ThrottleMs)
	if version >= produceLeadersFrom {
		a.endpointTags(response.NodeEndpoints)
	} else {
		a.noTags()
	}
	r := finishFrame(a.dst, correlationID)
	r.throttleMs = response.ThrottleMs
	for i := range response.Topics {
		for j := range response.Topics[i].Partitions {
			r.countError(response.Topics[i].Partitions[j].ErrorCode)
		}
	}
	return r
}

func (p *ProducePartitionResponse) appendTo(a *appender, version int16) {
	a.int32(p.Partition)
	a.errno(p.ErrorCode)
	a.int64(p.BaseOffset)
	a.int64(p.LogAppendTime)
	if version >= produceLogStartFrom {
		a.int64(p.LogStartOffset)
	}
	if version >= produceRecordErrorsFrom {
		a.arrayLength(len(p.RecordErrors))
		for i := range p.RecordErrors {
			a.int32(p.RecordErrors[i].BatchIndex)
			a.emptyAsNull(p.RecordErrors[i].Message)
			a.noTags()
		}
		a.emptyAsNull(p.ErrorMessage)
	}
	if version >= produceLeadersFrom && p.CurrentLeader != nil {
		a.uvarint(1) // one tagged field
		a.leaderTag(0, *p.CurrentLeader)
	} else {
		a.noTags()
	}
}

// sizeHint is about how long the frame becomes, so that it is allocated once.
func (r *ProduceResponse) sizeHint() int {
	size := 32
	for i := range r.Topics {
		size += 24 + len(r.Topics[i].Name) + 48*len(r.Topics[i].Partitions)
	}
	return size
}

// newFrame starts a response frame of a flexible API: room for length and correlation id, then the header's tags.
func newFrame(flexible bool, sizeHint int) appender {
	a := appender{dst: make([]byte, responseHeaderSize, responseHeaderSize+sizeHint), flexible: flexible}
	a.noTags()
	return a
}
