package tiering_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/compact"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
	"github.com/firnlog/firn/tiering/verify"
)

// rewriter makes one on a broker's disks. step is as in setup.
func (b *broker) rewriter(step func(name string) error) *compact.Rewriter {
	b.t.Helper()
	steps, prepared := &setup{step: step}, false
	files := vfs.NewFaulty(b.disks.files, func(op vfs.Op) error {
		if step == nil || !prepared || !op.Kind.Changes() {
			return nil
		}
		return step("file")
	})
	r := compact.New(compact.Options{
		Logger: slog.New(slog.DiscardHandler), ClusterID: testCluster, Bucket: &steppedBucket{b.bucket, steps.perform},
		Metadata: &steppedMetadata{b.meta, steps.perform}, Manifests: b.tier.Manifests(), FS: files, Dir: "compaction",
		Deadline: b.setup.config.UploadDeadline, Reservation: b.setup.config.Reservation,
	})
	must(b.t, r.Prepare())
	prepared = true
	return r
}

// rewrite writes the segments anew that begin in [first, end), every batch of them, as one.
func (b *broker) rewrite(first, end int64, step func(name string) error) error {
	log := get[*compact.Log](b.t)(b.rewriter(step).Log(eventsID))
	entries, err := log.Segments()
	if err != nil {
		return err
	}
	sink, err := log.Replace(first, end)
	if err != nil {
		return err
	}
	defer sink.Abort()
	for _, entry := range entries {
		if entry.BaseOffset < first || entry.EndOffset > end {
			continue
		}
		source, err := log.Open(entry.BaseOffset)
		if err != nil {
			return err
		}
		for {
			batch, err := source.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = sink.Append(batch)
			}
			if err != nil {
				return err
			}
		}
		source.Close()
	}
	return sink.Commit()
}

// sunk starts a broker with segments of five records, all in the bucket, and most of them in leaves and nodes.
func sunk(t *testing.T, segments int) (b *broker, whole []byte) {
	s := usual()
	s.config.Shape = manifest.Shape{Head: 4, Leaf: 2, Node: 2}
	b = start(t, newDisks(t), s)
	for i := range segments {
		b.produce(5, int64(1000+10*i))
		b.seal()
		if i == segments/2 { // of an epoch of its own is what comes behind
			b.settle()
			b.propose(bump)
		}
	}
	b.settle()
	whole = b.readAll(0)
	b.dropLocal()
	return b, whole
}

// Whatever run of segments is written anew, in the head, in leaves, in nodes or across their borders: the log reads the
// same, the manifest fits the bucket, and what was replaced is collected.
func TestAnyRunOfSegmentsCanBeWrittenAnew(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 5))
				b, whole := sunk(t, 25)
				if seed%3 == 1 { // the log start lies in a sealed part
					must(t, b.tier.AdvanceStart(t.Context(), eventsID, 15))
					must(t, b.log().MoveLogStart(15))
					whole = b.readAll(15)
				}
				times := b.lookUps()
				for range 5 {
					entries := get[[]command.SegmentEntry](t)(get[*compact.Log](t)(b.rewriter(nil).Log(eventsID)).Segments())
					first := random.IntN(len(entries))
					last := min(first+random.IntN(6), len(entries)-1)
					before := b.tailAt(entries[last].BaseOffset)
					must(t, b.rewrite(entries[first].BaseOffset, entries[last].EndOffset, nil))
					after := b.tailAt(entries[first].BaseOffset)
					if !slices.Equal(after.LeaderEpochs, before.LeaderEpochs) || after.LastAppendedAt != before.LastAppendedAt ||
						!bytes.Equal(after.ProducerSnapshot, before.ProducerSnapshot) || len(after.ProducerSnapshot) == 0 {
						t.Errorf("the tail says %+v instead of %+v", after, before)
					}
					if diff := cmp.Diff(times, b.lookUps()); diff != "" {
						t.Errorf("look-ups by time (-before +after):\n%s", diff)
					}
					start := b.tierState().Start
					if got := b.readAll(start); !bytes.Equal(got, whole) {
						t.Fatalf("[%d, %d): %d bytes instead of %d", entries[first].BaseOffset, entries[last].EndOffset, len(got),
							len(whole))
					}
					if found := b.verified(verify.Data); len(found.Findings) > 0 {
						t.Fatalf("%+v", found.Findings)
					}
				}
				b.sleep(2 * time.Hour)
				tier, kept := b.tierState(), int64(len(ofKind(b.keys(), "/seg/")))
				if hidden := kept - tier.Segments; hidden != 0 {
					t.Errorf("%d segments in the bucket, %d in the manifest", kept, tier.Segments)
				}
				if found := b.verified(verify.Data); len(found.Findings) > 0 {
					t.Errorf("%+v", found.Findings)
				}
				b.close()
			})
		})
	}
}

