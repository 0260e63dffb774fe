package upload

import (
	"time"

	"github.com/firnlog/firn/broker/storage"
)

// untilRoll tells how long the active segment may stay open if none of its records is to wait longer than after before
// it is on its way into the bucket; false if it has no records. A segment of which nobody knows when it
// began, since the node was restarted, began long ago.
func untilRoll(segments []storage.SegmentInfo, after time.Duration, now int64) (time.Duration, bool) {
	if len(segments) == 0 {
		return 0, false
	}
	active := segments[len(segments)-1]
	if active.Sealed || active.EndOffset == active.BaseOffset {
		return 0, false
	}
	if active.FirstAppendedAt < 0 {
		return 0, true
	}
	return max(0, time.UnixMilli(active.FirstAppendedAt).Add(after).Sub(time.UnixMilli(now))), true
}

// rolls tells whether segments are sealed for their age at all: not where they are held back on purpose.
func (s Settings) rolls() bool { return !s.Paused && !s.Hold.holds() }

// roll seals the active segment if it is time, and tells how long to sleep at most before the next look. Appends to an
// empty segment wake nobody, so that looks are no further apart than records may wait.
func (t *Task) roll(log *storage.Log) (next time.Duration, err error) {
	after := time.Duration(t.uploader.rollAfter.Load())
	if after <= 0 || !t.settings.Load().rolls() {
		return t.options.Interval, nil
	}
	next = min(t.options.Interval, after)
	left, open := untilRoll(log.Segments(), after, time.Now().UnixMilli())
	switch {
	case !open:
		return next, nil
	case left > 0:
		return min(next, left), nil
	}
	return next, log.Roll()
}
