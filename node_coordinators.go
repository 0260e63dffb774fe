package firn

import (
	"strconv"
	"time"

	"github.com/firnlog/firn/broker/api"
	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// coordinatorStore keeps the views of the coordinators' journals in a space of the state database.
type coordinatorStore struct{ *state.Keyspace }

// Write implements coordinator.Store.
func (s coordinatorStore) Write(changes []coordinator.Change) error {
	return s.Update(func(w state.Writer) error {
		for _, change := range changes {
			if change.Value == nil {
				w.Delete(change.Key)
			} else {
				w.Set(change.Key, change.Value)
			}
		}
		return nil
	})
}

// journal is a partition of an internal topic as its coordinator sees it.
type journal struct {
	replica.Journal
	codec record.Codec
}

// Append implements coordinator.Journal.
func (j journal) Append(producer *coordinator.Producer, records []coordinator.Record) (int64, error) {
	options := record.PlainProducer()
	options.Codec = j.codec
	guard := replica.NoGuard
	if producer != nil {
		options.Transactional, options.ProducerID, options.ProducerEpoch = true, producer.ID, producer.Epoch
		guard = replica.VerificationGuard(producer.Guard)
	}
	builder, now := record.NewBuilder(options), time.Now().UnixMilli()
	for _, r := range records {
		builder.Append(now, r.Key, r.Value)
	}
	return j.Journal.Append(builder.Build(), guard)
}

// Bounds implements coordinator.Journal. They are zero for a partition without a log, which then cannot be read either.
func (j journal) Bounds() coordinator.Bounds {
	log, err := j.Log()
	if err != nil {
		return coordinator.Bounds{}
	}
	return coordinator.Bounds{
		Start: log.LogStartOffset(), HighWatermark: log.HighWatermark(), End: log.EndOffset(),
	}
}

// EpochEnd implements coordinator.Journal.
func (j journal) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, int64) {
	log, err := j.Log()
	if err != nil {
		return kafka.NoLeaderEpoch, -1
	}
	end := log.EndOffsetForEpoch(epoch)
	return end.Epoch, end.EndOffset
}

// internalTopics are the coordinators' topics as they are made at their first use.
func (n *Node) internalTopics() map[string]api.InternalTopic {
	offsets, transactions := n.config.OffsetsTopic, n.config.TransactionTopic
	return map[string]api.InternalTopic{
		kafka.GroupMetadataTopic: offsets.topic(map[string]string{
			"compression.type": "producer", // the coordinator compresses
		}),
		kafka.TransactionStateTopic: transactions.topic(map[string]string{
			"compression.type":               "uncompressed",
			"unclean.leader.election.enable": "false",
		}),
	}
}

// topic is the topic with the settings that Kafka gives it.
func (c InternalTopicConfig) topic(configs map[string]string) api.InternalTopic {
	configs["cleanup.policy"] = "compact"
	configs["segment.bytes"] = strconv.Itoa(int(c.SegmentBytes))
	return api.InternalTopic{
		Partitions: c.Partitions, ReplicationFactor: c.ReplicationFactor, MinInsyncReplicas: c.MinInsyncReplicas,
		Configs: configs,
	}
}

// coordination is a coordinator's runtime with the topic of its journals.
type coordination struct {
	topic   string
	runtime *coordinator.Runtime
	codec   record.Codec
}

// advanced tells who goes by it that the high watermark of a partition has moved.
func (n *Node) advanced(tp kafka.TopicPartition) {
	n.tier.Advanced(tp)
	for _, c := range n.coordinations {
		if c.topic == tp.Topic {
			c.runtime.Advanced(tp.Partition)
		}
	}
}

// applyCoordinators tells the coordinators which journals this broker leads by an image, once the partitions follow it.
func (n *Node) applyCoordinators(img *image.Image, delta image.Delta) {
	if !delta.Reset && len(delta.PartitionsChanged) == 0 && len(delta.BrokersChanged) == 0 &&
		len(delta.TopicsDeleted) == 0 {
		return
	}
	n.topics.Store(&topics{img})
	for _, c := range n.coordinations {
		topic, ok := img.Topic(c.topic)
		if !ok {
			continue
		}
		c.runtime.SetTopic(topic.ID, int32(len(topic.Partitions)))
		for partition := range int32(len(topic.Partitions)) {
			p, err := n.replicas.Partition(kafka.TopicPartition{Topic: c.topic, Partition: partition})
			if err == nil {
				err = p.CheckLeader(kafka.NoLeaderEpoch)
			}
			if err != nil {
				c.runtime.Resign(partition)
				continue
			}
			c.runtime.Lead(partition, p.LeaderEpoch(), journal{p.Journal(), c.codec})
		}
	}
	if len(delta.TopicsDeleted) > 0 {
		n.groups.TopicsDeleted()
	}
}
