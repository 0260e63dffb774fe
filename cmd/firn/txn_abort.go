package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// fencePatience is how long an abort waits for the transaction's markers to be written.
	fencePatience = 20 * time.Second
	// fenceBackoff is how long it waits before it asks again.
	fenceBackoff = 100 * time.Millisecond
)

// abortRequest is the command line of `txn abort`.
type abortRequest struct {
	ids         []string
	partition   string
	startOffset int64

	choice partitionChoice // what --partition means
}

func transactionAbortCommand() *cobra.Command {
	var request abortRequest
	cmd := &cobra.Command{
		Use:   "abort [TRANSACTIONAL-ID…]",
		Short: "Abort open transactions",
		Long: "Abort the open transaction of each transactional id. The producer that has it open is fenced: it can write\n" +
			"nothing more before it is started anew.\n\n" +
			"A transaction that its coordinator has forgotten (a hanging one, which holds back readers of committed\n" +
			"records for ever) has no id: name the partition and the offset at which it begins, which is the last stable\n" +
			"offset that the partition stands at.",
		Example: "  firn txn abort billing-7\n" +
			"  firn txn abort --partition payments:3 --start-offset 41200",
	}
	brokers := addBrokerFlag(cmd)
	cmd.Flags().StringVar(&request.partition, "partition", "", "TOPIC:PARTITION in which a hanging transaction is open")
	cmd.Flags().Int64Var(&request.startOffset, "start-offset", -1, "offset of its first record there")
	cmd.ValidArgsFunction = completeTransactions(brokers)
	return printing(cmd, func(cmd *cobra.Command, args []string) (*abortOutcomes, error) {
		if err := request.check(args); err != nil {
			return nil, usageError{cmd.CommandPath(), err}
		}
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		if request.choice != nil {
			return request.abortHanging(client)
		}
		return abortTransactions(client, request.ids)
	})
}

// check reads what needs no cluster.
func (a *abortRequest) check(args []string) (err error) {
	a.ids = args
	switch {
	case len(args) == 0 && a.partition == "":
		return errors.New("which transaction? give a transactional id, or --partition and --start-offset")
	case len(args) > 0 && a.partition != "":
		return errors.New("a transactional id and --partition exclude each other")
	case (a.partition == "") != (a.startOffset < 0):
		return errors.New("--partition and --start-offset belong together")
	case a.partition == "":
		return nil
	}
	if a.choice, err = parsePartitionChoice([]string{a.partition}); err != nil {
		return err
	}
	for _, partitions := range a.choice {
		if len(partitions) != 1 {
			return fmt.Errorf("--partition %q: give one partition as TOPIC:PARTITION", a.partition)
		}
	}
	return nil
}

// abortOutcomes is what `txn abort` did.
type abortOutcomes struct {
	Transactions []abortOutcome `json:"transactions"`
}

type abortOutcome struct {
	Transaction string `json:"transaction"` // the transactional id, or TOPIC:PARTITION@OFFSET of a hanging one
	Status      string `json:"status"`
	Error       string `json:"error,omitempty"`
}

func (o *abortOutcomes) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(o.Transactions))
	for _, t := range o.Transactions {
		rows = append(rows, []string{t.Transaction, statusText(t.Status, t.Error)})
	}
	return table(w, []string{"TRANSACTION", "STATUS"}, rows)
}

func abortTransactions(client *session, ids []string) (*abortOutcomes, error) {
	described, err := client.admin.DescribeTransactions(client.ctx, ids...)
	if len(described) == 0 && err != nil {
		return nil, fmt.Errorf("describe transactions: %w", brokerFailure(err))
	}
	outcomes := &abortOutcomes{Transactions: []abortOutcome{}}
	var failed []error
	for _, id := range ids {
		outcome := abortOutcome{Transaction: id}
		t, ok := described[id]
		err := errors.Join(t.Err, missingAnswer(ok))
		if err == nil {
			outcome.Status, err = abortTransaction(client, t)
		}
		if err != nil {
			outcome.Status, outcome.Error = "failed", err.Error()
			failed = append(failed, fmt.Errorf("abort the transaction of %s: %w", id, err))
		}
		outcomes.Transactions = append(outcomes.Transactions, outcome)
	}
	return outcomes, failures("transaction", len(ids), failed)
}

