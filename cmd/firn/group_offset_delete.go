package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// deletedOffsets is what `group offset-delete` did in each partition.
type deletedOffsets struct {
	Group      string          `json:"group"`
	Partitions []deletedOffset `json:"partitions"`
}

type deletedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed_offset"` // what it was
	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
}

func groupOffsetDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "offset-delete GROUP TOPIC[:PARTITION,…]…",
		Short: "Delete a group's committed offsets in topics that none of its members reads",
		Args:  takes(cobra.MinimumNArgs(2)),
	}
	brokers := addBrokerFlag(cmd)
	cmd.ValidArgsFunction = completeGroups(brokers, 1, completeTopics(brokers, 0))
	return printing(cmd, func(cmd *cobra.Command, args []string) (*deletedOffsets, error) {
		choice, err := parsePartitionChoice(args[1:])
		if err != nil {
			return nil, usageError{cmd.CommandPath(), err}
		}
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return deleteOffsets(client, args[0], choice)
	})
}

func deleteOffsets(client *session, group string, choice partitionChoice) (*deletedOffsets, error) {
	committed, err := committedOffsets(client, group)
	if err != nil {
		return nil, err
	}
	committed.KeepFunc(func(o kadm.OffsetResponse) bool { return choice.has(o.Topic, o.Partition) })
	for _, topic := range sortedKeys(choice) {
		for _, partition := range choice[topic] {
			if _, ok := committed.Lookup(topic, partition); !ok {
				return nil, noOffsets(group, partitionChoice{topic: {partition}})
			}
		}
		if len(committed[topic]) == 0 {
			return nil, noOffsets(group, partitionChoice{topic: nil})
		}
	}
	answers, err := client.admin.DeleteOffsets(client.ctx, group, committed.Partitions())
	if err != nil {
		return nil, fmt.Errorf("delete offsets of group %s: %w", group, err)
	}
	return deletedFrom(group, committed, answers)
}

func deletedFrom(group string, committed kadm.OffsetResponses, answers kadm.DeleteOffsetsResponses,
) (*deletedOffsets, error) {
	deleted := &deletedOffsets{Group: group, Partitions: []deletedOffset{}}
	var failed []error
	for _, offset := range committed.Sorted() {
		outcome := deletedOffset{Topic: offset.Topic, Partition: offset.Partition, Committed: offset.At, Status: "deleted"}
		answer, ok := answers.Lookup(offset.Topic, offset.Partition)
		if err := errors.Join(answer, missingAnswer(ok)); err != nil {
			outcome.Status, outcome.Error = "failed", err.Error()
			failed = append(failed, fmt.Errorf("delete the offset of group %s in %s partition %d: %w", group, offset.Topic,
				offset.Partition, err))
		}
		deleted.Partitions = append(deleted.Partitions, outcome)
	}
	return deleted, failures("partition", len(deleted.Partitions), failed)
}

func (d *deletedOffsets) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(d.Partitions))
	for _, p := range d.Partitions {
		rows = append(rows, []string{p.Topic, strconv.Itoa(int(p.Partition)), decimal(p.Committed),
			statusText(p.Status, p.Error)})
	}
	return table(w, []string{"TOPIC", "PARTITION", "COMMITTED", "STATUS"}, rows)
}