// tailAt is the tail of the segment that answers for an offset.
func (b *broker) tailAt(offset int64) *segment.Tail {
	b.t.Helper()
	tree := b.tree()
	entry, found, err := tree.Find(b.t.Context(), offset)
	if err != nil || !found {
		b.t.Fatalf("no segment for offset %d: %v", offset, err)
	}
	return get[*segment.Tail](b.t)(segment.ReadTail(b.t.Context(), b.bucket, tree.Key(entry).String(), entry.ObjectBytes,
		entry.TailBytes))
}

// lookUps are the answers to look-ups by time all over the log.
func (b *broker) lookUps() map[int64]int64 {
	b.t.Helper()
	answers := map[int64]int64{}
	for timestamp := int64(995); timestamp < 1260; timestamp += 3 {
		found, ok, err := b.tier.OffsetForTimestamp(b.t.Context(), eventsID, timestamp)
		must(b.t, err)
		answers[timestamp] = -1
		if ok {
			answers[timestamp] = found.Offset
		}
	}
	return answers
}

var errInjected = errors.New("injected")

// An error in the place of any answer, or of any deed, leaves the old segments or the new one.
func TestAnErrorAtAnyStepOfARewriteIsGotOver(t *testing.T) {
	const first, end = 5, 30
	for number := 1; ; number++ {
		over := false
		inBubble(t, func(t *testing.T) {
			b, whole := sunk(t, 12)
			count := 0
			err := b.rewrite(first, end, func(string) error {
				if count++; count == number {
					return errInjected
				}
				return nil
			})
			over = count < number
			if over && err != nil {
				t.Error(err)
			}
			if err != nil && !errors.Is(err, errInjected) {
				t.Errorf("step %d: %v", number, err)
			}
			if got := b.readAll(0); !bytes.Equal(got, whole) {
				t.Errorf("step %d: %d bytes instead of %d", number, len(got), len(whole))
			}
			b.sleep(time.Hour)
			if found := b.verified(verify.Data); len(found.Findings) > 0 {
				t.Errorf("step %d: %+v", number, found.Findings)
			}
			if err != nil { // it is done again, by another pass
				must(t, b.rewrite(first, end, nil))
			}
			b.close()
		})
		if over || t.Failed() {
			if number < 8 {
				t.Errorf("there were only %d steps", number-1)
			}
			return
		}
	}
}

func TestARewriteThatWasOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := sunk(t, 12)
		log := get[*compact.Log](t)(b.rewriter(nil).Log(eventsID))
		sink := get[*compact.Sink](t)(log.Replace(5, 20))
		defer sink.Abort()
		must(t, b.tier.AdvanceStart(t.Context(), eventsID, 40))
		if err := sink.Commit(); !errors.Is(err, storage.ErrSegmentsChanged) {
			t.Errorf("error %v", err)
		}
		if _, err := log.Replace(41, 50); !errors.Is(err, storage.ErrSegmentsChanged) {
			t.Errorf("a run that begins inside a segment: %v", err)
		}
		b.close()
	})
}
