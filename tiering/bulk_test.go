package tiering_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/bulk"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/manifest"
)

// pinned is the snapshot that a pin of a range gives.
func (b *broker) pinned(from, to int64) *bulk.Snapshot {
	b.t.Helper()
	tier, items, err := b.meta.Items(eventsID)
	must(b.t, err)
	return &bulk.Snapshot{
		ClusterID: testCluster, Topic: events.Topic, TopicID: testTopic,
		Partitions: []bulk.Partition{{Start: max(from, tier.Start), End: min(to, tier.End), Items: items}},
	}
}

// unpinned is the snapshot that the bucket alone gives.
func (b *broker) unpinned() *bulk.Snapshot {
	b.t.Helper()
	return get[*bulk.Snapshot](b.t)(bulk.FromBucket(context.Background(), b.bucket, kafka.UUID{}, events.Topic))
}

// checkpoint writes one.
func (b *broker) checkpoint() {
	b.t.Helper()
	writer := checkpoint.NewWriter(checkpoint.Options{
		Logger: slog.New(slog.DiscardHandler), BrokerID: testBroker, ClusterID: testCluster, Bucket: b.bucket,
		Metadata: b.meta, Claim: checkpoint.NewClaim(b.bucket, testCluster, nil), Interval: time.Hour,
		Groups: func() ([]checkpoint.Group, error) { return nil, nil },
		NewID: func() (id kafka.UUID) {
			_, _ = rand.Read(id[:])
			return id
		},
	})
	img := b.meta.Image()
	writer.Apply(img, image.Delta{Index: img.Index, Reset: true})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); writer.Run(ctx) }()
	err := writer.Flush(ctx)
	stop()
	<-done
	must(b.t, err)
}

// outcome is a record as a consumer sees it.
type outcome struct {
	offset, timestamp int64
	key, value        string
	control           bool
}

