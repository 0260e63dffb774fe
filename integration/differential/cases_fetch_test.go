//go:build integration

package differential

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// fetchCases read records and look for offsets.
func fetchCases() []testCase {
	return []testCase{
		{key: wire.KeyFetch, name: "offsets", run: askFetchOffsets},
		{key: wire.KeyFetch, name: "bounds", run: askFetchBounds},
		{key: wire.KeyFetch, name: "targets", run: askFetchTargets},
		{key: wire.KeyFetch, name: "leader epochs", from: 9, run: askFetchEpochs},
		{key: wire.KeyFetch, name: "sessions", from: 7, run: askFetchSessions},
		{key: wire.KeyFetch, name: "sessions that go wrong", from: 7, run: askFetchBadSessions},
		{key: wire.KeyFetch, name: "a topic that is created again in a session", from: 7, run: askFetchRecreated},
		{key: wire.KeyListOffsets, name: "times", run: askTimes},
		{key: wire.KeyListOffsets, name: "LogAppendTime", run: askAppendTimes, appendTimes: true},
		{key: wire.KeyListOffsets, name: "targets", run: askListTargets},
		{key: wire.KeyListOffsets, name: "leader epochs", from: 4, run: askListEpochs},
		{key: wire.KeyOffsetForLeaderEpoch, name: "epochs", run: askEpochs},
		{key: wire.KeyDeleteRecords, name: "offsets", run: askDeleteRecords},
	}
}

// fetchRequest asks for partition 0 of a topic, named as the version wants it, and does not wait.
func fetchRequest(version int16, topic string, id kafka.TopicID, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.SessionEpoch = -1, 50<<20, -1
	req.Topics = append(req.Topics, fetchTopic(version, topic, id, fetchPartition(0, offset)))
	return req
}

func fetchTopic(version int16, topic string, id kafka.TopicID, partitions ...kmsg.FetchRequestTopicPartition,
) kmsg.FetchRequestTopic {
	one := kmsg.NewFetchRequestTopic()
	if version >= 13 {
		one.TopicID = id
	} else {
		one.Topic = topic
	}
	one.Partitions = partitions
	return one
}

func fetchPartition(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	asked := kmsg.NewFetchRequestTopicPartition()
	asked.Partition, asked.FetchOffset, asked.PartitionMaxBytes = partition, offset, 1<<20
	asked.CurrentLeaderEpoch, asked.LastFetchedEpoch, asked.LogStartOffset = -1, -1, -1
	return asked
}

// filled is a topic with three batches of three records, all scripts' own.
func (s *script) filled() string {
	return s.sharedTopic("filled", func(topic string) {
		s.produce(topic, plain(s.start, 3), plain(s.start+10, 3), plain(s.start+20, 3))
	})
}

// begun is a topic whose first records were deleted, in the middle of a batch.
func (s *script) begun() string {
	return s.sharedTopic("begun", func(topic string) {
		s.produce(topic, plain(s.start, 3), plain(s.start+10, 3), plain(s.start+20, 3))
		req := deleteRequest(topic, map[int32]int64{0: 4})
		resp := quiet[*kmsg.DeleteRecordsResponse](s, req, 2)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			s.check(fmt.Errorf("delete records: %s", codeName(code)))
		}
	})
}

func (s *script) askFetch(step, topic string, offset int64, change func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
	req := fetchRequest(s.version, topic, s.id(topic), offset)
	if change != nil {
		change(req)
	}
	resp, _ := s.ask(step, req).(*kmsg.FetchResponse)
	return resp
}

func askFetchOffsets(s *script) {
	for _, c := range []struct{ what, topic string }{{"full", s.filled()}, {"begun", s.begun()}} {
		for _, offset := range []int64{0, 1, 3, 4, 5, 8, 9, 10, 1 << 40, -1, -2} {
			s.askFetch(fmt.Sprintf("%s log at %d", c.what, offset), c.topic, offset, nil)
		}
		committed := func(req *kmsg.FetchRequest) { req.IsolationLevel = 1 }
		s.askFetch(c.what+" log, read committed", c.topic, 5, committed)
		s.askFetch(c.what+" log at the end, read committed", c.topic, 9, committed)
	}
	empty := s.create("empty")
	for _, offset := range []int64{0, 1} {
		s.askFetch(fmt.Sprintf("empty log at %d", offset), empty, offset, nil)
	}
	s.askFetch("an isolation level that does not exist", s.filled(), 0, func(req *kmsg.FetchRequest) { req.IsolationLevel = 7 })
}

