package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func transactionCommand() *cobra.Command {
	return group(&cobra.Command{Use: "txn", Short: "List, describe and abort transactions"},
		transactionListCommand(),
		transactionDescribeCommand(),
		transactionAbortCommand(),
	)
}

// transactionStates are those of Kafka's transaction coordinator.
func transactionStates() []string {
	return []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
		"PrepareEpochFence"}
}

func completeTransactions(brokers *brokerFlag) cobra.CompletionFunc {
	return completeNames(brokers, 0, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		listed, err := admin.ListTransactions(ctx, nil, nil)
		return listed.TransactionalIDs(), err
	})
}

// transactionList is what `txn list` found, by transactional id.
type transactionList struct {
	Transactions []listedTransaction `json:"transactions"`
}

type listedTransaction struct {
	TransactionalID string `json:"transactional_id"`
	ProducerID      int64  `json:"producer_id"`
	State           string `json:"state"`
	Coordinator     int32  `json:"coordinator"`
}

func transactionListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the transactional ids of the cluster and how far their last transaction is",
		Args:  takes(cobra.NoArgs),
	}
	brokers := addBrokerFlag(cmd)
	states := cmd.Flags().StringSlice("state", nil, "list only those in one of these states: Ongoing, CompleteCommit, …")
	producers := cmd.Flags().Int64Slice("producer-id", nil, "list only those of these producer ids")
	completeFlag(cmd, "state", transactionStates()...)
	return printing(cmd, func(cmd *cobra.Command, _ []string) (*transactionList, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		listed, err := client.admin.ListTransactions(client.ctx, *producers, *states)
		if err != nil {
			return nil, fmt.Errorf("list transactions: %w", brokerFailure(err))
		}
		list := &transactionList{Transactions: []listedTransaction{}}
		for _, t := range listed.Sorted() {
			list.Transactions = append(list.Transactions, listedTransaction{TransactionalID: t.TxnID,
				ProducerID: t.ProducerID, State: t.State, Coordinator: t.Coordinator})
		}
		return list, nil
	})
}

func (l *transactionList) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(l.Transactions))
	for _, t := range l.Transactions {
		rows = append(rows, []string{t.TransactionalID, decimal(t.ProducerID), t.State, strconv.Itoa(int(t.Coordinator))})
	}
	return table(w, []string{"TRANSACTIONAL ID", "PRODUCER ID", "STATE", "COORDINATOR"}, rows)
}

// transactionDescriptions is what `txn describe` found.
type transactionDescriptions struct {
	Transactions []transactionDescription `json:"transactions"`

	now time.Time
}

type transactionDescription struct {
	TransactionalID string             `json:"transactional_id"`
	State           string             `json:"state"`
	ProducerID      int64              `json:"producer_id"`
	ProducerEpoch   int16              `json:"producer_epoch"`
	TimeoutMs       int32              `json:"timeout_ms"`
	StartTimestamp  *int64             `json:"start_timestamp"` // null: none is open
	Coordinator     int32              `json:"coordinator"`
	Partitions      map[string][]int32 `json:"partitions"` // that the open transaction has written to
}

func transactionDescribeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe TRANSACTIONAL-ID…",
		Short: "Show the producer and the open transaction of transactional ids",
		Args:  takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	cmd.ValidArgsFunction = completeTransactions(brokers)
	return printing(cmd, func(cmd *cobra.Command, ids []string) (*transactionDescriptions, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		found, err := client.admin.DescribeTransactions(client.ctx, ids...)
		if len(found) == 0 && err != nil {
			return nil, fmt.Errorf("describe transactions: %w", brokerFailure(err))
		}
		return describedTransactions(ids, found, time.Now())
	})
}

func describedTransactions(ids []string, found kadm.DescribedTransactions, now time.Time,
) (*transactionDescriptions, error) {
	described := &transactionDescriptions{Transactions: []transactionDescription{}, now: now}
	var failed []error
	for _, id := range ids {
		t, ok := found[id]
		err := t.Err
		if !ok {
			err = errNoAnswer
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("transactional id %s: %w", id, err))
			continue
		}
		description := transactionDescription{TransactionalID: id, State: t.State, ProducerID: t.ProducerID,
			ProducerEpoch: t.ProducerEpoch, TimeoutMs: t.TimeoutMillis, Coordinator: t.Coordinator,
			Partitions: make(map[string][]int32)}
		if isOpen := t.State == "Ongoing" || strings.HasPrefix(t.State, "Prepare"); isOpen && t.StartTimestamp >= 0 {
			description.StartTimestamp = &t.StartTimestamp
		}
		for _, topic := range t.Topics.Sorted() {
			description.Partitions[topic.Topic] = topic.Partitions
		}
		described.Transactions = append(described.Transactions, description)
	}
	if len(described.Transactions) == 0 {
		return nil, failures("transactional id", len(ids), failed)
	}
	return described, failures("transactional id", len(ids), failed)
}

func (d *transactionDescriptions) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(d.Transactions))
	for _, t := range d.Transactions {
		open := "-"
		if t.StartTimestamp != nil {
			open = d.now.Sub(time.UnixMilli(*t.StartTimestamp)).Round(time.Second).String()
		}
		rows = append(rows, []string{t.TransactionalID, t.State, decimal(t.ProducerID), strconv.Itoa(int(t.ProducerEpoch)),
			(time.Duration(t.TimeoutMs) * time.Millisecond).String(), open, strconv.Itoa(int(t.Coordinator)),
			orDash(assignmentText(t.Partitions))})
	}
	return table(w, []string{"TRANSACTIONAL ID", "STATE", "PRODUCER ID", "EPOCH", "TIMEOUT", "OPEN FOR", "COORDINATOR",
		"PARTITIONS"}, rows)
}
