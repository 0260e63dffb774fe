package wire

import (
	"fmt"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
)

// BenchmarkEncodeFetchResponse builds the answer around records that are not copied; the bytes are those of the records.
func BenchmarkEncodeFetchResponse(b *testing.B) {
	for _, partitions := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d partitions", partitions), func(b *testing.B) {
			records := make([]byte, 1<<20/partitions)
			topic := FetchTopicResponse{Name: "topic", ID: kafka.TopicID{1}}
			for i := range int32(partitions) {
				topic.Partitions = append(topic.Partitions, FetchPartitionResponse{
					Partition: i, HighWatermark: 1000, LastStableOffset: 1000, PreferredReadReplica: -1,
					Records: Chunk{Bytes: records},
				})
			}
			answer := FetchResponse{Topics: []FetchTopicResponse{topic}}
			b.SetBytes(int64(len(records) * partitions))
			b.ReportAllocs()
			for b.Loop() {
				EncodeFetchResponse(18, 1, &answer).Release()
			}
		})
	}
}
