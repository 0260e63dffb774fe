package upload

import (
	"fmt"
	"math"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
)

// Job is one segment object to be made. It answers for [BaseOffset, EndOffset), which is what of a sealed local segment
// is not remote yet: usually all of it.
type Job struct {
	SegmentBase int64 // names the local segment
	BaseOffset  int64
	EndOffset   int64
	Bytes       int64 // of the whole local segment
	Appended    Times
}

// Times are when the first and the last batch of a segment were appended, in Unix milliseconds; −1 unknown.
type Times struct{ First, Last int64 }

// GapError says that the local log begins above the remote end: records in between are nowhere. Nothing is copied past
// a gap, because the remote part would then claim to hold what it does not.
type GapError struct {
	RemoteEnd  int64
	LocalStart int64
}

// Error prints both borders.
func (e *GapError) Error() string {
	return fmt.Sprintf("the remote part ends at offset %d but the local log begins at %d: the records between are missing",
		e.RemoteEnd, e.LocalStart)
}

// Unwrap gives the error a code for clients.
func (e *GapError) Unwrap() error { return kafka.KafkaStorageError }

// View is what a plan is made of.
type View struct {
	Segments  []storage.SegmentInfo // oldest first; the last is active
	RemoteEnd int64
	// Bound is the offset that nothing remote may reach past: the lower of high watermark and last stable offset. Below
	// it every transaction is decided.
	Bound int64
	Now   int64 // Unix milliseconds
}

// Plan lists what may be copied, in the order in which it has to be committed. Contiguity is of ranges: each begins
// where the one before it ends, whatever holes there are between the batches.
func Plan(view View, hold Hold) ([]Job, error) {
	from := view.RemoteEnd
	var jobs []Job
	for i, segment := range view.Segments {
		if segment.EndOffset <= from {
			continue
		}
		if i == 0 && segment.BaseOffset > from {
			return nil, &GapError{RemoteEnd: from, LocalStart: segment.BaseOffset}
		}
		if !segment.Sealed || segment.EndOffset > view.Bound || segment.Damaged ||
			!hold.releases(segment, view.Segments[i+1:], view.Now) {
			break // what comes after it has to wait, too
		}
		jobs = append(jobs, Job{
			SegmentBase: segment.BaseOffset,
			BaseOffset:  from,
			EndOffset:   segment.EndOffset,
			Bytes:       segment.Size,
			Appended:    Times{First: segment.FirstAppendedAt, Last: segment.LastAppendedAt},
		})
		from = segment.EndOffset
	}
	return jobs, nil
}

// Hold says how long sealed segments stay local only (KIP-1241): until either limit is reached.
type Hold struct {
	LagMs    int64 // since the newest record; unlimited = does not release
	LagBytes int64 // of newer local data; unlimited = does not release
}

const unlimited = math.MaxInt64

// HoldOf reads a topic's settings: 0 is at once, −1 is when local retention could want the segment gone.
func HoldOf(cfg *config.TopicConfig) Hold {
	return Hold{
		LagMs:    lag(cfg.RemoteCopyLagMs, cfg.EffectiveLocalRetentionMs()),
		LagBytes: lag(cfg.RemoteCopyLagBytes, cfg.EffectiveLocalRetentionBytes()),
	}
}

func lag(setting, localRetention int64) int64 {
	if setting < 0 {
		setting = localRetention
	}
	if setting < 0 {
		return unlimited
	}
	return setting
}

// holds tells whether sealed segments are held back at all.
func (h Hold) holds() bool { return h.LagMs > 0 && h.LagBytes > 0 }

// releases tells whether a segment may be copied now.
func (h Hold) releases(segment storage.SegmentInfo, newer []storage.SegmentInfo, now int64) bool {
	if !h.holds() {
		return true
	}
	if h.LagMs != unlimited && now-newest(segment) >= h.LagMs {
		return true
	}
	var bytes int64
	for _, segment := range newer {
		bytes += segment.Size
	}
	return bytes >= h.LagBytes
}

// newest is the time that a segment's age counts from: that of its newest record, but no later than it was appended, so
// that a producer whose clock is ahead cannot hold it back for ever.
func newest(segment storage.SegmentInfo) int64 {
	switch {
	case segment.MaxTimestamp < 0:
		return segment.LastAppendedAt
	case segment.LastAppendedAt < 0:
		return segment.MaxTimestamp
	}
	return min(segment.MaxTimestamp, segment.LastAppendedAt)
}

// Lag is what of a log is not remote yet.
type Lag struct {
	Segments int64 // sealed ones
	Bytes    int64 // of sealed segments, as Kafka counts them
	// PendingBytes are those of the active segment, too, and Oldest is when the oldest record among them was appended, in
	// Unix milliseconds; −1 without one. A disaster loses what has been appended since.
	PendingBytes int64
	Oldest       int64
}

// LagOf computes the lag from where things stand rather than from what has happened, so that it is right exactly when
// copies fail.
func LagOf(segments []storage.SegmentInfo, remoteEnd int64) Lag {
	lag := Lag{Oldest: -1}
	for _, segment := range segments {
		if segment.EndOffset <= remoteEnd || segment.EndOffset == segment.BaseOffset {
			continue
		}
		if segment.Sealed {
			lag.Segments++
			lag.Bytes += segment.Size
		}
		lag.PendingBytes += segment.Size
		if lag.Oldest < 0 {
			lag.Oldest = segment.FirstAppendedAt
		}
	}
	return lag
}