// abortTransaction fences the producer, which makes the coordinator abort what it has open. A transaction that is being
// completed is left alone: its outcome is decided.
func abortTransaction(client *session, t kadm.DescribedTransaction) (status string, err error) {
	if t.State != "Ongoing" {
		return "not open: " + t.State, nil
	}
	request := kmsg.NewPtrInitProducerIDRequest()
	request.TransactionalID = &t.TxnID
	request.TransactionTimeoutMillis = t.TimeoutMillis // as it is
	for deadline := time.Now().Add(fencePatience); ; {
		response, err := request.RequestWith(client.ctx, client)
		if err != nil {
			return "", err
		}
		err = kerr.ErrorForCode(response.ErrorCode)
		// While the markers are being written the coordinator answers that a transaction is under way.
		if !errors.Is(err, kerr.ConcurrentTransactions) || time.Now().After(deadline) {
			return "aborted", err
		}
		select {
		case <-time.After(fenceBackoff):
		case <-client.ctx.Done():
			return "", client.ctx.Err()
		}
	}
}

// abortHanging writes the marker that nobody else will write.
func (a *abortRequest) abortHanging(client *session) (*abortOutcomes, error) {
	var topics kadm.TopicsSet
	for topic, partitions := range a.choice {
		topics.Add(topic, partitions...)
	}
	name := fmt.Sprintf("%s@%d", a.partition, a.startOffset)
	producers, err := client.admin.DescribeProducers(client.ctx, topics)
	if err != nil {
		return nil, fmt.Errorf("describe the producers of %s: %w", a.partition, brokerFailure(err))
	}
	var open []string
	for _, partition := range producers.SortedPartitions() {
		if partition.Err != nil {
			return nil, fmt.Errorf("describe the producers of %s: %w", a.partition,
				kafkaError(partition.Err, partition.ErrMessage))
		}
		for _, producer := range partition.ActiveProducers.Sorted() {
			switch {
			case producer.CurrentTxnStartOffset == a.startOffset:
				return abortedBy(name, client.writeAbort(topics, producer))
			case producer.CurrentTxnStartOffset >= 0:
				open = append(open, decimal(producer.CurrentTxnStartOffset))
			}
		}
	}
	if len(open) == 0 {
		return nil, fmt.Errorf("no transaction is open in %s", a.partition)
	}
	return nil, fmt.Errorf("no transaction begins at offset %d of %s: those that are open begin at %s", a.startOffset,
		a.partition, strings.Join(open, ", "))
}

// writeAbort writes an abort marker for a producer.
func (s *session) writeAbort(topics kadm.TopicsSet, producer kadm.DescribedProducer) error {
	// A partition that has seen no marker yet does not know an epoch of the coordinator.
	marker := kadm.TxnMarkers{ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
		CoordinatorEpoch: max(producer.CoordinatorEpoch, 0), Topics: topics}
	answers, err := s.admin.WriteTxnMarkers(s.ctx, marker)
	answers.EachPartition(func(answer kadm.TxnMarkersPartitionResponse) { err = errors.Join(err, answer.Err) })
	return brokerFailure(err)
}

func abortedBy(name string, err error) (*abortOutcomes, error) {
	outcome := abortOutcome{Transaction: name, Status: "aborted"}
	if err != nil {
		outcome.Status, outcome.Error = "failed", err.Error()
		err = fmt.Errorf("abort the transaction at %s: %w", name, err)
	}
	return &abortOutcomes{Transactions: []abortOutcome{outcome}}, err
}
