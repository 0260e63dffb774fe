package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// createdTopics is what `topic create` did.
type createdTopics struct {
	Topics []createdTopic `json:"topics"`
}

type createdTopic struct {
	topicOutcome
	Partitions int32 `json:"partitions"`
	Replicas   int16 `json:"replicas"`
}

// createRequest is the command line of `topic create`.
type createRequest struct {
	partitions  int32
	replicas    int16
	settings    []string
	ifNotExists bool
	dryRun      bool
}

func topicCreateCommand() *cobra.Command {
	var request createRequest
	cmd := &cobra.Command{
		Use:     "create NAME…",
		Short:   "Create topics",
		Example: "  firn topic create flights -p 4 -c remote.storage.enable=true -c retention.ms=-1",
		Args:    takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	cmd.Flags().Int32VarP(&request.partitions, "partitions", "p", -1, "number of partitions; -1: the cluster's default")
	cmd.Flags().Int16VarP(&request.replicas, "replicas", "r", -1, "replicas of each partition; -1: the cluster's default")
	cmd.Flags().StringArrayVarP(&request.settings, "config", "c", nil, "topic setting KEY=VALUE (repeatable)")
	cmd.Flags().BoolVar(&request.ifNotExists, "if-not-exists", false, "succeed when the topic is there already")
	cmd.Flags().BoolVar(&request.dryRun, "dry-run", false, "let the cluster check the request and create nothing")
	return printing(cmd, func(cmd *cobra.Command, names []string) (*createdTopics, error) {
		configs, err := parseConfigs(request.settings)
		if err != nil {
			return nil, usageError{cmd.CommandPath(), err}
		}
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return request.run(client, names, configs)
	})
}

func (c createRequest) run(client *session, names []string, configs map[string]string) (*createdTopics, error) {
	values := make(map[string]*string, len(configs))
	for key, value := range configs {
		values[key] = &value
	}
	create := client.admin.CreateTopics
	if c.dryRun {
		create = client.admin.ValidateCreateTopics
	}
	responses, err := create(client.ctx, c.partitions, c.replicas, values, names...)
	if err != nil {
		return nil, fmt.Errorf("create topics: %w", err)
	}
	return c.outcome(names, responses)
}

func (c createRequest) outcome(names []string, responses kadm.CreateTopicResponses) (*createdTopics, error) {
	created := &createdTopics{Topics: []createdTopic{}}
	var failed []error
	for _, name := range names {
		response, ok := responses[name]
		topic := createdTopic{topicOutcome: topicOutcome{Topic: name, Status: "created"},
			Partitions: response.NumPartitions, Replicas: response.ReplicationFactor}
		err := kafkaError(response.Err, response.ErrMessage)
		switch {
		case !ok:
			err = errNoAnswer
		case c.ifNotExists && errors.Is(response.Err, kerr.TopicAlreadyExists):
			err, topic.Status = nil, "exists"
		case c.dryRun:
			topic.Status = "would be created"
		}
		if err != nil {
			topic.Status, topic.Error = "failed", err.Error()
			failed = append(failed, fmt.Errorf("create topic %s: %w", name, err))
		}
		created.Topics = append(created.Topics, topic)
	}
	return created, failures("topic", len(names), failed)
}

func (c *createdTopics) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(c.Topics))
	for _, topic := range c.Topics {
		rows = append(rows, append(topic.row(), knownCount(int64(topic.Partitions)), knownCount(int64(topic.Replicas))))
	}
	return table(w, []string{"TOPIC", "STATUS", "PARTITIONS", "REPLICAS"}, rows)
}

// knownCount prints a count that some answers leave out.
func knownCount(n int64) string {
	if n <= 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
