package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeBroker is a cluster of one broker with one topic, t, of one partition, whose log a test makes up batch by batch:
// also as no producer could make it.
type fakeBroker struct {
	t        *testing.T
	listener net.Listener
	group    sync.WaitGroup

	endOffset int64
	batches   []kmsg.RecordBatch
}

func newFakeBroker(t *testing.T, endOffset int64, batches ...kmsg.RecordBatch) string {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBroker{t: t, listener: listener, endOffset: endOffset, batches: batches}
	b.group.Go(b.accept)
	t.Cleanup(func() {
		listener.Close()
		b.group.Wait()
	})
	return listener.Addr().String()
}

func (b *fakeBroker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.group.Go(func() {
			defer conn.Close()
			if err := b.serve(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				b.t.Logf("fake broker: %v", err)
			}
		})
	}
}

// serve answers the requests of one connection until the client closes it.
func (b *fakeBroker) serve(conn net.Conn) error {
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return err
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return err
		}
		reader := kbin.Reader{Src: frame}
		key, version, correlation := reader.Int16(), reader.Int16(), reader.Int32()
		reader.NullableString()
		request := kmsg.RequestForKey(key)
		request.SetVersion(version)
		if request.IsFlexible() {
			kmsg.SkipTags(&reader)
		}
		if err := request.ReadFrom(reader.Src); err != nil {
			return err
		}
		response := b.answer(request)
		body := binary.BigEndian.AppendUint32(nil, uint32(correlation))
		if request.IsFlexible() && key != 18 {
			body = append(body, 0)
		}
		response.SetVersion(version)
		body = response.AppendTo(body)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
			return err
		}
	}
}

func (b *fakeBroker) answer(request kmsg.Request) kmsg.Response {
	response := request.ResponseKind()
	switch request := request.(type) {
	case *kmsg.ApiVersionsRequest:
		for _, api := range [][2]int16{{1, 12}, {2, 6}, {3, 9}, {18, 3}} {
			key := kmsg.NewApiVersionsResponseApiKey()
			key.ApiKey, key.MaxVersion = api[0], api[1]
			versions := response.(*kmsg.ApiVersionsResponse)
			versions.ApiKeys = append(versions.ApiKeys, key)
		}
	case *kmsg.MetadataRequest:
		b.metadata(response.(*kmsg.MetadataResponse))
	case *kmsg.ListOffsetsRequest:
		topic, partition := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
		topic.Topic, partition.Offset = "t", 0
		if request.Topics[0].Partitions[0].Timestamp == -1 {
			partition.Offset = b.endOffset
		}
		topic.Partitions = append(topic.Partitions, partition)
		offsets := response.(*kmsg.ListOffsetsResponse)
		offsets.Topics = append(offsets.Topics, topic)
	case *kmsg.FetchRequest:
		b.fetch(request, response.(*kmsg.FetchResponse))
	default:
		b.t.Errorf("the fake broker does not know %T", request)
	}
	return response
}

func (b *fakeBroker) metadata(response *kmsg.MetadataResponse) {
	address := b.listener.Addr().(*net.TCPAddr)
	broker := kmsg.NewMetadataResponseBroker()
	broker.Host, broker.Port = address.IP.String(), int32(address.Port)
	topic, partition := kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
	topic.Topic = kmsg.StringPtr("t")
	topic.Partitions = append(topic.Partitions, partition)
	response.Brokers = append(response.Brokers, broker)
	response.Topics = append(response.Topics, topic)
}

// fetch answers with every batch that ends after the offset asked for.
func (b *fakeBroker) fetch(request *kmsg.FetchRequest, response *kmsg.FetchResponse) {
	if len(request.Topics) == 0 {
		return
	}
	topic, partition := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
	topic.Topic = "t"
	partition.HighWatermark, partition.LastStableOffset = b.endOffset, b.endOffset
	for _, batch := range b.batches {
		if batch.FirstOffset+int64(batch.LastOffsetDelta) >= request.Topics[0].Partitions[0].FetchOffset {
			partition.RecordBatches = batch.AppendTo(partition.RecordBatches)
		}
	}
	topic.Partitions = append(topic.Partitions, partition)
	response.Topics = append(response.Topics, topic)
}

// batchOf is a batch of the offsets [first, last], of which those in values hold a record.
func batchOf(first, last int64, values map[int64]string) kmsg.RecordBatch {
	batch := kmsg.RecordBatch{FirstOffset: first, Magic: 2, LastOffsetDelta: int32(last - first),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(values))}
	for offset := first; offset <= last; offset++ {
		value, ok := values[offset]
		if !ok {
			continue
		}
		record := kmsg.Record{OffsetDelta: int32(offset - first), Value: []byte(value)}
		record.Length = int32(len(record.AppendTo(nil)) - 1) // a length below 64 takes one byte
		batch.Records = record.AppendTo(batch.Records)
	}
	checked(&batch)
	return batch
}

// checked gives a batch its length and checksum, and returns its bytes.
func checked(batch *kmsg.RecordBatch) []byte {
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(nil)
}

// TestALogThatEndsWithoutARecordIsReadToItsEnd: compaction has taken the records of the last batch and kept its
// offsets. A reading up to them must come to an end.
func TestALogThatEndsWithoutARecordIsReadToItsEnd(t *testing.T) {
	address := newFakeBroker(t, 6,
		batchOf(0, 2, map[int64]string{0: "a", 2: "c"}),
		batchOf(3, 5, nil))
	for _, test := range []struct{ offset, want string }{
		{"start", "0 a\n2 c\n"},
		{"1:3", "2 c\n"},
		{"4:5", ""},
	} {
		got := firn(t, "", "consume", "t", "-b", address, "-o", test.offset, "-f", `%o %v\n`)
		if got.status != 0 || got.out != test.want {
			t.Errorf("-o %s: status %d, error %q, printed %q, want %q", test.offset, got.status, got.err, got.out, test.want)
		}
	}
}
