package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// alterRequest is the command line of `topic alter`.
type alterRequest struct {
	settings   []string
	deletes    []string
	partitions int
	dryRun     bool
}

func topicAlterCommand() *cobra.Command {
	var request alterRequest
	cmd := &cobra.Command{
		Use:     "alter NAME…",
		Short:   "Change the named settings of topics, and no others, or add partitions",
		Example: "  firn topic alter flights -c retention.ms=604800000 --delete max.message.bytes",
		Args:    takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	cmd.Flags().StringArrayVarP(&request.settings, "config", "c", nil, "set KEY=VALUE (repeatable)")
	cmd.Flags().StringArrayVar(&request.deletes, "delete", nil, "take KEY back to what the broker says (repeatable)")
	cmd.Flags().IntVarP(&request.partitions, "partitions", "p", 0, "raise the number of partitions to this")
	cmd.Flags().BoolVar(&request.dryRun, "dry-run", false, "let the cluster check the request and change nothing")
	cmd.ValidArgsFunction = completeTopics(brokers, 0)
	return printing(cmd, func(cmd *cobra.Command, names []string) (*topicOutcomes, error) {
		changes, err := request.changes()
		if err == nil && len(changes) == 0 && request.partitions <= 0 {
			err = errors.New("nothing to change: give -c KEY=VALUE, --delete KEY or -p PARTITIONS")
		}
		if err != nil {
			return nil, usageError{cmd.CommandPath(), err}
		}
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return request.run(client, names, changes)
	})
}

// changes are the operations on exactly the named settings; all others are left alone.
func (a alterRequest) changes() ([]kadm.AlterConfig, error) {
	configs, err := parseConfigs(a.settings)
	if err != nil {
		return nil, err
	}
	var changes []kadm.AlterConfig
	for _, key := range sortedKeys(configs) {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: kadm.StringPtr(configs[key])})
	}
	deletes := slices.Clone(a.deletes)
	slices.Sort(deletes)
	for _, key := range slices.Compact(deletes) {
		if _, set := configs[key]; set {
			return nil, fmt.Errorf("setting %s is both set and deleted", key)
		}
		if strings.TrimSpace(key) == "" || strings.Contains(key, "=") {
			return nil, fmt.Errorf("%q is not the name of a setting: --delete takes KEY alone", key)
		}
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
	}
	return changes, nil
}

func (a alterRequest) run(client *session, names []string, changes []kadm.AlterConfig) (*topicOutcomes, error) {
	problems := make(map[string]error, len(names))
	if len(changes) > 0 {
		if err := a.alterConfigs(client, names, changes, problems); err != nil {
			return nil, err
		}
	}
	if a.partitions > 0 {
		if err := a.addPartitions(client, names, problems); err != nil {
			return nil, err
		}
	}
	altered := &topicOutcomes{Topics: []topicOutcome{}}
	var failed []error
	for _, name := range names {
		outcome := topicOutcome{Topic: name, Status: "altered"}
		if a.dryRun {
			outcome.Status = "would be altered"
		}
		if err := problems[name]; err != nil {
			outcome.Status, outcome.Error = "failed", err.Error()
			failed = append(failed, fmt.Errorf("alter topic %s: %w", name, err))
		}
		altered.Topics = append(altered.Topics, outcome)
	}
	return altered, failures("topic", len(names), failed)
}

func (a alterRequest) alterConfigs(
	client *session, names []string, changes []kadm.AlterConfig, problems map[string]error,
) error {
	alter := client.admin.AlterTopicConfigs
	if a.dryRun {
		alter = client.admin.ValidateAlterTopicConfigs
	}
	responses, err := alter(client.ctx, changes, names...)
	if err != nil {
		return fmt.Errorf("alter topics: %w", err)
	}
	for _, name := range names {
		problems[name] = errNoAnswer
	}
	for _, response := range responses {
		problems[response.Name] = kafkaError(response.Err, response.ErrMessage)
	}
	return nil
}

// addPartitions acts on the topics whose settings could be changed: half a change on a topic is better not made.
func (a alterRequest) addPartitions(client *session, names []string, problems map[string]error) error {
	var sound []string
	for _, name := range names {
		if problems[name] == nil {
			sound = append(sound, name)
		}
	}
	if len(sound) == 0 {
		return nil
	}
	update := client.admin.UpdatePartitions
	if a.dryRun {
		update = client.admin.ValidateUpdatePartitions
	}
	responses, err := update(client.ctx, a.partitions, sound...)
	if err != nil {
		return fmt.Errorf("add partitions: %w", err)
	}
	for _, name := range sound {
		problems[name] = errNoAnswer
	}
	for name, response := range responses {
		problems[name] = kafkaError(response.Err, response.ErrMessage)
	}
	return nil
}
