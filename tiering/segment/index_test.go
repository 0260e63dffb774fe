package segment_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/tiering/segment"
)

// drawBatches makes batches with gaps between them and timestamps in disorder.
func drawBatches(t *rapid.T) []batchSpec {
	var specs []batchSpec
	offset := rapid.Int64Range(0, 50).Draw(t, "first offset")
	for range rapid.IntRange(1, 12).Draw(t, "batches") {
		spec := batchSpec{baseOffset: offset, timestamps: rapid.SliceOfN(rapid.Int64Range(0, 40), 1, 4).Draw(t, "timestamps")}
		specs = append(specs, spec)
		offset += int64(len(spec.timestamps)) + rapid.Int64Range(0, 3).Draw(t, "gap")
	}
	return specs
}

// TestLookUpsNeverSkipWhatIsSoughtNorStartInsideABatch compares look-ups with reading everything, also after the front
// of the segment was cut off.
func TestLookUpsNeverSkipWhatIsSoughtNorStartInsideABatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		specs := drawBatches(rt)
		indexBase := specs[0].baseOffset
		b := build(indexBase, specs...)
		dropped := rapid.IntRange(0, len(specs)-1).Draw(rt, "dropped")
		cut := b.positions[dropped]
		specs = specs[dropped:]
		first := specs[0].baseOffset
		b.offsetIndex, b.timeIndex = segment.CutIndexes(b.offsetIndex, b.timeIndex, cut, int32(first-indexBase))
		b.data = b.data[cut:]
		last := specs[len(specs)-1]
		tail := tailFor(b, first, last.baseOffset+int64(len(last.timestamps)))
		tail.IndexBaseOffset = indexBase
		object, err := segment.New(t.Context(), bytes.NewReader(b.data), tail)
		if err != nil {
			rt.Fatal(err)
		}
		var positions []int64
		for _, position := range b.positions[dropped:] {
			positions = append(positions, position-cut)
		}
		offset := rapid.Int64Range(first, tail.EndOffset).Draw(rt, "offset")
		checkPosition(rt, object.Tail.Position(offset), positions, func(i int) bool {
			return specs[i].baseOffset+int64(len(specs[i].timestamps)) <= offset
		})
		timestamp := rapid.Int64Range(0, 41).Draw(rt, "timestamp")
		checkPosition(rt, object.Tail.PositionForTimestamp(timestamp), positions, func(i int) bool {
			return slices.Max(specs[i].timestamps) < timestamp
		})
	})
}

// checkPosition demands that a batch begins at got and that all batches before it may be skipped.
func checkPosition(t *rapid.T, got int64, positions []int64, skippable func(i int) bool) {
	index := slices.Index(positions, got)
	if index < 0 {
		t.Fatalf("no batch begins at %d: %v", got, positions)
	}
	for i := range index {
		if !skippable(i) {
			t.Fatalf("looking from batch %d on misses batch %d", index, i)
		}
	}
}

func TestLookUpsUseTheIndexes(t *testing.T) {
	b := build(0, batchSpec{0, []int64{10, 11}, record.None}, batchSpec{2, []int64{20}, record.None},
		batchSpec{3, []int64{15, 30}, record.None}, batchSpec{5, []int64{29, 40}, record.None})
	tail := newObject(t, b, tailFor(b, 0, 7)).Tail
	for offset, batch := range map[int64]int{0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3} {
		if got := tail.Position(offset); got != b.positions[batch] {
			t.Errorf("offset %d: position %d, not %d", offset, got, b.positions[batch])
		}
	}
	for timestamp, batch := range map[int64]int{0: 0, 11: 0, 12: 0, 20: 0, 21: 1, 30: 1, 31: 2, 40: 2, 41: 3} {
		if got := tail.PositionForTimestamp(timestamp); got != b.positions[batch] {
			t.Errorf("timestamp %d: position %d, not %d", timestamp, got, b.positions[batch])
		}
	}
}
