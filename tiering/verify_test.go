package tiering_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/state"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
	"github.com/firnlog/firn/tiering/verify"
)

// verifier makes one on a broker's disks.
func (b *broker) verifier() *verify.Verifier { return b.limitedVerifier(0) }

// limitedVerifier makes one that reads so much at most.
func (b *broker) limitedVerifier(bytesPerSecond int64) *verify.Verifier {
	return verify.New(verify.Options{
		BytesPerSecond: bytesPerSecond,
		Logger:         slog.New(slog.DiscardHandler), BrokerID: testBroker, ClusterID: testCluster, Bucket: b.bucket,
		Metadata: b.meta, Manifests: b.tier.Manifests(), Store: b.db.Space(state.SpaceVerify),
	})
}

// verified is what a whole verification finds.
func (b *broker) verified(depth verify.Depth) verify.Progress {
	b.t.Helper()
	v := b.verifier()
	must(b.t, v.Start(verify.Request{Depth: depth}))
	progress := b.runVerifier(v)
	if progress.Running {
		b.t.Fatalf("it has not come to its end: %+v", progress)
	}
	return progress
}

// runVerifier runs a verifier until it has nothing to do.
func (b *broker) runVerifier(v *verify.Verifier) verify.Progress {
	ctx, stop := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); v.Run(ctx) }()
	b.settle()
	stop()
	<-done
	return v.Progress()
}

func TestVerification(t *testing.T) {
	small := manifest.Shape{Head: 4, Leaf: 2, Node: 2}
	for _, test := range []struct {
		name  string
		depth verify.Depth
		harm  func(b *broker, keys []string)
		want  map[verify.Kind]int64
	}{
		{name: "nothing", depth: verify.Data, harm: func(*broker, []string) {}},
		{name: "a segment that has gone", depth: verify.Listing, want: map[verify.Kind]int64{verify.Missing: 1},
			harm: func(b *broker, keys []string) { must(b.t, b.bucket.Delete(b.t.Context(), ofKind(keys, "/seg/")[1])) }},
		{name: "a segment that has shrunk", depth: verify.Listing, want: map[verify.Kind]int64{verify.Size: 1},
			harm: func(b *broker, keys []string) {
				b.overwrite(ofKind(keys, "/seg/")[2], func(d []byte) []byte { return d[1:] })
			}},
		{name: "a bit in the data", depth: verify.Data, want: map[verify.Kind]int64{verify.Damaged: 1},
			harm: func(b *broker, keys []string) { b.overwrite(ofKind(keys, "/seg/")[2], flip(70)) }},
		{name: "a bit in the data, and a look at the tails only", depth: verify.Tails,
			harm: func(b *broker, keys []string) { b.overwrite(ofKind(keys, "/seg/")[2], flip(70)) }},
		{name: "a bit in the tail", depth: verify.Tails, want: map[verify.Kind]int64{verify.Damaged: 1},
			harm: func(b *broker, keys []string) { b.overwrite(ofKind(keys, "/seg/")[0], flip(-60)) }},
		{name: "another segment in its place", depth: verify.Tails, want: map[verify.Kind]int64{verify.Damaged: 1},
			harm: func(b *broker, keys []string) {
				segments := ofKind(keys, "/seg/")
				other := b.object(segments[3])
				b.overwrite(segments[2], func([]byte) []byte { return other })
			}},
		{name: "a part of the manifest", depth: verify.Listing, want: map[verify.Kind]int64{verify.Manifest: 1},
			harm: func(b *broker, keys []string) {
				b.overwrite(ofKind(keys, "/leaf/")[0], flip(20))
				b.tier.Manifests().Forget(eventsID)
			}},
		{name: "something that nobody knows", depth: verify.Listing, want: map[verify.Kind]int64{verify.Unknown: 1},
			harm: func(b *broker, keys []string) {
				key := get[segment.Key](b.t)(segment.ParseKey(ofKind(keys, "/seg/")[1]))
				key.UploadID = kafka.UUID{9}
				must(b.t, b.bucket.Put(b.t.Context(), key.String(), bytes.NewReader([]byte("x")), 1, objectstore.PutOptions{}))
			}},
		{name: "something that is reserved", depth: verify.Listing,
			harm: func(b *broker, keys []string) {
				key := get[segment.Key](b.t)(segment.ParseKey(ofKind(keys, "/seg/")[1]))
				key.UploadID = kafka.UUID{9}
				b.propose(command.ReserveUploads{
					Partition: eventsID, LeaderEpoch: b.epoch(), UploadIDs: []kafka.UUID{key.UploadID}, DeadlineMs: 1 << 40,
				})
				must(b.t, b.bucket.Put(b.t.Context(), key.String(), bytes.NewReader([]byte("x")), 1, objectstore.PutOptions{}))
			}},
		{name: "what waits to be collected", depth: verify.Listing,
			harm: func(b *broker, _ []string) { advance(b, 25) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := usual()
				s.config.Shape = small
				b := start(t, newDisks(t), s)
				for i := range 12 {
					b.produce(5, int64(1000+10*i))
					b.seal()
				}
				b.settle()
				test.harm(b, b.keys())
				progress := b.verified(test.depth)
				for _, kind := range verify.Kinds() {
					if progress.Found[kind] != test.want[kind] {
						t.Errorf("%d × %s instead of %d: %+v", progress.Found[kind], kind, test.want[kind], progress.Findings)
					}
				}
				if len(progress.Findings) != len(test.want) || progress.Objects < 7 { // segments from 25 on
					t.Errorf("%+v", progress)
				}
				b.close()
			})
		})
	}
}

