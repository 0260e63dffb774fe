package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// transactional is a client of a transactional id.
func (s *scenario) transactional(id string, options ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	return s.client(append([]kgo.Opt{
		kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute), kgo.DefaultProduceTopic("events"),
	}, options...)...)
}

// transact sends records in a transaction and ends it.
func (s *scenario) transact(client *kgo.Client, how kgo.TransactionEndTry, values ...string) error {
	s.t.Helper()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for _, value := range values {
		if err := client.ProduceSync(s.context(), kgo.StringRecord(value)).FirstErr(); err != nil {
			return errors.Join(err, client.EndTransaction(s.context(), kgo.TryAbort))
		}
	}
	return client.EndTransaction(s.context(), how)
}

// committed reads the topic from its start to the last stable offset, as a reader of committed records.
func (s *scenario) committed(topic string) []string {
	s.t.Helper()
	ends := try(s.admin().ListCommittedOffsets(s.context(), topic)).orFail(s.t)
	end, ok := ends.Lookup(topic, 0)
	if !ok || end.Err != nil {
		s.t.Fatalf("the last stable offset of %s: %+v", topic, end)
	}
	client := s.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	var values []string
	for next := int64(0); next < end.Offset; {
		fetches := client.PollFetches(s.context())
		must(s.t, fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			next = record.Offset + 1
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
		})
	}
	return values
}

// rawTransactions speaks the APIs of transactions in versions of the test's choice.
type rawTransactions struct {
	s  *scenario
	id string
}

func (r rawTransactions) ask(version int16, request kmsg.Request) kmsg.Response {
	r.s.t.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(request.Key(), version)
	client := r.s.client(kgo.MaxVersions(versions), kgo.RequestRetries(0))
	defer client.Close()
	request.SetVersion(version)
	return try(client.Broker(1).Request(r.s.context(), request)).orFail(r.s.t)
}

func (r rawTransactions) begin(version int16, producer, epoch int64) *kmsg.InitProducerIDResponse {
	request := kmsg.NewPtrInitProducerIDRequest()
	request.TransactionalID, request.TransactionTimeoutMillis = &r.id, 60000
	request.ProducerID, request.ProducerEpoch = producer, int16(epoch)
	return r.ask(version, request).(*kmsg.InitProducerIDResponse)
}

func (r rawTransactions) add(version int16, producer int64, epoch int16, topic string) int16 {
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	if version < 4 {
		request.TransactionalID, request.ProducerID, request.ProducerEpoch = r.id, producer, epoch
		request.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
		return r.ask(version, request).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
	}
	request.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{
		TransactionalID: r.id, ProducerID: producer, ProducerEpoch: epoch,
		Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic, Partitions: []int32{0}}},
	}}
	answer := r.ask(version, request).(*kmsg.AddPartitionsToTxnResponse)
	return answer.Transactions[0].Topics[0].Partitions[0].ErrorCode
}

func (r rawTransactions) addOffsets(version int16, producer int64, epoch int16) int16 {
	request := kmsg.NewPtrAddOffsetsToTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Group = r.id, producer, epoch, "group"
	return r.ask(version, request).(*kmsg.AddOffsetsToTxnResponse).ErrorCode
}

func (r rawTransactions) end(version int16, producer int64, epoch int16, commit bool) *kmsg.EndTxnResponse {
	request := kmsg.NewPtrEndTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Commit = r.id, producer, epoch, commit
	return r.ask(version, request).(*kmsg.EndTxnResponse)
}

func (s *scenario) wantCode(what string, got int16, want *kerr.Error) {
	s.t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got != code {
		s.t.Errorf("%s: %v, want %v", what, kerr.ErrorForCode(got), kerr.ErrorForCode(code))
	}
}

// raw begins a transactional id whose coordinator is found first, as each client does.
func (s *scenario) raw(id string) rawTransactions {
	s.t.Helper()
	client := s.transactional(id)
	_, _, err := client.ProducerID(s.context())
	must(s.t, err)
	client.Close()
	return rawTransactions{s, id}
}