// outcomes reads the records of batches that lie in [from, to).
func outcomes(batches []record.Batch, from, to int64) (found []outcome, err error) {
	var it record.Iterator
	for _, batch := range batches {
		if err := it.Reset(batch); err != nil {
			return nil, err
		}
		for it.Next() {
			if it.Offset() >= from && it.Offset() < to {
				r := it.Record()
				found = append(found, outcome{it.Offset(), it.Timestamp(), string(r.Key), string(r.Value), batch.IsControl()})
			}
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
	}
	return found, nil
}

// consumed is what a consumer makes of what fetches answer (KIP-98): it drops the batches of a producer from the first
// offset of a transaction that was aborted until its marker.
func (b *broker) consumed(t *rapid.T, from, to int64, options bulk.Options) (all []outcome) {
	for offset := from; offset < to; {
		result, remote, err := b.fetch(context.Background(), storage.RemoteReadRequest{
			Offset: offset, MaxBytes: 4000, AtLeastOne: true, UpTo: b.log().HighWatermark(),
		})
		if err != nil || result.NextOffset <= offset {
			t.Fatalf("fetch at %d of %d: %v", offset, to, err)
		}
		pending, dropped := result.Aborted, map[int64]bool{}
		if !remote {
			if pending, err = b.log().AbortedTransactions(offset, result.NextOffset); err != nil {
				t.Fatal(err)
			}
		}
		for data := result.Data; len(data) > 0; {
			batch, rest, err := record.Next(data)
			if err != nil {
				t.Fatal(err)
			}
			data = rest
			for len(pending) > 0 && pending[0].FirstOffset <= batch.LastOffset() {
				dropped[pending[0].ProducerID], pending = true, pending[1:]
			}
			if batch.IsControl() && batch.Count() > 0 {
				marker, is, err := batch.EndMarker()
				if err != nil {
					t.Fatal(err)
				}
				if is && marker.Type == record.Abort {
					delete(dropped, batch.ProducerID())
				}
			}
			drop := options.ReadCommitted && batch.IsTransactional() && dropped[batch.ProducerID()]
			if drop && !batch.IsControl() || batch.IsControl() && !options.ControlBatches {
				continue
			}
			found, err := outcomes([]record.Batch{batch}, from, to)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
		offset = result.NextOffset
		result.Release()
	}
	return all
}

// bulkRead is what a bulk read delivers of partition 0.
func bulkRead(ctx context.Context, options bulk.Options, from, to int64) (all []outcome, next int64, err error) {
	next = from
	err = bulk.Read(ctx, bulk.NewReader(options), []bulk.Range{{From: from, To: to}},
		func(chunk *bulk.Chunk) ([]outcome, error) {
			return outcomes(chunk.Batches, chunk.Split.From, chunk.Split.To)
		}, func(d bulk.Delivered, found []outcome) error {
			all, next = append(all, found...), d.Next
			return nil
		})
	return all, next, err
}

// drawTransactions appends a random log of several producers, with transactions that overlap each other and segments,
// and seals it at random places. All transactions are ended. sequences are those
// that the producers have come to.
func drawTransactions(t *rapid.T, b *broker, sequences map[int64]int32) {
	codecs := rapid.SampledFrom([]record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd})
	open := map[int64]bool{}
	end := func(producer int64) {
		kind := rapid.SampledFrom([]record.ControlType{record.Commit, record.Abort}).Draw(t, "marker")
		b.append(record.NewEndMarker(producer, 0, 1000, record.EndMarker{Type: kind}))
		delete(open, producer)
	}
	for range rapid.IntRange(5, 25).Draw(t, "batches") {
		options := record.PlainProducer()
		options.Codec = codecs.Draw(t, "codec")
		records := rapid.IntRange(1, 5).Draw(t, "records")
		if producer := rapid.Int64Range(0, 4).Draw(t, "producer"); producer > 0 {
			if open[producer] && rapid.IntRange(0, 2).Draw(t, "end") == 0 {
				end(producer)
				continue
			}
			options.ProducerID, options.ProducerEpoch, options.BaseSequence = producer, 0, sequences[producer]
			options.Transactional, open[producer] = true, true
			sequences[producer] += int32(records)
		}
		builder := record.NewBuilder(options)
		for i := range records {
			builder.Append(rapid.Int64Range(1, 30).Draw(t, "timestamp"), fmt.Appendf(nil, "key %d", i),
				make([]byte, rapid.IntRange(0, 300).Draw(t, "size")))
		}
		b.append(builder.Build())
		if rapid.IntRange(0, 2).Draw(t, "then") == 0 {
			must(b.t, b.log().Roll())
			b.sleep(time.Second)
		}
	}
	for producer := range int64(5) {
		if open[producer] {
			end(producer)
		}
	}
	b.seal()
}

// A bulk read delivers what a consumer gets from the broker, under either isolation level, whatever has become of the
// log in the bucket since: sealed, written anew, cut. It takes no difference whether the broker or the bucket says
// what there is.
func TestBulkReadsDeliverWhatConsumersGet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		checkInBubble(t, func(t *testing.T) {
			s := usual()
			s.config.Shape, s.config.Grace = manifest.Shape{Head: 3, Leaf: 2, Node: 2}, time.Minute
			b := start(t, newDisks(t), s)
			defer b.close()
			sequences := map[int64]int32{}
			drawTransactions(rt, b, sequences)
			if rapid.Bool().Draw(rt, "checkpoint early") {
				b.checkpoint() // what comes is found by rolling forward
			}
			drawTransactions(rt, b, sequences)
			end := b.tierState().End
			if end != b.log().EndOffset() {
				rt.Fatalf("only [0, %d) of %d is remote: %q", end, b.log().EndOffset(), b.failures())
			}
			compacted := rapid.Bool().Draw(rt, "compact")
			if compacted {
				b.clean(cleanBy(rapid.Int64Range(500, 20_000).Draw(rt, "segment bytes"), time.Hour), nil)
				b.checkpoint() // else what was written anew is not in it, and may be gone
			}
			if rapid.Bool().Draw(rt, "cut") {
				must(t, b.tier.AdvanceStart(t.Context(), eventsID, rapid.Int64Range(0, end).Draw(rt, "log start")))
				must(t, b.log().MoveLogStart(b.tierState().Start))
				b.checkpoint()
			}
			if len(keysIn(b, "/meta/")) == 0 {
				b.checkpoint()
			}
			b.sleep(2 * time.Minute)                        // what is garbage has gone
			if compacted || rapid.Bool().Draw(rt, "drop") { // the local log is not compacted yet
				b.dropLocal()
			}
			start := b.tierState().Start
			for _, snapshot := range []*bulk.Snapshot{b.pinned(0, end), b.unpinned()} {
				if p := snapshot.Partitions[0]; p.Start != start || p.End != end || len(snapshot.Damaged) > 0 {
					rt.Fatalf("[%d, %d) instead of [%d, %d), %v", p.Start, p.End, start, end, snapshot.Damaged)
				}
				compareBulk(rt, b, snapshot)
			}
		})
	})
}

