package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func topicDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete NAME…",
		Short: "Delete topics with all their records, local and remote",
		Args:  takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	cmd.ValidArgsFunction = completeTopics(brokers, 0)
	return printing(cmd, func(cmd *cobra.Command, names []string) (*topicOutcomes, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		responses, err := client.admin.DeleteTopics(client.ctx, names...)
		if err != nil {
			return nil, fmt.Errorf("delete topics: %w", err)
		}
		return deleteOutcome(names, responses)
	})
}

func deleteOutcome(names []string, responses kadm.DeleteTopicResponses) (*topicOutcomes, error) {
	deleted := &topicOutcomes{Topics: []topicOutcome{}}
	var failed []error
	for _, name := range names {
		outcome := topicOutcome{Topic: name, Status: "deleted"}
		response, ok := responses[name]
		err := kafkaError(response.Err, response.ErrMessage)
		if !ok {
			err = errNoAnswer
		}
		if err != nil {
			outcome.Status, outcome.Error = "failed", err.Error()
			failed = append(failed, fmt.Errorf("delete topic %s: %w", name, err))
		}
		deleted.Topics = append(deleted.Topics, outcome)
	}
	return deleted, failures("topic", len(names), failed)
}
