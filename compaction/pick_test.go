package compaction

import (
	"math"
	"testing"
)

func segmentsOf(size int64, ends ...int64) []Segment {
	segments, base := []Segment(nil), int64(0)
	for _, end := range ends {
		segments = append(segments, Segment{BaseOffset: base, EndOffset: end, Size: size, IndexBytes: 10,
			FirstTimestamp: end, LastTimestamp: end})
		base = end
	}
	return segments
}

func TestWhatMayBeCleaned(t *testing.T) {
	four := segmentsOf(100, 10, 20, 30, 40)
	for name, c := range map[string]struct {
		view View
		now  int64
		want assessment
	}{
		"nothing": {view: View{CleanedUntil: 7}, want: assessment{StartOffset: 7, EndOffset: 7}},
		"all but the active segment": {
			view: View{Segments: four, LastStable: 40, Settings: Settings{MaxLagMs: math.MaxInt64}},
			want: assessment{EndOffset: 30, CleanableBytes: 300},
		},
		"the log start has moved past what was cleaned": {
			view: View{Segments: four[1:], LastStable: 40, CleanedUntil: 3, Settings: Settings{MaxLagMs: math.MaxInt64}},
			want: assessment{StartOffset: 10, EndOffset: 30, CleanableBytes: 200},
		},
		"a pass ended within a segment": {
			view: View{Segments: four, LastStable: 40, CleanedUntil: 15, Settings: Settings{MaxLagMs: math.MaxInt64}},
			want: assessment{StartOffset: 15, EndOffset: 30, CleanBytes: 100, CleanableBytes: 200},
		},
		"a transaction is open": {
			view: View{Segments: four, LastStable: 25, Settings: Settings{MaxLagMs: math.MaxInt64}},
			want: assessment{EndOffset: 20, CleanableBytes: 200},
		},
		"too young": {
			view: View{Segments: four, LastStable: 40, Settings: Settings{MinLagMs: 5, MaxLagMs: math.MaxInt64}},
			now:  24, want: assessment{EndOffset: 10, CleanableBytes: 100},
		},
		"waiting for too long": {
			view: View{Segments: four, LastStable: 40, CleanedUntil: 10, Settings: Settings{MaxLagMs: 5}},
			now:  32, want: assessment{StartOffset: 10, EndOffset: 30, CleanBytes: 100, CleanableBytes: 200, DelayMs: 7},
		},
	} {
		if got := assess(c.view, c.now); got != c.want {
			t.Errorf("%s: %+v instead of %+v", name, got, c.want)
		}
	}
}

func TestWhenAPassIsDue(t *testing.T) {
	half := assessment{EndOffset: 10, CleanBytes: 100, CleanableBytes: 100}
	urgent := assessment{EndOffset: 10, CleanBytes: 900, CleanableBytes: 100, DelayMs: 1}
	for name, c := range map[string]struct {
		assessment assessment
		minRatio   float64
		want       bool
	}{
		"dirtier":        {half, 0.4, true},
		"as dirty":       {half, 0.5, false},
		"urgent":         {urgent, 0.5, true},
		"nothing to do":  {assessment{DelayMs: 1, CleanBytes: 100}, 0, false},
		"nothing at all": {assessment{}, 0, false},
	} {
		if got := c.assessment.Due(c.minRatio); got != c.want {
			t.Errorf("%s: %t at a ratio of %g", name, got, c.assessment.Ratio())
		}
	}
}

func TestCO05GroupsFitIntoASegment(t *testing.T) {
	roomy := Settings{SegmentBytes: 1 << 30, IndexBytes: 1 << 20}
	for name, c := range map[string]struct {
		ends     []int64
		settings Settings
		until    int64
		want     []int // segments of each group
	}{
		"all together":              {[]int64{10, 20, 30}, roomy, 30, []int{3}},
		"not beyond the map":        {[]int64{10, 20, 30}, roomy, 20, []int{2}},
		"within a segment":          {[]int64{10, 20, 30}, roomy, 11, []int{2}},
		"segment.bytes":             {[]int64{10, 20, 30}, Settings{SegmentBytes: 200, IndexBytes: 1 << 20}, 30, []int{2, 1}},
		"larger than segment.bytes": {[]int64{10, 20}, Settings{SegmentBytes: 50, IndexBytes: 1 << 20}, 20, []int{1, 1}},
		"segment.index.bytes":       {[]int64{10, 20, 30}, Settings{SegmentBytes: 1 << 30, IndexBytes: 25}, 30, []int{2, 1}},
		"offsets that just fit":     {[]int64{10, math.MaxInt32 + 1}, roomy, math.MaxInt32 + 1, []int{2}},
		"offsets that do not fit":   {[]int64{10, math.MaxInt32 + 2}, roomy, math.MaxInt32 + 2, []int{1, 1}},
	} {
		groups := group(segmentsOf(100, c.ends...), c.settings, c.until)
		ok := len(groups) == len(c.want)
		for i := 0; ok && i < len(groups); i++ {
			ok = len(groups[i]) == c.want[i]
		}
		if !ok {
			t.Errorf("%s: %v instead of groups of %v", name, groups, c.want)
		}
	}
}
