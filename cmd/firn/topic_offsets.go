package main

import (
	"github.com/twmb/franz-go/pkg/kadm"
)

// The ListOffsets versions that brought the offsets of tiered storage (KIP-405, KIP-1005). A broker without them would
// take −4 and −5 for times.
const (
	listOffsetsKey         = 2
	localStartSinceVersion = 8
	lastTieredSinceVersion = 9
)

// listedOffsets are the answers of one kind of ListOffsets. Missing ones stay unknown: a description is worth having
// without them.
type listedOffsets kadm.ListedOffsets

// of returns one partition's offset, nil when the broker did not say or has none.
func (l listedOffsets) of(topic string, partition int32) *int64 {
	listed, ok := l[topic][partition]
	if !ok || listed.Err != nil || listed.Offset < 0 {
		return nil
	}
	offset := listed.Offset
	return &offset
}

// topicOffsets are the borders of some topics' partitions.
type topicOffsets struct {
	start, end, localStart, lastTiered listedOffsets
}

func listTopicOffsets(client *session, topics []string) topicOffsets {
	offsets := listStartsAndEnds(client, topics)
	version := client.listOffsetsVersion()
	if version >= localStartSinceVersion {
		local, _ := client.admin.ListLocalLogStartOffsets(client.ctx, topics...)
		offsets.localStart = listedOffsets(local)
	}
	if version >= lastTieredSinceVersion {
		tiered, _ := client.admin.ListLatestRemoteOffsets(client.ctx, topics...)
		offsets.lastTiered = listedOffsets(tiered)
	}
	return offsets
}

func listStartsAndEnds(client *session, topics []string) topicOffsets {
	// Partial answers come with an error; what is in them is used, what is not is shown as unknown.
	start, _ := client.admin.ListStartOffsets(client.ctx, topics...)
	end, _ := client.admin.ListEndOffsets(client.ctx, topics...)
	return topicOffsets{start: listedOffsets(start), end: listedOffsets(end)}
}

// listOffsetsVersion is the highest version that every broker serves; 0 when that cannot be found out.
func (s *session) listOffsetsVersion() int16 {
	brokers, err := s.admin.ApiVersions(s.ctx)
	if err != nil || len(brokers) == 0 {
		return 0
	}
	lowest := int16(lastTieredSinceVersion)
	for _, broker := range brokers {
		highest, ok := broker.KeyMaxVersion(listOffsetsKey)
		if !ok || broker.Err != nil {
			return 0
		}
		lowest = min(lowest, highest)
	}
	return lowest
}
