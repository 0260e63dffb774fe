package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// topicDescriptions is what `topic describe` found.
type topicDescriptions struct {
	Topics []topicDescription `json:"topics"`

	showDefaults bool
}

type topicDescription struct {
	Topic      string                 `json:"topic"`
	ID         string                 `json:"id"`
	Internal   bool                   `json:"internal"`
	Replicas   int                    `json:"replicas"`
	Configs    []configDescription    `json:"configs"`
	Partitions []partitionDescription `json:"partitions"`
	Notes      []string               `json:"notes"`
}

type configDescription struct {
	Name      string  `json:"name"`
	Value     *string `json:"value"` // null when sensitive
	Source    string  `json:"source"`
	Sensitive bool    `json:"sensitive"`
}

// partitionDescription has the offsets of one partition: [Start, End) can be read, [LocalStart, End) lies on the
// leader's disk, [Start, TieredEnd) in the bucket. A null means that the broker did not say.
type partitionDescription struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leader_epoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Offline     []int32 `json:"offline_replicas"`
	Start       *int64  `json:"start_offset"`
	End         *int64  `json:"end_offset"`
	LocalStart  *int64  `json:"local_start_offset"`
	TieredEnd   *int64  `json:"tiered_end_offset"`
	Error       string  `json:"error,omitempty"`
}

func topicDescribeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe NAME…",
		Short: "Show a topic's settings, with where each comes from, and its partitions with their offsets",
		Args:  takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	server := addHTTPFlag(cmd)
	showDefaults := cmd.Flags().BoolP("all", "a", false,
		"show the settings that have their default too (JSON always does)")
	cmd.ValidArgsFunction = completeTopics(brokers, 0)
	return printing(cmd, func(cmd *cobra.Command, names []string) (*topicDescriptions, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		described, err := describeTopics(client, server, names)
		if described != nil {
			described.showDefaults = *showDefaults
		}
		return described, err
	})
}

func describeTopics(client *session, server *httpFlag, names []string) (*topicDescriptions, error) {
	topics, err := client.admin.ListTopics(client.ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	var known []string
	var failed []error
	for _, name := range names {
		if err := topics[name].Err; err != nil {
			failed = append(failed, fmt.Errorf("topic %s: %w", name, err))
			continue
		}
		known = append(known, name)
	}
	described := &topicDescriptions{Topics: []topicDescription{}}
	if len(known) == 0 {
		return nil, failures("topic", len(names), failed)
	}
	configs, err := client.admin.DescribeTopicConfigs(client.ctx, known...)
	if err != nil {
		return nil, fmt.Errorf("describe the settings of %s: %w", strings.Join(known, ", "), err)
	}
	offsets := listTopicOffsets(client, known)
	isFirn := sync.OnceValue(client.isFirn)
	for _, name := range known {
		topic := describeTopic(topics[name], offsets)
		resource, err := configs.On(name, nil)
		if err == nil {
			err = resource.Err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("settings of topic %s: %w", name, err))
		}
		topic.Configs = describeConfigs(resource.Configs)
		if topic.compacted() && isFirn() {
			topic.Notes = append(topic.Notes, compactionNotes(client.ctx, server, &topic)...)
		}
		if note := client.cappedNote(&topic); note != "" {
			topic.Notes = append(topic.Notes, note)
		}
		described.Topics = append(described.Topics, topic)
	}
	return described, failures("topic", len(names), failed)
}

func describeTopic(detail kadm.TopicDetail, offsets topicOffsets) topicDescription {
	topic := topicDescription{Topic: detail.Topic, ID: kafka.UUID(detail.ID).String(), Internal: detail.IsInternal,
		Replicas: detail.Partitions.NumReplicas(), Configs: []configDescription{}, Notes: []string{}}
	for _, p := range detail.Partitions.Sorted() {
		partition := partitionDescription{Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
			Replicas: emptyNotNull(p.Replicas), ISR: emptyNotNull(p.ISR), Offline: emptyNotNull(p.OfflineReplicas)}
		if p.Err != nil {
			partition.Error = p.Err.Error()
		}
		partition.Start = offsets.start.of(detail.Topic, p.Partition)
		partition.End = offsets.end.of(detail.Topic, p.Partition)
		partition.LocalStart = offsets.localStart.of(detail.Topic, p.Partition)
		partition.TieredEnd = offsets.lastTiered.of(detail.Topic, p.Partition)
		if partition.TieredEnd != nil {
			*partition.TieredEnd++ // the protocol names the last tiered offset; our ranges end after it
		}
		topic.Partitions = append(topic.Partitions, partition)
	}
	return topic
}

// emptyNotNull makes a list appear as [] in JSON when it is empty.
func emptyNotNull(list []int32) []int32 {
	if list == nil {
		return []int32{}
	}
	return list
}

func describeConfigs(configs []kadm.Config) []configDescription {
	described := make([]configDescription, 0, len(configs))
	for _, config := range configs {
		described = append(described, configDescription{Name: config.Key, Value: config.Value,
			Source: config.Source.String(), Sensitive: config.Sensitive})
	}
	slices.SortFunc(described, func(a, b configDescription) int { return strings.Compare(a.Name, b.Name) })
	return described
}

// compacted tells whether the topic's cleanup policy asks for compaction.
func (t *topicDescription) compacted() bool {
	for _, config := range t.Configs {
		if config.Name == "cleanup.policy" && config.Value != nil {
			return slices.Contains(strings.Split(*config.Value, ","), "compact")
		}
	}
	return false
}

// firnSetting is a broker setting that only firn has.
const firnSetting = "firn.log.flush.policy"

// isFirn tells whether the cluster is firn's: its brokers describe a setting that Kafka does not know.
func (s *session) isFirn() bool {
	_, known := s.brokerSetting(firnSetting)
	return known
}

// brokerSetting asks a broker for one of its settings; false if it does not have it.
func (s *session) brokerSetting(name string) (value string, known bool) {
	metadata, err := s.admin.BrokerMetadata(s.ctx)
	if err != nil || len(metadata.Brokers) == 0 {
		return "", false
	}
	broker := metadata.Brokers[0].NodeID
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeBroker
	resource.ResourceName = strconv.Itoa(int(broker))
	resource.ConfigNames = []string{name}
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(s.ctx, s.Broker(int(broker)))
	if err != nil {
		return "", false
	}
	for _, resource := range response.Resources {
		for _, config := range resource.Configs {
			if config.Name == name && config.Value != nil {
				return *config.Value, true
			}
		}
	}
	return "", false
}

// cappedNote says that a topic of a coordinator has fewer replicas than its setting asks for, because there were no
// more brokers when it was made; empty if it has as many.
func (s *session) cappedNote(topic *topicDescription) string {
	setting, ok := map[string]string{
		kafka.GroupMetadataTopic:    "offsets.topic.replication.factor",
		kafka.TransactionStateTopic: "transaction.state.log.replication.factor",
	}[topic.Topic]
	if !ok {
		return ""
	}
	value, _ := s.brokerSetting(setting)
	if asked, err := strconv.Atoi(value); err != nil || asked <= topic.Replicas {
		return ""
	}
	return fmt.Sprintf("%s instead of %s=%s, and min.insync.replicas no more than that: there were no more brokers "+
		"when the topic was made", counted(topic.Replicas, "replica"), setting, value)
}
