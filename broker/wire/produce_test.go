package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
)

// produceVersions are the served versions of Produce.
func produceVersions() []int16 {
	var versions []int16
	for version := mustAPI(KeyProduce).ServedFrom; version <= mustAPI(KeyProduce).Max; version++ {
		versions = append(versions, version)
	}
	return versions
}

// viewed is what iterating over a ProduceView yields, in kmsg's types.
func viewed(t interface{ Fatal(...any) }, version int16, body []byte) (*kmsg.ProduceRequest, *ProduceView) {
	view, err := ParseProduce(version, body)
	if err != nil {
		t.Fatal(err)
	}
	got := kmsg.NewPtrProduceRequest()
	got.SetVersion(version)
	got.Acks, got.TimeoutMillis = view.Acks, view.TimeoutMs
	if view.TransactionalID != nil {
		got.TransactionID = kmsg.StringPtr(string(view.TransactionalID))
	}
	topicCount, partitionCount := 0, 0
	for topics := view.Topics(); topics.Next(); {
		topicCount++
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.TopicID = string(topics.Name()), topics.ID()
		for partitions := topics.Partitions(); partitions.Next(); {
			partitionCount++
			partition := kmsg.NewProduceRequestTopicPartition()
			partition.Partition, partition.Records = partitions.Partition(), partitions.Records()
			topic.Partitions = append(topic.Partitions, partition)
		}
		if len(topic.Partitions) != topics.PartitionCount() {
			t.Fatal("partition count of the topic", topics.PartitionCount(), "but", len(topic.Partitions), "came")
		}
		got.Topics = append(got.Topics, topic)
	}
	if topicCount != view.TopicCount || partitionCount != view.PartitionCount {
		t.Fatal("counts", view.TopicCount, view.PartitionCount, "but", topicCount, partitionCount, "came")
	}
	return got, &view
}

func TestProduceViewSeesWhatKmsgWrites(t *testing.T) {
	for _, version := range produceVersions() {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				body := drawRequest(t, KeyProduce, version).AppendTo(nil)
				want := kmsg.NewPtrProduceRequest()
				want.SetVersion(version)
				if err := want.ReadFrom(body); err != nil {
					t.Fatal(err)
				}
				got, _ := viewed(t, version, body)
				// The view passes over tagged fields: none is known, and no handler wants them.
				if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(kmsg.Tags{}), cmpopts.EquateEmpty()); diff != "" {
					t.Fatal(diff)
				}
				if end := rapid.IntRange(0, len(body)).Draw(t, "end"); end < len(body) {
					if _, err := ParseProduce(version, body[:end]); err == nil {
						t.Fatalf("the first %d of %d bytes passed", end, len(body))
					}
				}
				if _, err := ParseProduce(version, append(body, 0)); err == nil {
					t.Fatal("a byte left over at the end passed")
				}
			})
		})
	}
}

// produceBody is a Produce request with one batch-sized run of bytes for each of the partitions.
func produceBody(version int16, topics, partitions int, records []byte) []byte {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(version)
	request.Acks, request.TimeoutMillis = -1, 30_000
	for i := range topics {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.TopicID = fmt.Sprintf("topic-%d", i), [16]byte{byte(i)}
		for j := range partitions {
			partition := kmsg.NewProduceRequestTopicPartition()
			partition.Partition, partition.Records = int32(j), records
			topic.Partitions = append(topic.Partitions, partition)
		}
		request.Topics = append(request.Topics, topic)
	}
	return request.AppendTo(nil)
}

func TestProduceViewAliasesTheFrameAndEndsWithTheRecords(t *testing.T) {
	for _, version := range produceVersions() {
		body := produceBody(version, 2, 2, []byte("records"))
		view, err := ParseProduce(version, body)
		if err != nil {
			t.Fatal(err)
		}
		for topics := view.Topics(); topics.Next(); {
			for partitions := topics.Partitions(); partitions.Next(); {
				records := partitions.Records()
				if cap(records) != len(records) {
					t.Fatalf("v%d: appending to the records would write into the frame", version)
				}
				copy(records, "PATCHED")
			}
		}
		if count := bytes.Count(body, []byte("PATCHED")); count != 4 {
			t.Errorf("v%d: %d of 4 patches arrived in the frame", version, count)
		}
	}
}

func TestProduceViewTellsNullRecordsFromEmptyOnes(t *testing.T) {
	for _, version := range produceVersions() {
		for _, records := range [][]byte{nil, {}} {
			got, _ := viewed(t, version, produceBody(version, 1, 1, records))
			if seen := got.Topics[0].Partitions[0].Records; (seen == nil) != (records == nil) {
				t.Errorf("v%d: sent %#v, seen %#v", version, records, seen)
			}
		}
	}
}