func compareBulk(t *rapid.T, b *broker, snapshot *bulk.Snapshot) {
	p := snapshot.Partitions[0]
	for _, committed := range []bool{false, true} {
		options := bulk.Options{
			Bucket: b.bucket, Snapshot: snapshot, ReadCommitted: committed,
			Concurrency:    rapid.IntRange(1, 9).Draw(t, "at a time"),
			ControlBatches: rapid.Bool().Draw(t, "control"), SplitBytes: rapid.Int64Range(0, 2000).Draw(t, "split"),
		}
		from := rapid.Int64Range(p.Start, p.End).Draw(t, "from")
		to := rapid.Int64Range(from, p.End).Draw(t, "to")
		want := b.consumed(t, from, to, options)
		got, next, err := bulkRead(context.Background(), options, from, to)
		if err != nil || !slices.Equal(got, want) || next != to {
			t.Fatalf("[%d, %d) of %+v: %d records instead of %d up to %d, error %v", from, to, options, len(got), len(want),
				next, err)
		}
	}
}

// keysIn lists the objects in a folder of the cluster's.
func keysIn(b *broker, folder string) (found []string) {
	b.t.Helper()
	return slices.DeleteFunc(b.keys(), func(key string) bool {
		return len(key) < 32 || key[32:min(len(key), 32+len(folder))] != folder
	})
}

