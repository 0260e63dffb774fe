package tiering_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// brief is a setup in which everything that has to wait waits seconds: each second of fake time costs, too.
func brief() setup {
	s := usual()
	s.config.TaskInterval, s.config.UploadDeadline, s.config.Reservation = 5*time.Second, 5*time.Second, 10*time.Second
	s.config.Grace = 15 * time.Second
	return s
}

// life is one of a tiered partition, at each step of which something may happen to its broker.
type life struct {
	shape manifest.Shape
	work  func(w *worker)
	// What the tier is like in the end, if nothing happens, and how many steps there are at least.
	start, end, segments int64
	steps                int
}

// plain: three segments are copied, local copies go, the log start moves past the first one, and its object is
// collected.
var plain = life{
	work: func(w *worker) {
		w.produce(2)
		w.seal()
		w.produce(1)
		w.seal()
		w.dropLocal()
		advance(w.broker, 4)
		w.produce(3)
		w.seal()
		w.produce(1)
	},
	start: 4, end: 12, segments: 2, steps: 25,
}

// sealing: five segments are sealed into two leaves and those into a node while they are copied. The log start moves
// into the node, so that a part of it goes, and then past it, so that all of it goes.
var sealing = life{
	shape: manifest.Shape{Head: 3, Leaf: 2, Node: 2},
	work: func(w *worker) {
		for range 5 {
			w.produce(1)
			w.seal()
		}
		w.dropLocal()
		advance(w.broker, 3)
		w.sleep(20 * time.Second)
		advance(w.broker, 8)
		w.produce(1)
		w.seal()
	},
	start: 8, end: 12, segments: 2, steps: 50,
}

func (l life) setup() setup {
	s := brief()
	s.config.Shape = l.shape
	return s
}

// run returns what was produced.
func (l life) run(b *broker) []record.Batch {
	b.t.Helper()
	w := &worker{broker: b}
	l.work(w)
	b.sleep(30 * time.Second)
	return w.produced
}

func (l life) check(b *broker) {
	b.t.Helper()
	if got := b.tierState(); got.Start != l.start || got.End != l.end || got.Segments != l.segments {
		b.t.Errorf("the tier is %+v", got)
	}
}

// worker remembers what it has produced.
type worker struct {
	*broker
	produced []record.Batch
}

func (w *worker) produce(batches int) {
	w.t.Helper()
	for range batches {
		batch := batchOf(2, int64(len(w.produced)))
		w.append(batch)
		batch.SetBaseOffset(w.log().EndOffset() - 2)
		batch.SetLeaderEpoch(w.log().LatestEpoch())
		w.produced = append(w.produced, batch)
	}
	w.sleep(time.Second) // until it is flushed
}

func (w *worker) seal() {
	w.t.Helper()
	must(w.t, w.log().Roll())
	w.sleep(3 * time.Second) // until whatever goes wrong has been tried again
}

// advance moves the log start until it is told that it did, as a client does with DeleteRecords.
func advance(b *broker, to int64) {
	b.t.Helper()
	for range 3 {
		if err := b.tier.AdvanceStart(context.Background(), eventsID, to); err == nil {
			must(b.t, b.log().MoveLogStart(to))
			b.settle()
			return
		}
	}
	b.t.Fatal("the log start does not move")
}

// checkWhole checks that the broker has what was produced, from its log start to some offset at or after committed, and
// that the bucket has what the manifest says and nothing else.
func checkWhole(b *broker, produced []record.Batch, committed int64) {
	b.t.Helper()
	b.sleep(time.Minute) // all that can be copied and collected is
	start := b.log().LogStartOffset()
	if end := b.log().HighWatermark(); end < committed {
		b.t.Fatalf("the log ends at %d, but %d had been committed", end, committed)
	}
	var want []byte
	for _, batch := range produced {
		if batch.NextOffset() > start {
			want = append(want, batch...)
		}
	}
	if got := b.readAll(start); !bytes.HasPrefix(want, got) {
		b.t.Fatalf("%d bytes from offset %d on that are not those produced", len(got), start)
	}
	checkBucket(b)
}

func checkBucket(b *broker) {
	b.t.Helper()
	tree := b.tree()
	var keys []string
	for item, err := range tree.Walk(context.Background(), 0, math.MaxInt64) {
		must(b.t, err)
		if s := item.Summary(); s.Level == 0 && s.EndOffset <= tree.Start {
			continue // listed in a sealed object, but gone
		}
		key := tree.Key(item).String()
		keys = append(keys, key)
		if entry, is := item.(command.SegmentEntry); is {
			if _, err := segment.Verify(context.Background(), stored{b, key}, entry.ObjectBytes); err != nil {
				b.t.Fatalf("%s: %v", key, err)
			}
		}
	}
	slices.Sort(keys)
	if got := b.keys(); !slices.Equal(got, keys) {
		b.t.Fatalf("the bucket has\n%q\ninstead of what the manifest has:\n%q", got, keys)
	}
}

// stored reads an object.
type stored struct {
	b   *broker
	key string
}

