package retention

import (
	"errors"
	"iter"
	"slices"
	"testing"
)

// hour and now are the tests' clock: record times are hours before now.
const (
	hour = int64(3_600_000)
	now  = 1000 * hour
)

// local makes sealed segments of 100 offsets and 10 bytes each, the oldest aged ages[0] hours, and an active one.
func local(ages ...int64) []Segment {
	var segments []Segment
	for i, age := range ages {
		segments = append(segments, Segment{
			BaseOffset: int64(i) * 100, EndOffset: int64(i+1) * 100, Bytes: 10,
			MaxTimestamp: now - age*hour, LastAppendedAt: now - age*hour,
		})
	}
	segments[len(segments)-1].Active = true
	return segments
}

func unlimited() Limits {
	return Limits{Ms: Unlimited, Bytes: Unlimited, LocalMs: Unlimited, LocalBytes: Unlimited}
}

func view(segments []Segment, limits Limits) View {
	return View{
		HighWatermark: segments[len(segments)-1].EndOffset, Local: segments, Limits: limits,
		LogStart: segments[0].BaseOffset,
	}
}

func limited(change func(*Limits)) Limits {
	limits := unlimited()
	change(&limits)
	return limits
}

func TestStartOfAnAllLocalLog(t *testing.T) {
	tests := []struct {
		name   string
		view   View
		change func(*View)
		want   int64
	}{
		{name: "without limits nothing goes", view: view(local(9, 8, 7, 0), unlimited()), want: 0},
		{
			name: "segments older than retention.ms go, up to the first young one",
			view: view(local(9, 8, 2, 0), limited(func(l *Limits) { l.Ms = 5 * hour })), want: 200,
		},
		{
			name: "a young segment protects an old one behind it",
			view: view(local(9, 2, 8, 0), limited(func(l *Limits) { l.Ms = 5 * hour })), want: 100,
		},
		{
			name: "exactly retention.ms old is not older",
			view: view(local(5, 0), limited(func(l *Limits) { l.Ms = 5 * hour })), want: 0,
		},
		{
			name: "the active segment never goes, however old",
			view: view(local(9, 9), limited(func(l *Limits) { l.Ms = hour })), want: 100,
		},
		{
			name: "by size whole segments go while the rest still fills the limit",
			view: view(local(4, 3, 2, 1), limited(func(l *Limits) { l.Bytes = 25 })), want: 100,
		},
		{
			name: "retention.bytes=0 leaves only the active segment",
			view: view(local(4, 3, 2, 1), limited(func(l *Limits) { l.Bytes = 0 })), want: 300,
		},
		{
			name:   "nothing above the high watermark goes",
			view:   view(local(9, 9, 9, 0), limited(func(l *Limits) { l.Ms = hour })),
			change: func(v *View) { v.HighWatermark = 150 }, want: 100,
		},
		{
			name:   "without delete in the cleanup policy nothing goes by age",
			view:   view(local(9, 9, 0), limited(func(l *Limits) { l.Ms = hour; l.Bytes = 0 })),
			change: func(v *View) { v.KeepsAll = true }, want: 0,
		},
		{
			name:   "RE-01: a timestamp in the far future does not keep a segment for ever",
			view:   view(local(9, 0), limited(func(l *Limits) { l.Ms = hour })),
			change: func(v *View) { v.Local[0].MaxTimestamp = now * 50 }, want: 100,
		},
		{
			name:   "old records that have just been appended are old all the same",
			view:   view(local(9, 0), limited(func(l *Limits) { l.Ms = hour })),
			change: func(v *View) { v.Local[0].LastAppendedAt = now }, want: 100,
		},
		{
			name:   "a segment without any time is kept",
			view:   view(local(9, 0), limited(func(l *Limits) { l.Ms = hour })),
			change: func(v *View) { v.Local[0].MaxTimestamp, v.Local[0].LastAppendedAt = -1, -1 }, want: 0,
		},
		{
			name:   "the start never goes back",
			view:   view(local(9, 0), unlimited()),
			change: func(v *View) { v.LogStart = 50 }, want: 50,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.view)
			}
			if got, _, _ := Start(test.view, now); got != test.want {
				t.Errorf("log start offset %d, want %d", got, test.want)
			}
		})
	}
}