// TX-02: a fenced producer learns it by a code that its version knows.
func TestTX02TheCodeOfAFenceDependsOnTheVersion(t *testing.T) {
	run(t, 2, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		raw := s.raw("payments")
		zombie := raw.begin(2, -1, -1)
		owner := raw.begin(2, -1, -1)
		if zombie.ErrorCode != 0 || owner.ProducerID != zombie.ProducerID || owner.ProducerEpoch != zombie.ProducerEpoch+1 {
			t.Fatalf("begun: %+v, then %+v", zombie, owner)
		}
		for version := int16(0); version <= 5; version++ {
			want := kerr.ProducerFenced
			if version < 2 {
				want = kerr.InvalidProducerEpoch
			}
			name := "v" + strconv.Itoa(int(version))
			s.wantCode("AddPartitionsToTxn "+name, raw.add(version, zombie.ProducerID, zombie.ProducerEpoch, "events"), want)
			s.wantCode("EndTxn "+name, raw.end(version, zombie.ProducerID, zombie.ProducerEpoch, true).ErrorCode, want)
			if version <= 4 {
				s.wantCode("AddOffsetsToTxn "+name, raw.addOffsets(version, zombie.ProducerID, zombie.ProducerEpoch), want)
			}
			s.wantCode("AddPartitionsToTxn of another's id", raw.add(version, 999, 0, "events"), kerr.InvalidProducerIDMapping)
		}
		stale := raw.begin(3, zombie.ProducerID, int64(zombie.ProducerEpoch))
		s.wantCode("InitProducerId v3", stale.ErrorCode, kerr.InvalidProducerEpoch)
		stale = raw.begin(4, zombie.ProducerID, int64(zombie.ProducerEpoch))
		s.wantCode("InitProducerId v4", stale.ErrorCode, kerr.ProducerFenced)
		bumped := raw.begin(4, owner.ProducerID, int64(owner.ProducerEpoch)) // TX-13
		if bumped.ErrorCode != 0 || bumped.ProducerEpoch != owner.ProducerEpoch+1 {
			t.Errorf("bumped by its owner: %+v", bumped)
		}
	})
}

func TestPartitionsJoinTogetherOrNotAtAll(t *testing.T) {
	run(t, 3, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		raw := s.raw("payments")
		producer := raw.begin(4, -1, -1)
		request := kmsg.NewPtrAddPartitionsToTxnRequest()
		request.TransactionalID, request.ProducerID, request.ProducerEpoch = raw.id, producer.ProducerID, producer.ProducerEpoch
		request.Topics = []kmsg.AddPartitionsToTxnRequestTopic{
			{Topic: "events", Partitions: []int32{0, 7}}, {Topic: "__transaction_state", Partitions: []int32{0}},
		}
		answer := raw.ask(3, request).(*kmsg.AddPartitionsToTxnResponse)
		s.wantCode("there", answer.Topics[0].Partitions[0].ErrorCode, kerr.OperationNotAttempted)
		s.wantCode("not there", answer.Topics[0].Partitions[1].ErrorCode, kerr.UnknownTopicOrPartition)
		s.wantCode("internal", answer.Topics[1].Partitions[0].ErrorCode, kerr.TopicAuthorizationFailed)
		s.wantCode("commit of what has not begun", raw.end(4, producer.ProducerID, producer.ProducerEpoch, true).ErrorCode,
			kerr.InvalidTxnState)
		s.wantCode("without an id", rawTransactions{s, ""}.end(5, 1, 0, true).ErrorCode, kerr.InvalidRequest)
		s.wantCode("offsets", raw.addOffsets(3, producer.ProducerID, producer.ProducerEpoch), nil)
		s.wantCode("abort", raw.end(4, producer.ProducerID, producer.ProducerEpoch, false).ErrorCode, nil)
	})
}

