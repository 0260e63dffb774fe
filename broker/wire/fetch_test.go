package wire

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

func fetchVersions() []int16 {
	var versions []int16
	for version := mustAPI(KeyFetch).ServedFrom; version <= mustAPI(KeyFetch).Max; version++ {
		versions = append(versions, version)
	}
	return versions
}

// countingHolder counts the references given out on something, and fails the count when one is released twice.
type countingHolder struct{ held, released int }

func (h *countingHolder) hold() *countingHolder {
	h.held++
	return h
}

func (h *countingHolder) Release() { h.released++ }

// segment is a file of records in memory, from which regions are cut.
func segment(t interface{ Fatal(...any) }, size int) vfs.File {
	file, err := vfs.NewMem().Create("segment")
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7)
	}
	if _, err := file.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return file
}

func drawFetchResponse(t *rapid.T, file vfs.File, holder *countingHolder) *FetchResponse {
	r := &FetchResponse{
		ThrottleMs:    rapid.Int32().Draw(t, "throttle"),
		ErrorCode:     kafka.Errno(rapid.Int16().Draw(t, "error")),
		SessionID:     rapid.Int32().Draw(t, "session"),
		NodeEndpoints: drawEndpoints(t),
	}
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		topic := FetchTopicResponse{Name: rapid.StringN(0, 20, 40).Draw(t, "topic"), ID: drawTopicID(t)}
		for range rapid.IntRange(0, 4).Draw(t, "partitions") {
			topic.Partitions = append(topic.Partitions, drawFetchPartition(t, file, holder))
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

func drawFetchPartition(t *rapid.T, file vfs.File, holder *countingHolder) FetchPartitionResponse {
	p := FetchPartitionResponse{
		Partition:            rapid.Int32().Draw(t, "partition"),
		ErrorCode:            kafka.Errno(rapid.Int16().Draw(t, "error")),
		HighWatermark:        rapid.Int64().Draw(t, "high watermark"),
		LastStableOffset:     rapid.Int64().Draw(t, "last stable offset"),
		LogStartOffset:       rapid.Int64().Draw(t, "log start"),
		PreferredReadReplica: kafka.BrokerID(rapid.Int32().Draw(t, "replica")),
		CurrentLeader:        drawLeader(t),
	}
	if rapid.Bool().Draw(t, "read committed") {
		p.AbortedTransactions = []AbortedTransaction{}
		for range rapid.IntRange(0, 2).Draw(t, "aborted") {
			p.AbortedTransactions = append(p.AbortedTransactions, AbortedTransaction{
				ProducerID: rapid.Int64().Draw(t, "producer"), FirstOffset: rapid.Int64().Draw(t, "first"),
			})
		}
	}
	if rapid.Bool().Draw(t, "diverging") {
		p.DivergingEpoch = &EpochEndOffset{
			Epoch:     kafka.LeaderEpoch(rapid.Int32Min(0).Draw(t, "epoch")),
			EndOffset: rapid.Int64Min(0).Draw(t, "end"),
		}
	}
	size := rapid.Int64Range(0, 300).Draw(t, "size")
	switch rapid.IntRange(0, 2).Draw(t, "records") {
	case 0:
		p.Records.Region = vfs.NewRegion(file, rapid.Int64Range(0, 500).Draw(t, "position"), size, holder.hold())
	case 1:
		p.Records = Chunk{Bytes: bytes.Repeat([]byte{'r'}, int(size)), Hold: holder.hold()}
	}
	return p
}

func recordsOf(chunk Chunk) []byte {
	r := NewResponse()
	r.AppendChunk(chunk)
	return flatten(r)
}

// inKmsg is the response in kmsg's types, for kmsg to encode.
func (r *FetchResponse) inKmsg(version int16) *kmsg.FetchResponse {
	k := kmsg.NewPtrFetchResponse()
	k.SetVersion(version)
	k.ThrottleMillis, k.ErrorCode, k.SessionID = r.ThrottleMs, int16(r.ErrorCode), r.SessionID
	for _, topic := range r.Topics {
		kTopic := kmsg.NewFetchResponseTopic()
		kTopic.Topic, kTopic.TopicID = topic.Name, topic.ID
		for _, p := range topic.Partitions {
			kTopic.Partitions = append(kTopic.Partitions, p.inKmsg())
		}
		k.Topics = append(k.Topics, kTopic)
	}
	for _, e := range r.NodeEndpoints {
		if version < fetchNodeEndpointFrom {
			break
		}
		kb := kmsg.NewFetchResponseBroker()
		kb.NodeID, kb.Host, kb.Port, kb.Rack = int32(e.ID), e.Host, e.Port, emptyIsNil(e.Rack)
		k.Brokers = append(k.Brokers, kb)
	}
	return k
}

func (p *FetchPartitionResponse) inKmsg() kmsg.FetchResponseTopicPartition {
	k := kmsg.NewFetchResponseTopicPartition()
	k.Partition, k.ErrorCode, k.HighWatermark = p.Partition, int16(p.ErrorCode), p.HighWatermark
	k.LastStableOffset, k.LogStartOffset = p.LastStableOffset, p.LogStartOffset
	k.PreferredReadReplica = int32(p.PreferredReadReplica)
	if p.AbortedTransactions != nil {
		k.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	for _, a := range p.AbortedTransactions {
		ka := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		ka.ProducerID, ka.FirstOffset = a.ProducerID, a.FirstOffset
		k.AbortedTransactions = append(k.AbortedTransactions, ka)
	}
	if k.RecordBatches = recordsOf(p.Records); k.RecordBatches == nil {
		k.RecordBatches = []byte{} // never null: Kafka sends empty records with an error, too
	}
	if p.DivergingEpoch != nil {
		k.DivergingEpoch.Epoch, k.DivergingEpoch.EndOffset = int32(p.DivergingEpoch.Epoch), p.DivergingEpoch.EndOffset
	}
	if p.CurrentLeader != nil {
		k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = int32(p.CurrentLeader.ID), int32(p.CurrentLeader.Epoch)
	}
	return k
}

func TestFetchResponseIsByteForByteThatOfKmsgAndReleasesEachReferenceOnce(t *testing.T) {
	file := segment(t, 1000)
	for _, version := range fetchVersions() {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var holder countingHolder
				response := drawFetchResponse(t, file, &holder)
				// kmsg's side reads the records first; it may release what is empty, so it counts with a holder of its own.
				want := flatten(EncodeResponse(version, 99, response.inKmsg(version)))
				holder.released = 0
				encoded := EncodeFetchResponse(version, 99, response)
				if got := flatten(encoded); !bytes.Equal(got, want) {
					t.Fatalf("got  %x\nwant %x", got, want)
				}
				if encoded.Size() != int64(len(want)) {
					t.Fatalf("size %d of %d bytes", encoded.Size(), len(want))
				}
				encoded.Release()
				encoded.Release() // a second call does nothing
				if holder.released != holder.held {
					t.Fatalf("%d references held, %d released", holder.held, holder.released)
				}
			})
		})
	}
}

