package manifest

import "github.com/firnlog/firn/metastore/command"

// Limits is what retention goes by.
type Limits struct {
	LogStartOffset int64
	RetentionMs    int64 // −1: none
	RetentionBytes int64 // −1: none
	Now            int64 // Unix milliseconds
	// LocalBytes is what the log holds above the remote end. What is local and remote counts once.
	LocalBytes int64
}

// Expiry says which segments at the front of a run have expired, each for its own reason; a run expires only from the
// front. The whole count is the largest.
type Expiry struct {
	ByLogStart int
	ByTime     int
	BySize     int
}

// Count is how many segments at the front have expired.
func (x Expiry) Count() int { return max(x.ByLogStart, x.ByTime, x.BySize) }

// Expired tells how much of a run retention takes away. Only whole segments expire.
func (e Entries) Expired(limits Limits) Expiry {
	return Expiry{ByLogStart: e.endingAfter(limits.LogStartOffset), ByTime: e.expiredByTime(limits),
		BySize: e.expiredBySize(limits)}
}

// NewStart is the log start offset after count segments at the front have expired: it only ever moves forward.
func (e Entries) NewStart(count int, logStartOffset int64) int64 {
	if count == 0 {
		return logStartOffset
	}
	return max(logStartOffset, e[count-1].EndOffset)
}

func (e Entries) expiredByTime(limits Limits) int {
	if limits.RetentionMs < 0 {
		return 0
	}
	for i, entry := range e {
		if newest := newestTime(entry); newest < 0 || limits.Now-newest <= limits.RetentionMs {
			return i
		}
	}
	return len(e)
}

// newestTime is the time from which a segment's retention counts: that of its newest record, but not later than it was
// appended, so that a producer whose clock is ahead cannot keep data for ever. −1 if nothing is known.
func newestTime(entry command.SegmentEntry) int64 {
	switch {
	case entry.MaxTimestamp < 0:
		return entry.LastAppendedAt
	case entry.LastAppendedAt < 0:
		return entry.MaxTimestamp
	}
	return min(entry.MaxTimestamp, entry.LastAppendedAt)
}

// expiredBySize takes segments as long as the log without them still reaches the limit, as Kafka does.
func (e Entries) expiredBySize(limits Limits) int {
	if limits.RetentionBytes < 0 {
		return 0
	}
	excess := limits.LocalBytes - limits.RetentionBytes
	for _, entry := range e {
		excess += entry.DataBytes
	}
	for i, entry := range e {
		if excess < entry.DataBytes {
			return i
		}
		excess -= entry.DataBytes
	}
	return len(e)
}
