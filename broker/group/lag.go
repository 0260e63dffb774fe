package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// EachGroup visits the groups of the journals that this broker serves, in no order, with the number of their members.
// What is still being loaded is left out: metrics show it at the next scrape.
func (c *Coordinator) EachGroup(visit func(group string, members int)) error {
	return c.eachShard(func(shard *coordinator.Shard) error {
		summaries, err := summarizeShard(shard)
		for group, summary := range summaries {
			visit(group, summary.Members)
		}
		return err
	})
}

// Committed is an offset that a group has committed.
type Committed struct {
	kafka.TopicPartition
	Group       string
	TopicID     kafka.TopicID // zero where the client did not know it
	Offset      int64
	LeaderEpoch kafka.LeaderEpoch // −1 where the client did not know it
	Metadata    string
	ExpiresAt   int64 // Unix ms, as the client has said (OffsetCommit v2–v4); 0: it has not
}

// EachOffset visits the offsets that those groups have committed.
func (c *Coordinator) EachOffset(visit func(Committed)) error {
	return c.eachShard(func(shard *coordinator.Shard) error {
		return eachOffset(shard, records.Prefix(records.OffsetCommit),
			func(key records.Key, _ []byte, value *kmsg.OffsetCommitValue) error {
				committed := Committed{
					TopicPartition: kafka.TopicPartition{Topic: key.Topic, Partition: key.Partition}, Group: key.Group,
					TopicID: value.TopicID, Offset: value.Offset, LeaderEpoch: kafka.LeaderEpoch(value.LeaderEpoch),
					Metadata: value.Metadata,
				}
				if value.ExpireTimestamp != -1 {
					committed.ExpiresAt = max(value.ExpireTimestamp, 1)
				}
				visit(committed)
				return nil
			})
	})
}

// Serves tells whether as many journals are served here: then what EachOffset visits is everything.
func (c *Coordinator) Serves(journals int) bool {
	shards, _ := c.runtime.Shards()
	return len(shards) == journals
}

func (c *Coordinator) eachShard(visit func(*coordinator.Shard) error) error {
	shards, _ := c.runtime.Shards()
	for _, shard := range shards {
		if err := visit(shard); err != nil {
			return err
		}
	}
	return nil
}
