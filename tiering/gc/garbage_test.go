package gc

import (
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
	work := sortOut(garbage, now, grace, deadline)
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
	if work.nextMs != 1001 {
		t.Errorf("the next piece is due at %d", work.nextMs)
	}
	if work := sortOut(nil, now, grace, deadline); work.nextMs != never || len(work.removed)+len(work.lapsed) > 0 {
		t.Errorf("%+v", work)
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