func askFetchBounds(s *script) {
	topic := s.filled()
	size := int32(len(plain(s.start, 3)))
	for _, c := range []struct {
		step               string
		request, partition int32
	}{
		{"one byte in all", 1, 1 << 20}, {"one byte of the partition", 1 << 20, 1}, {"nothing", 0, 0},
		{"negative", -1, -1}, {"one batch", 1 << 20, size}, {"less than two batches", 1 << 20, 2*size - 1},
		{"two batches", 1 << 20, 2 * size}, {"two batches in all", 2 * size, 1 << 20},
	} {
		s.askFetch(c.step, topic, 0, func(req *kmsg.FetchRequest) {
			req.MaxBytes = c.request
			req.Topics[0].Partitions[0].PartitionMaxBytes = c.partition
		})
		s.askFetch(c.step+", from the middle of a batch", topic, 4, func(req *kmsg.FetchRequest) {
			req.MaxBytes = c.request
			req.Topics[0].Partitions[0].PartitionMaxBytes = c.partition
		})
	}
	s.askFetch("min bytes that are there", topic, 0, func(req *kmsg.FetchRequest) { req.MinBytes, req.MaxWaitMillis = 10, 5000 })
	s.askFetch("min bytes that are not there", topic, 6, func(req *kmsg.FetchRequest) {
		req.MinBytes, req.MaxWaitMillis = 100_000, 50
	})
	s.askFetch("waiting at the end", topic, 9, func(req *kmsg.FetchRequest) { req.MinBytes, req.MaxWaitMillis = 1, 50 })
	s.askFetch("an error does not wait", topic, 99, func(req *kmsg.FetchRequest) { req.MinBytes, req.MaxWaitMillis = 1, 10_000 })
	two := s.createWith("two", 2)
	s.produceTo(two, 0, plain(s.start, 3))
	s.produceTo(two, 1, plain(s.start, 3))
	s.askFetch("two partitions within the room of one", two, 0, func(req *kmsg.FetchRequest) {
		req.MaxBytes = size
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(1, 0))
	})
	s.askFetch("two partitions within the room of one and a half", two, 0, func(req *kmsg.FetchRequest) {
		req.MaxBytes = size + size/2
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(1, 0))
	})
}

func (s *script) produceTo(topic string, partition int32, data []byte) {
	resp := quiet[*kmsg.ProduceResponse](s, produceRequest(-1, 8, topic, s.id(topic), partition, data), 8)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		s.check(fmt.Errorf("produce to %s: %s", topic, codeName(code)))
	}
}

func askFetchTargets(s *script) {
	topic := s.filled()
	s.askFetch("an unknown partition", topic, 0, func(req *kmsg.FetchRequest) { req.Topics[0].Partitions[0].Partition = 9 })
	s.askFetch("a negative partition", topic, 0, func(req *kmsg.FetchRequest) { req.Topics[0].Partitions[0].Partition = -1 })
	s.ask("an unknown topic", fetchRequest(s.version, s.topic("none"), strangerID, 0))
	s.ask("an illegal name or zero id", fetchRequest(s.version, "a/b", kafka.TopicID{}, 0))
	s.askFetch("a known and an unknown topic", topic, 0, func(req *kmsg.FetchRequest) {
		req.Topics = append(req.Topics, fetchTopic(s.version, s.topic("none"), strangerID, fetchPartition(0, 0)))
	})
	s.askFetch("the same partition twice", topic, 0, func(req *kmsg.FetchRequest) {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(0, 3))
	})
	s.askFetch("no partitions", topic, 0, func(req *kmsg.FetchRequest) { req.Topics[0].Partitions = nil })
	s.askFetch("no topics", topic, 0, func(req *kmsg.FetchRequest) { req.Topics = nil })
	s.askFetch("a rack", topic, 8, func(req *kmsg.FetchRequest) { req.Rack = "r1" })
	s.askFetch("as a replica that does not exist", topic, 0, func(req *kmsg.FetchRequest) {
		req.ReplicaID, req.ReplicaState.ID = 7, 7
	})
}

func askFetchEpochs(s *script) {
	topic := s.filled()
	for _, epoch := range []int32{0, 1, 1000, -1, -2} {
		s.askFetch(fmt.Sprintf("current epoch %d", epoch), topic, 8, func(req *kmsg.FetchRequest) {
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		})
	}
	if s.version < 12 {
		return
	}
	for _, epoch := range []int32{0, 1, 5} {
		for _, offset := range []int64{0, 9, 10} {
			s.askFetch(fmt.Sprintf("last fetched epoch %d at %d", epoch, offset), topic, offset, func(req *kmsg.FetchRequest) {
				req.Topics[0].Partitions[0].LastFetchedEpoch = epoch
			})
		}
	}
	empty := s.create("empty")
	s.askFetch("last fetched epoch 0 in an empty log", empty, 0, func(req *kmsg.FetchRequest) {
		req.Topics[0].Partitions[0].LastFetchedEpoch = 0
	})
}

