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
	keep := cmd.Flags().Bool("keep-objects", false, "leave in the bucket what is there (firn.remote.delete=false)")
	brokers := addBrokerFlag(cmd)
	cmd.ValidArgsFunction = completeTopics(brokers, 0)
	return printing(cmd, func(cmd *cobra.Command, names []string) (*topicOutcomes, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		if *keep {
			if err := keepObjects(client, names); err != nil {
				return nil, err
			}
		}
		responses, err := client.admin.DeleteTopics(client.ctx, names...)
		if err != nil {
			return nil, fmt.Errorf("delete topics: %w", err)
		}
		return deleteOutcome(names, responses)
	})
}

// keepObjects has the deletion of topics leave their objects. Unless all of the topics can be told, none is deleted.
func keepObjects(client *session, names []string) error {
	no := "false"
	changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "firn.remote.delete", Value: &no}}
	responses, err := client.admin.AlterTopicConfigs(client.ctx, changes, names...)
	if err != nil {
		return fmt.Errorf("have the objects of topics kept: %w", err)
	}
	for _, response := range responses {
		if err := kafkaError(response.Err, response.ErrMessage); err != nil {
			return fmt.Errorf("have the objects of topic %s kept; nothing was deleted: %w", response.Name, err)
		}
	}
	return nil
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