func (s stored) ReadAt(dst []byte, position int64) (int, error) {
	n, err := s.b.disks.bucket.Get(context.Background(), s.key, position, dst)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// counter calls do at the step of a number.
type counter struct {
	mu     sync.Mutex // guards the fields below
	steps  []string
	number int // 0: never
	do     func(name string) error
}

func (c *counter) step(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(c.steps, name)
	if c.do != nil && len(c.steps) == c.number {
		return c.do(name)
	}
	return nil
}

// eachStep runs a test once for each step of a life, in a bubble of its own.
func eachStep(t *testing.T, l life, test func(t *testing.T, number int)) {
	count := &counter{}
	synctest.Test(t, func(t *testing.T) {
		s := l.setup()
		s.step = count.step
		b := start(t, newDisks(t), s)
		produced := l.run(b)
		checkWhole(b, produced, b.log().EndOffset())
		l.check(b)
		b.close()
	})
	if len(count.steps) < l.steps {
		t.Fatalf("only %d steps: %q", len(count.steps), count.steps)
	}
	for number := 1; number <= len(count.steps) && !t.Failed(); number++ {
		synctest.Test(t, func(t *testing.T) { test(t, number) })
		if t.Failed() {
			t.Logf("at step %d", number)
		}
	}
}

func TestACrashAtAnyStepLosesNothing(t *testing.T) { crashAtEachStep(t, plain) }

func TestACrashAtAnyStepOfSealingLosesNothing(t *testing.T) { crashAtEachStep(t, sealing) }

func crashAtEachStep(t *testing.T, l life) {
	eachStep(t, l, func(t *testing.T, number int) {
		var left *disks
		var committed int64
		var b *broker
		count := &counter{number: number}
		count.do = func(string) error {
			left = b.disks.crash(uint64(number))
			left.bucket = b.disks.bucket.Clone()
			committed = b.log().HighWatermark()
			return nil
		}
		s := l.setup()
		s.step = func(name string) error {
			if b == nil { // still starting
				return nil
			}
			return count.step(name)
		}
		b = start(t, newDisks(t), s)
		produced := l.run(b)
		b.kill()
		if left == nil {
			return // timing makes a step more or less
		}
		after := start(t, left, l.setup())
		checkWhole(after, produced, committed)
		after.close()
	})
}

func TestAnErrorAtAnyStepIsGotOver(t *testing.T) { failAtEachStep(t, plain) }

func TestAnErrorAtAnyStepOfSealingIsGotOver(t *testing.T) { failAtEachStep(t, sealing) }

func failAtEachStep(t *testing.T, l life) {
	eachStep(t, l, func(t *testing.T, number int) {
		count := &counter{number: number}
		count.do = func(name string) error {
			return fmt.Errorf("no answer to %q: %w", name, kafka.RequestTimedOut)
		}
		s := l.setup()
		s.step = count.step
		b := start(t, newDisks(t), s)
		produced := l.run(b)
		checkWhole(b, produced, b.log().EndOffset())
		l.check(b)
		b.close()
	})
}

func TestAFailedReadOfALocalFileIsGotOver(t *testing.T) {
	for number := int64(1); !t.Failed(); number++ {
		hit := false
		synctest.Test(t, func(t *testing.T) {
			var reads int64
			var mu sync.Mutex
			armed := false
			s := brief()
			s.files = func(fs vfs.FS) vfs.FS {
				return vfs.NewFaulty(fs, func(op vfs.Op) error {
					mu.Lock()
					defer mu.Unlock()
					if !armed || op.Kind != vfs.OpRead && op.Kind != vfs.OpOpen {
						return nil
					}
					if reads++; reads == number {
						hit = true
						return vfs.ErrInjected
					}
					return nil
				})
			}
			arm := func(to bool) { mu.Lock(); armed = to; mu.Unlock() }
			b := start(t, newDisks(t), s)
			b.propose(pause("true"))
			b.produce(3, 0)
			b.produce(3, 3)
			b.seal()
			want := b.readAll(0)
			arm(true)
			b.propose(pause("false"))
			b.sleep(3 * time.Second)
			arm(false)
			if got := b.tierState(); got.End != 6 {
				t.Errorf("the tier is %+v after read %d failed: %q", got, number, b.failures())
			}
			b.dropLocal()
			if !bytes.Equal(b.readAll(0), want) {
				t.Errorf("what is remote differs after read %d failed", number)
			}
			b.sleep(time.Minute)
			checkBucket(b)
			b.close()
		})
		if !hit {
			if number < 3 {
				t.Errorf("only %d reads", number-1)
			}
			return
		}
	}
}

func TestADamagedSegmentIsNeitherServedNorCopied(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDisks(t)
		b := start(t, d, brief())
		b.propose(pause("true"))
		b.produce(3, 0)
		b.seal()
		b.produce(3, 3)
		b.seal()
		file, err := d.files.OpenReadWrite("log/events-0/00000000000000000000.log")
		must(t, err)
		_, err = file.WriteAt([]byte("xxxx"), 80)
		must(t, err)
		must(t, file.Close())
		b.propose(pause("false"))
		b.sleep(time.Minute) // the segment behind it may be copied, but not committed: that is collected by now
		if keys, state := b.keys(), b.tierState(); len(keys) != 0 || state.Segments != 0 {
			t.Errorf("%q, %+v", keys, state)
		}
		if infos := b.log().Segments(); !infos[0].Damaged || infos[1].Damaged {
			t.Errorf("%+v", infos)
		}
		_, _, err = b.fetch(context.Background(),
			storage.RemoteReadRequest{Offset: 0, MaxBytes: 100, AtLeastOne: true, UpTo: 6})
		if kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Error(err)
		}
		if got := b.readAll(3); len(got) == 0 {
			t.Error("the rest of the log is not served")
		}
		b.close()
	})
}

func pause(value string) command.AlterConfigs {
	return command.AlterConfigs{Resource: command.ResourceTopic, Name: events.Topic,
		Ops: []command.ConfigOp{{Name: "remote.log.copy.disable", Value: &value}}}
}
