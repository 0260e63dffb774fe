package coordinator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// bench runs a runtime with one partition in fake time.
type bench struct {
	t       *testing.T
	runtime *Runtime
	store   *memoryStore
	log     *memoryLog
	stop    func()

	mu      sync.Mutex // guards the fields below, which the shard's goroutine uses
	loaded  int
	lost    int
	failing error // of Loaded
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, store: newMemoryStore(), log: &memoryLog{}}
	b.runtime = New(Options{
		Topic: "t", Store: b.store, Logger: discard, Registerer: prometheus.NewRegistry(),
		Loaded: func(s *Shard) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.loaded++
			s.State = content(t, s)
			return b.failing
		},
		Lost: func(*Shard) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.lost++
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.runtime.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	}
	b.runtime.SetTopic(kafka.TopicID{9}, 1)
	return b
}

// counts tells how often a shard was loaded and lost.
func (b *bench) counts() (loaded, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loaded, b.lost
}

func (b *bench) failLoads(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = err
}

// stateOf is what Loaded has made of a shard.
func stateOf(s *Shard) []string {
	s.Lock()
	defer s.Unlock()
	state, _ := s.State.([]string)
	return state
}

// lead begins an epoch and waits until there is nothing more to do.
func (b *bench) lead(epoch kafka.LeaderEpoch) *memoryJournal {
	journal := b.log.lead(epoch)
	b.runtime.Lead(0, epoch, journal)
	synctest.Wait()
	return journal
}

func (b *bench) find(want kafka.Errno) *Shard {
	b.t.Helper()
	shard, err := b.runtime.Find("a group")
	if code := kafka.CodeOf(err); code != want {
		b.t.Fatalf("the shard is found with %v, not %v", err, want)
	}
	return shard
}

// write appends records and returns what becomes of them.
func (b *bench) write(s *Shard, records ...Record) *Promise[error] {
	b.t.Helper()
	s.Lock()
	defer s.Unlock()
	end, err := s.Append(nil, records...)
	if err != nil {
		b.t.Fatal(err)
	}
	promise := NewPromise[error]()
	s.Await(end, func(err error) {
		s.Lock() // may be taken
		defer s.Unlock()
		promise.Resolve(err)
	})
	return promise
}

func (b *bench) state() string {
	synctest.Wait()
	b.t.Helper()
	for _, state := range []string{"loading", "serving", "failed"} {
		text := `# HELP firn_coordinator_partitions Partitions of an internal topic that this broker coordinates, by what they are doing.
# TYPE firn_coordinator_partitions gauge
`
		for _, other := range []string{"failed", "loading", "serving"} {
			text += `firn_coordinator_partitions{state="` + other + `",topic="t"} ` + map[bool]string{true: "1", false: "0"}[other == state] + "\n"
		}
		if testutil.CollectAndCompare(b.runtime.metrics, strings.NewReader(text)) == nil {
			return state
		}
	}
	return "none"
}

func settled(t *testing.T, promise *Promise[error], want kafka.Errno) {
	t.Helper()
	synctest.Wait()
	select {
	case <-promise.Done():
		if code := kafka.CodeOf(promise.Value()); code != want {
			t.Errorf("the answer is %v, not %v", promise.Value(), want)
		}
	default:
		t.Errorf("no answer, and it should be %v", want)
	}
}

func TestAnAnswerWaitsUntilTheViewHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		journal := b.lead(1)
		shard := b.find(kafka.None)
		b.log.held = true
		first, second := b.write(shard, set("a", "1")), b.write(shard, set("a", "2"), set("b", "3"))
		synctest.Wait()
		select {
		case <-first.Done():
			t.Fatal("it is answered before the high watermark has passed it")
		default:
		}
		if got := content(t, shard); len(got) != 0 {
			t.Fatalf("the view is ahead of the high watermark: %v", got)
		}
		journal.release(b.runtime, 0)
		settled(t, first, kafka.None)
		settled(t, second, kafka.None)
		if got := content(t, shard); !slices.Equal(got, []string{"a=2", "b=3"}) {
			t.Errorf("the view has %v", got)
		}
	})
}

