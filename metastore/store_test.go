package metastore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// inBubble runs a test in a synctest bubble with a node that is ready, and stops the node at its end.
func inBubble(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewCrashableMem())
		defer n.stop()
		test(t, n)
	})
}

func TestASoleVoterIsReadyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		for restart := range 3 {
			start := time.Now()
			n := startNode(t, fs)
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("start %d took %v", restart, took)
			}
			if n.store.Image().Controller != 1 {
				t.Errorf("the controller is %d", n.store.Image().Controller)
			}
			n.propose(registration(1))
			n.stop()
		}
	})
}

func TestWhatACommandDidIsVisibleWhenItIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, n *node) {
		var seen []string
		n.store.Watch(func(img *image.Image, delta image.Delta) {
			seen = append(seen, fmt.Sprintf("%d reset=%t created=%d", img.TopicCount(), delta.Reset, len(delta.TopicsCreated)))
		})
		n.propose(registration(1))
		for i := range 3 {
			name := fmt.Sprint("topic", i)
			results := n.propose(command.CreateTopics{Topics: []command.NewTopic{newTopic(name, 1)}}).([]command.TopicResult)
			if results[0].Err != nil {
				t.Fatal(results[0].Err)
			}
			if _, found := n.store.Image().Topic(name); !found {
				t.Errorf("%s is not in the image", name)
			}
			if len(seen) == 0 || !strings.HasPrefix(seen[len(seen)-1], fmt.Sprint(i+1)) {
				t.Errorf("the watcher knows %v", seen)
			}
		}
		want := []string{
			"0 reset=true created=0", "0 reset=false created=0",
			"1 reset=false created=1", "2 reset=false created=1", "3 reset=false created=1",
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("the watcher was told (-want +got):\n%s", diff)
		}
	})
}

// Watchers that come at any time see a whole image first and then each change, in the order of the log.
func TestWatchersSeeEachChangeOnceInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, n *node) {
		n.propose(registration(1))
		const topics = 200
		var proposers sync.WaitGroup
		var mu sync.Mutex
		counts := map[int]int{}
		for i := range topics {
			proposers.Go(func() {
				n.propose(command.CreateTopics{Topics: []command.NewTopic{newTopic(fmt.Sprint("t", i), 1)}})
			})
			if i%50 == 0 {
				last, reset := uint64(0), 0
				n.store.Watch(func(img *image.Image, delta image.Delta) {
					if delta.Reset {
						reset++
						mu.Lock()
						counts[i] += img.TopicCount()
						mu.Unlock()
					}
					if reset != 1 || img.Index < last || (!delta.Reset && img.Index != delta.Index) {
						t.Errorf("watcher %d is told of %d after %d, resets %d", i, img.Index, last, reset)
					}
					last = img.Index
					mu.Lock()
					counts[i] += len(delta.TopicsCreated)
					mu.Unlock()
				})
			}
		}
		proposers.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, count := range counts {
			if count != topics {
				t.Errorf("watcher %d has seen %d topics of %d", i, count, topics)
			}
		}
	})
}

func TestME02OneOfManyConcurrentCreationsSucceeds(t *testing.T) {
	inBubble(t, func(t *testing.T, n *node) {
		n.propose(registration(1))
		var proposers sync.WaitGroup
		var mu sync.Mutex
		codes := map[kafka.Errno]int{}
		for i := range 20 {
			proposers.Go(func() {
				topic := newTopic("x.y", 1)
				topic.ID = id(fmt.Sprint("id", i))
				results := n.propose(command.CreateTopics{Topics: []command.NewTopic{topic}}).([]command.TopicResult)
				mu.Lock()
				defer mu.Unlock()
				codes[kafka.CodeOf(results[0].Err)]++
			})
		}
		proposers.Wait()
		want := map[kafka.Errno]int{kafka.None: 1, kafka.TopicAlreadyExists: 19}
		if diff := cmp.Diff(want, codes); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

func TestARefusalComesWithTheStateThatRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, n *node) {
		n.propose(registration(1))
		n.propose(command.CreateTopics{Topics: []command.NewTopic{newTopic("a", 1)}})
		tp := kafka.TopicIDPartition{ID: id("a")}
		if state := n.propose(command.OpenTier{Partition: tp, Start: 7}).(image.TierState); state.End != 7 {
			t.Errorf("the opened tier is %+v", state)
		}
		result, err := n.store.Propose(context.Background(), command.CommitSegment{
			Partition: tp, Version: 9, Entry: command.SegmentEntry{BaseOffset: 7, EndOffset: 9, UploadID: id("u")},
		})
		if !errors.Is(err, command.ErrTierMoved) || result.(image.TierState).Version != 1 {
			t.Errorf("%+v, %v", result, err)
		}
		if tier, items, err := n.store.Items(tp); tier == nil || tier.Version != 1 || len(items) != 0 || err != nil {
			t.Errorf("the manifest is %v, %v, %v", tier, items, err)
		}
		unknown := kafka.TopicIDPartition{ID: id("b")}
		if _, _, err := n.store.Items(unknown); !errors.Is(err, kafka.UnknownTopicID) {
			t.Errorf("the manifest of an unknown partition: %v", err)
		}
	})
}

func TestTheManifestAndGarbageCanBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, n *node) {
		n.propose(registration(1))
		n.propose(command.CreateTopics{Topics: []command.NewTopic{newTopic("a", 1), newTopic("b", 1)}})
		tp := kafka.TopicIDPartition{ID: id("a")}
		for _, topic := range []string{"a", "b"} {
			n.propose(command.OpenTier{Partition: kafka.TopicIDPartition{ID: id(topic)}})
		}
		n.propose(command.ReserveUploads{
			Partition: tp, UploadIDs: []kafka.UUID{id("u0"), id("u1"), id("u2")}, DeadlineMs: 1000,
		})
		var want []command.Item
		for i := range 2 {
			entry := command.SegmentEntry{
				BaseOffset: int64(i) * 10, EndOffset: int64(i+1) * 10, UploadID: id(fmt.Sprint("u", i)),
				DataBytes: 90, ObjectBytes: 100, MaxTimestamp: 5, MinTimestamp: -1,
			}
			want = append(want, entry)
			n.propose(command.CommitSegment{Partition: tp, Version: int64(i + 1), Entry: entry})
		}
		tier, got, err := n.store.Items(tp)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || tier.Version != 3 || tier.End != 20 {
			t.Errorf("the manifest at %+v (-want +got), %v:\n%s", tier, err, diff)
		}
		if _, _, err := n.store.Items(kafka.TopicIDPartition{ID: id("z")}); !errors.Is(err, kafka.UnknownTopicID) {
			t.Errorf("the manifest of a topic that is not known: %v", err)
		}
		n.propose(command.AdvanceStart{Partition: tp, Start: 10, ElapsedMs: 500})
		n.propose(command.LapseReservations{ElapsedMs: 1000})
		garbage, err := n.store.Garbage()
		wantGarbage := []command.Garbage{
			{
				Partition: tp, Kind: command.RemovedSegment, UploadID: id("u0"), EndOffset: 10, ObjectBytes: 100,
				ElapsedMs: 500, Index: 11,
			},
			{Partition: tp, Kind: command.LapsedUpload, UploadID: id("u2"), EndOffset: -1, ElapsedMs: 1000, Index: 12},
		}
		if diff := cmp.Diff(wantGarbage, garbage); diff != "" || err != nil {
			t.Errorf("garbage (-want +got), %v:\n%s", err, diff)
		}
		n.propose(command.DeleteTopic{ID: id("b"), ElapsedMs: 2000})
		topics, err := n.store.DeletedTopics()
		wantTopics := []command.DeletedTopic{{ID: id("b"), Name: "b", Partitions: 1, ElapsedMs: 2000, Index: 13}}
		if diff := cmp.Diff(wantTopics, topics); diff != "" || err != nil {
			t.Errorf("deleted topics (-want +got), %v:\n%s", err, diff)
		}
		pin := command.Pin{
			ID: id("p"), TopicID: id("a"), Ranges: []command.PartitionRange{{Partition: 0, From: 10, To: 20}}, DeadlineMs: 9000,
		}
		n.propose(command.PinSnapshot{Pin: pin})
		pins, err := n.store.Pins()
		if diff := cmp.Diff([]command.Pin{pin}, pins); diff != "" || err != nil {
			t.Errorf("pins (-want +got), %v:\n%s", err, diff)
		}
		written := []command.Checkpoint{{Index: 5, ID: id("c1")}, {Index: 7, ID: id("c2")}}
		for _, checkpoint := range written {
			n.propose(command.CheckpointWritten{Checkpoint: checkpoint})
		}
		checkpoints, err := n.store.Checkpoints()
		if diff := cmp.Diff(written, checkpoints); diff != "" || err != nil {
			t.Errorf("checkpoints (-want +got), %v:\n%s", err, diff)
		}
	})
}

