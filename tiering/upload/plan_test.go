package upload

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// local makes segments with these borders, a hundred bytes each; the last is active.
func local(borders ...int64) []storage.SegmentInfo {
	var infos []storage.SegmentInfo
	for i := range borders[1:] {
		infos = append(infos, storage.SegmentInfo{
			BaseOffset: borders[i], EndOffset: borders[i+1], Size: 100, Sealed: i+2 < len(borders),
			MaxTimestamp: 1000, FirstAppendedAt: 900, LastAppendedAt: 1100,
		})
	}
	return infos
}

// ranges shortens jobs to segment, base and end.
func ranges(jobs []Job) [][3]int64 {
	var out [][3]int64
	for _, job := range jobs {
		out = append(out, [3]int64{job.SegmentBase, job.BaseOffset, job.EndOffset})
	}
	return out
}

func TestPlan(t *testing.T) {
	damaged := local(0, 10, 20, 30, 40)
	damaged[1].Damaged = true
	cases := []struct {
		name      string
		segments  []storage.SegmentInfo
		remoteEnd int64
		bound     int64
		hold      Hold
		want      [][3]int64
	}{
		{"everything sealed, in order", local(0, 10, 20, 25), 0, 25, Hold{}, [][3]int64{{0, 0, 10}, {10, 10, 20}}},
		{"from the remote end on", local(0, 10, 20, 25), 10, 25, Hold{}, [][3]int64{{10, 10, 20}}},
		{"nothing above the bound", local(0, 10, 20, 25), 0, 19, Hold{}, [][3]int64{{0, 0, 10}}},
		{"a bound at the very end is enough", local(0, 10, 20, 25), 0, 20, Hold{}, [][3]int64{{0, 0, 10}, {10, 10, 20}}},
		{"the active segment never", local(0, 10), 0, 10, Hold{}, nil},
		{"what of a segment is not remote yet", local(0, 10, 20, 25), 14, 25, Hold{}, [][3]int64{{10, 14, 20}}},
		{"nothing past a damaged segment", damaged, 0, 40, Hold{}, [][3]int64{{0, 0, 10}}},
		{"an empty log that begins at the remote end", local(20, 20), 20, 20, Hold{}, nil},
		{"nothing before its time", local(0, 10, 20), 0, 20, Hold{LagMs: 501, LagBytes: unlimited}, nil},
		{"in time", local(0, 10, 20), 0, 20, Hold{LagMs: 500, LagBytes: unlimited}, [][3]int64{{0, 0, 10}}},
		{"behind enough newer data", local(0, 10, 20, 30), 0, 30, Hold{LagMs: unlimited, LagBytes: 200},
			[][3]int64{{0, 0, 10}}},
	}
	for _, c := range cases {
		jobs, err := Plan(View{Segments: c.segments, RemoteEnd: c.remoteEnd, Bound: c.bound, Now: 1500}, c.hold)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, ranges(jobs)); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestNothingIsCopiedPastAGap(t *testing.T) {
	jobs, err := Plan(View{Segments: local(10, 20, 30), RemoteEnd: 5, Bound: 30}, Hold{})
	var gap *GapError
	if !errors.As(err, &gap) || gap.RemoteEnd != 5 || gap.LocalStart != 10 || len(jobs) > 0 {
		t.Errorf("%v, %v", jobs, err)
	}
	if kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Error(kafka.CodeOf(err))
	}
}

func TestHoldOf(t *testing.T) {
	cases := []struct {
		name string
		cfg  config.TopicConfig
		want Hold
	}{
		{"Kafka's defaults copy at once", config.TopicConfig{RemoteCopyLagMs: 0, RemoteCopyLagBytes: -1,
			RetentionMs: 7000, RetentionBytes: -1, LocalRetentionMs: -2, LocalRetentionBytes: -2},
			Hold{LagMs: 0, LagBytes: unlimited}},
		{"-1 is local retention", config.TopicConfig{RemoteCopyLagMs: -1, RemoteCopyLagBytes: -1,
			RetentionMs: 7000, RetentionBytes: 900, LocalRetentionMs: 3000, LocalRetentionBytes: -2},
			Hold{LagMs: 3000, LagBytes: 900}},
		{"no limit of local retention never releases", config.TopicConfig{RemoteCopyLagMs: -1, RemoteCopyLagBytes: 50,
			RetentionMs: -1, RetentionBytes: -1, LocalRetentionMs: -1, LocalRetentionBytes: -1},
			Hold{LagMs: unlimited, LagBytes: 50}},
	}
	for _, c := range cases {
		if got := HoldOf(&c.cfg); got != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A producer whose clock is ahead does not hold its segments back.
func TestASegmentIsAsOldAsItsAppendAtLeast(t *testing.T) {
	for _, c := range []struct{ timestamp, appended, want int64 }{
		{1000, 1100, 1000}, {9000, 1100, 1100}, {-1, 1100, 1100}, {1000, -1, 1000}, {-1, -1, -1},
	} {
		if got := newest(storage.SegmentInfo{MaxTimestamp: c.timestamp, LastAppendedAt: c.appended}); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestLagOf(t *testing.T) {
	segments := local(0, 10, 20, 30)
	segments[2].FirstAppendedAt = 950
	for remoteEnd, want := range map[int64]Lag{
		0: {2, 200, 300, 900}, 5: {2, 200, 300, 900}, 10: {1, 100, 200, 900}, 20: {0, 0, 100, 950}, 30: {0, 0, 0, -1},
	} {
		if got := LagOf(segments, remoteEnd); got != want {
			t.Errorf("remote end %d: %+v", remoteEnd, got)
		}
	}
	if got := LagOf(local(7, 7), 7); got != (Lag{Oldest: -1}) {
		t.Errorf("an empty log: %+v", got)
	}
}

func TestReservationsFollowTheNeed(t *testing.T) {
	for _, c := range []struct {
		name                       string
		batch, used, waiting, want int
	}{
		{"the first one is for what is there", 0, 0, 1, 1},
		{"a backlog is reserved for at once", 0, 0, 7, 7},
		{"but not without bound", 0, 0, 900, maxReserved},
		{"used up means more next time", 4, 4, 1, 8},
		{"left over means as many as were needed", 16, 3, 1, 3},
		{"nothing used means one", 16, 0, 1, 1},
	} {
		r := reservations{batch: c.batch, used: c.used}
		if got := r.want(c.waiting); got != c.want {
			t.Errorf("%s: %d", c.name, got)
		}
	}
}

func TestBackoffGrowsToItsLimitAndStartsAgain(t *testing.T) {
	b := newBackoff(rand.New(rand.NewPCG(1, 2)))
	limit := retryMin
	for range 12 {
		if wait := b.next(); wait <= 0 || wait > limit {
			t.Errorf("%v is not within %v", wait, limit)
		}
		limit = min(2*limit, retryMax)
	}
	var longest time.Duration
	for range 100 {
		longest = max(longest, b.next())
	}
	if longest < retryMax/2 || longest > retryMax {
		t.Errorf("the longest of a hundred waits is %v", longest)
	}
	b.reset()
	if wait := b.next(); wait > retryMin {
		t.Errorf("%v after a success", wait)
	}
}