// What the journal had when the broker began to lead it is in the view before anybody is served, even what is not
// committed then.
func TestAShardServesOnceItHasAllThatWasThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		b.find(kafka.NotCoordinator)
		b.runtime.AwaitLoaded(t.Context()) // there are none
		b.log.append(1, batchOf(nil, set("a", "1")))
		b.log.held = true
		b.log.append(1, batchOf(nil, set("b", "2")))
		journal := b.lead(2)
		if b.find(kafka.CoordinatorLoadInProgress); b.state() != "loading" {
			t.Errorf("the shard is %s", b.state())
		}
		if serving, loading := b.runtime.Shards(); len(serving) != 0 || !loading {
			t.Errorf("%d shards serve, others load: %v", len(serving), loading)
		}
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { journal.release(b.runtime, 0) })
		b.runtime.AwaitLoaded(t.Context())
		if waited := time.Since(begun); waited != time.Minute {
			t.Errorf("waited for %v", waited)
		}
		shard := b.find(kafka.None)
		if serving, loading := b.runtime.Shards(); len(serving) != 1 || serving[0] != shard || loading {
			t.Errorf("%d shards serve, others load: %v", len(serving), loading)
		}
		if got := stateOf(shard); !slices.Equal(got, []string{"a=1", "b=2"}) {
			t.Errorf("it was loaded with %v", got)
		}
		if partition, ok := b.runtime.PartitionOf("a group"); !ok || partition != shard.Partition() || shard.Epoch() != 2 {
			t.Errorf("partition %d, %v", partition, ok)
		}
	})
}

func TestWhoLosesTheLeadershipAnswersNotCoordinator(t *testing.T) {
	for name, lose := range map[string]func(b *bench){
		"resigned":        func(b *bench) { b.runtime.Resign(0) },
		"of a later term": func(b *bench) { b.lead(2) },
		"stopped":         func(b *bench) { b.stop(); b.stop = func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer func() { b.stop() }()
				b.lead(1)
				shard := b.find(kafka.None)
				b.log.held = true
				waiting := b.write(shard, set("a", "1"))
				lose(b)
				settled(t, waiting, kafka.NotCoordinator)
				shard.Lock()
				defer shard.Unlock()
				_, lost := b.counts()
				if err := shard.Serving(); !errors.Is(err, kafka.NotCoordinator) || shard.State != nil || lost != 1 {
					t.Errorf("afterwards the shard says %v, with state %v, lost %d times", err, shard.State, lost)
				}
				if _, err := shard.Append(nil, set("a", "2")); !errors.Is(err, kafka.NotCoordinator) {
					t.Errorf("it appends: %v", err)
				}
			})
		})
	}
}

// The same leadership told again changes nothing; another one begins once the one before has let go of the view.
func TestTermsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		b.lead(1)
		shard := b.find(kafka.None)
		settled(t, b.write(shard, set("a", "1")), kafka.None)
		b.lead(1)
		if loaded, _ := b.counts(); b.find(kafka.None) != shard || loaded != 1 {
			t.Error("the same leadership was begun twice")
		}
		b.lead(2)
		next := b.find(kafka.None)
		if loaded, _ := b.counts(); next == shard || loaded != 2 || !slices.Equal(stateOf(next), []string{"a=1"}) {
			t.Errorf("loaded %d times, with %v", loaded, stateOf(next))
		}
		b.runtime.Resign(0)
		b.find(kafka.NotCoordinator)
		if b.state() != "none" {
			t.Errorf("a shard that is not led is %s", b.state())
		}
		b.lead(3)
		settled(t, b.write(b.find(kafka.None), unset("a")), kafka.None)
		if got := content(t, b.find(kafka.None)); len(got) != 0 {
			t.Errorf("the view has %v", got)
		}
	})
}

func TestErrorsOfTheJournalHaveCodesForClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		journal := b.lead(1)
		shard := b.find(kafka.None)
		for refused, want := range map[kafka.Errno]kafka.Errno{
			kafka.FencedLeaderEpoch:   kafka.NotCoordinator,
			kafka.NotLeaderOrFollower: kafka.NotCoordinator,
			kafka.KafkaStorageError:   kafka.NotCoordinator,
			kafka.NotEnoughReplicas:   kafka.CoordinatorNotAvailable,
			kafka.MessageTooLarge:     kafka.MessageTooLarge,
			kafka.InvalidTxnState:     kafka.InvalidTxnState,
		} {
			journal.refuse = refused
			shard.Lock()
			_, err := shard.Append(nil, set("a", "1"))
			shard.Unlock()
			if kafka.CodeOf(err) != want || !strings.Contains(err.Error(), refused.Error()) {
				t.Errorf("%v becomes %v", refused, err)
			}
		}
	})
}