func TestACommandThatIsGivenUpHasAnUnknownOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, n *node) {
		resume := make(chan struct{})
		n.store.Watch(func(_ *image.Image, delta image.Delta) {
			if len(delta.BrokersChanged) > 0 {
				<-resume
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := n.store.Propose(ctx, registration(1))
		if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) ||
			kafka.CodeOf(err) != kafka.RequestTimedOut {
			t.Errorf("given up: %v", err)
		}
		close(resume)
		n.propose(registration(2))
		if _, found := n.store.Image().Broker(1); !found {
			t.Error("the command that was given up has been applied, but is not there")
		}
	})
}

func TestWhatIsProposedTooEarlyOrTooLateIsNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		n := openNode(t, fs)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := n.store.Propose(ctx, registration(1))
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("before it runs: %v", err)
		}
		if err := n.store.WaitReady(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ready before it runs: %v", err)
		}
		n.run()
		if err := n.store.WaitReady(context.Background()); err != nil {
			t.Fatal(err)
		}
		n.stop()
		if _, err := n.store.Propose(context.Background(), registration(1)); !errors.Is(err, ErrStopped) {
			t.Errorf("after it has stopped: %v", err)
		}
		n = startNode(t, fs)
		if len(n.store.Image().Brokers) != 0 {
			t.Error("a command that was refused is there")
		}
		n.stop()

		n = openNode(t, fs)
		n.close()
		if err := n.store.WaitReady(context.Background()); !errors.Is(err, ErrStopped) {
			t.Errorf("closed without having run: %v", err)
		}
	})
}

func TestProposalsUnderWayAreAnsweredWhenTheStoreStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		n := startNode(t, fs)
		n.propose(registration(1))
		var proposers sync.WaitGroup
		var mu sync.Mutex
		created := map[string]bool{}
		for i := range 100 {
			proposers.Go(func() {
				name := fmt.Sprint("t", i)
				_, err := n.store.Propose(context.Background(),
					command.CreateTopics{Topics: []command.NewTopic{newTopic(name, 1)}})
				if err != nil && !errors.Is(err, ErrStopped) {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				created[name] = err == nil
			})
			if i == 50 {
				n.cancel()
			}
		}
		proposers.Wait()
		n.stop()
		n = startNode(t, fs)
		defer n.stop()
		for name, want := range created {
			if _, found := n.store.Image().Topic(name); found != want {
				t.Errorf("%s: acknowledged %t, there %t", name, want, found)
			}
		}
	})
}

func TestElapsedTimeCountsRunningTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		n := startNode(t, fs)
		time.Sleep(10 * time.Second)
		if elapsed := n.store.ElapsedMs(); elapsed != 10_000 {
			t.Errorf("after 10 s: %d ms", elapsed)
		}
		n.propose(command.LapseReservations{ElapsedMs: n.store.ElapsedMs()})
		time.Sleep(5 * time.Second) // nothing carries it into the log
		n.stop()
		time.Sleep(time.Hour)
		if elapsed := n.store.ElapsedMs(); elapsed != 15_000 {
			t.Errorf("stopped: %d ms", elapsed)
		}
		n = startNode(t, fs)
		defer n.stop()
		time.Sleep(time.Second)
		if elapsed := n.store.ElapsedMs(); elapsed != 11_000 {
			t.Errorf("1 s after the restart: %d ms", elapsed)
		}
	})
}