// TX-07: an EndTxn whose answer got lost is repeated, and what is acknowledged is visible exactly once.
func TestTX07RepeatedCommitsAreAcknowledgedOnce(t *testing.T) {
	run(t, 7, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		client := s.transactional("payments")
		raw := rawTransactions{s, "payments"}
		var want []string
		for i := range 20 {
			id, epoch, err := client.ProducerID(s.context())
			must(t, err)
			value := fmt.Sprint("event ", i)
			must(t, s.transact(client, kgo.TryCommit, value))
			want = append(want, value)
			again := raw.end(5, id, epoch, true)
			if again.ErrorCode != 0 || again.ProducerID != id || again.ProducerEpoch != epoch+1 {
				t.Fatalf("commit %d again: %+v", i, again)
			}
			s.wantCode("the opposite", raw.end(5, id, epoch, false).ErrorCode, kerr.InvalidTxnState)
		}
		if got := s.committed("events"); !slices.Equal(got, want) {
			t.Errorf("read %q", got)
		}
	})
}

// TX-01: a transaction past its time is aborted, and its producer is refused from then on.
func TestTX01AProducerPastItsTimeIsRefused(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		client := s.transactional("payments", kgo.TransactionTimeout(time.Second))
		id, epoch, err := client.ProducerID(s.context())
		must(t, err)
		must(t, client.BeginTransaction())
		must(t, client.ProduceSync(s.context(), kgo.StringRecord("late")).FirstErr())
		s.sleep(5 * time.Second)
		raw := rawTransactions{s, "payments"}
		s.wantCode("EndTxn v4", raw.end(4, id, epoch, true).ErrorCode, kerr.ProducerFenced)
		s.wantCode("EndTxn v5", raw.end(5, id, epoch, true).ErrorCode, kerr.InvalidTxnState)
		s.wantCode("AddPartitionsToTxn", raw.add(3, id, epoch, "events"), kerr.ProducerFenced)
		if err := client.ProduceSync(s.context(), kgo.StringRecord("later")).FirstErr(); err == nil {
			t.Error("records of a transaction past its time are taken")
		}
		if got := s.committed("events"); len(got) != 0 {
			t.Errorf("read %q", got)
		}
		next := s.transactional("payments")
		must(t, s.transact(next, kgo.TryCommit, "in time"))
		if got := s.committed("events"); !slices.Equal(got, []string{"in time"}) {
			t.Errorf("read %q", got)
		}
	})
}

// TestTransactionsSurviveCrashes commits and aborts while the broker crashes at moments of its own choice. What was
// acknowledged is there, each transaction is whole, and none is there twice.
func TestTransactionsSurviveCrashes(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, seed, nil, func(s *scenario) {
				s.createTopic("events", 1, nil)
				const rounds = 8
				acknowledged, unknown := map[string]bool{}, map[string]bool{}
				var crashed <-chan struct{}
				for round := range rounds {
					client := s.transactional("payments")
					for i := range 4 {
						name := fmt.Sprintf("%d.%d", round, i)
						switch ended := s.transact(client, kgo.TransactionEndTry(i%2 == 0), name+" first", name+" second"); {
						case ended != nil:
							unknown[name] = i%2 == 0
						case i%2 == 0:
							acknowledged[name] = true
						}
						if i == round%4 {
							crashed = s.crashSoon(time.Duration(s.random.IntN(4000)) * time.Microsecond)
						}
					}
					<-crashed
					client.Close()
				}
				s.wantWhole(s.committed("events"), acknowledged, unknown)
			})
		})
	}
}

// crashSoon crashes the broker after a while, and starts it again a second later. The channel is closed then.
func (s *scenario) crashSoon(after time.Duration) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(after)
		s.powerOff(loseAnything)
		time.Sleep(time.Second)
		s.revive()
	}()
	return done
}

// wantWhole checks what readers of committed records see of transactions of two records each.
func (s *scenario) wantWhole(read []string, acknowledged, unknown map[string]bool) {
	s.t.Helper()
	seen := map[string][]string{}
	for _, value := range read {
		name, part, _ := strings.Cut(value, " ")
		seen[name] = append(seen[name], part)
	}
	for name, parts := range seen {
		if !slices.Equal(parts, []string{"first", "second"}) {
			s.t.Errorf("transaction %s is seen as %q", name, parts)
		}
		if !acknowledged[name] && !unknown[name] {
			s.t.Errorf("transaction %s was aborted and is seen", name)
		}
	}
	for name := range acknowledged {
		if seen[name] == nil {
			s.t.Errorf("transaction %s is acknowledged and not seen", name)
		}
	}
}