func TestParseProduceFindsMalformedBodies(t *testing.T) {
	at := func(version int16, position int, patch ...byte) []byte {
		body := produceBody(version, 1, 1, make([]byte, 100))
		copy(body[position:], patch)
		return body
	}
	const topicCount, name, partitionCount, recordsLength = 2 + 2 + 4, 12, 12 + 2 + 7, 12 + 2 + 7 + 4 + 4 // of version 3
	cases := map[string]struct {
		version int16
		body    []byte
	}{
		"PR-03 2^31-1 topics":                   {3, at(3, topicCount, 0x7f, 0xff, 0xff, 0xff)},
		"PR-03 2^31-1 partitions":               {3, at(3, partitionCount, 0x7f, 0xff, 0xff, 0xff)},
		"PR-03 2^32-2 topics in compact form":   {9, at(9, 1+2+4, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		"a null list of topics":                 {3, at(3, topicCount, 0xff, 0xff, 0xff, 0xff)},
		"a null topic name":                     {3, at(3, name, 0xff, 0xff)},
		"a topic name past the end":             {3, at(3, name, 0x7f, 0xff)},
		"records past the end":                  {3, at(3, recordsLength, 0, 0, 1, 0)},
		"records of length -2":                  {3, at(3, recordsLength, 0xff, 0xff, 0xff, 0xfe)},
		"a transactional id of length -2":       {3, at(3, 0, 0xff, 0xfe)},
		"bytes left over":                       {3, append(produceBody(3, 1, 1, nil), 1)},
		"tagged fields missing":                 {9, produceBody(9, 1, 1, nil)[:len(produceBody(9, 1, 1, nil))-1]},
		"a topic id cut off":                    {13, produceBody(13, 1, 1, nil)[:1+2+4+1+10]},
		"nothing":                               {3, nil},
		"millions of empty partitions":          {3, produceBody(3, 1, 20_000, nil)},
		"millions of topics without partitions": {12, produceBody(12, 20_000, 0, nil)},
		"a tag count of more than 10000 for nothing": {9,
			append(produceBody(9, 0, 0, nil)[:8], binary.AppendUvarint(nil, 10_001)...)},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseProduce(test.version, test.body)
			var malformed *MalformedError
			if !errors.As(err, &malformed) {
				t.Errorf("got %v, want a MalformedError", err)
			}
		})
	}
}

func TestProduceViewTakesManyPartitionsThatCarryBatches(t *testing.T) {
	for _, version := range produceVersions() {
		if _, err := ParseProduce(version, produceBody(version, 100, 200, make([]byte, 61))); err != nil {
			t.Errorf("v%d: %v", version, err)
		}
	}
}

func TestProduceViewAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not those of the program under the race detector")
	}
	for _, version := range produceVersions() {
		body := produceBody(version, 3, 4, make([]byte, 1000))
		total := 0
		allocations := testing.AllocsPerRun(100, func() {
			view, err := ParseProduce(version, body)
			if err != nil {
				t.Fatal(err)
			}
			for topics := view.Topics(); topics.Next(); {
				for partitions := topics.Partitions(); partitions.Next(); {
					total += len(partitions.Records()) + len(topics.Name())
				}
			}
		})
		if allocations != 0 || total == 0 {
			t.Errorf("v%d: %v allocations", version, allocations)
		}
	}
}

// drawLeader and the other draw functions make random parts of responses; what is absent on the wire is absent here.
func drawLeader(t *rapid.T) *Leader {
	if rapid.Bool().Draw(t, "no leader") {
		return nil
	}
	return &Leader{
		ID:    kafka.BrokerID(rapid.Int32Range(0, 9).Draw(t, "leader")),
		Epoch: kafka.LeaderEpoch(rapid.Int32Min(0).Draw(t, "epoch")),
	}
}

func drawEndpoints(t *rapid.T) []Endpoint {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Endpoint {
		return Endpoint{
			ID:   kafka.BrokerID(rapid.Int32().Draw(t, "id")),
			Host: rapid.StringN(0, 20, 40).Draw(t, "host"),
			Port: rapid.Int32().Draw(t, "port"),
			Rack: rapid.StringN(0, 5, 10).Draw(t, "rack"),
		}
	}), 0, 3).Draw(t, "endpoints")
}

func drawTopicID(t *rapid.T) kafka.TopicID {
	return kafka.TopicID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic id"))
}

