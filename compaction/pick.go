package compaction

import "math"

// assessment is how much of a log can be cleaned, and how urgent that is.
type assessment struct {
	StartOffset    int64 // the first dirty offset
	EndOffset      int64 // the first one that may not be cleaned, the base of a segment
	CleanBytes     int64 // before the dirty part
	CleanableBytes int64 // of the dirty part
	DelayMs        int64 // how long the oldest dirty record has been waiting beyond max.compaction.lag.ms
}

// assess finds the part of a log that may be cleaned: it ends before the active segment, before the last stable offset
// and before the first dirty segment with a record that is younger than min.compaction.lag.ms.
func assess(view View, now int64) assessment {
	a := assessment{StartOffset: view.CleanedUntil, EndOffset: view.CleanedUntil}
	if len(view.Segments) == 0 {
		return a
	}
	a.StartOffset = max(view.CleanedUntil, view.Segments[0].BaseOffset)
	a.EndOffset = a.StartOffset
	sealed := view.Segments[:len(view.Segments)-1]
	earliest := int64(math.MaxInt64)
	open := true // the dirty part goes on
	for _, s := range sealed {
		if s.EndOffset <= a.StartOffset {
			a.CleanBytes += s.Size
			continue
		}
		if s.FirstTimestamp > 0 {
			earliest = min(earliest, s.FirstTimestamp)
		}
		young := view.Settings.MinLagMs > 0 && s.LastTimestamp > now-view.Settings.MinLagMs
		open = open && !young && s.EndOffset <= view.LastStable
		if open {
			a.CleanableBytes += s.Size
			a.EndOffset = s.EndOffset
		}
	}
	if due := now - max(0, view.Settings.MaxLagMs); earliest < due {
		a.DelayMs = due - earliest
	}
	return a
}

// Ratio is the dirty part of what is not cleaned yet but may be, in all that may be cleaned: 0 to 1.
func (a assessment) Ratio() float64 {
	if a.CleanableBytes == 0 {
		return 0
	}
	return float64(a.CleanableBytes) / float64(a.CleanBytes+a.CleanableBytes)
}

// HasWork tells whether a pass would find anything dirty.
func (a assessment) HasWork() bool { return a.EndOffset > a.StartOffset }

// Due tells whether a pass is worth it, or must be because of max.compaction.lag.ms (KIP-354).
func (a assessment) Due(minRatio float64) bool {
	return a.CleanableBytes > 0 && (a.DelayMs > 0 || a.Ratio() > minRatio)
}

// group puts neighbouring segments together that become one: within segment.bytes, the size of an index, and the
// offsets that an index can tell apart. The segments are those that begin before endOffset.
func group(segments []Segment, settings Settings, endOffset int64) [][]Segment {
	var groups [][]Segment
	for start := 0; start < len(segments) && segments[start].BaseOffset < endOffset; {
		size, indexBytes := segments[start].Size, segments[start].IndexBytes
		next := start + 1
		for ; next < len(segments) && segments[next].BaseOffset < endOffset; next++ {
			s := segments[next]
			size, indexBytes = size+s.Size, indexBytes+s.IndexBytes
			spans := s.EndOffset-1-segments[start].BaseOffset > math.MaxInt32
			if size > settings.SegmentBytes || indexBytes > settings.IndexBytes || spans {
				break
			}
		}
		groups = append(groups, segments[start:next])
		start = next
	}
	return groups
}
