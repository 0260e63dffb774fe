package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func groupCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "group",
		Short: "List, describe, seek and delete consumer groups and their offsets",
	},
		groupListCommand(),
		groupDescribeCommand(),
		groupSeekCommand(),
		groupDeleteCommand(),
		groupOffsetDeleteCommand(),
	)
}

// completeGroups offers the cluster's group names, for as many arguments as the command takes, and topics behind them
// where those follow.
func completeGroups(brokers *brokerFlag, limit int, behind cobra.CompletionFunc) cobra.CompletionFunc {
	groups := completeNames(brokers, 0, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		listed, err := admin.ListGroups(ctx)
		return listed.Groups(), err
	})
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case limit == 0 || len(args) < limit:
			return groups(cmd, args, typed)
		case behind == nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return behind(cmd, args[limit:], typed)
	}
}

// partitionChoice is arguments of the form TOPIC or TOPIC:PARTITION,…; no partitions means all.
type partitionChoice map[string][]int32

func parsePartitionChoice(args []string) (partitionChoice, error) {
	choice := make(partitionChoice, len(args))
	for _, arg := range args {
		topic, list, some := strings.Cut(arg, ":")
		if _, twice := choice[topic]; twice || topic == "" {
			return nil, fmt.Errorf("%q: give each topic once, as TOPIC or TOPIC:PARTITION,…", arg)
		}
		choice[topic] = nil
		if !some {
			continue
		}
		for text := range strings.SplitSeq(list, ",") {
			partition, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return nil, fmt.Errorf("%q is not a partition in %q: give TOPIC or TOPIC:PARTITION,…", text, arg)
			}
			choice[topic] = append(choice[topic], int32(partition))
		}
	}
	return choice, nil
}

// has tells whether a partition was chosen. An empty choice is everything.
func (c partitionChoice) has(topic string, partition int32) bool {
	partitions, ok := c[topic]
	return len(c) == 0 || ok && (partitions == nil || slices.Contains(partitions, partition))
}

// check tells which chosen partition does not exist.
func (c partitionChoice) check(topics kadm.TopicDetails) error {
	for _, topic := range sortedKeys(c) {
		for _, partition := range c[topic] {
			if _, ok := topics[topic].Partitions[partition]; !ok {
				return noPartition(topic, partition, len(topics[topic].Partitions))
			}
		}
	}
	return nil
}

func noPartition(topic string, partition int32, count int) error {
	return fmt.Errorf("topic %s has no partition %d: it has %d, from 0", topic, partition, count)
}

// noOffsets is a group without the committed offsets that a command is about.
func noOffsets(group string, choice partitionChoice) error {
	where := ""
	if len(choice) > 0 {
		where = " there"
	}
	return fmt.Errorf("group %s has no committed offset%s: `firn group describe` shows which it has", group, where)
}

// groupOutcomes is what a command did to each group.
type groupOutcomes struct {
	Groups []groupOutcome `json:"groups"`
}

// groupOutcome is what happened to one group.
type groupOutcome struct {
	Group  string `json:"group"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

func (o *groupOutcomes) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(o.Groups))
	for _, group := range o.Groups {
		rows = append(rows, []string{group.Group, statusText(group.Status, group.Error)})
	}
	return table(w, []string{"GROUP", "STATUS"}, rows)
}

// statusText is a status, with its reason where it failed.
func statusText(status, reason string) string {
	if reason != "" {
		return "failed: " + reason
	}
	return status
}

func groupDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete GROUP…",
		Short: "Delete groups that have no members, with their committed offsets",
		Args:  takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	cmd.ValidArgsFunction = completeGroups(brokers, 0, nil)
	return printing(cmd, func(cmd *cobra.Command, names []string) (*groupOutcomes, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		// An error beside answers is that of a broker which did not give its own.
		responses, err := client.admin.DeleteGroups(client.ctx, names...)
		if len(responses) == 0 && err != nil {
			return nil, fmt.Errorf("delete groups: %w", brokerFailure(err))
		}
		return deletedGroups(names, responses)
	})
}

func deletedGroups(names []string, responses kadm.DeleteGroupResponses) (*groupOutcomes, error) {
	deleted := &groupOutcomes{Groups: []groupOutcome{}}
	var failed []error
	for _, name := range names {
		outcome := groupOutcome{Group: name, Status: "deleted"}
		response, ok := responses[name]
		err := response.Err
		if !ok {
			err = errNoAnswer
		}
		if err != nil {
			outcome.Status, outcome.Error = "failed", err.Error()
			failed = append(failed, fmt.Errorf("delete group %s: %w", name, err))
		}
		deleted.Groups = append(deleted.Groups, outcome)
	}
	return deleted, failures("group", len(names), failed)
}
