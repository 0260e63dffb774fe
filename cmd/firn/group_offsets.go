package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

// groupPartition is where a group stands in one partition. A null is unknown, or nothing committed.
type groupPartition struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Committed *int64  `json:"committed_offset"`
	Epoch     *int32  `json:"committed_leader_epoch"`
	Metadata  string  `json:"metadata"`
	Start     *int64  `json:"start_offset"`
	End       *int64  `json:"end_offset"`
	Lag       *int64  `json:"lag"`
	Member    *string `json:"member"` // whom the partition is assigned to
}

// committedOffsets are a group's, those without an offset left out: some brokers list them with −1.
func committedOffsets(client *session, group string) (kadm.OffsetResponses, error) {
	committed, err := client.admin.FetchOffsets(client.ctx, group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("committed offsets of group %s: %w", group, err)
	}
	committed.DeleteFunc(func(o kadm.OffsetResponse) bool { return o.At < 0 })
	return committed, nil
}

// groupPartitions joins what a group has committed, what its members are assigned, by topic and partition, and where
// the partitions begin and end.
func groupPartitions(committed kadm.OffsetResponses, owners map[string]map[int32]string, offsets topicOffsets,
) []groupPartition {
	partitions := []groupPartition{}
	committed.Each(func(o kadm.OffsetResponse) {
		partition := groupPartition{Topic: o.Topic, Partition: o.Partition, Committed: &o.At, Metadata: o.Metadata}
		if o.LeaderEpoch >= 0 {
			partition.Epoch = &o.LeaderEpoch
		}
		partitions = append(partitions, partition)
	})
	for topic, owned := range owners {
		for partition := range owned {
			if _, ok := committed.Lookup(topic, partition); !ok {
				partitions = append(partitions, groupPartition{Topic: topic, Partition: partition})
			}
		}
	}
	for i := range partitions {
		p := &partitions[i]
		p.Start, p.End = offsets.start.of(p.Topic, p.Partition), offsets.end.of(p.Topic, p.Partition)
		p.Lag = lagOf(p.Committed, p.Start, p.End)
		if owner, ok := owners[p.Topic][p.Partition]; ok {
			p.Member = &owner
		}
	}
	slices.SortFunc(partitions, func(a, b groupPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return partitions
}

// lagOf is how many offsets a group has yet to read. What retention has removed is not to be read any more, and the end
// may be older than the commit; without a commit nobody knows where the group would begin.
func lagOf(committed, start, end *int64) *int64 {
	if committed == nil || end == nil {
		return nil
	}
	from := *committed
	if start != nil {
		from = max(from, *start)
	}
	lag := max(*end-from, 0)
	return &lag
}
