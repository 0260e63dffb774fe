package retention

import "iter"

// Unlimited is the value of a limit that is not set.
const Unlimited = -1

// Limits are a topic's retention settings; Unlimited switches one off.
type Limits struct {
	Ms, Bytes           int64 // retention.ms, retention.bytes: of the whole log
	LocalMs, LocalBytes int64 // local.retention.*: of the local copy of what is remote
}

// Segment is one segment, local or remote: the records of [BaseOffset, EndOffset).
type Segment struct {
	BaseOffset, EndOffset int64
	Bytes                 int64
	MaxTimestamp          int64 // largest record time in ms; −1 unknown
	LastAppendedAt        int64 // broker's time of the last append in ms; −1 unknown
	Active                bool  // still written to: never removed, only rolled

	// Parts are the segments that this one stands for, in order: a long history is not listed one by one before it has to
	// be. Its bytes are theirs together and its times those of the youngest. It is nil for a segment. Segments is how many
	// there are; 0 means one.
	Parts    func() iter.Seq2[Segment, error]
	Segments int64
}

// View is a log at one moment.
type View struct {
	LogStart      int64
	HighWatermark int64
	Local         []Segment // ascending; the last one is the active one
	// Tiered logs have a remote part: Remote ascending, ending at RemoteEnd. Local segments below RemoteEnd are copies.
	Tiered    bool
	Remote    []Segment
	RemoteEnd int64
	Limits    Limits
	// KeepsAll is set when the cleanup policy has no delete: only the log start offset removes segments.
	KeepsAll bool
}

// timestamp is the age of a segment's youngest record: its record time, but never later than it was appended, as a
// producer whose clock is ahead must not keep data for ever (KAFKA-6482).
func (s Segment) timestamp() int64 {
	if s.MaxTimestamp < 0 {
		return s.LastAppendedAt
	}
	if s.LastAppendedAt >= 0 {
		return min(s.MaxTimestamp, s.LastAppendedAt)
	}
	return s.MaxTimestamp
}

// expired tells whether all records of the segment are older than maxAge ms. A segment without any time is not.
func (s Segment) expired(maxAge, now int64) bool {
	at := s.timestamp()
	return maxAge != Unlimited && at >= 0 && now-at > maxAge
}

// Bytes is the size of the log, what is both local and remote once.
func (v View) Bytes() int64 { return bytesOf(v.whole()) }

// whole lists every segment of the log once: the remote ones, then the local ones that are not copies of them.
func (v View) whole() []Segment {
	segments := make([]Segment, 0, len(v.Remote)+len(v.Local))
	segments = append(segments, v.Remote...)
	for _, segment := range v.Local {
		if !v.Tiered || segment.EndOffset > v.RemoteEnd || segment.Active {
			segments = append(segments, segment)
		}
	}
	return segments
}

// Reason is why a segment goes.
type Reason int

// The reasons, in the order in which they are looked for.
const (
	BySize  Reason = iota // retention.bytes
	ByAge                 // retention.ms
	ByStart               // it lies below the log start offset, which somebody else has moved
	reasons = 3
)

// String is the reason as a label of metrics.
func (r Reason) String() string { return [reasons]string{"size", "age", "log_start"}[r] }

// Loss is a segment that goes, or several.
type Loss struct {
	Reason   Reason
	Bytes    int64
	Segments int64
}

// Start is where the log should begin: past all segments, from the oldest on, that are too old or that the log is too
// large with. It never goes back, nor past the high watermark, nor into the active segment. The losses are the segments
// that end at or before it. An error is one of listing parts: nothing is known for sure then.
func Start(v View, now int64) (int64, []Loss, error) {
	segments := v.whole()
	c := cursor{view: v, now: now, excess: bytesOf(segments) - v.Limits.Bytes, start: v.LogStart}
	for _, segment := range segments {
		if goes, err := c.take(segment); err != nil {
			return v.LogStart, nil, err
		} else if !goes {
			break
		}
	}
	return c.start, c.lost, nil
}

// cursor goes through a log from its oldest segment on.
type cursor struct {
	view   View
	now    int64
	excess int64 // bytes that may go
	start  int64
	lost   []Loss
}

// take tells whether a segment goes as a whole, and lets go of it, or of the first of its parts.
func (c *cursor) take(segment Segment) (goes bool, err error) {
	reason, goes := c.view.reason(segment, c.excess, c.now)
	if goes && !segment.Active && segment.EndOffset <= c.view.HighWatermark {
		c.excess -= segment.Bytes
		c.start = max(c.start, segment.EndOffset)
		// Whoever moved the start of a tiered log has let go of what the bucket has.
		if reason != ByStart || !c.view.Tiered {
			c.lost = append(c.lost, Loss{Reason: reason, Bytes: segment.Bytes, Segments: max(segment.Segments, 1)})
		}
		return true, nil
	}
	if segment.Parts == nil {
		return false, nil
	}
	for part, err := range segment.Parts() {
		if err != nil {
			return false, err
		}
		if goes, err := c.take(part); !goes || err != nil {
			return false, err
		}
	}
	return true, nil
}

// reason tells whether a segment goes, the oldest that is left, and why.
func (v View) reason(segment Segment, excess, now int64) (Reason, bool) {
	switch {
	case segment.EndOffset <= v.LogStart:
		return ByStart, true
	case v.KeepsAll:
		return 0, false
	case v.Limits.Bytes != Unlimited && excess >= segment.Bytes:
		return BySize, true
	}
	return ByAge, segment.expired(v.Limits.Ms, now)
}

func bytesOf(segments []Segment) (total int64) {
	for _, segment := range segments {
		total += segment.Bytes
	}
	return total
}

// LocalStart is where the local part of the log should begin: past the segments that lie below the log start offset
// and, where the bucket has them, past those that are too old or too large for local disk.
func LocalStart(v View, now int64) int64 {
	start := int64(0)
	excess := bytesOf(v.Local) - v.Limits.LocalBytes
	for _, segment := range v.Local {
		covered := v.Tiered && segment.EndOffset <= v.RemoteEnd
		tooLarge := v.Limits.LocalBytes != Unlimited && excess >= segment.Bytes
		goes := segment.EndOffset <= v.LogStart ||
			covered && (tooLarge || segment.expired(v.Limits.LocalMs, now))
		if segment.Active || !goes {
			break
		}
		excess -= segment.Bytes
		start = segment.EndOffset
	}
	return start
}

// RollDue tells whether the active segment should be sealed because all it holds is expired: a topic that is no longer
// written would otherwise keep its last records for ever.
func RollDue(v View, now int64) bool {
	if v.KeepsAll || len(v.Local) == 0 {
		return false
	}
	active := v.Local[len(v.Local)-1]
	return active.Active && active.EndOffset > active.BaseOffset && active.EndOffset <= v.HighWatermark &&
		active.expired(v.Limits.Ms, now)
}
