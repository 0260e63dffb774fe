package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// toCoordinator sends a request until the group's coordinator is there and loaded.
func (s *scenario) toCoordinator(client *kgo.Client, request kmsg.Request) kmsg.Response {
	s.t.Helper()
	var response kmsg.Response
	s.eventually("the coordinator answers", func() bool {
		var err error
		response, err = client.Request(s.context(), request)
		return err == nil
	})
	return response
}

// offsetCommit is a commit from outside of a group.
func offsetCommit(group, topic string, partition int32, offset int64, leaderEpoch int32) *kmsg.OffsetCommitRequest {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation = group, -1
	of := kmsg.NewOffsetCommitRequestTopic()
	of.Topic = topic
	one := kmsg.NewOffsetCommitRequestTopicPartition()
	one.Partition, one.Offset, one.LeaderEpoch = partition, offset, leaderEpoch
	of.Partitions = append(of.Partitions, one)
	request.Topics = append(request.Topics, of)
	return request
}

func (s *scenario) commitOffset(client *kgo.Client, request *kmsg.OffsetCommitRequest) {
	s.t.Helper()
	topics := try(kadm.NewClient(client).ListTopics(s.context())).orFail(s.t)
	for i := range request.Topics {
		request.Topics[i].TopicID = topics[request.Topics[i].Topic].ID
	}
	for _, topic := range s.toCoordinator(client, request).(*kmsg.OffsetCommitResponse).Topics {
		for _, partition := range topic.Partitions {
			must(s.t, kerr.ErrorForCode(partition.ErrorCode))
		}
	}
}

// oneGroup asks for a group's offsets in a version: the answer is that of version 8, whatever the version. In version 10
// the client finds the names for the ids.
func (s *scenario) oneGroup(version int16, asked kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	s.t.Helper()
	client := s.client(kgo.MaxVersions(pinned(kmsg.OffsetFetch.Int16(), version)))
	defer client.Close()
	request := kmsg.NewPtrOffsetFetchRequest()
	if version >= 8 {
		request.Groups = []kmsg.OffsetFetchRequestGroup{asked}
	} else {
		request.Group = asked.Group
		for _, topic := range asked.Topics {
			request.Topics = append(request.Topics, kmsg.OffsetFetchRequestTopic{
				Topic: topic.Topic, Partitions: topic.Partitions,
			})
		}
	}
	response := s.toCoordinator(client, request).(*kmsg.OffsetFetchResponse)
	if version >= 8 {
		return response.Groups[0]
	}
	group := kmsg.OffsetFetchResponseGroup{Group: asked.Group, ErrorCode: response.ErrorCode}
	for _, topic := range response.Topics {
		of := kmsg.OffsetFetchResponseGroupTopic{Topic: topic.Topic}
		for _, p := range topic.Partitions {
			of.Partitions = append(of.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			})
		}
		group.Topics = append(group.Topics, of)
	}
	return group
}

// pinned lets a client speak one version of an API.
func pinned(key, version int16) *kversion.Versions {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(key, version)
	return versions
}

func describeOffsets(group kmsg.OffsetFetchResponseGroup) string {
	text := fmt.Sprintf("error %d", group.ErrorCode)
	for _, topic := range group.Topics {
		for _, p := range topic.Partitions {
			metadata := "null"
			if p.Metadata != nil {
				metadata = fmt.Sprintf("%q", *p.Metadata)
			}
			text += fmt.Sprintf("; %s-%d: %d, epoch %d, %s, error %d",
				topic.Topic, p.Partition, p.Offset, p.LeaderEpoch, metadata, p.ErrorCode)
		}
	}
	return text
}

// Where nothing is committed nothing is wrong: most clients would stop if there were an error.
func TestOF16OF17WhatIsNotCommittedIsNoErrorInAnyVersion(t *testing.T) {
	run(t, 61, nil, func(s *scenario) {
		s.createTopic("t", 3, nil)
		client := s.client()
		defer client.Close()
		s.commitOffset(client, offsetCommit("g", "t", 0, 5, 7))
		ids := try(kadm.NewClient(client).ListTopics(s.context())).orFail(t)
		for version := int16(1); version <= 10; version++ {
			epoch := "7"
			if version < 5 {
				epoch = "-1" // it has no field for it
			}
			t01 := kmsg.OffsetFetchRequestGroupTopic{Topic: "t", TopicID: ids["t"].ID, Partitions: []int32{0, 1}}
			committed := `t-0: 5, epoch ` + epoch + `, "", error 0`
			nothing := `t-%d: -1, epoch -1, "", error 0`
			for _, c := range []struct {
				group  string
				topics []kmsg.OffsetFetchRequestGroupTopic
				want   string
			}{
				{"g", []kmsg.OffsetFetchRequestGroupTopic{t01}, "error 0; " + committed + "; " + fmt.Sprintf(nothing, 1)},
				{"nobody", []kmsg.OffsetFetchRequestGroupTopic{t01}, "error 0; " + fmt.Sprintf(nothing, 0) + "; " + fmt.Sprintf(nothing, 1)},
				{"g", nil, "error 0; " + committed},
				{"nobody", nil, "error 0"},
			} {
				if c.topics == nil && version < 2 {
					continue // no topics are none
				}
				asked := kmsg.NewOffsetFetchRequestGroup()
				asked.Group, asked.Topics = c.group, c.topics
				if got := describeOffsets(s.oneGroup(version, asked)); got != c.want {
					t.Errorf("version %d, group %s, %d topics:\n%s, want\n%s", version, c.group, len(c.topics), got, c.want)
				}
			}
		}
	})
}