func askFetchSessions(s *script) {
	topic := s.createWith("a", 3)
	s.produceTo(topic, 0, plain(s.start, 2))
	s.produceTo(topic, 1, plain(s.start, 1))
	session := func(id, epoch int32, partitions ...kmsg.FetchRequestTopicPartition) *kmsg.FetchRequest {
		req := fetchRequest(s.version, topic, s.id(topic), 0)
		req.SessionID, req.SessionEpoch, req.Topics = id, epoch, nil
		if partitions != nil {
			req.Topics = append(req.Topics, fetchTopic(s.version, topic, s.id(topic), partitions...))
		}
		return req
	}
	resp, _ := s.ask("begun", session(0, 0, fetchPartition(0, 0), fetchPartition(1, 0), fetchPartition(2, 0))).(*kmsg.FetchResponse)
	if resp == nil {
		return
	}
	id := resp.SessionID
	s.ask("nothing new, nothing changed", session(id, 1))
	s.ask("read on", session(id, 2, fetchPartition(0, 2), fetchPartition(1, 1)))
	s.ask("at the end of all", session(id, 3))
	s.produceTo(topic, 1, plain(s.start, 1))
	s.ask("one has records", session(id, 4))
	s.ask("at an offset that is out of range", session(id, 5, fetchPartition(1, 2), fetchPartition(0, 99)))
	s.ask("errors are told again", session(id, 6))
	s.ask("put right", session(id, 7, fetchPartition(0, 2)))
	s.ask("an unknown partition added", session(id, 8, fetchPartition(9, 0)))
	s.ask("and told again", session(id, 9))
	forget := session(id, 10)
	forgotten := kmsg.NewFetchRequestForgottenTopic()
	forgotten.Topic, forgotten.TopicID, forgotten.Partitions = topic, s.id(topic), []int32{9, 0}
	forget.ForgottenTopics = append(forget.ForgottenTopics, forgotten)
	s.ask("forgotten", forget)
	s.produceTo(topic, 0, plain(s.start, 1))
	s.produceTo(topic, 2, plain(s.start, 1))
	s.ask("the forgotten one has records, and another", session(id, 11))
	s.quietDelete(topic, 2, 1)
	s.ask("the log start offset moved", session(id, 12, fetchPartition(2, 1)))
	s.ask("closed", session(id, -1))
	s.ask("after it was closed", session(id, 13))
}

func (s *script) quietDelete(topic string, partition int32, offset int64) {
	resp := quiet[*kmsg.DeleteRecordsResponse](s, deleteRequest(topic, map[int32]int64{partition: offset}), 2)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		s.check(fmt.Errorf("delete records of %s: %s", topic, codeName(code)))
	}
}

func askFetchBadSessions(s *script) {
	topic := s.filled()
	ask := func(step string, id, epoch int32) *kmsg.FetchResponse {
		return s.askFetch(step, topic, 9, func(req *kmsg.FetchRequest) { req.SessionID, req.SessionEpoch = id, epoch })
	}
	ask("an id that does not exist", 12345, 1)
	ask("an id that does not exist, from the beginning", 12345, 0)
	ask("an id that does not exist, at its end", 12345, -1)
	ask("no id and an epoch", 0, 5)
	resp := ask("begun", 0, 0)
	if resp == nil {
		return
	}
	ask("an epoch too far", resp.SessionID, 5)
	ask("the right epoch after it", resp.SessionID, 1)
	ask("the same epoch again", resp.SessionID, 1)
	ask("a negative epoch", resp.SessionID, -2)
	ask("begun anew under its id", resp.SessionID, 0)
	ask("the old session", resp.SessionID, 2)
}

func askFetchRecreated(s *script) {
	topic := s.create("a")
	s.produce(topic, plain(s.start, 1))
	first := s.id(topic)
	resp := s.askFetch("begun", topic, 0, func(req *kmsg.FetchRequest) { req.SessionEpoch = 0 })
	if resp == nil {
		return
	}
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames, remove.TimeoutMillis = []string{topic}, 10_000
	quiet[*kmsg.DeleteTopicsResponse](s, remove, 5)
	s.awaitGone(topic)
	on := func(epoch int32) *kmsg.FetchRequest {
		req := fetchRequest(s.version, topic, first, 0)
		req.SessionID, req.SessionEpoch, req.Topics = resp.SessionID, epoch, nil
		return req
	}
	s.ask("deleted", on(1))
	s.create("a")
	s.ask("created again", on(2))
	s.ask("created again, once more", on(3))
}

