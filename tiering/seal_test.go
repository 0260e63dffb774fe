package tiering_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
)

// small is a setup in which three segments are too many.
func small() setup {
	s := brief()
	s.config.Shape = manifest.Shape{Head: 3, Leaf: 2, Node: 2}
	return s
}

// fill copies segments of one record each.
func fill(b *broker, segments int) {
	b.t.Helper()
	for range segments {
		b.produce(1, b.log().EndOffset())
		b.seal()
	}
}

// counts tells how many items of each level the manifest has at the top.
func counts(b *broker) (levels [3]int) {
	b.t.Helper()
	for _, item := range b.tree().Items() {
		levels[item.Summary().Level]++
	}
	return levels
}

// keysWith counts the objects whose key has a part.
func keysWith(b *broker, part string) (count int) {
	b.t.Helper()
	for _, key := range b.keys() {
		if strings.Contains(key, part) {
			count++
		}
	}
	return count
}

func TestTheOldestSegmentsAreSealedWhileCopyingGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), small())
		fill(b, 12)
		if got := counts(b); got != [3]int{2, 1, 2} {
			t.Errorf("the manifest has %v", got)
		}
		if got := b.tierState(); got.Segments != 12 || got.End != 12 {
			t.Errorf("%+v", got)
		}
		want := b.readAll(0)
		b.dropLocal()
		if !bytes.Equal(b.readAll(0), want) {
			t.Error("what is remote differs")
		}
		for offset := range int64(12) {
			found, ok, err := b.tier.OffsetForTimestamp(t.Context(), eventsID, offset)
			if err != nil || !ok || found.Offset != offset {
				t.Errorf("time %d: %+v, %v, %v", offset, found, ok, err)
			}
		}
		if found, ok, err := b.tier.MaxTimestamp(t.Context(), eventsID); err != nil || !ok || found.Offset != 11 {
			t.Errorf("the largest time: %+v, %v, %v", found, ok, err)
		}
		checkBucket(b)
		b.close()
	})
}

// A leader that is not the leader any more cannot seal, and what it has put goes; its successor seals.
func TestASealOfAFormerLeaderIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := small()
		var b *broker
		var once atomic.Bool
		s.step = func(name string) error {
			if name == "seal" && once.CompareAndSwap(false, true) {
				_, err := b.meta.Propose(context.Background(), bump)
				return err
			}
			return nil
		}
		b = start(t, newDisks(t), s)
		fill(b, 3)
		b.sleep(time.Minute)
		if got := counts(b); got != [3]int{1, 1, 0} || !once.Load() {
			t.Errorf("the manifest has %v", got)
		}
		if leaf := b.tree().Items()[0].Summary(); leaf.LeaderEpoch != b.log().LatestEpoch() {
			t.Errorf("the leaf was sealed in epoch %d, the leader has %d", leaf.LeaderEpoch, b.log().LatestEpoch())
		}
		checkBucket(b)
		b.close()
	})
}

// A proposal without an answer is neither taken for a failure nor made twice.
func TestALostAnswerOfASealIsFoundOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := small()
		var seals atomic.Int64
		s.step = func(name string) error {
			if name == "seal done" && seals.Add(1) == 1 {
				return fmt.Errorf("no answer: %w", kafka.RequestTimedOut)
			}
			return nil
		}
		b := start(t, newDisks(t), s)
		fill(b, 3)
		if got := counts(b); got != [3]int{1, 1, 0} || seals.Load() != 1 || keysWith(b, "/leaf/") != 1 {
			t.Errorf("the manifest has %v after %d seals, the bucket %d leaves", got, seals.Load(), keysWith(b, "/leaf/"))
		}
		if len(b.failures()) != 0 || b.metric("firn_tier_manifest_sealed_total") != 1 {
			t.Errorf("%q", b.failures())
		}
		b.close()
	})
}

// A store that takes segments but no leaves keeps nothing from being copied; later all is sealed.
func TestWhatCannotBeSealedDoesNotStopUploads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), small())
		b.bucket.SetRules(objectstore.Rule{When: objectstore.KeyContains("/leaf/"), Then: objectstore.Refuse()})
		fill(b, 9)
		if got := counts(b); got != [3]int{9, 0, 0} {
			t.Errorf("the manifest has %v", got)
		}
		if len(b.failures()) == 0 {
			t.Error("nobody is told")
		}
		b.bucket.SetRules()
		b.sleep(2 * time.Minute) // the longest wait between two attempts, and until what has lapsed is collected
		fill(b, 1)
		if got := counts(b); got != [3]int{2, 0, 2} {
			t.Errorf("later the manifest has %v", got)
		}
		b.sleep(time.Minute)
		checkBucket(b)
		b.close()
	})
}

// The log start moves inside sealed parts segment by segment, and each time exactly what it has passed goes.
func TestTheLogStartMovesInsideSealedParts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), small())
		fill(b, 12)
		b.dropLocal()
		for offset := int64(1); offset <= 12; offset++ {
			want := b.readAll(offset)
			advance(b, offset)
			b.sleep(30 * time.Second)
			if got := b.tierState(); got.Start != offset || got.Segments != 12-offset {
				t.Fatalf("at %d the tier is %+v", offset, got)
			}
			if !bytes.Equal(b.readAll(offset), want) {
				t.Fatalf("at %d what is remote differs", offset)
			}
			checkBucket(b)
		}
		if keys := b.keys(); len(keys) != 0 {
			t.Errorf("%q are left", keys)
		}
		b.close()
	})
}