// A pin is made as the broker makes it: the borders are read, the pin is proposed, the manifest is read. Whatever
// happens to the log meanwhile, and whenever garbage is collected, what is listed then can be read until the pin
// ends.
func TestAPinIsSafeWheneverGarbageIsCollected(t *testing.T) {
	happenings := map[string]func(b *broker){
		"retention": func(b *broker) {
			must(b.t, b.tier.AdvanceStart(b.t.Context(), eventsID, 22))
			must(b.t, b.log().MoveLogStart(22))
		},
		"a rewrite": func(b *broker) { must(b.t, b.rewrite(5, 40, nil)) },
		"deletion":  func(b *broker) { b.propose(command.DeleteTopic{ID: testTopic, ElapsedMs: b.meta.ElapsedMs()}) },
	}
	for name, happen := range happenings {
		for step := range 3 {
			t.Run(fmt.Sprintf("%s at step %d", name, step), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					b, _ := sunk(t, 12)
					defer b.close()
					at := func(now int) {
						if now == step {
							happen(b)
							b.sleep(20 * time.Minute) // past the grace time
						}
					}
					borders := b.tierState()
					at(0)
					id := kafka.UUID{1}
					_, err := b.meta.Propose(t.Context(), command.PinSnapshot{Pin: command.Pin{
						ID: id, TopicID: testTopic, DeadlineMs: b.meta.ElapsedMs() + (24 * time.Hour).Milliseconds(),
						Ranges: []command.PartitionRange{{From: borders.Start, To: borders.End}},
					}, ElapsedMs: b.meta.ElapsedMs()})
					if name == "deletion" && step == 0 {
						if err == nil {
							t.Error("a topic that is deleted was pinned")
						}
						return
					}
					must(t, err)
					if name == "deletion" && step == 1 {
						happen(b)
						if _, _, err := b.meta.Items(eventsID); err == nil {
							t.Error("a topic that is deleted has a manifest")
						}
						return
					}
					at(1)
					snapshot := b.pinned(borders.Start, borders.End)
					at(2)
					start := snapshot.Partitions[0].Start
					options := bulk.Options{Bucket: b.bucket, Snapshot: snapshot}
					got, next, err := bulkRead(t.Context(), options, start, borders.End)
					if err != nil || next != borders.End || len(got) != int(borders.End-start) {
						t.Fatalf("%d records of [%d, %d), up to %d: %v", len(got), start, borders.End, next, err)
					}
					b.propose(command.Unpin{ID: id})
					b.sleep(20 * time.Minute) // past the grace time
					_, _, err = bulkRead(t.Context(), options, start, borders.End)
					var gone *bulk.GoneError
					if step == 2 && !errors.As(err, &gone) {
						t.Errorf("without the pin: %v", err)
					}
				})
			})
		}
	}
}

// What compaction has replaced goes, if no pin keeps it. A snapshot of later goes on where the first has ended:
// nothing is lost and nothing comes twice; what retention has taken meanwhile is said.
func TestABulkReadWithoutAPinGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := sunk(t, 20)
		defer b.close()
		b.checkpoint()
		end := b.tierState().End
		options := bulk.Options{Bucket: b.bucket, Snapshot: b.unpinned(), Concurrency: 2}
		var first []outcome
		progress := map[int32]int64{}
		read := func(ranges []bulk.Range, meanwhile func()) error {
			return bulk.Read(t.Context(), bulk.NewReader(options), ranges, func(chunk *bulk.Chunk) ([]outcome, error) {
				return outcomes(chunk.Batches, chunk.Split.From, chunk.Split.To)
			}, func(d bulk.Delivered, found []outcome) error {
				first, progress[0] = append(first, found...), d.Next
				meanwhile()
				return nil
			})
		}
		var gone *bulk.GoneError
		err := read(options.Snapshot.Ranges(), func() {
			if progress[0] == 10 {
				must(t, b.rewrite(0, 70, nil))
				b.checkpoint()
				b.sleep(time.Hour)
			}
		})
		if !errors.As(err, &gone) || gone.Next != progress[0] || gone.Next >= 70 {
			t.Fatalf("error %v after offset %d", err, progress[0])
		}
		options.Snapshot = b.unpinned()
		ranges, skipped := options.Snapshot.RangesFrom(progress)
		if len(skipped) > 0 {
			t.Errorf("skipped %v", skipped)
		}
		must(t, read(ranges, func() {}))
		for i, one := range first {
			if one.offset != int64(i) {
				t.Fatalf("offset %d is followed by %d", i-1, one.offset)
			}
		}
		if len(first) != int(end) {
			t.Errorf("%d records of %d", len(first), end)
		}
		must(t, b.tier.AdvanceStart(t.Context(), eventsID, 50))
		must(t, b.log().MoveLogStart(50))
		b.checkpoint()
		ranges, skipped = b.unpinned().RangesFrom(map[int32]int64{0: 30})
		if !slices.Equal(skipped, []bulk.Range{{From: 30, To: 50}}) ||
			!slices.Equal(ranges, []bulk.Range{{From: 50, To: end}}) {
			t.Errorf("ranges %v, skipped %v", ranges, skipped)
		}
	})
}