// tiered is a log whose segments up to remoteEnd are in the bucket, while those from firstLocal on are (still) local.
func tiered(segments []Segment, firstLocal int, remoteEnd int64, limits Limits) View {
	v := view(segments, limits)
	v.Tiered, v.RemoteEnd = true, remoteEnd
	for _, segment := range segments {
		if segment.EndOffset <= remoteEnd {
			v.Remote = append(v.Remote, segment)
		}
	}
	v.Local = segments[firstLocal:]
	return v
}

func TestStartOfATieredLog(t *testing.T) {
	tests := []struct {
		name string
		view View
		want int64
	}{
		{
			name: "TI-02: segments that are both local and remote count once",
			view: tiered(local(4, 3, 2, 1), 0, 300, limited(func(l *Limits) { l.Bytes = 40 })), want: 0,
		},
		{
			name: "remote segments go by size first",
			view: tiered(local(4, 3, 2, 1), 2, 300, limited(func(l *Limits) { l.Bytes = 20 })), want: 200,
		},
		{
			name: "remote segments go by age",
			view: tiered(local(9, 8, 2, 1), 3, 300, limited(func(l *Limits) { l.Ms = 5 * hour })), want: 200,
		},
		{
			name: "what is past total retention goes although the bucket never got it",
			view: tiered(local(9, 8, 7, 1), 0, 100, limited(func(l *Limits) { l.Ms = 5 * hour })), want: 300,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, _, _ := Start(test.view, now); got != test.want {
				t.Errorf("log start offset %d, want %d", got, test.want)
			}
		})
	}
}

func TestLocalStart(t *testing.T) {
	tests := []struct {
		name   string
		view   View
		change func(*View)
		want   int64
	}{
		{
			name: "local copies older than local.retention.ms go under remote cover",
			view: tiered(local(9, 8, 7, 0), 0, 200, limited(func(l *Limits) { l.LocalMs = hour })), want: 200,
		},
		{
			name:   "those of a compacted log go, too: the bucket has its records",
			view:   tiered(local(9, 8, 7, 0), 0, 200, limited(func(l *Limits) { l.LocalMs = hour })),
			change: func(v *View) { v.KeepsAll = true }, want: 200,
		},
		{
			name: "without remote cover they stay, however old",
			view: tiered(local(9, 8, 7, 0), 0, 0, limited(func(l *Limits) { l.LocalMs, l.LocalBytes = hour, 0 })), want: 0,
		},
		{
			name: "a segment that is only partly remote stays",
			view: tiered(local(9, 8, 0), 0, 150, limited(func(l *Limits) { l.LocalMs = hour })), want: 100,
		},
		{
			name: "by size they go until the limit is kept",
			view: tiered(local(4, 3, 2, 1), 0, 300, limited(func(l *Limits) { l.LocalBytes = 20 })), want: 200,
		},
		{
			name: "local limits mean nothing to a log that is not tiered",
			view: view(local(9, 8, 0), limited(func(l *Limits) { l.LocalMs, l.LocalBytes = hour, 0 })), want: 0,
		},
		{
			name:   "what lies below the log start offset goes, tiered or not",
			view:   view(local(9, 8, 0), unlimited()),
			change: func(v *View) { v.LogStart = 150 }, want: 100,
		},
		{
			name:   "below the log start offset also a compacted log loses segments",
			view:   view(local(9, 8, 0), unlimited()),
			change: func(v *View) { v.LogStart, v.KeepsAll = 200, true }, want: 200,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.view)
			}
			if got := LocalStart(test.view, now); got != test.want {
				t.Errorf("local start %d, want %d", got, test.want)
			}
		})
	}
}

// part stands for segments, and counts how often it is asked for them.
func part(asked *int, segments ...Segment) Segment {
	whole := Segment{
		BaseOffset: segments[0].BaseOffset, EndOffset: segments[len(segments)-1].EndOffset, Bytes: bytesOf(segments),
		MaxTimestamp: -1, LastAppendedAt: -1, Segments: int64(len(segments)),
	}
	for _, segment := range segments {
		whole.MaxTimestamp = max(whole.MaxTimestamp, segment.MaxTimestamp)
		whole.LastAppendedAt = max(whole.LastAppendedAt, segment.LastAppendedAt)
	}
	whole.Parts = func() iter.Seq2[Segment, error] {
		return func(yield func(Segment, error) bool) {
			*asked++
			for _, segment := range segments {
				if !yield(segment, nil) {
					return
				}
			}
		}
	}
	return whole
}

