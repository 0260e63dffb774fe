//go:build integration

package differential

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// transactionCases are about what the transaction coordinator answers.
func transactionCases() []testCase {
	return []testCase{
		{key: wire.KeyInitProducerID, name: "of a transactional id", run: askTransactionalProducer},
		{key: wire.KeyInitProducerID, name: "by its owner", from: 3, run: askOwner},
		{key: wire.KeyAddPartitionsToTxn, name: "of a client", to: 3, run: askAddPartitions},
		{key: wire.KeyAddPartitionsToTxn, name: "of a broker", from: 4, run: askAddPartitionsMany},
		{key: wire.KeyAddOffsetsToTxn, name: "offsets of a group", run: askAddOffsets},
		{key: wire.KeyEndTxn, name: "outcomes", run: askEndTxn},
		{key: wire.KeyDescribeTransactions, name: "states", run: askDescribeTransactions},
		{key: wire.KeyListTransactions, name: "filters", run: askListTransactions},
	}
}

// begin makes a transactor, with the coordinators' topic if this is the first one.
func (s *script) begin(name string) *transactor {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKey = 1, s.topic(name)
	s.poll("no coordinator of "+name, func() bool {
		return quiet[*kmsg.FindCoordinatorResponse](s, req, 3).ErrorCode == 0
	})
	return s.transactor(name)
}

func askTransactionalProducer(s *script) {
	t := s.begin("a")
	ask := func(step string, id *string, timeoutMs int32) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = id, timeoutMs, -1, -1
		s.ask(step, req)
	}
	empty := ""
	ask("no name", &empty, 60_000)
	ask("again", &t.id, 60_000)
	ask("no timeout", &t.id, 0)
	ask("a negative timeout", &t.id, -1)
	ask("the longest timeout", &t.id, 900_000)
	ask("a longer timeout", &t.id, 900_001)
}

func askOwner(s *script) {
	t := s.begin("a")
	ask := func(step string, id int64, epoch int16) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &t.id, 60_000, id, epoch
		s.ask(step, req)
	}
	ask("bumps", t.producer, t.epoch)
	ask("asks again", t.producer, t.epoch)
	ask("bumps once more", t.producer, t.epoch+1)
	ask("a stale epoch", t.producer, t.epoch)
	ask("a later epoch", t.producer, t.epoch+5)
	ask("another id", t.producer+1_000_000, 0)
	ask("half a producer", t.producer, -1)
}

// add is a request of a client for partitions of one topic.
func (t *transactor) add(topic string, partitions ...int32) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = t.id, t.producer, t.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: partitions}}
	return req
}

func askAddPartitions(s *script) {
	topic, t := s.createWith("a", 2), s.begin("a")
	s.ask("a partition", t.add(topic, 0))
	s.ask("it again", t.add(topic, 0))
	s.ask("another one", t.add(topic, 1))
	s.ask("one that is not there", t.add(topic, 0, 9))
	s.ask("a topic that is not there", t.add(s.topic("none"), 0))
	s.ask("an internal topic", t.add("__transaction_state", 0))
	stranger := *t
	stranger.id = s.topic("stranger")
	s.ask("an unknown transactional id", stranger.add(topic, 0))
	stranger.id = ""
	s.ask("no transactional id", stranger.add(topic, 0))
	stale := *t
	stale.epoch--
	s.ask("a stale epoch", stale.add(topic, 0))
	other := *t
	other.producer += 1_000_000
	s.ask("another producer id", other.add(topic, 0))
}

func askAddPartitionsMany(s *script) {
	topic, a := s.createWith("a", 2), s.begin("a")
	one := func(t *transactor, verifyOnly bool, partitions ...int32) kmsg.AddPartitionsToTxnRequestTransaction {
		return kmsg.AddPartitionsToTxnRequestTransaction{
			TransactionalID: t.id, ProducerID: t.producer, ProducerEpoch: t.epoch, VerifyOnly: verifyOnly,
			Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic, Partitions: partitions}},
		}
	}
	ask := func(step string, transactions ...kmsg.AddPartitionsToTxnRequestTransaction) {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.Transactions = transactions
		s.ask(step, req)
	}
	ask("verify what has not joined", one(a, true, 0))
	ask("let it join", one(a, false, 0))
	ask("verify both", one(a, true, 0, 1))
	stale := *a
	stale.epoch--
	ask("verify a stale epoch", one(&stale, true, 0))
	ask("a stale epoch", one(&stale, false, 0))
	ask("one that is not there", one(a, false, 0, 9))
}

