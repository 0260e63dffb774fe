package firn

import (
	"path/filepath"
	"slices"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
)

// ask sends a request to the node, whatever the client knows about leaders.
func ask[R kmsg.Response](n *memoryNode, request kmsg.Request) R {
	n.t.Helper()
	response, err := n.client.Broker(int(n.config.NodeID)).Request(n.t.Context(), request)
	if err != nil {
		n.t.Fatalf("%T: %v", request, err)
	}
	return response.(R)
}

func (n *memoryNode) metadata(topic string) kmsg.MetadataResponseTopic {
	n.t.Helper()
	request := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	request.Topics = append(request.Topics, one)
	return ask[*kmsg.MetadataResponse](n, request).Topics[0]
}

// answers are the error codes that a partition gives, by API.
func (n *memoryNode) answers(topic string, partition int32) map[string]int16 {
	n.t.Helper()
	codes := map[string]int16{}
	id := n.metadata(topic).TopicID

	produce := kmsg.NewPtrProduceRequest()
	produce.Acks, produce.TimeoutMillis = -1, 5000
	into := kmsg.NewProduceRequestTopic()
	into.Topic, into.TopicID = topic, id
	records := kmsg.NewProduceRequestTopicPartition()
	builder := record.NewBuilder(record.PlainProducer())
	builder.Append(1, nil, []byte("x"))
	records.Partition, records.Records = partition, builder.Build()
	into.Partitions = append(into.Partitions, records)
	produce.Topics = append(produce.Topics, into)
	codes["Produce"] = ask[*kmsg.ProduceResponse](n, produce).Topics[0].Partitions[0].ErrorCode

	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes, fetch.SessionEpoch = 1<<20, -1
	from := kmsg.NewFetchRequestTopic()
	from.Topic, from.TopicID = topic, id
	wanted := kmsg.NewFetchRequestTopicPartition()
	wanted.Partition, wanted.PartitionMaxBytes = partition, 1<<20
	from.Partitions = append(from.Partitions, wanted)
	fetch.Topics = append(fetch.Topics, from)
	codes["Fetch"] = ask[*kmsg.FetchResponse](n, fetch).Topics[0].Partitions[0].ErrorCode

	offsets := kmsg.NewPtrListOffsetsRequest()
	of := kmsg.NewListOffsetsRequestTopic()
	of.Topic = topic
	latest := kmsg.NewListOffsetsRequestTopicPartition()
	latest.Partition, latest.Timestamp = partition, -1
	of.Partitions = append(of.Partitions, latest)
	offsets.Topics = append(offsets.Topics, of)
	codes["ListOffsets"] = ask[*kmsg.ListOffsetsResponse](n, offsets).Topics[0].Partitions[0].ErrorCode

	deletion := kmsg.NewPtrDeleteRecordsRequest()
	deletion.TimeoutMillis = 5000
	down := kmsg.NewDeleteRecordsRequestTopic()
	down.Topic = topic
	nothing := kmsg.NewDeleteRecordsRequestTopicPartition()
	nothing.Partition = partition
	down.Partitions = append(down.Partitions, nothing)
	deletion.Topics = append(deletion.Topics, down)
	codes["DeleteRecords"] = ask[*kmsg.DeleteRecordsResponse](n, deletion).Topics[0].Partitions[0].ErrorCode

	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.ReplicaID = -2
	lineage := kmsg.NewOffsetForLeaderEpochRequestTopic()
	lineage.Topic = topic
	first := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	first.Partition = partition
	lineage.Partitions = append(lineage.Partitions, first)
	epochs.Topics = append(epochs.Topics, lineage)
	codes["OffsetForLeaderEpoch"] = ask[*kmsg.OffsetForLeaderEpochResponse](n, epochs).Topics[0].Partitions[0].ErrorCode

	producers := kmsg.NewPtrDescribeProducersRequest()
	active := kmsg.NewDescribeProducersRequestTopic()
	active.Topic, active.Partitions = topic, []int32{partition}
	producers.Topics = append(producers.Topics, active)
	codes["DescribeProducers"] = ask[*kmsg.DescribeProducersResponse](n, producers).Topics[0].Partitions[0].ErrorCode
	return codes
}

