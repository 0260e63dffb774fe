package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/firnlog/firn/internal/kafka"
)

// topicList is what `topic list` found, by name.
type topicList struct {
	Topics []listedTopic `json:"topics"`
}

type listedTopic struct {
	Topic      string `json:"topic"`
	ID         string `json:"id"`
	Internal   bool   `json:"internal"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	Error      string `json:"error,omitempty"`
}

func topicListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [NAME…]",
		Short: "List the topics of the cluster",
	}
	brokers := addBrokerFlag(cmd)
	internal := cmd.Flags().BoolP("internal", "i", false, "list the cluster's own topics too")
	cmd.ValidArgsFunction = completeTopics(brokers, 0)
	return printing(cmd, func(cmd *cobra.Command, names []string) (*topicList, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		topics, err := client.admin.ListTopicsWithInternal(client.ctx, names...)
		if err != nil {
			return nil, fmt.Errorf("list topics: %w", err)
		}
		// Who names an internal topic means it.
		return listTopics(topics, *internal || len(names) > 0)
	})
}

func listTopics(topics kadm.TopicDetails, internal bool) (*topicList, error) {
	list := &topicList{Topics: []listedTopic{}}
	var failed []error
	for _, name := range sortedKeys(topics) {
		topic := topics[name]
		if topic.IsInternal && !internal {
			continue
		}
		listed := listedTopic{Topic: name, ID: kafka.UUID(topic.ID).String(), Internal: topic.IsInternal,
			Partitions: len(topic.Partitions), Replicas: topic.Partitions.NumReplicas()}
		if topic.Err != nil {
			listed.Error = topic.Err.Error()
			failed = append(failed, fmt.Errorf("topic %s: %w", name, topic.Err))
		}
		list.Topics = append(list.Topics, listed)
	}
	return list, failures("topic", len(list.Topics), failed)
}

func (l *topicList) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(l.Topics))
	for _, topic := range l.Topics {
		if topic.Error == "" { // else the error line on stderr says it all
			rows = append(rows, []string{topic.Topic, strconv.Itoa(topic.Partitions), strconv.Itoa(topic.Replicas)})
		}
	}
	return table(w, []string{"TOPIC", "PARTITIONS", "REPLICAS"}, rows)
}
