package gc

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	first  = kafka.TopicIDPartition{ID: kafka.TopicID{1}}
	second = kafka.TopicIDPartition{ID: kafka.TopicID{1}, Partition: 1}
)

func removed(tp kafka.TopicIDPartition, id byte, at int64) command.Garbage {
	return command.Garbage{
		Partition: tp, Kind: command.RemovedSegment, UploadID: kafka.UUID{id}, EndOffset: 1, ElapsedMs: at,
	}
}

func lapsed(tp kafka.TopicIDPartition, id byte, base, at int64) command.Garbage {
	return command.Garbage{
		Partition: tp, Kind: command.LapsedUpload, UploadID: kafka.UUID{id}, BaseOffset: base, EndOffset: -1, ElapsedMs: at,
	}
}

func TestWhatIsDue(t *testing.T) {
	const now, grace, deadline = 1000, 300, 100
	garbage := []command.Garbage{
		removed(first, 1, 700),     // its grace ends now
		removed(second, 2, 701),    // in one millisecond
		lapsed(first, 3, 50, 950),  // looked for at once, a last time in 50
		lapsed(first, 4, 20, 900),  // for the last time
		lapsed(second, 5, 90, 100), // long ago
	}
	r := rule{nowMs: now, graceMs: grace, uploadDeadlineMs: deadline}
	work := sortOut(garbage, r)
	if diff := cmp.Diff(garbage[:1], work.removed); diff != "" {
		t.Error(diff)
	}
	want := map[kafka.TopicIDPartition]*lapsedUploads{
		first:  {uploads: map[kafka.UUID]bool{{3}: false, {4}: true}, from: 20},
		second: {uploads: map[kafka.UUID]bool{{5}: true}, from: 90},
	}
	if diff := cmp.Diff(want, work.lapsed, cmp.AllowUnexported(lapsedUploads{})); diff != "" {
		t.Error(diff)
	}
	if want := (Waits{Grace: 2, Due: 3}); work.waits != want {
		t.Errorf("%+v instead of %+v", work.waits, want)
	}
	if work.nextMs != 1001 {
		t.Errorf("the next piece is due at %d", work.nextMs)
	}
	if work := sortOut(nil, r); work.nextMs != never || len(work.removed)+len(work.lapsed) > 0 {
		t.Errorf("%+v", work)
	}
}

func TestWhatTimeAloneDoesNotLetGo(t *testing.T) {
	leaf := command.Reference{Level: 1}
	leaf.BaseOffset, leaf.EndOffset = 100, 200
	pieces := map[string]command.Garbage{
		"segment":  {Kind: command.RemovedSegment, BaseOffset: 100, EndOffset: 110, Index: 5},
		"whole":    {Kind: command.ExpiredTree, Tree: leaf, Whole: true, Index: 5},
		"part":     {Kind: command.ExpiredTree, Tree: leaf, From: 100, To: 110, Index: 5},
		"replaced": {Kind: command.ReplacedManifest, Tree: leaf, Index: 5},
	}
	pin := func(partition int32, from, to int64) []command.Pin {
		return []command.Pin{{
			TopicID: first.ID, Ranges: []command.PartitionRange{{Partition: partition, From: from, To: to}},
		}}
	}
	for name, piece := range pieces {
		piece.Partition = first
		for _, test := range []struct {
			settled uint64
			pins    []command.Pin
			want    Waits
		}{
			{settled: 5, want: Waits{Due: 1}},
			{settled: 4, want: Waits{Checkpoints: 1}},
			{settled: 5, pins: pin(0, 109, 500), want: Waits{Pins: 1}},
			{settled: 5, pins: pin(0, 200, 500), want: Waits{Due: 1}},
			{settled: 5, pins: pin(0, 0, 100), want: Waits{Due: 1}},
			{settled: 5, pins: pin(1, 0, 500), want: Waits{Due: 1}},
		} {
			work := sortOut([]command.Garbage{piece}, rule{settled: test.settled, pins: test.pins})
			if work.waits != test.want || len(work.removed)+len(work.expired) != test.want.Due {
				t.Errorf("%s with %+v: %+v", name, test, work.waits)
			}
		}
	}
}

func TestTwoCheckpointsMustBeWithoutIt(t *testing.T) {
	at := func(indexes ...uint64) (checkpoints []command.Checkpoint) {
		for _, index := range indexes {
			checkpoints = append(checkpoints, command.Checkpoint{Index: index})
		}
		return checkpoints
	}
	for _, test := range []struct {
		checkpoints []command.Checkpoint
		needed      int
		want        uint64
	}{
		{nil, 2, 0}, {at(7), 2, 0}, {at(7, 9), 2, 7}, {at(9, 7, 3), 2, 7}, {at(9, 9), 2, 9}, {at(9), 1, 9},
		{nil, 0, math.MaxUint64},
	} {
		if got := settledAt(test.checkpoints, test.needed); got != test.want {
			t.Errorf("%v, %d needed: %d instead of %d", test.checkpoints, test.needed, got, test.want)
		}
	}
}

func TestOnlyWhatIsStillGarbageIsRemembered(t *testing.T) {
	c := New(Options{})
	c.listed = map[kafka.UUID]bool{{1}: true, {2}: true}
	c.forgetListed([]command.Garbage{lapsed(first, 2, 0, 0), lapsed(first, 3, 0, 0)})
	var kept []kafka.UUID
	for id := range c.listed {
		kept = append(kept, id)
	}
	if !slices.Equal(kept, []kafka.UUID{{2}}) {
		t.Errorf("%v", kept)
	}
}