// TI-11: a broker starts with a damaged part of a manifest, says what is wrong to those who need it, and serves the rest.
func TestTI11ADamagedPartOfAManifestIsToldAndTheRestIsServed(t *testing.T) {
	for name, content := range map[string][]byte{"random": []byte("\x8f\x02not a leaf"), "zero": make([]byte, 300)} {
		inBubble(t, func(t *testing.T) {
			d := newDisks(t)
			b := start(t, d, small())
			fill(b, 4)
			b.dropLocal()
			state := b.tierState()
			leaf := b.tree().Key(b.tree().Items()[0]).String()
			b.close()
			err := d.bucket.Put(t.Context(), leaf, bytes.NewReader(content), int64(len(content)), objectstore.PutOptions{})
			must(t, err)
			b = start(t, d, small())
			for range 2 {
				_, err = b.fetchRemote(t.Context(), storage.RemoteReadRequest{AtLeastOne: true, MaxBytes: 100, UpTo: 4})
				if kafka.CodeOf(err) != kafka.KafkaStorageError || !manifest.IsCorrupt(err) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := b.metric("firn_tier_manifest_corrupt_total"); got < 1 {
				t.Errorf("%s: the metric says %v", name, got)
			}
			if got := b.tierState(); got != state {
				t.Errorf("%s: the tier is %+v instead of %+v", name, got, state)
			}
			b.readAll(2)
			fill(b, 2) // which needs another leaf
			if got := b.tierState(); got.Segments != 6 {
				t.Errorf("%s: the tier is %+v", name, got)
			}
			if err := b.tier.AdvanceStart(t.Context(), eventsID, 1); kafka.CodeOf(err) != kafka.KafkaStorageError {
				t.Errorf("%s: a start inside what is damaged: %v", name, err)
			}
			advance(b, 4) // past it as a whole
			b.readAll(4)
			b.close()
		})
	}
}

// TI-07: of thousands of small segments none is read to find out that none is new enough, and few to find one.
func TestTI07ATimeAfterAllOfManySegmentsIsAnsweredFromMetadata(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const segments = 4000
		s := usual()
		b := start(t, newDisks(t), s)
		b.settle()
		commitMany(b, segments)
		b.produce(1, 1<<40) // wakes the task, which seals
		b.seal()
		b.sleep(time.Minute)
		if got := counts(b); got[0] >= 128 || got[1] < 60 {
			t.Errorf("the manifest has %v", got)
		}
		gets := func() (count int) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, call := range b.calls {
				if call == string(objectstore.OpGet) {
					count++
				}
			}
			return count
		}
		before := gets()
		if _, ok, err := b.tier.OffsetForTimestamp(t.Context(), eventsID, 1<<41); ok || err != nil || gets() != before {
			t.Errorf("a time after everything: %v, %v after %d requests", ok, err, gets()-before)
		}
		entry, ok, err := b.tree().FindTimestamp(t.Context(), 2000*100, 0)
		if err != nil || !ok || entry.BaseOffset != 2000*10 || gets()-before > 1 {
			t.Errorf("a time in the middle: %+v, %v, %v after %d requests", entry, ok, err, gets()-before)
		}
		b.close()
	})
}

// commitMany makes segments part of the log that have no objects: only metadata is asked of them.
func commitMany(b *broker, segments int64) {
	b.t.Helper()
	must(b.t, b.log().TruncateFullyAndStartAt(segments*10))
	partition, _ := b.meta.Image().PartitionByID(eventsID)
	epoch := partition.Epoch
	b.log().AssignEpoch(epoch)
	b.propose(command.OpenTier{Partition: eventsID, LeaderEpoch: epoch})
	version := b.tierState().Version
	upload := func(i int64) kafka.UUID { return kafka.UUID{7, byte(i >> 8), byte(i)} }
	for i := range segments {
		if i%command.MaxReservedUploads == 0 {
			reserve := command.ReserveUploads{Partition: eventsID, LeaderEpoch: epoch, DeadlineMs: 1 << 40}
			for next := i; next < min(i+command.MaxReservedUploads, segments); next++ {
				reserve.UploadIDs = append(reserve.UploadIDs, upload(next))
			}
			b.propose(reserve)
		}
		b.propose(command.CommitSegment{
			Partition: eventsID, LeaderEpoch: epoch, Version: version + i,
			Entry: command.SegmentEntry{
				BaseOffset: i * 10, EndOffset: i*10 + 10, LeaderEpoch: epoch, UploadID: upload(i), DataBytes: 900,
				ObjectBytes: 1000, TailBytes: 100, MinTimestamp: i * 100, MaxTimestamp: i*100 + 99,
				MaxTimestampOffset: i*10 + 9, FirstAppendedAt: -1, LastAppendedAt: -1,
			},
		})
	}
}