// expectOffline checks what clients learn of partitions whose log directory has failed, as Kafka 4.4 tells it: the
// partition is there, with its replica offline and no leader, and what is asked of it is refused by every API.
func (n *memoryNode) expectOffline(topic, directory string, partitions []int32) {
	n.t.Helper()
	self := []int32{int32(n.config.NodeID)}
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	described := kmsg.NewDescribeTopicPartitionsRequestTopic()
	described.Topic = topic
	pages.Topics, pages.ResponsePartitionLimit = append(pages.Topics, described), 100
	page := ask[*kmsg.DescribeTopicPartitionsResponse](n, pages).Topics[0].Partitions
	for i, p := range n.metadata(topic).Partitions {
		if !slices.Contains(partitions, p.Partition) {
			if p.Leader != self[0] || p.ErrorCode != 0 || len(p.OfflineReplicas) != 0 || page[i].LeaderID != self[0] {
				n.t.Errorf("%s-%d, whose directory serves, is %+v and %+v", topic, p.Partition, p, page[i])
			}
			continue
		}
		if p.Leader != -1 || p.ErrorCode != kerr.LeaderNotAvailable.Code || len(p.ISR) != 0 ||
			!slices.Equal(p.Replicas, self) || !slices.Equal(p.OfflineReplicas, self) || p.LeaderEpoch < 1 {
			n.t.Errorf("Metadata says of %s-%d: %+v", topic, p.Partition, p)
		}
		if d := page[i]; d.LeaderID != -1 || d.ErrorCode != 0 || len(d.ISR) != 0 || !slices.Equal(d.OfflineReplicas, self) ||
			len(d.EligibleLeaderReplicas) != 0 || !slices.Equal(d.LastKnownELR, self) || d.LeaderEpoch != p.LeaderEpoch {
			n.t.Errorf("DescribeTopicPartitions says of %s-%d: %+v", topic, p.Partition, d)
		}
		for api, code := range n.answers(topic, p.Partition) {
			if code != kerr.KafkaStorageError.Code {
				n.t.Errorf("%s of %s-%d: %v", api, topic, p.Partition, kerr.ErrorForCode(code))
			}
		}
	}
	for _, dir := range ask[*kmsg.DescribeLogDirsResponse](n, kmsg.NewPtrDescribeLogDirsRequest()).Dirs {
		failed := filepath.Base(dir.Dir) == directory
		if failed != (dir.ErrorCode == kerr.KafkaStorageError.Code) || failed != (dir.TotalBytes == -1) ||
			failed && len(dir.Topics) != 0 {
			n.t.Errorf("DescribeLogDirs says of %s: %+v", dir.Dir, dir)
		}
	}
}

// The answers of a partition that serves are what those of one that does not are compared with.
func (n *memoryNode) expectServes(topic string, partition int32) {
	n.t.Helper()
	for api, code := range n.answers(topic, partition) {
		if code != 0 {
			n.t.Errorf("%s of %s-%d: %v", api, topic, partition, kerr.ErrorForCode(code))
		}
	}
}

// waitInSession begins a fetch session at the end of a topic's partitions, which have a record each, and lets its second
// fetch wait for an hour. It gives the partitions that are answered with KAFKA_STORAGE_ERROR.
func (n *memoryNode) waitInSession(topic string, partitions int32) <-chan []int32 {
	n.t.Helper()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MinBytes, fetch.MaxBytes, fetch.SessionEpoch = 1, 1<<20, 0
	from := kmsg.NewFetchRequestTopic()
	from.Topic, from.TopicID = topic, n.metadata(topic).TopicID
	for p := range partitions {
		wanted := kmsg.NewFetchRequestTopicPartition()
		wanted.Partition, wanted.FetchOffset, wanted.PartitionMaxBytes = p, 1, 1<<20
		from.Partitions = append(from.Partitions, wanted)
	}
	fetch.Topics = append(fetch.Topics, from)
	begun := ask[*kmsg.FetchResponse](n, fetch)
	if begun.SessionID == 0 || len(begun.Topics[0].Partitions) != int(partitions) {
		n.t.Fatalf("the session begins with %+v", begun)
	}
	next := kmsg.NewPtrFetchRequest()
	next.MinBytes, next.MaxBytes, next.MaxWaitMillis = 1, 1<<20, 3_600_000
	next.SessionID, next.SessionEpoch = begun.SessionID, 1
	told := make(chan []int32, 1)
	go func() {
		var failed []int32
		if answer, err := n.client.Broker(int(n.config.NodeID)).Request(n.t.Context(), next); err == nil {
			for _, p := range answer.(*kmsg.FetchResponse).Topics[0].Partitions {
				if p.ErrorCode == kerr.KafkaStorageError.Code {
					failed = append(failed, p.Partition)
				}
			}
		}
		slices.Sort(failed)
		told <- failed
	}()
	synctest.Wait()
	return told
}
