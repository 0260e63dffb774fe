package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestExactlyOnceThroughPowerCuts: what is read, copied and committed in transactions is in the copy once, wherever the
// power goes: in a commit of records, of offsets, between the two phases, while a journal is loaded.
func TestExactlyOnceThroughPowerCuts(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, 400+seed, nil, func(s *scenario) {
				countdown := s.cutAtFileOperation()
				s.createTopic("in", 2, nil)
				s.createTopic("out", 2, nil)
				ctx, stop := context.WithCancel(s.context())
				copied := make(chan struct{})
				go func() {
					defer close(copied)
					s.copyInTransactions(ctx)
				}()
				defer func() { <-copied }()
				defer stop()
				producer := s.client()
				const bursts, burst = 12, 10
				for i := range bursts {
					for partition := range int32(2) {
						s.produce(producer, numbered("in", partition, i*burst, burst, 10)...)
					}
					countdown.Store(1 + s.random.Int64N(60))
					s.sleep(time.Duration(1+s.random.IntN(5)) * time.Second)
					countdown.Store(0)
					if s.isOff() {
						s.crash(loseNothing)
					} else if s.random.IntN(4) == 0 {
						s.restart()
					}
				}
				s.expectEachOnce("out", 2*bursts*burst)
			})
		})
	}
}

// copyInTransactions copies topic in to topic out, and begins anew with the same transactional id whenever something
// cannot go on.
func (s *scenario) copyInTransactions(ctx context.Context) {
	for ctx.Err() == nil {
		session, err := kgo.NewGroupTransactSession(s.options(
			kgo.TransactionalID("copier"), kgo.TransactionTimeout(20*time.Second),
			kgo.ConsumerGroup("copiers"), kgo.ConsumeTopics("in"),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		)...)
		if err != nil {
			s.t.Error(err)
			return
		}
		for err = nil; err == nil; {
			err = copyOnce(ctx, session)
		}
		s.t.Logf("the copy begins anew: %v", err)
		session.Close()
	}
}

// copyOnce copies what one poll brings. After an error the session is of no use any more.
func copyOnce(ctx context.Context, session *kgo.GroupTransactSession) error {
	fetches := session.PollFetches(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := session.Begin(); err != nil {
		return err
	}
	produced := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		session.Produce(ctx, &kgo.Record{
			Topic: "out", Partition: record.Partition, Key: record.Key, Value: record.Value,
		}, produced.Promise())
	})
	_, err := session.End(ctx, produced.Err() == nil)
	return err
}

// expectEachOnce reads what is committed until there is nothing more, and compares it with what has been sent: count
// records with different keys and partitions.
func (s *scenario) expectEachOnce(topic string, count int) {
	s.t.Helper()
	consumer := s.client(
		kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	seen := map[string]int{}
	poll := func() {
		ctx, cancel := context.WithTimeout(s.context(), 5*time.Second)
		defer cancel()
		consumer.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			seen[fmt.Sprintf("%d %s", record.Partition, record.Key)]++
		})
	}
	s.eventually("everything is copied", func() bool {
		poll()
		return len(seen) >= count
	})
	for range 20 { // what was copied twice might be committed later
		poll()
	}
	for key, times := range seen {
		if times != 1 {
			s.t.Errorf("%s was copied %d times", key, times)
		}
	}
	if len(seen) != count {
		s.t.Errorf("%d records, want %d", len(seen), count)
	}
}

// TestCommittedOffsetsSurvivePowerCuts: what a commit was answered is what is fetched ever after, or something newer.
func TestCommittedOffsetsSurvivePowerCuts(t *testing.T) {
	run(t, 410, []string{"offsets.topic.num.partitions=3"}, func(s *scenario) {
		s.createTopic("events", 1, nil)
		countdown := s.cutAtFileOperation()
		var answered, sent int64
		for range 25 {
			countdown.Store(1 + s.random.Int64N(40))
			admin := s.admin()
			for range 1 + s.random.IntN(10) {
				sent++
				ctx, cancel := context.WithTimeout(s.context(), 10*time.Second)
				if err := commitOffset(ctx, admin, sent); err == nil {
					answered = sent
				}
				cancel()
			}
			countdown.Store(0)
			if s.isOff() {
				s.crash(loseNothing)
			} else {
				s.crash(loseAllUnsynced)
			}
			offsets := try(s.admin().FetchOffsets(s.context(), "g")).orFail(t)
			if at, ok := offsets.Lookup("events", 0); answered > 0 && (!ok || at.At < answered || at.At > sent) {
				t.Fatalf("offset %d was committed, %d perhaps, and %+v is fetched", answered, sent, at)
			}
		}
	})
}

func commitOffset(ctx context.Context, admin *kadm.Client, at int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset("events", 0, at, -1)
	answered, err := admin.CommitOffsets(ctx, "g", offsets)
	if err != nil {
		return err
	}
	return answered.Error()
}