func askAddOffsets(s *script) {
	t := s.begin("a")
	ask := func(step string, t transactor) {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = t.id, t.producer, t.epoch, s.topic("group")
		s.ask(step, req)
	}
	ask("of a group", *t)
	ask("again", *t)
	stale := *t
	stale.epoch--
	ask("a stale epoch", stale)
	stranger := *t
	stranger.id = s.topic("stranger")
	ask("an unknown transactional id", stranger)
}

// askEnd asks for an outcome until the markers of the transaction before are written, and goes on as it is told.
func (t *transactor) askEnd(s *script, step string, commit bool) {
	for {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.id, t.producer, t.epoch, commit
		req.SetVersion(s.version)
		answer, err := s.peer.ask(req)
		s.check(err)
		resp, ok := answer.response.(*kmsg.EndTxnResponse)
		if ok && resp.ErrorCode == concurrentTransactions {
			continue
		}
		s.steps = append(s.steps, newStep(step, answer))
		if ok && resp.ErrorCode == 0 && s.version >= 5 {
			t.producer, t.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return
	}
}

const concurrentTransactions = 51

func askEndTxn(s *script) {
	topic, t := s.create("a"), s.begin("a")
	t.askEnd(s, "commit of nothing", true)
	t.askEnd(s, "abort of nothing", false)
	t.join(s, topic)
	before := *t
	t.askEnd(s, "commit", true)
	before.askEnd(s, "commit again", true)
	before.askEnd(s, "the opposite", false)
	t.askEnd(s, "commit of nothing after a commit", true)
	t.askEnd(s, "abort of nothing after a commit", false)
	t.join(s, topic)
	before = *t
	t.askEnd(s, "abort", false)
	before.askEnd(s, "abort again", false)
	before.askEnd(s, "the opposite of the abort", true)
	t.askEnd(s, "commit of nothing after an abort", true)
	t.askEnd(s, "abort of nothing after an abort", false)
	stale := *t
	stale.epoch -= 3
	stale.askEnd(s, "a stale epoch", true)
	stale = *t
	stale.epoch += 3
	stale.askEnd(s, "a later epoch", true)
	stale = *t
	stale.producer += 1_000_000
	stale.askEnd(s, "another producer id", true)
	stale.id = s.topic("stranger")
	stale.askEnd(s, "an unknown transactional id", true)
	stale.id = ""
	stale.askEnd(s, "no transactional id", true)
}

func askDescribeTransactions(s *script) {
	topic, t := s.createWith("a", 2), s.begin("a")
	ask := func(step string, ids ...string) {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = ids
		s.ask(step, req)
	}
	ask("begun", t.id)
	t.join(s, topic)
	ask("going on", t.id)
	ask("unknown", s.topic("stranger"))
	ask("no name", "")
	ask("none")
}

func askListTransactions(s *script) {
	t := s.begin("a")
	ask := func(step string, fill func(*kmsg.ListTransactionsRequest)) {
		req := kmsg.NewPtrListTransactionsRequest()
		req.ProducerIDFilters = []int64{t.producer} // other scripts have transactions too
		fill(req)
		s.ask(step, req)
	}
	ask("all", func(*kmsg.ListTransactionsRequest) {})
	ask("a state", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Empty"} })
	ask("another state", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Ongoing", "CompleteCommit"} })
	ask("unknown states", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Sleepy", "empty"} })
	ask("a state and an unknown one", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Empty", "Sleepy"} })
	ask("no such producer", func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{1 << 50} })
	if s.version >= 1 {
		ask("not open for long", func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 1 << 50 })
	}
	if s.version >= 2 {
		pattern := func(text string) func(*kmsg.ListTransactionsRequest) {
			return func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &text }
		}
		ask("a pattern", pattern(s.prefix+".*"))
		ask("a part of the name", pattern(s.prefix[:2]))
		ask("an empty pattern", pattern(""))
		ask("no pattern", pattern("("))
	}
}
