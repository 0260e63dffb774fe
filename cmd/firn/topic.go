package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// completionTimeout keeps the shell responsive when the cluster is not there.
const completionTimeout = time.Second

func topicCommand() *cobra.Command {
	return group(&cobra.Command{Use: "topic", Short: "Create, list, describe, alter and delete topics"},
		topicCreateCommand(),
		topicListCommand(),
		topicDescribeCommand(),
		topicAlterCommand(),
		topicDeleteCommand(),
		topicCompactCommand(),
	)
}

// completeTopics offers the cluster's topic names, for as many arguments as the command takes.
func completeTopics(brokers *brokerFlag, limit int) cobra.CompletionFunc {
	return completeNames(brokers, limit, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		topics, err := admin.ListTopics(ctx)
		return topics.Names(), err
	})
}

// completeNames offers names that the cluster lists and that are not arguments yet.
func completeNames(
	brokers *brokerFlag, limit int, list func(context.Context, *kadm.Client) ([]string, error),
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if limit > 0 && len(args) >= limit {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, stop := context.WithTimeout(parent, completionTimeout)
		defer stop()
		client, err := brokers.connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
		}
		defer client.Close()
		names, err := list(ctx, client.admin)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
		}
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// parseConfigs reads KEY=VALUE settings. A value may hold commas and equals signs of its own.
func parseConfigs(settings []string) (map[string]string, error) {
	configs := make(map[string]string, len(settings))
	for _, setting := range settings {
		key, value, ok := strings.Cut(setting, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("setting %q is not KEY=VALUE", setting)
		}
		if _, twice := configs[key]; twice {
			return nil, fmt.Errorf("setting %s is given twice", key)
		}
		configs[key] = strings.TrimSpace(value)
	}
	return configs, nil
}

// findTopics looks up topics by name; the error names the first that does not exist.
func findTopics(ctx context.Context, admin *kadm.Client, names []string) (kadm.TopicDetails, error) {
	topics, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	for _, name := range names {
		detail, ok := topics[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("topic %s: %w", name, errNoAnswer)
		case detail.Err != nil:
			return nil, fmt.Errorf("topic %s: %w", name, detail.Err)
		}
	}
	return topics, nil
}

// sortedKeys lists a map's keys in order: answers come as maps, and output must not change from run to run.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// errNoAnswer is a broker that left out one of the topics it was asked about.
var errNoAnswer = errors.New("the broker says nothing about it")

// topicOutcomes is what a command did to each topic.
type topicOutcomes struct {
	Topics []topicOutcome `json:"topics"`
}

func (o *topicOutcomes) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(o.Topics))
	for _, topic := range o.Topics {
		rows = append(rows, topic.row())
	}
	return table(w, []string{"TOPIC", "STATUS"}, rows)
}

// topicOutcome is what happened to one topic.
type topicOutcome struct {
	Topic  string `json:"topic"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

func (o topicOutcome) row() []string {
	if o.Error != "" {
		return []string{o.Topic, "failed: " + o.Error}
	}
	return []string{o.Topic, o.Status}
}
