package integration

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
)

// twins are two topics with one history, of which one has sunk into the bucket.
type twins struct {
	*scenario
	client *kgo.Client
	raw    rawTransactions
	ids    map[string]kadm.TopicID
	next   int64 // offset
	epochs int32
	keys   int // how many there are; 0: records have none
}

var twinTopics = []string{"local", "tiered"}

// append sends one batch to both.
func (w *twins) append(options record.BuilderOptions, transaction *string) {
	w.t.Helper()
	builder := record.NewBuilder(options)
	records := 1 + w.random.IntN(5)
	for i := range records {
		timestamp, value := 1000+w.random.Int64N(60), bytes.Repeat([]byte{byte(i)}, 50+w.random.IntN(400))
		var key []byte
		if w.keys > 0 {
			key = fmt.Appendf(nil, "key %d", w.random.IntN(w.keys))
			if w.random.IntN(6) == 0 {
				value = nil
			}
		}
		builder.Append(timestamp, key, value)
	}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.TransactionID = -1, 10_000, transaction
	for _, name := range twinTopics {
		topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		topic.Topic, topic.TopicID = name, w.ids[name]
		partition.Records = builder.Build()
		topic.Partitions = append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
	}
	for _, topic := range try(request.RequestWith(w.context(), w.client)).orFail(w.t).Topics {
		must(w.t, kerr.ErrorForCode(topic.Partitions[0].ErrorCode))
		if base := topic.Partitions[0].BaseOffset; base != w.next {
			w.t.Fatalf("a batch of %s is at offset %d, want %d", topic.Topic, base, w.next)
		}
	}
	w.next += int64(records)
}

// transact sends a transaction of some batches to both, with others' between them, and ends it either way.
func (w *twins) transact() {
	w.t.Helper()
	const version = 4 // of EndTxn: with the epoch that the transaction had
	producer := w.raw.begin(version, -1, -1)
	for _, name := range twinTopics {
		w.wantCode("add "+name, w.raw.add(3, producer.ProducerID, producer.ProducerEpoch, name), nil)
	}
	options, sequence := record.PlainProducer(), int32(0)
	options.ProducerID, options.ProducerEpoch, options.Transactional = producer.ProducerID, producer.ProducerEpoch, true
	for range 1 + w.random.IntN(6) {
		before := w.next
		options.BaseSequence = sequence
		w.append(options, &w.raw.id)
		sequence += int32(w.next - before)
		w.append(record.PlainProducer(), nil)
	}
	commit := w.random.IntN(3) == 0
	w.wantCode("end", w.raw.end(version, producer.ProducerID, producer.ProducerEpoch, commit).ErrorCode, nil)
	w.sleep(time.Second) // until both have their markers
	w.next++
}

// fetch reads one partition from an offset.
func (w *twins) fetch(topic string, offset int64, maxBytes int32, isolation int8) kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	request := kmsg.NewPtrFetchRequest()
	request.ReplicaID, request.MaxWaitMillis, request.MinBytes, request.MaxBytes = -1, 500, 1, 1<<20
	request.SessionEpoch, request.IsolationLevel = -1, isolation
	asked, partition := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	asked.Topic, asked.TopicID = topic, w.ids[topic]
	partition.FetchOffset, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = offset, maxBytes, -1
	partition.LastFetchedEpoch, partition.LogStartOffset = -1, -1
	asked.Partitions = append(asked.Partitions, partition)
	request.Topics = append(request.Topics, asked)
	response := try(request.RequestWith(w.context(), w.client)).orFail(w.t)
	return response.Topics[0].Partitions[0]
}

// compareFetch asks both for the same. How much more than one batch comes may differ, since the borders of segments do
// not limit both alike.
func (w *twins) compareFetch(offset int64, maxBytes int32, isolation int8) {
	w.t.Helper()
	what := fmt.Sprintf("offset %d, %d bytes, isolation %d", offset, maxBytes, isolation)
	local, tiered := w.fetch("local", offset, maxBytes, isolation), w.fetch("tiered", offset, maxBytes, isolation)
	if local.ErrorCode != tiered.ErrorCode || local.HighWatermark != tiered.HighWatermark ||
		local.LastStableOffset != tiered.LastStableOffset || local.LogStartOffset != tiered.LogStartOffset {
		w.t.Errorf("%s: %+v\ninstead of\n%+v", what, tiered, local)
		return
	}
	size := min(len(local.RecordBatches), len(tiered.RecordBatches))
	if (size == 0) != (max(len(local.RecordBatches), len(tiered.RecordBatches)) == 0) ||
		!bytes.Equal(local.RecordBatches[:size], tiered.RecordBatches[:size]) {
		w.t.Errorf("%s: %d bytes that are not the %d bytes of the local one", what, len(tiered.RecordBatches),
			len(local.RecordBatches))
	}
	if maxBytes == 1 && !slices.EqualFunc(local.AbortedTransactions, tiered.AbortedTransactions,
		func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) bool {
			return a.ProducerID == b.ProducerID && a.FirstOffset == b.FirstOffset
		}) {
		w.t.Errorf("%s: aborted %+v instead of %+v", what, tiered.AbortedTransactions, local.AbortedTransactions)
	}
}