func TestCommitsToWhatDoesNotExist(t *testing.T) {
	run(t, 62, nil, func(s *scenario) {
		s.createTopic("t", 1, nil)
		client := s.client()
		defer client.Close()
		request := offsetCommit("g", "t", 0, 5, -1)
		request.Topics[0].Partitions = append(request.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: 1})
		request.Topics = append(request.Topics, offsetCommit("g", "gone", 0, 5, -1).Topics...)
		older := s.client(kgo.MaxVersions(pinned(kmsg.OffsetCommit.Int16(), 9)))
		defer older.Close()
		topics := s.toCoordinator(older, request).(*kmsg.OffsetCommitResponse).Topics
		if topics[0].Partitions[0].ErrorCode != 0 || topics[0].Partitions[1].ErrorCode != kerr.UnknownTopicOrPartition.Code ||
			topics[1].Partitions[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("by name: %+v", topics)
		}
		ids := try(kadm.NewClient(client).ListTopics(s.context())).orFail(t)
		request.Topics[0].TopicID, request.Topics[1].TopicID = ids["t"].ID, [16]byte{9}
		topics = s.toCoordinator(client, request).(*kmsg.OffsetCommitResponse).Topics
		if topics[0].Partitions[0].ErrorCode != 0 || topics[0].Partitions[1].ErrorCode != kerr.UnknownTopicOrPartition.Code ||
			topics[1].Partitions[0].ErrorCode != kerr.UnknownTopicID.Code || topics[1].TopicID != [16]byte{9} {
			t.Errorf("by id: %+v", topics)
		}
	})
}

// What was answered survives the loss of all that was not synced.
func TestOF14CommittedOffsetsSurviveAPowerCut(t *testing.T) {
	run(t, 63, nil, func(s *scenario) {
		s.createTopic("t", 1, nil)
		for offset := range int64(5) {
			client := s.client()
			s.commitOffset(client, offsetCommit("g", "t", 0, offset, -1))
			client.Close()
			s.crash(loseAllUnsynced)
			admin := s.admin()
			s.eventually("the coordinator is loaded", func() bool {
				fetched, err := admin.FetchOffsets(s.context(), "g")
				if err != nil {
					return false
				}
				if got, ok := fetched.Lookup("t", 0); !ok || got.At != offset {
					t.Errorf("after the power cut the offset is %+v, want %d", got, offset)
				}
				return true
			})
			admin.Close()
		}
	})
}

func TestOF19AGroupReadsATopicThatWasMadeAnew(t *testing.T) {
	run(t, 64, nil, func(s *scenario) {
		consume := func(count int) {
			s.t.Helper()
			client := s.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			defer client.Close()
			ctx, cancel := context.WithTimeout(s.context(), 5*time.Minute)
			defer cancel()
			seen := 0
			for seen < count {
				fetches := client.PollFetches(ctx)
				must(t, fetches.Err())
				seen += fetches.NumRecords()
			}
			if seen != count {
				t.Errorf("%d records were read, want %d", seen, count)
			}
			must(t, client.CommitUncommittedOffsets(ctx))
		}
		produce := func(count int) {
			client := s.client()
			defer client.Close()
			for range count {
				must(t, client.ProduceSync(s.context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr())
			}
		}
		s.createTopic("t", 1, nil)
		produce(10)
		consume(10)
		admin := s.admin()
		defer admin.Close()
		try(admin.DeleteTopics(s.context(), "t")).orFail(t)
		s.createTopic("t", 1, nil)
		s.eventually("the offsets have gone with the topic", func() bool {
			fetched, err := admin.FetchOffsets(s.context(), "g")
			return err == nil && len(fetched) == 0
		})
		produce(5)
		consume(5)
	})
}

func TestGroupsAreAdministered(t *testing.T) {
	run(t, 65, nil, func(s *scenario) {
		s.createTopic("t", 2, nil)
		client := s.client()
		admin := kadm.NewClient(client)
		defer admin.Close()
		s.commitOffset(client, offsetCommit("g", "t", 0, 5, -1))
		s.commitOffset(client, offsetCommit("g", "t", 1, 6, -1))
		listed := try(admin.ListGroups(s.context())).orFail(t)
		if got := listed["g"]; got.State != "Empty" {
			t.Errorf("the group is listed as %+v", got)
		}
		gone := kadm.TopicsSet{}
		gone.Add("t", 1)
		try(admin.DeleteOffsets(s.context(), "g", gone)).orFail(t)
		fetched := try(admin.FetchOffsets(s.context(), "g")).orFail(t)
		if _, ok := fetched.Lookup("t", 1); ok || len(fetched) != 1 {
			t.Errorf("what is left: %+v", fetched)
		}
		deleted := try(admin.DeleteGroups(s.context(), "g", "nobody")).orFail(t)
		if deleted["g"].Err != nil || !errors.Is(deleted["nobody"].Err, kerr.GroupIDNotFound) {
			t.Errorf("deleted: %+v", deleted)
		}
		if listed := try(admin.ListGroups(s.context())).orFail(t); len(listed) != 0 {
			t.Errorf("groups at the end: %+v", listed)
		}
	})
}
