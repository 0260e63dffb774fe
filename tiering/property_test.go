package tiering_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

// drawLog appends a random log and seals it at random places. Timestamps go up and down.
func drawLog(t *rapid.T, b *broker) {
	codecs := rapid.SampledFrom([]record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd})
	for range rapid.IntRange(1, 12).Draw(t, "batches") {
		options := record.PlainProducer()
		options.Codec = codecs.Draw(t, "codec")
		builder := record.NewBuilder(options)
		for i := range rapid.IntRange(1, 6).Draw(t, "records") {
			builder.Append(rapid.Int64Range(0, 30).Draw(t, "timestamp"), fmt.Appendf(nil, "key %d", i),
				bytes.Repeat([]byte("value "), rapid.IntRange(0, 40).Draw(t, "words")))
		}
		b.append(builder.Build())
		switch rapid.IntRange(0, 5).Draw(t, "then") {
		case 0, 1:
			b.seal()
		case 2:
			b.propose(bump)
			b.settle()
		}
	}
	b.seal()
}

// TI-05: whatever is asked, the remote part gives the answer that the local log gave when it had everything.
func TestTI05RemoteAnswersAreTheLocalOnes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		checkInBubble(t, func(t *testing.T) {
			b := start(t, newDisks(t), usual())
			defer b.close()
			drawLog(rt, b)
			log, end := b.log(), b.tierState().End
			if end != log.EndOffset() {
				rt.Fatalf("only [0, %d) of %d is remote: %q", end, log.EndOffset(), b.failures())
			}
			if start := rapid.Int64Range(0, end-1).Draw(rt, "log start"); rapid.Bool().Draw(rt, "advance") {
				advance(b, start)
			}
			for range 10 {
				compareRead(rt, b, storage.RemoteReadRequest{
					Offset:     rapid.Int64Range(log.LogStartOffset(), end).Draw(rt, "offset"),
					MaxBytes:   rapid.IntRange(0, 2000).Draw(rt, "max bytes"),
					AtLeastOne: rapid.Bool().Draw(rt, "at least one"),
					UpTo:       rapid.Int64Range(0, end).Draw(rt, "up to"),
				})
				compareTimestamp(rt, b, rapid.Int64Range(0, 32).Draw(rt, "timestamp"))
			}
			compareMaxTimestamp(rt, b)
			compareSeam(rt, b)
		})
	})
}

// checkInBubble runs one check in a bubble. rapid ends a check by a panic, which must not cross the bubble's border.
func checkInBubble(t *testing.T, check func(t *testing.T)) {
	var caught any
	synctest.Test(t, func(t *testing.T) {
		defer func() { caught = recover() }()
		check(t)
	})
	if caught != nil {
		panic(caught)
	}
}

func compareRead(t *rapid.T, b *broker, req storage.RemoteReadRequest) {
	want, remote, err := b.fetch(context.Background(), req)
	if err != nil || remote {
		t.Fatalf("local read of %+v: %v", req, err)
	}
	got, err := b.fetchRemote(context.Background(), req)
	if req.Offset == b.tierState().End && req.Offset < req.UpTo {
		return // it is not remote, and nobody asks
	}
	if err != nil {
		t.Fatalf("remote read of %+v: %v", req, err)
	}
	defer got.Release()
	if got.FirstOffset != want.FirstOffset || got.NextOffset != want.NextOffset || !bytes.Equal(got.Data, want.Data) {
		t.Fatalf("read of %+v: [%d, %d), %d bytes instead of [%d, %d), %d bytes", req, got.FirstOffset, got.NextOffset,
			len(got.Data), want.FirstOffset, want.NextOffset, len(want.Data))
	}
}

func compareTimestamp(t *rapid.T, b *broker, timestamp int64) {
	want, wantOK, err := b.log().OffsetForTimestamp(timestamp, b.tierState().End)
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := b.tier.OffsetForTimestamp(context.Background(), eventsID, timestamp)
	if err != nil || ok != wantOK || ok && got != want {
		t.Fatalf("time %d: %+v %v %v instead of %+v %v", timestamp, got, ok, err, want, wantOK)
	}
}

func compareMaxTimestamp(t *rapid.T, b *broker) {
	want, wantOK, err := b.log().MaxTimestamp(b.tierState().End)
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := b.tier.MaxTimestamp(context.Background(), eventsID)
	if err != nil || ok != wantOK || ok && got != want {
		t.Fatalf("max time: %+v %v %v instead of %+v %v", got, ok, err, want, wantOK)
	}
}

// compareSeam drops a part of the local log and asks for every time as replica does: first the remote part, then the
// local one.
func compareSeam(t *rapid.T, b *broker) {
	log := b.log()
	limit := log.HighWatermark()
	var want []storage.TimestampOffset
	for timestamp := range int64(32) {
		found, ok, err := log.OffsetForTimestamp(timestamp, limit)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			found.Offset = -1
		}
		want = append(want, found)
	}
	data := b.readAll(log.LogStartOffset())
	if _, err := log.MoveLocalStart(rapid.Int64Range(0, limit).Draw(t, "local start"), "test"); err != nil {
		t.Fatal(err)
	}
	for timestamp := range int64(32) {
		found, ok, err := b.tier.OffsetForTimestamp(context.Background(), eventsID, timestamp)
		if err == nil && !ok {
			found, ok, err = log.OffsetForTimestamp(timestamp, limit)
		}
		if !ok {
			found.Offset = -1
		}
		if err != nil || found.Offset != want[timestamp].Offset {
			t.Fatalf("time %d after the local start moved to %d: %+v instead of %+v (%v)",
				timestamp, log.LocalLogStartOffset(), found, want[timestamp], err)
		}
	}
	if got := b.readAll(log.LogStartOffset()); !bytes.Equal(got, data) {
		t.Fatalf("%d bytes instead of %d after the local start moved to %d", len(got), len(data), log.LocalLogStartOffset())
	}
	if code := kafka.CodeOf(log.Err()); code != kafka.None {
		t.Fatal(code)
	}
}