// listed is what ListOffsets answers.
func (w *twins) listed(topic string, timestamp int64, isolation int8) kmsg.ListOffsetsResponseTopicPartition {
	w.t.Helper()
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID, request.IsolationLevel = -1, isolation
	asked, partition := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp, partition.CurrentLeaderEpoch = timestamp, -1
	asked.Topic, asked.Partitions = topic, append(asked.Partitions, partition)
	request.Topics = append(request.Topics, asked)
	return try(request.RequestWith(w.context(), w.client)).orFail(w.t).Topics[0].Partitions[0]
}

func (w *twins) compareAll() {
	w.t.Helper()
	for offset := int64(-1); offset <= w.next+1; offset++ {
		for isolation := range int8(2) {
			w.compareFetch(offset, 1, isolation)
		}
		w.compareFetch(offset, 1+w.random.Int32N(20_000), int8(offset&1))
	}
	for isolation := range int8(2) {
		timestamps := []int64{latest, earliest, maxTimestamp}
		for timestamp := range int64(63) {
			timestamps = append(timestamps, 999+timestamp)
		}
		for _, timestamp := range timestamps {
			local, tiered := w.listed("local", timestamp, isolation), w.listed("tiered", timestamp, isolation)
			if local.ErrorCode != tiered.ErrorCode || local.Offset != tiered.Offset || local.Timestamp != tiered.Timestamp ||
				local.LeaderEpoch != tiered.LeaderEpoch {
				w.t.Errorf("time %d, isolation %d: %+v instead of %+v", timestamp, isolation, tiered, local)
			}
		}
	}
	for epoch := range w.epochs + 2 {
		var ends [2]kadm.OffsetForLeaderEpoch
		for i, topic := range twinTopics {
			var request kadm.OffsetForLeaderEpochRequest
			request.Add(topic, 0, epoch)
			ends[i] = try(w.admin().OffsetForLeaderEpoch(w.context(), request)).orFail(w.t)[topic][0]
		}
		if ends[0].EndOffset != ends[1].EndOffset || ends[0].LeaderEpoch != ends[1].LeaderEpoch {
			w.t.Errorf("leader epoch %d: %+v instead of %+v", epoch, ends[1], ends[0])
		}
	}
}

// Two copies of one random history, with transactions, timestamps out of order, leader epochs and a deleted prefix,
// give the same answers at every offset, for every time and epoch, although one has most of itself in the bucket only.
func TestATieredCopyAnswersAsALocalOne(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, 700+seed, fewJournals, func(s *scenario) {
				w := &twins{scenario: s, ids: map[string]kadm.TopicID{}}
				s.createTopic("tiered", 1, tiered(map[string]string{"internal.segment.bytes": "5000"}))
				s.createTopic("local", 1, map[string]string{"retention.ms": "-1"})
				for _, topic := range twinTopics {
					w.ids[topic] = s.topicID(topic)
				}
				w.raw, w.client = s.raw("payments"), s.client()
				defer func() { w.client.Close() }()
				for range 25 {
					switch s.random.IntN(8) {
					case 0, 1, 2:
						w.transact()
					case 3:
						if w.epochs < 3 {
							w.epochs++
							s.crash(loseNothing)
						}
					default:
						w.append(record.PlainProducer(), nil)
					}
				}
				s.sink("tiered")
				w.compareAll()
				start := w.next / 4
				for _, topic := range twinTopics {
					s.deleteRecords(topic, start)
				}
				w.compareAll()
				if n := len(s.objects()); n < 5 {
					t.Errorf("only %d objects", n)
				}
			})
		})
	}
}