// A verification that was interrupted goes on where it was: what was found before stays found.
func TestAVerificationGoesOnAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), usual())
		for i := range 3 {
			b.produce(5, int64(1000+10*i))
			b.seal()
		}
		b.settle()
		must(t, b.bucket.Delete(t.Context(), b.keys()[0]))
		first := b.verified(verify.Listing)
		if first.Found[verify.Missing] != 1 {
			t.Fatalf("%+v", first)
		}
		v := b.verifier()
		if second := b.runVerifier(v); second.EndedAt != first.EndedAt || len(second.Findings) != 1 {
			t.Errorf("%+v instead of %+v", second, first)
		}
		if err := v.Start(verify.Request{Depth: "hard"}); err == nil {
			t.Error("a depth that does not exist")
		}
		if err := v.Start(verify.Request{Depth: verify.Tails, Topics: []string{"nothing"}}); err == nil {
			t.Error("a topic that does not exist")
		}
		b.close()
	})
}

func ofKind(keys []string, folder string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.Contains(key, folder) })
}

// flip turns a bit, counted from the end if at is below 0.
func flip(at int) func([]byte) []byte {
	return func(data []byte) []byte {
		changed := slices.Clone(data)
		if at < 0 {
			changed[len(changed)+at] ^= 4
		} else {
			changed[at] ^= 4
		}
		return changed
	}
}

func (b *broker) epoch() kafka.LeaderEpoch {
	partition, _ := b.meta.Image().PartitionByID(eventsID)
	return partition.Epoch
}

func (b *broker) object(key string) []byte {
	info := get[objectstore.ObjectInfo](b.t)(b.bucket.Stat(b.t.Context(), key))
	data := make([]byte, info.Size)
	get[int](b.t)(b.bucket.Get(b.t.Context(), key, 0, data))
	return data
}

func (b *broker) overwrite(key string, change func([]byte) []byte) {
	data := change(b.object(key))
	must(b.t, b.bucket.Put(b.t.Context(), key, bytes.NewReader(data), int64(len(data)), objectstore.PutOptions{}))
}

// Where remote storage was switched off and on again, the same records are copied anew: collecting what was copied
// before must not take them along.
func TestWhatIsCopiedAnewIsNotCollectedWithWhatWasThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		s.config.Shape = manifest.Shape{Head: 4, Leaf: 2, Node: 2}
		b := start(t, newDisks(t), s)
		for i := range 12 {
			b.produce(5, int64(1000+10*i))
			b.seal()
		}
		b.settle()
		want := b.readAll(15)
		old := ofKind(b.keys(), "/seg/")
		must(t, b.log().MoveLogStart(15))
		b.propose(command.EmptyTier{Partition: eventsID, LeaderEpoch: b.epoch(), Start: 15})
		b.sleep(2 * time.Hour) // it is copied again, and the grace time is over
		segments := ofKind(b.keys(), "/seg/")
		if len(segments) != 9 || slices.ContainsFunc(segments, func(key string) bool { return slices.Contains(old, key) }) {
			t.Errorf("%d objects instead of 9: %v", len(segments), b.failures())
		}
		if found := b.verified(verify.Data); len(found.Findings) > 0 {
			t.Errorf("%+v", found.Findings)
		}
		b.dropLocal()
		if got := b.readAll(15); !bytes.Equal(got, want) {
			t.Errorf("%d bytes instead of %d", len(got), len(want))
		}
		b.close()
	})
}

// A verification that a stop has interrupted goes on at the place that was noted.
func TestAVerificationGoesOnWhereItWas(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), usual())
		for i := range 6 {
			b.produce(5, int64(1000+10*i))
			b.seal()
		}
		b.settle()
		segments := ofKind(b.keys(), "/seg/")
		must(t, b.bucket.Delete(t.Context(), segments[1], segments[4]))
		noted := get[[]byte](t)(json.Marshal(verify.Progress{
			Request: verify.Request{Depth: verify.Listing}, Running: true, StartedAt: 7, Found: map[verify.Kind]int64{verify.Size: 1},
			Topic: testTopic, Offset: 15,
		}))
		must(t, b.db.Space(state.SpaceVerify).Set([]byte("progress"), noted))
		progress := b.runVerifier(b.verifier())
		if progress.Running || progress.StartedAt != 7 || progress.Found[verify.Missing] != 1 ||
			progress.Found[verify.Size] != 1 || progress.Objects != 3 || progress.Findings[0].Key != segments[4] {
			t.Errorf("%+v", progress)
		}
		b.close()
	})
}

func TestVerificationKeepsToItsRate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), usual())
		for range 4 {
			b.produce(3, 0)
			b.seal()
		}
		const rate = 50
		v := b.limitedVerifier(rate)
		must(t, v.Start(verify.Request{Depth: verify.Data}))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); v.Run(ctx) }()
		b.settle()
		object := b.tierState().Bytes / 4 // is the most that is read at once
		seconds := int64(0)
		for ; v.Progress().Running; seconds++ {
			if got := v.Progress().Bytes; got > rate*seconds+object+1 {
				t.Fatalf("%d bytes are read after %d s", got, seconds)
			}
			b.sleep(time.Second)
		}
		if all := v.Progress().Bytes; all < b.tierState().Bytes || seconds > all/rate {
			t.Errorf("%d bytes are read after %d s", all, seconds)
		}
		stop()
		<-done
		b.close()
	})
}