// TestConsumeTransformProduce moves records from one topic to another in transactions that hold the offsets, too, with
// crashes of the broker. Each comes out once.
func TestConsumeTransformProduce(t *testing.T) {
	run(t, 5, nil, func(s *scenario) {
		s.createTopic("in", 1, nil)
		s.createTopic("events", 1, nil)
		const records = 200
		var want []string
		source := s.client(kgo.DefaultProduceTopic("in"))
		for i := range records {
			want = append(want, fmt.Sprint("record ", i))
			must(t, source.ProduceSync(s.context(), kgo.StringRecord(want[i])).FirstErr())
		}
		done := 0
		for round := range 3 {
			session := s.groupSession()
			for done < (round+1)*records/3 {
				done += s.moveSome(session)
			}
			session.Close()
			s.crash(loseAnything)
		}
		got := s.committed("events")
		if !slices.Equal(got, want[:len(got)]) || len(got) < done {
			t.Errorf("%d of %d came out: %q", len(got), done, got)
		}
	})
}

func (s *scenario) groupSession() *kgo.GroupTransactSession {
	s.t.Helper()
	host := s.network.Host(clientHost)
	return try(kgo.NewGroupTransactSession(
		kgo.SeedBrokers(brokerAddress), kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return host.Dial(ctx, address) }), kgo.TransactionalID("mover"),
		kgo.ConsumerGroup("movers"), kgo.ConsumeTopics("in"), kgo.DefaultProduceTopic("events"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.FetchMaxPartitionBytes(600),
	)).orFail(s.t)
}

// moveSome moves what one poll brings, and returns how many records were committed.
func (s *scenario) moveSome(session *kgo.GroupTransactSession) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.context(), time.Minute)
	defer cancel()
	fetches := session.PollFetches(ctx)
	must(s.t, session.Begin())
	moved := 0
	fetches.EachRecord(func(record *kgo.Record) {
		session.Produce(ctx, kgo.StringRecord(string(record.Value)), nil)
		moved++
	})
	committed, err := session.End(ctx, kgo.TryCommit)
	must(s.t, err)
	if !committed {
		return 0
	}
	return moved
}

func TestTransactionsAreListedAndDescribed(t *testing.T) {
	run(t, 6, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		idle, busy := s.transactional("idle"), s.transactional("busy")
		must(t, s.transact(idle, kgo.TryCommit, "x"))
		must(t, busy.BeginTransaction())
		must(t, busy.ProduceSync(s.context(), kgo.StringRecord("y")).FirstErr())
		s.restart()
		admin := s.admin()
		listed := try(admin.ListTransactions(s.context(), nil, nil)).orFail(t)
		states := map[string]string{}
		listed.Each(func(one kadm.ListedTransaction) { states[one.TxnID] = one.State })
		if len(states) != 2 || states["idle"] != "CompleteCommit" || states["busy"] != "Ongoing" {
			t.Errorf("listed %v", states)
		}
		described := try(admin.DescribeTransactions(s.context(), "busy", "nobody")).orFail(t)
		if one := described["busy"]; one.Err != nil || one.TimeoutMillis != 60000 || !one.Topics.Lookup("events", 0) {
			t.Errorf("described %+v", one)
		}
		if one := described["nobody"]; !errors.Is(one.Err, kerr.TransactionalIDNotFound) {
			t.Errorf("described %+v", one)
		}
		request := kmsg.NewPtrListTransactionsRequest()
		request.StateFilters, request.TransactionalIDPattern = []string{"Ongoing", "Sleepy"}, kmsg.StringPtr("b.*")
		raw := rawTransactions{s, ""}
		filtered := raw.ask(2, request).(*kmsg.ListTransactionsResponse)
		if len(filtered.TransactionStates) != 1 || filtered.TransactionStates[0].TransactionalID != "busy" ||
			!slices.Equal(filtered.UnknownStateFilters, []string{"Sleepy"}) {
			t.Errorf("filtered: %+v", filtered)
		}
		request.TransactionalIDPattern = kmsg.StringPtr("(")
		s.wantCode("no expression", raw.ask(2, request).(*kmsg.ListTransactionsResponse).ErrorCode, kerr.InvalidRegularExpression)
	})
}
