package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// addPartitionsManyFrom is the version of AddPartitionsToTxn from which on a request is for many transactions, and may
// only verify: those that brokers send.
const addPartitionsManyFrom = 4

// addPartitionsToTxn serves AddPartitionsToTxn v0–v5. v0–v3 come from clients and are for one transaction; v4 and v5
// are what brokers ask the coordinator on behalf of clients (KIP-890). If one partition may not join none does.
func (h *Handlers) addPartitionsToTxn(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrAddPartitionsToTxnRequest())
	if err != nil {
		return malformed(err)
	}
	transactions := request.Transactions
	if req.Version < addPartitionsManyFrom {
		transactions = []kmsg.AddPartitionsToTxnRequestTransaction{oneTransaction(request)}
	}
	calls := make([]*addPartitionsCall, len(transactions))
	promises := make([]*txn.Promise, len(transactions))
	for i := range transactions {
		calls[i] = newAddPartitionsCall(&transactions[i], req.Version)
		promises[i] = calls[i].begin(h)
	}
	return awaitOutcomes(req, promises, func(outcomes []txn.Outcome) kmsg.Response {
		resp := kmsg.NewPtrAddPartitionsToTxnResponse()
		for i, call := range calls {
			call.fail(outcomes[i].Err)
			if request.Version < addPartitionsManyFrom {
				resp.Topics = call.topics()
				continue
			}
			transaction := kmsg.NewAddPartitionsToTxnResponseTransaction()
			transaction.TransactionalID = call.request.TransactionalID
			transaction.Topics = call.transactionTopics()
			resp.Transactions = append(resp.Transactions, transaction)
		}
		return resp
	})
}

// oneTransaction is a request of a client in the form of later versions.
func oneTransaction(request *kmsg.AddPartitionsToTxnRequest) kmsg.AddPartitionsToTxnRequestTransaction {
	one := kmsg.NewAddPartitionsToTxnRequestTransaction()
	one.TransactionalID = request.TransactionalID
	one.ProducerID, one.ProducerEpoch = request.ProducerID, request.ProducerEpoch
	for _, topic := range request.Topics {
		asked := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
		asked.Topic, asked.Partitions = topic.Topic, topic.Partitions
		one.Topics = append(one.Topics, asked)
	}
	return one
}

// addPartitionsCall is one transaction of a request.
type addPartitionsCall struct {
	request    *kmsg.AddPartitionsToTxnRequestTransaction
	version    int16
	partitions []kafka.TopicPartition
	errs       []error // of the partitions
}

func newAddPartitionsCall(request *kmsg.AddPartitionsToTxnRequestTransaction, version int16) *addPartitionsCall {
	c := &addPartitionsCall{request: request, version: version}
	for _, topic := range request.Topics {
		for _, partition := range topic.Partitions {
			c.partitions = append(c.partitions, kafka.TopicPartition{Topic: topic.Topic, Partition: partition})
		}
	}
	c.errs = make([]error, len(c.partitions))
	return c
}

// begin asks the coordinator, if all partitions are there.
func (c *addPartitionsCall) begin(h *Handlers) *txn.Promise {
	if !c.check(h) {
		return coordinator.Resolved(txn.Outcome{})
	}
	producer := txn.Producer{ID: c.request.ProducerID, Epoch: c.request.ProducerEpoch}
	switch {
	case c.request.VerifyOnly:
		return h.options.Transactions.Verify(c.request.TransactionalID, producer, c.partitions, c.errs)
	case c.version < addPartitionsManyFrom:
		return h.options.Transactions.Add(c.request.TransactionalID, producer, c.partitions, classicTransactions)
	}
	return h.options.Transactions.Add(c.request.TransactionalID, producer, c.partitions, bumpingTransactions)
}

// check refuses what clients may not write to, and what is not there; the rest is not attempted then.
func (c *addPartitionsCall) check(h *Handlers) bool {
	img, good := h.options.Metadata.Image(), true
	for i, tp := range c.partitions {
		topic, exists := img.Topic(tp.Topic)
		switch {
		case c.version < addPartitionsManyFrom && kafka.IsInternalTopic(tp.Topic):
			c.errs[i], good = kafka.TopicAuthorizationFailed, false
		case !exists || tp.Partition < 0 || int(tp.Partition) >= len(topic.Partitions):
			c.errs[i], good = kafka.UnknownTopicOrPartition, false
		}
	}
	if good {
		return true
	}
	for i := range c.errs {
		if c.errs[i] == nil {
			c.errs[i] = kafka.OperationNotAttempted
		}
	}
	return false
}

// fail says the same of all partitions, unless it is nil.
func (c *addPartitionsCall) fail(err error) {
	for i := range c.errs {
		if err != nil {
			c.errs[i] = err
		}
	}
}

// transactionTopics answers in the order of the request.
func (c *addPartitionsCall) transactionTopics() []kmsg.AddPartitionsToTxnResponseTransactionTopic {
	topics := make([]kmsg.AddPartitionsToTxnResponseTransactionTopic, len(c.request.Topics))
	next := 0
	for i, asked := range c.request.Topics {
		topics[i].Topic = asked.Topic
		for _, partition := range asked.Partitions {
			answer := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			answer.Partition, answer.ErrorCode = partition, txnCode(c.errs[next], c.version, producerFencedFrom)
			topics[i].Partitions = append(topics[i].Partitions, answer)
			next++
		}
	}
	return topics
}

// topics is the same in the form of v0–v3.
func (c *addPartitionsCall) topics() []kmsg.AddPartitionsToTxnResponseTopic {
	topics := make([]kmsg.AddPartitionsToTxnResponseTopic, 0, len(c.request.Topics))
	for _, from := range c.transactionTopics() {
		topic := kmsg.NewAddPartitionsToTxnResponseTopic()
		topic.Topic = from.Topic
		for _, partition := range from.Partitions {
			answer := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			answer.Partition, answer.ErrorCode = partition.Partition, partition.ErrorCode
			topic.Partitions = append(topic.Partitions, answer)
		}
		topics = append(topics, topic)
	}
	return topics
}