// A long history comes in parts, of which only the one is looked into in which the log start will lie.
func TestStartOfAHistoryInParts(t *testing.T) {
	segments := local(20, 19, 18, 17, 16, 15, 14, 13, 0)
	for name, test := range map[string]struct {
		change func(*Limits)
		want   int64
		asked  int
	}{
		"nothing goes":                      {func(*Limits) {}, 0, 1},
		"by age, in the middle of a part":   {func(l *Limits) { l.Ms = 17 * hour }, 300, 1},
		"by age, whole parts":               {func(l *Limits) { l.Ms = 16 * hour }, 400, 1},
		"by age, all":                       {func(l *Limits) { l.Ms = hour }, 800, 0},
		"by size, in the middle of a part":  {func(l *Limits) { l.Bytes = 25 }, 600, 1},
		"by size, less than the first part": {func(l *Limits) { l.Bytes = 75 }, 100, 2},
	} {
		asked := 0
		inner := part(&asked, segments[0:2]...)
		node := part(&asked, inner, part(&asked, segments[2:4]...))
		node.Segments = 4
		history := View{
			HighWatermark: 900, Tiered: true, RemoteEnd: 800, Limits: limited(test.change), Local: segments[8:],
			Remote: []Segment{node, part(&asked, segments[4:6]...), segments[6], segments[7]},
		}
		got, lost, err := Start(history, now)
		if got != test.want || err != nil {
			t.Errorf("%s: log start offset %d, want %d (%v)", name, got, test.want, err)
		}
		if asked > test.asked+1 {
			t.Errorf("%s: %d parts were looked into", name, asked)
		}
		var gone int64
		for _, loss := range lost {
			gone += loss.Segments
		}
		if gone != test.want/100 {
			t.Errorf("%s: %d segments are lost", name, gone)
		}
	}
}

func TestAPartThatCannotBeReadLeavesTheLogAlone(t *testing.T) {
	asked, broken := 0, errors.New("damaged")
	segments := local(9, 9, 9, 0)
	bad := part(&asked, segments[1:3]...)
	bad.MaxTimestamp, bad.LastAppendedAt = -1, -1
	bad.Parts = func() iter.Seq2[Segment, error] {
		return func(yield func(Segment, error) bool) { yield(Segment{}, broken) }
	}
	history := View{
		HighWatermark: 400, Tiered: true, RemoteEnd: 300, Limits: limited(func(l *Limits) { l.Ms = hour }),
		Remote: []Segment{segments[0], bad}, Local: segments[3:],
	}
	if start, lost, err := Start(history, now); start != 0 || len(lost) != 0 || !errors.Is(err, broken) {
		t.Errorf("log start offset %d, losses %v, %v", start, lost, err)
	}
}

func TestLossesHaveTheirReasons(t *testing.T) {
	const size, age, start = BySize, ByAge, ByStart
	tests := []struct {
		name   string
		view   View
		change func(*View)
		want   []Reason
	}{
		{name: "nothing goes", view: view(local(9, 0), unlimited())},
		{
			name: "size comes before age",
			view: view(local(9, 9, 9, 0), limited(func(l *Limits) { l.Ms, l.Bytes = hour, 25 })),
			want: []Reason{size, age, age},
		},
		{
			name:   "RE-07: what lies below the log start does not keep what is old behind it",
			view:   view(local(2, 9, 9, 0), limited(func(l *Limits) { l.Ms = 5 * hour })),
			change: func(v *View) { v.LogStart = 100 },
			want:   []Reason{start, age, age},
		},
		{
			name:   "a compacted log loses what lies below its start, whatever its age",
			view:   view(local(9, 9, 9, 0), limited(func(l *Limits) { l.Ms, l.Bytes = hour, 0 })),
			change: func(v *View) { v.LogStart, v.KeepsAll = 150, true },
			want:   []Reason{start},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.view)
			}
			_, lost, _ := Start(test.view, now)
			var got []Reason
			for _, loss := range lost {
				got = append(got, loss.Reason)
				if loss.Bytes != 10 {
					t.Errorf("a loss of %d bytes", loss.Bytes)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("reasons %v, want %v", got, test.want)
			}
		})
	}
}