// What cannot be read, or made into a state, is tried again; meanwhile the clients are sent to look elsewhere.
func TestAShardThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		b.failLoads(errors.New("no such format"))
		journal := b.lead(1)
		b.find(kafka.NotCoordinator)
		b.failLoads(nil)
		time.Sleep(retryAfter)
		synctest.Wait()
		shard := b.find(kafka.None)
		b.log.held = true
		waiting := b.write(shard, set("a", "1"))
		journal.breakReads(kafka.KafkaStorageError)
		journal.release(b.runtime, 0)
		settled(t, waiting, kafka.NotCoordinator)
		b.find(kafka.NotCoordinator)
		if _, lost := b.counts(); b.state() != "failed" || lost != 1 {
			t.Errorf("the shard is %s, lost %d times", b.state(), lost)
		}
		journal.breakReads(nil)
		time.Sleep(retryAfter)
		synctest.Wait()
		if got := stateOf(b.find(kafka.None)); !slices.Equal(got, []string{"a=1"}) {
			t.Errorf("what was appended is %v", got)
		}
	})
}

func TestAStateThatDoesNotAgreeIsLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		b.lead(1)
		shard := b.find(kafka.None)
		settled(t, b.write(shard, set("a", "1")), kafka.None)
		shard.Lock()
		shard.Reload(kafka.UnknownServerError)
		if err := shard.Serving(); err == nil || shard.State != nil {
			t.Errorf("it serves with %v", shard.State)
		}
		shard.Unlock()
		synctest.Wait()
		got := stateOf(b.find(kafka.None))
		if loaded, _ := b.counts(); !slices.Equal(got, []string{"a=1"}) || loaded != 2 {
			t.Errorf("loaded %d times, with %v", loaded, got)
		}
	})
}

// A node that stops has nobody wait for others, and answers what was appended.
func TestADrainedRuntimeAnswersWhatWasAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		journal := b.lead(1)
		shard := b.find(kafka.None)
		b.log.held = true
		waiting := b.write(shard, set("a", "1"))
		b.runtime.Drain()
		b.find(kafka.CoordinatorNotAvailable)
		if _, lost := b.counts(); lost != 1 {
			t.Errorf("lost %d times", lost)
		}
		b.lead(2) // begins nothing any more
		journal.release(b.runtime, 0)
		settled(t, waiting, kafka.None)
	})
}

func TestWhatATransactionHasStagedIsSeenUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		b.lead(1)
		b.runtime.AwaitLoaded(t.Context()) // they are
		shard := b.find(kafka.None)
		settled(t, b.write(shard, set("a", "1")), kafka.None)
		shard.Lock()
		end, err := shard.Append(&Producer{ID: 5}, set("a", "2"))
		if err != nil {
			t.Fatal(err)
		}
		staged := NewPromise[error]()
		shard.Await(end, staged.Resolve)
		shard.Unlock()
		settled(t, staged, kafka.None)
		if got := content(t, shard); !shard.Staged([]byte("a")) || !slices.Equal(got, []string{"a=1"}) {
			t.Errorf("staged %v, the view has %v", shard.Staged([]byte("a")), got)
		}
		b.lead(2) // the transaction outlives the leadership
		shard = b.find(kafka.None)
		if !shard.Staged([]byte("a")) || shard.Staged([]byte("b")) || len(shard.StagedKeys(nil)) != 1 {
			t.Error("what is staged is forgotten")
		}
		b.log.append(2, markerOf(5, record.Commit)) // by whoever writes markers
		b.runtime.Advanced(0)
		synctest.Wait()
		if got := content(t, shard); shard.Staged([]byte("a")) || !slices.Equal(got, []string{"a=2"}) {
			t.Errorf("staged %v, the view has %v", shard.Staged([]byte("a")), got)
		}
	})
}