// awaitGone waits until a deleted topic is not served any more.
func (s *script) awaitGone(name string) {
	s.poll("topic "+name+" stays", func() bool {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{
			Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{listPartition(0, -1)},
		})
		resp := quiet[*kmsg.ListOffsetsResponse](s, req, 7)
		return resp.Topics[0].Partitions[0].ErrorCode == int16(kafka.UnknownTopicOrPartition)
	})
}

func (s *script) askList(step, topic string, isolation int8, partitions ...kmsg.ListOffsetsRequestTopicPartition) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel, req.TimeoutMillis = -1, isolation, 5000
	one := kmsg.NewListOffsetsRequestTopic()
	one.Topic, one.Partitions = topic, partitions
	req.Topics = append(req.Topics, one)
	s.ask(step, req)
}

func askTimes(s *script) {
	special := []int64{-1, -2, -3, -4, -5, -6, -7, -100}
	empty := s.create("empty")
	for _, c := range []struct{ what, topic string }{{"full", s.filled()}, {"begun", s.begun()}, {"empty", empty}} {
		for _, timestamp := range special {
			s.askList(fmt.Sprintf("%s log at %d", c.what, timestamp), c.topic, 0, listPartition(0, timestamp))
		}
		for _, delta := range []int64{-1000, 0, 1, 2, 3, 9, 10, 11, 15, 20, 22, 23, 1000} {
			s.askList(fmt.Sprintf("%s log at start%+d", c.what, delta), c.topic, 0, listPartition(0, s.start+delta))
		}
		s.askList(c.what+" log at time zero", c.topic, 0, listPartition(0, 0))
		if s.version >= 2 {
			for _, timestamp := range []int64{-1, -2, -3, s.start + 5} {
				s.askList(fmt.Sprintf("%s log, read committed, %d", c.what, min(timestamp, 0)), c.topic, 1, listPartition(0, timestamp))
			}
		}
	}
	disorder := s.sharedTopic("disorder", func(topic string) {
		builder := record.NewBuilder(record.PlainProducer())
		for _, delta := range []int64{5, 9, 3, 9, 1} {
			builder.Append(s.start+delta, nil, nil)
		}
		s.produce(topic, builder.Build(), plain(s.start+4, 2))
	})
	for _, delta := range []int64{0, 2, 4, 5, 6, 9, 10} {
		s.askList(fmt.Sprintf("times in disorder at start%+d", delta), disorder, 0, listPartition(0, s.start+delta))
	}
	s.askList("largest of times in disorder", disorder, 0, listPartition(0, -3))
	packed := s.sharedTopic("packed", func(topic string) {
		opts := record.PlainProducer()
		opts.Codec = record.Gzip
		s.produce(topic, build(opts, s.start, 5), build(opts, s.start+10, 5))
	})
	for _, timestamp := range []int64{s.start + 3, s.start + 7, s.start + 12, -3} {
		s.askList(fmt.Sprintf("compressed batches at %d", max(timestamp-s.start, -3)), packed, 0, listPartition(0, timestamp))
	}
}

func askAppendTimes(s *script) {
	topic := s.create("a", "message.timestamp.type", "LogAppendTime")
	s.produce(topic, plain(s.start, 3))
	for before := time.Now().UnixMilli(); time.Now().UnixMilli() <= before; { // the largest is of the second batch
	}
	s.produce(topic, plain(s.start, 3))
	s.askList("before all", topic, 0, listPartition(0, s.start-1000))
	s.askList("after all", topic, 0, listPartition(0, s.start+3_600_000))
	s.askList("the largest", topic, 0, listPartition(0, -3))
	packed := record.PlainProducer()
	packed.Codec = record.LZ4
	compressed := s.create("compressed", "message.timestamp.type", "LogAppendTime")
	s.produce(compressed, build(packed, s.start, 4))
	s.askList("the largest of a compressed batch", compressed, 0, listPartition(0, -3))
}

