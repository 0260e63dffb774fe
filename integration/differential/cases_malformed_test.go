//go:build integration

package differential

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// malformedCases send every API requests that cannot be read.
func malformedCases() []testCase {
	var cases []testCase
	for _, api := range wire.APIs() {
		cases = append(cases,
			testCase{key: api.Key, name: "a version above all", from: api.Max, run: func(s *script) {
				if api.Key != wire.KeyApiVersions { // it has a case of its own
					req := sample(s, api.Key)
					req.SetVersion(99)
					s.askAsIs("version 99", req)
				}
			}},
			testCase{key: api.Key, name: "malformed", from: api.ServedFrom, run: func(s *script) { askMalformed(s, api.Key) }})
	}
	return cases
}

// sample is a request that says something: most of the others are empty where they are not filled in.
func sample(s *script, key int16) kmsg.Request {
	topic := s.filled()
	switch key {
	case wire.KeyProduce:
		return produceRequest(1, s.version, topic, s.id(topic), 0, []byte("no batch"))
	case wire.KeyFetch:
		return fetchRequest(s.version, topic, s.id(topic), 9)
	case wire.KeyListOffsets:
		req := kmsg.NewPtrListOffsetsRequest()
		req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{
			Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{listPartition(0, -1)},
		})
		return req
	case wire.KeyMetadata:
		return metadataOf(topic)
	case wire.KeyApiVersions:
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "differential", "1"
		return req
	case wire.KeyDescribeLogDirs:
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = append(req.Topics, kmsg.DescribeLogDirsRequestTopic{Topic: topic, Partitions: []int32{0}})
		return req
	case wire.KeyDeleteRecords:
		return deleteRequest(topic, map[int32]int64{0: 0})
	case wire.KeyListTransactions: // of no producer: those of the other scripts come in any order
		req := kmsg.NewPtrListTransactionsRequest()
		req.ProducerIDFilters = []int64{1 << 50}
		return req
	case wire.KeyAddPartitionsToTxn: // Kafka does not answer one for no transaction
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: s.topic("none")}}
		return req
	}
	return kmsg.RequestForKey(key)
}

func askMalformed(s *script, key int16) {
	req := sample(s, key)
	ask := func(step string, change func(frame []byte) []byte) {
		req.SetVersion(s.version)
		answer, err := s.peer.askChanged(req, change)
		s.check(err)
		s.steps = append(s.steps, newStep(step, answer))
		s.peer.close()
	}
	bodySize := len(req.AppendTo(nil))
	if bodySize > 0 {
		ask("cut short", func(frame []byte) []byte { return frame[:len(frame)-1] })
		ask("without a body", func(frame []byte) []byte { return frame[:len(frame)-bodySize] })
		ask("a body of ones", func(frame []byte) []byte {
			return append(frame[:len(frame)-bodySize], bytes.Repeat([]byte{0xff}, bodySize)...)
		})
	}
	ask("bytes behind it", func(frame []byte) []byte { return append(frame, 0, 0, 0) })
	ask("well formed", func(frame []byte) []byte { return frame })
}
