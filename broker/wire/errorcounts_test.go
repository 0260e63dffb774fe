package wire

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

func checkCounts(t *testing.T, r *Response, want ...ErrorCount) {
	t.Helper()
	if got := r.ErrorCounts(); !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestErrorCodesOfAnswersAreCounted(t *testing.T) {
	produce := &ProduceResponse{Topics: []ProduceTopicResponse{
		{Partitions: []ProducePartitionResponse{{}, {ErrorCode: kafka.NotLeaderOrFollower}}},
		{Partitions: []ProducePartitionResponse{{}, {ErrorCode: kafka.CorruptMessage}, {}}},
	}}
	checkCounts(t, EncodeProduceResponse(9, 1, produce),
		ErrorCount{kafka.None, 3}, ErrorCount{kafka.NotLeaderOrFollower, 1}, ErrorCount{kafka.CorruptMessage, 1})

	fetch := &FetchResponse{Topics: []FetchTopicResponse{{Partitions: []FetchPartitionResponse{
		{ErrorCode: kafka.OffsetOutOfRange}, {},
	}}}}
	checkCounts(t, EncodeFetchResponse(12, 1, fetch), // its own code is one, too
		ErrorCount{kafka.None, 2}, ErrorCount{kafka.OffsetOutOfRange, 1})

	metadata := kmsg.NewPtrMetadataResponse()
	topic := kmsg.NewMetadataResponseTopic()
	topic.Partitions = make([]kmsg.MetadataResponseTopicPartition, 3)
	topic.Partitions[1].ErrorCode = int16(kafka.LeaderNotAvailable)
	metadata.Topics = append(metadata.Topics, topic)
	checkCounts(t, EncodeResponse(13, 1, metadata),
		ErrorCount{kafka.None, 4}, ErrorCount{kafka.LeaderNotAvailable, 1})
}

// Each answer tells its errors somewhere: one that was not looked at would count nothing for ever.
func TestEveryAnswerHasErrorCodes(t *testing.T) {
	for _, api := range APIs() {
		fields := errorFieldsByKey[api.Key]
		if fields.code < 0 && len(fields.lists) == 0 {
			t.Errorf("%s has no error code", api.Name)
		}
	}
}

func TestAnswersKnowHowLongTheyThrottle(t *testing.T) {
	body := kmsg.NewPtrCreateTopicsResponse()
	body.ThrottleMillis = 1500
	for name, r := range map[string]*Response{
		"of kmsg": EncodeResponse(7, 1, body),
		"Produce": EncodeProduceResponse(9, 1, &ProduceResponse{ThrottleMs: 1500}),
		"Fetch":   EncodeFetchResponse(12, 1, &FetchResponse{ThrottleMs: 1500}),
	} {
		if got := r.Throttle(); got != 1500*time.Millisecond {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := EncodeResponse(1, 1, kmsg.NewPtrSASLHandshakeResponse()).Throttle(); got != 0 {
		t.Errorf("an answer that cannot throttle throttles for %v", got)
	}
}

func TestCountingErrorsDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not those of the program under the race detector")
	}
	body := kmsg.NewPtrMetadataResponse()
	body.Topics = make([]kmsg.MetadataResponseTopic, 10)
	r := NewResponse()
	if n := testing.AllocsPerRun(100, func() { r.countErrors(body) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
