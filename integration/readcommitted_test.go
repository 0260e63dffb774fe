package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committedReader fetches committed records for ever, with long polls of its own kind.
type committedReader struct {
	s        *scenario
	client   *kgo.Client
	topic    string
	id       [16]byte
	session  bool
	maxWait  time.Duration
	minBytes int32
	maxBytes int32

	mu     sync.Mutex // guards the fields below
	next   int64
	values []string
}

// run reads until ctx ends. A poll that comes back with nothing before its time is over is no progress either.
func (r *committedReader) run(ctx context.Context) error {
	sessionID, epoch, offset := int32(0), int32(-1), int64(0)
	if r.session {
		epoch = 0
	}
	asked := int64(-1)
	for {
		request := kmsg.NewPtrFetchRequest()
		request.MaxWaitMillis, request.MinBytes, request.MaxBytes = int32(r.maxWait.Milliseconds()), r.minBytes, 1<<20
		request.IsolationLevel, request.SessionID, request.SessionEpoch = 1, sessionID, epoch
		if !r.session || asked != offset { // a session remembers what has not changed
			request.Topics = []kmsg.FetchRequestTopic{{Topic: r.topic, TopicID: r.id,
				Partitions: []kmsg.FetchRequestTopicPartition{{FetchOffset: offset, PartitionMaxBytes: r.maxBytes,
					CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, LogStartOffset: -1}}}}
			asked = offset
		}
		response, err := request.RequestWith(ctx, r.client.Broker(1))
		if err != nil {
			return err
		}
		if response.ErrorCode != 0 {
			return fmt.Errorf("fetch: error %d", response.ErrorCode)
		}
		if r.session {
			sessionID, epoch = response.SessionID, epoch+1
		}
		for i := range response.Topics {
			partition := &response.Topics[i].Partitions[0]
			if partition.ErrorCode != 0 {
				return fmt.Errorf("fetch at %d: error %d", offset, partition.ErrorCode)
			}
			offset = r.take(partition, offset)
		}
	}
}

// take keeps the records that were committed, as a client does: all that is aborted, and all markers, are passed over.
func (r *committedReader) take(partition *kmsg.FetchResponseTopicPartition, offset int64) int64 {
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: offset, Topic: r.topic, IsolationLevel: kgo.ReadCommitted(),
	}, partition, kgo.DefaultDecompressor(), nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range fetched.Records {
		r.values = append(r.values, string(record.Value))
	}
	r.next = max(next, offset)
	return r.next
}

func (r *committedReader) state() (next int64, values []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next, slices.Clone(r.values)
}

// TestReadersOfCommittedRecordsAreWokenWhateverHappens lets transactions of several producers, committed and aborted,
// and plain records interleave at random, while readers with and without sessions wait in polls that are ten minutes
// long. Whenever nothing happens for a moment each reader stands at the last stable offset, also where nothing but
// aborted records and markers has moved it; and what it has read is what was committed, in the log's order.
func TestReadersOfCommittedRecordsAreWokenWhateverHappens(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			run(t, seed, nil, func(s *scenario) { s.readWhileTransactionsInterleave(s.random) })
		})
	}
}

func (s *scenario) readWhileTransactionsInterleave(random *rand.Rand) {
	s.createTopic("events", 1, map[string]string{"segment.bytes": "1048576"})
	ctx, cancel := context.WithCancel(context.Background())
	id := try(s.admin().ListTopics(s.context(), "events")).orFail(s.t)["events"].ID
	var readers []*committedReader
	var done sync.WaitGroup
	for i := range 8 {
		reader := &committedReader{
			s: s, client: s.client(kgo.RequestRetries(0)), topic: "events", id: id, session: i%2 == 0,
			maxWait: 10 * time.Minute, minBytes: 1, maxBytes: int32(100 + random.IntN(2000)),
		}
		readers = append(readers, reader)
		done.Go(func() {
			if err := reader.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.t.Error(err)
			}
		})
	}
	defer done.Wait()
	defer cancel()
	writers := []*transactionWriter{{s: s}}
	for i := range 3 {
		writers = append(writers, &transactionWriter{s: s, client: s.transactional(fmt.Sprintf("t%d", i))})
	}
	writers[0].client = s.client(kgo.DefaultProduceTopic("events"))
	for round := range 40 {
		var busy sync.WaitGroup
		for i, writer := range writers { // each does a few things at the same time as the others
			steps, seed := random.IntN(3), random.Uint64()
			busy.Go(func() {
				own := rand.New(rand.NewPCG(seed, 1))
				for step := range steps {
					if err := writer.step(own, i == 0, fmt.Sprintf("%d.%d.%d", round, i, step)); err != nil {
						s.t.Error(err)
					}
				}
			})
		}
		busy.Wait()
		s.readersStandAtTheEnd(readers)
	}
}

// transactionWriter writes plain records, or transactions.
type transactionWriter struct {
	s      *scenario
	client *kgo.Client
	open   bool
}

func (w *transactionWriter) step(random *rand.Rand, plain bool, value string) error {
	time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
	if !plain && w.open && random.IntN(2) == 0 {
		how := kgo.TryCommit
		if random.IntN(2) == 0 {
			how = kgo.TryAbort
		}
		w.open = false
		return w.client.EndTransaction(w.s.context(), how)
	}
	if !plain && !w.open {
		if err := w.client.BeginTransaction(); err != nil {
			return err
		}
		w.open = true
	}
	return w.client.ProduceSync(w.s.context(), kgo.StringRecord(value)).FirstErr()
}

// readersStandAtTheEnd waits for a moment in which a delivery takes place, and no longer.
func (s *scenario) readersStandAtTheEnd(readers []*committedReader) {
	s.t.Helper()
	stable := try(s.admin().ListCommittedOffsets(s.context(), "events")).orFail(s.t)
	end, _ := stable.Lookup("events", 0)
	s.sleep(50 * time.Millisecond)
	synctest.Wait()
	_, first := readers[0].state()
	for i, reader := range readers {
		next, values := reader.state()
		if next < end.Offset {
			s.t.Fatalf("reader %d (session %v) waits at %d, below the last stable offset %d", i, reader.session, next, end.Offset)
		}
		if !slices.Equal(values, first) {
			s.t.Fatalf("reader %d has read %v, reader 0 %v", i, values, first)
		}
	}
}