func drawProduceResponse(t *rapid.T) *ProduceResponse {
	r := &ProduceResponse{ThrottleMs: rapid.Int32().Draw(t, "throttle"), NodeEndpoints: drawEndpoints(t)}
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		topic := ProduceTopicResponse{Name: rapid.StringN(0, 20, 40).Draw(t, "topic"), ID: drawTopicID(t)}
		for range rapid.IntRange(0, 3).Draw(t, "partitions") {
			partition := ProducePartitionResponse{
				Partition:      rapid.Int32().Draw(t, "partition"),
				ErrorCode:      kafka.Errno(rapid.Int16().Draw(t, "error")),
				BaseOffset:     rapid.Int64().Draw(t, "base offset"),
				LogAppendTime:  rapid.Int64().Draw(t, "append time"),
				LogStartOffset: rapid.Int64().Draw(t, "log start"),
				ErrorMessage:   rapid.StringN(0, 20, 40).Draw(t, "message"),
				CurrentLeader:  drawLeader(t),
			}
			for range rapid.IntRange(0, 2).Draw(t, "record errors") {
				partition.RecordErrors = append(partition.RecordErrors, RecordError{
					BatchIndex: rapid.Int32().Draw(t, "index"),
					Message:    rapid.StringN(0, 20, 40).Draw(t, "message"),
				})
			}
			topic.Partitions = append(topic.Partitions, partition)
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

func emptyIsNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// inKmsg is the response in kmsg's types, for kmsg to encode.
func (r *ProduceResponse) inKmsg(version int16) *kmsg.ProduceResponse {
	k := kmsg.NewPtrProduceResponse()
	k.SetVersion(version)
	k.ThrottleMillis = r.ThrottleMs
	for _, topic := range r.Topics {
		kTopic := kmsg.NewProduceResponseTopic()
		kTopic.Topic, kTopic.TopicID = topic.Name, topic.ID
		for _, p := range topic.Partitions {
			kp := kmsg.NewProduceResponseTopicPartition()
			kp.Partition, kp.ErrorCode, kp.BaseOffset = p.Partition, int16(p.ErrorCode), p.BaseOffset
			kp.LogAppendTime, kp.LogStartOffset, kp.ErrorMessage = p.LogAppendTime, p.LogStartOffset, emptyIsNil(p.ErrorMessage)
			for _, e := range p.RecordErrors {
				ke := kmsg.NewProduceResponseTopicPartitionErrorRecord()
				ke.RelativeOffset, ke.ErrorMessage = e.BatchIndex, emptyIsNil(e.Message)
				kp.ErrorRecords = append(kp.ErrorRecords, ke)
			}
			if p.CurrentLeader != nil && version >= produceLeadersFrom {
				kp.CurrentLeader.LeaderID = int32(p.CurrentLeader.ID)
				kp.CurrentLeader.LeaderEpoch = int32(p.CurrentLeader.Epoch)
			}
			kTopic.Partitions = append(kTopic.Partitions, kp)
		}
		k.Topics = append(k.Topics, kTopic)
	}
	for _, e := range r.NodeEndpoints {
		if version < produceLeadersFrom {
			break
		}
		kb := kmsg.NewProduceResponseBroker()
		kb.NodeID, kb.Host, kb.Port, kb.Rack = int32(e.ID), e.Host, e.Port, emptyIsNil(e.Rack)
		k.Brokers = append(k.Brokers, kb)
	}
	return k
}

func TestProduceResponseIsByteForByteThatOfKmsg(t *testing.T) {
	for _, version := range produceVersions() {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				response := drawProduceResponse(t)
				got := flatten(EncodeProduceResponse(version, 99, response))
				want := flatten(EncodeResponse(version, 99, response.inKmsg(version)))
				if !bytes.Equal(got, want) {
					t.Fatalf("got  %x\nwant %x", got, want)
				}
			})
		})
	}
}

func TestProduceResponseAllocatesTwice(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not those of the program under the race detector")
	}
	response := &ProduceResponse{Topics: []ProduceTopicResponse{{
		Name: "topic", Partitions: make([]ProducePartitionResponse, 8),
	}}}
	for _, version := range produceVersions() {
		allocations := testing.AllocsPerRun(100, func() {
			EncodeProduceResponse(version, 1, response).Release()
		})
		if allocations > 2 { // the bytes, and the response
			t.Errorf("v%d: %v allocations", version, allocations)
		}
	}
}

func FuzzProduceView(f *testing.F) {
	for _, version := range produceVersions() {
		f.Add(version, produceBody(version, 2, 2, []byte("records")))
		f.Add(version, produceBody(version, 1, 1, nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		view, err := ParseProduce(version, body)
		if err != nil {
			return
		}
		want := kmsg.NewPtrProduceRequest()
		want.SetVersion(version)
		if err := want.ReadFrom(body); err != nil {
			t.Fatalf("kmsg cannot read what the view took: %v", err)
		}
		got, _ := viewed(t, version, body)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(kmsg.Tags{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if entries := view.TopicCount + view.PartitionCount; entries > produceEmptyEntries+len(body)/30 {
			t.Fatalf("%d entries in %d bytes", entries, len(body))
		}
	})
}
