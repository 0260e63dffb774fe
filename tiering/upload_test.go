package tiering_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/objectstore"
)

// sealed produces segments that are not copied until the topic is told to.
func sealed(b *broker, segments int) {
	b.t.Helper()
	b.propose(pause("true"))
	for i := range segments {
		b.produce(2, int64(10*i))
		must(b.t, b.log().Roll())
	}
	b.sleep(time.Second)
}

// names counts steps.
type names struct {
	mu    sync.Mutex // guards the field below
	count map[string]int
}

func (n *names) step(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.count == nil {
		n.count = map[string]int{}
	}
	n.count[name]++
	return nil
}

func (n *names) of(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[name]
}

func TestManySmallSegmentsOverASlowStoreAreCopiedSeveralAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		var steps names
		s.step = func(name string) error {
			if name == "put" {
				time.Sleep(time.Second)
			}
			return steps.step(name)
		}
		b := start(t, newDisks(t), s)
		sealed(b, 40)
		b.propose(pause("false"))
		b.sleep(11 * time.Second) // forty round trips, four at a time
		if got := b.tierState(); got.Segments != 40 {
			t.Errorf("%d of 40 segments are remote", got.Segments)
		}
		if steps.of("reserve_uploads") > 4 || steps.of("put") != 40 || steps.of("commit_segment") != 40 {
			t.Errorf("%d puts, %d commits, %d reservations",
				steps.of("put"), steps.of("commit_segment"), steps.of("reserve_uploads"))
		}
		b.sleep(time.Hour)
		checkBucket(b)
		b.close()
	})
}

func TestASteadyPartitionReservesAhead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		var steps names
		s.step = steps.step
		b := start(t, newDisks(t), s)
		for i := range 40 {
			b.produce(2, int64(i))
			b.seal()
		}
		if steps.of("commit_segment") != 40 || steps.of("reserve_uploads") > 8 {
			t.Errorf("%d puts, %d commits, %d reservations",
				steps.of("put"), steps.of("commit_segment"), steps.of("reserve_uploads"))
		}
		b.close()
	})
}

// An open transaction holds its segment and all after it back. A segment's object then tells of every aborted transaction
// that reaches into it, also of those whose markers lie in a later one, and readers of committed records are told.
func TestAbortedTransactionsGoWithTheirSegments(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), usual())
		of := func(id int64, sequence int32) func(*record.BuilderOptions) {
			return func(o *record.BuilderOptions) {
				o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = id, 0, sequence, true
			}
		}
		abort := func(id int64) { b.append(record.NewEndMarker(id, 0, 1, record.EndMarker{Type: record.Abort})) }
		b.produce(2, 0, of(1, 0)) // [0, 2)
		b.produce(1, 0, of(2, 0)) // 2
		b.seal()
		if got := b.tierState(); got.Segments != 0 {
			t.Errorf("%d segments with undecided records are remote", got.Segments)
		}
		b.produce(1, 0, of(1, 2)) // 3
		abort(1)                  // 4
		b.append(record.NewEndMarker(2, 0, 1, record.EndMarker{Type: record.Commit}))
		b.seal()
		b.produce(1, 0)
		b.seal()
		if got := b.tierState(); got.Segments != 3 {
			t.Errorf("%d segments are remote", got.Segments)
		}
		b.dropLocal()
		for offset, want := range map[int64]int{0: 1, 2: 1, 3: 1, 4: 1, 5: 0, 6: 0} {
			got, err := b.fetchRemote(t.Context(), storage.RemoteReadRequest{Offset: offset, AtLeastOne: true, UpTo: 7})
			must(t, err)
			got.Release()
			if len(got.Aborted) != want || want > 0 && got.Aborted[0].FirstOffset != 0 {
				t.Errorf("a read of one batch from %d is told of %v", offset, got.Aborted)
			}
		}
		b.close()
	})
}

// One partition with a bad segment does not take the slots of the others, and all are copied at the same time.
func TestPartitionsAreCopiedBesideEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		s.config.Uploads.Concurrency = 5
		var mu sync.Mutex
		under, most := 0, 0
		s.step = func(name string) error {
			mu.Lock()
			switch name {
			case "put":
				under++
				most = max(most, under)
			case "put done":
				under--
			}
			mu.Unlock()
			if name == "put" {
				time.Sleep(time.Second)
			}
			return nil
		}
		b := start(t, newDisks(t), s)
		other := kafka.TopicID{0x71}
		b.createTopic(other, "more", 10)
		for i := range 10 {
			log := get[*storage.Log](t)(b.logs.Log(kafka.TopicPartition{Topic: "more", Partition: int32(i)}))
			must(t, appendTo(log, batchOf(1, 0)))
			must(t, log.Roll())
		}
		b.sleep(3 * time.Second)
		if len(b.keys()) != 10 || most != 5 {
			t.Errorf("%d objects, %d uploads at a time", len(b.keys()), most)
		}
		b.close()
	})
}

// A put that never returns is given up after its deadline, and the segment goes up under another name.
func TestAPutThatHangsIsNotWaitedForForEver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		hang := make(chan struct{})
		var hung atomic.Bool
		s.step = func(name string) error {
			if name == "put" && hung.CompareAndSwap(false, true) {
				<-hang
			}
			return nil
		}
		b := start(t, newDisks(t), s)
		b.produce(3, 0)
		b.seal()
		b.sleep(s.config.UploadDeadline + 20*time.Second)
		if got := b.tierState(); got.Segments != 1 {
			t.Errorf("%+v, %q", got, b.failures())
		}
		if got := b.metric("firn_tier_uploads_stuck_total"); got != 1 {
			t.Errorf("%v uploads are stuck", got)
		}
		if got := b.metric("firn_tier_uploads_in_flight"); got != 1 {
			t.Errorf("%v uploads are in flight", got)
		}
		b.sleep(time.Hour) // the upload id is forgotten by now
		close(hang)        // the store comes back, and stores what nobody wants any more
		b.sleep(time.Second)
		if got := b.metric("firn_tier_uploads_in_flight"); got != 0 {
			t.Errorf("%v uploads are in flight", got)
		}
		checkBucket(b)
		b.close()
	})
}