func askListTargets(s *script) {
	topic := s.filled()
	s.askList("an unknown partition", topic, 0, listPartition(9, -1))
	s.askList("a negative partition", topic, 0, listPartition(-1, -1))
	s.askList("an unknown topic", s.topic("none"), 0, listPartition(0, -1))
	s.askList("an illegal name", "a/b", 0, listPartition(0, -1))
	s.askList("an empty name", "", 0, listPartition(0, -1))
	s.askList("the same partition twice", topic, 0, listPartition(0, -1), listPartition(0, -2))
	s.askList("the same partition twice and another", topic, 0, listPartition(0, -1), listPartition(0, -2), listPartition(3, -2))
	s.askList("no partitions", topic, 0)
	s.ask("no topics", kmsg.NewPtrListOffsetsRequest())
	replica := kmsg.NewPtrListOffsetsRequest()
	replica.ReplicaID = -2
	one := kmsg.NewListOffsetsRequestTopic()
	one.Topic, one.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{listPartition(0, -1)}
	replica.Topics = append(replica.Topics, one)
	s.ask("as a debugging consumer", replica)
}

func askListEpochs(s *script) {
	topic := s.filled()
	for _, epoch := range []int32{0, 1, 1000, -1, -2} {
		asked := listPartition(0, -1)
		asked.CurrentLeaderEpoch = epoch
		s.askList(fmt.Sprintf("current epoch %d", epoch), topic, 0, asked)
	}
}

func askEpochs(s *script) {
	ask := func(step, topic string, partition, current, epoch int32) {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		one := kmsg.NewOffsetForLeaderEpochRequestTopic()
		one.Topic = topic
		asked := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		asked.Partition, asked.CurrentLeaderEpoch, asked.LeaderEpoch = partition, current, epoch
		one.Partitions = append(one.Partitions, asked)
		req.Topics = append(req.Topics, one)
		s.ask(step, req)
	}
	empty := s.create("empty")
	for _, c := range []struct{ what, topic string }{{"full", s.filled()}, {"begun", s.begun()}, {"empty", empty}} {
		for _, epoch := range []int32{0, 1, 1000, -1, -2} {
			ask(fmt.Sprintf("%s log, epoch %d", c.what, epoch), c.topic, 0, -1, epoch)
		}
	}
	for _, current := range []int32{0, 1, 1000} {
		ask(fmt.Sprintf("current epoch %d", current), s.filled(), 0, current, 0)
	}
	ask("an unknown partition", s.filled(), 9, -1, 0)
	ask("an unknown topic", s.topic("none"), 0, -1, 0)
	ask("an illegal name", "a/b", 0, -1, 0)
	s.ask("no topics", kmsg.NewPtrOffsetForLeaderEpochRequest())
}

func deleteRequest(topic string, offsets map[int32]int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	one := kmsg.NewDeleteRecordsRequestTopic()
	one.Topic = topic
	for partition, offset := range offsets {
		asked := kmsg.NewDeleteRecordsRequestTopicPartition()
		asked.Partition, asked.Offset = partition, offset
		one.Partitions = append(one.Partitions, asked)
	}
	req.Topics = append(req.Topics, one)
	return req
}

func askDeleteRecords(s *script) {
	topic := s.createWith("a", 2)
	s.produce(topic, plain(s.start, 3), plain(s.start, 3))
	ask := func(step, topic string, partition int32, offset int64) {
		s.ask(step, deleteRequest(topic, map[int32]int64{partition: offset}))
	}
	ask("at zero", topic, 0, 0)
	ask("in the middle of a batch", topic, 0, 1)
	ask("back", topic, 0, 0)
	ask("beyond the end", topic, 0, 7)
	ask("negative", topic, 0, -2)
	ask("at a border of batches", topic, 0, 3)
	ask("to the end", topic, 0, -1)
	ask("to the end once more", topic, 0, -1)
	ask("at the end", topic, 0, 6)
	ask("an empty log", topic, 1, -1)
	ask("an empty log at one", topic, 1, 1)
	ask("an unknown partition", topic, 9, 0)
	ask("an unknown topic", s.topic("none"), 0, 0)
	ask("an illegal name", "a/b", 0, 0)
	s.ask("two partitions", deleteRequest(topic, map[int32]int64{0: 6, 1: 0}))
	s.ask("no topics", kmsg.NewPtrDeleteRecordsRequest())
	compacted := s.create("compacted", "cleanup.policy", "compact")
	s.produce(compacted, plain(s.start, 3))
	ask("a compacted topic", compacted, 0, 1)
	both := s.create("both", "cleanup.policy", "compact,delete")
	s.produce(both, plain(s.start, 3))
	ask("a topic that is compacted and deleted", both, 0, 1)
	s.fetchAll("what is left", topic)
}