func TestFetchResponseOfOnePartitionAllocatesTwice(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not those of the program under the race detector")
	}
	file := segment(t, 1000)
	response := &FetchResponse{Topics: []FetchTopicResponse{{Name: "topic", Partitions: []FetchPartitionResponse{{
		Records: Chunk{Region: vfs.NewRegion(file, 0, 1000, nil)},
	}}}}}
	for _, version := range fetchVersions() {
		allocations := testing.AllocsPerRun(100, func() {
			EncodeFetchResponse(version, 1, response).Release()
		})
		if allocations > 2 { // the bytes, and the response
			t.Errorf("v%d: %v allocations", version, allocations)
		}
	}
}

func TestFetchResponseOfManyPartitionsAllocatesThreeTimes(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not those of the program under the race detector")
	}
	file := segment(t, 1000)
	partitions := make([]FetchPartitionResponse, 50)
	for i := range partitions {
		partitions[i].Records.Region = vfs.NewRegion(file, 0, 1000, nil)
	}
	response := &FetchResponse{Topics: []FetchTopicResponse{{Name: "topic", Partitions: partitions}}}
	allocations := testing.AllocsPerRun(100, func() {
		EncodeFetchResponse(17, 1, response).Release()
	})
	if allocations > 3 { // the bytes, the response, the chunks
		t.Errorf("%v allocations", allocations)
	}
}

func TestFetchResponseDoesNotCopyRecords(t *testing.T) {
	records := []byte("records")
	encoded := EncodeFetchResponse(12, 1, &FetchResponse{Topics: []FetchTopicResponse{{
		Partitions: []FetchPartitionResponse{{Records: Chunk{Bytes: records}}},
	}}})
	for _, chunk := range encoded.Chunks() {
		if len(chunk.Bytes) == len(records) && &chunk.Bytes[0] == &records[0] {
			return
		}
	}
	t.Error("the records are not among the chunks")
}

func TestBytesInMemoryAreAllButRegionsOfFiles(t *testing.T) {
	r := NewResponse()
	r.AppendChunk(Chunk{Bytes: make([]byte, 10)})
	r.AppendChunk(Chunk{Bytes: make([]byte, 20), Hold: &countingHolder{}})
	r.AppendChunk(Chunk{Region: vfs.NewRegion(segment(t, 100), 0, 100, nil)})
	if got := r.BytesInMemory(); got != 30 {
		t.Errorf("%d bytes, want 30", got)
	}
	if got := r.Size(); got != 130 {
		t.Errorf("size %d, want 130", got)
	}
	if got := (*Response)(nil).BytesInMemory(); got != 0 {
		t.Errorf("no response has %d bytes", got)
	}
}