// TI-13: while the store is down the lag shows it, and produce does not notice.
func TestTI13TheLagIsComputedFromTheState(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), usual())
		b.bucket.SetRules(objectstore.Rule{When: objectstore.Always(), Then: objectstore.Refuse()})
		for i := range 3 {
			b.produce(10, int64(10*i))
			b.seal()
		}
		lag := func() string {
			return fmt.Sprintf("%v segments, %v bytes, %v remote",
				b.metric("kafka_server_brokertopicmetrics_remotecopylagsegments"),
				b.metric("kafka_server_brokertopicmetrics_remotecopylagbytes"),
				b.metric("kafka_server_brokertopicmetrics_remotelogsizebytes"))
		}
		var bytes int64
		for _, segment := range b.log().Segments() {
			bytes += segment.Size
		}
		b.sleep(time.Minute)
		if got := lag(); got != fmt.Sprintf("3 segments, %d bytes, 0 remote", bytes) {
			t.Error(got)
		}
		if errors := b.metric("kafka_server_brokertopicmetrics_remotecopyerrors_total"); errors < 3 {
			t.Errorf("%v errors", errors)
		}
		b.bucket.SetRules()
		b.sleep(time.Minute)
		if got := lag(); got != fmt.Sprintf("0 segments, 0 bytes, %d remote", b.tierState().Bytes) {
			t.Error(got)
		}
		b.close()
	})
}

// The waits between tries are drawn from a range that grows: no two partitions come back at the same time.
func TestRetriesSpreadAndGrowRarer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		var tries []time.Duration
		var mu sync.Mutex
		begun := time.Now()
		s.step = func(name string) error {
			if name != "put" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, time.Since(begun))
			return objectstore.ErrUnavailable
		}
		b := start(t, newDisks(t), s)
		b.produce(1, 0)
		b.seal()
		b.sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(tries) < 20 || len(tries) > 120 {
			t.Errorf("%d tries in ten minutes", len(tries))
		}
		for i := range tries[1:] {
			if wait := tries[i+1] - tries[i]; wait > 31*time.Second {
				t.Errorf("a wait of %v", wait)
			}
		}
		b.kill()
	})
}

// A topic that is created again under its name is another one: nothing of the old log goes under the new id.
func TestATopicCreatedAgainIsAnotherOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), usual())
		b.produce(3, 0)
		b.seal()
		(&script{broker: b}).delete(nil)
		b.createTopic(kafka.TopicID{0x99}, events.Topic, 1)
		b.settle()
		must(t, appendTo(b.log(), batchOf(2, 5)))
		must(t, b.log().Roll())
		b.sleep(time.Minute)
		keys := b.keys()
		if len(keys) != 2 || !strings.Contains(keys[1], "/99000000") || !strings.Contains(keys[1], "-00000000000000000002-") {
			t.Errorf("%q", keys)
		}
		b.sleep(time.Hour)
		if keys := b.keys(); len(keys) != 1 || !slices.ContainsFunc(keys, func(key string) bool {
			return strings.Contains(key, "/99000000")
		}) {
			t.Errorf("%q", keys)
		}
		b.close()
	})
}

// Segments are uploaded beside each other and committed in order. One that had to wait for another longer than its
// reservation is uploaded again, under another name.
func TestAnUploadThatWaitedTooLongIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var steps names
		s := usual()
		s.step = steps.step
		b := start(t, newDisks(t), s)
		sealed(b, 2)
		b.bucket.SetRules(objectstore.Rule{
			When: objectstore.And(objectstore.On(objectstore.OpPut), objectstore.KeyContains("/seg/00000000000000000000-")),
			Then: objectstore.Refuse(),
		})
		b.propose(pause("false"))
		b.sleep(10 * time.Minute)
		if got := b.tierState(); got.Segments != 0 {
			t.Errorf("%+v", got)
		}
		b.bucket.SetRules()
		b.sleep(time.Minute)
		if got := b.tierState(); got.Segments != 2 {
			t.Errorf("%+v, %q", got, b.failures())
		}
		if !slices.ContainsFunc(b.failures(), func(failure string) bool { return strings.Contains(failure, "lapsed") }) {
			t.Errorf("%q", b.failures())
		}
		b.sleep(time.Hour)
		checkBucket(b)
		b.close()
	})
}

// DeleteRecords overtakes an upload: the object that would have begun below the new start is not committed, and the
// rest of the segment is uploaded from there.
func TestTheStartMovesPastAnUploadUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		s.step = func(name string) error {
			if name == "put" {
				time.Sleep(10 * time.Second)
			}
			return nil
		}
		b := start(t, newDisks(t), s)
		b.produce(4, 0)
		b.produce(4, 4)
		b.seal()
		advance(b, 3)
		b.sleep(time.Minute)
		if got := b.tierState(); got.Start != 3 || got.End != 8 || got.Segments != 1 {
			t.Errorf("%+v, %q", got, b.failures())
		}
		b.dropLocal()
		if got := b.readAll(3); len(got) == 0 {
			t.Error("nothing is left")
		}
		b.sleep(time.Hour)
		checkBucket(b)
		b.close()
	})
}
