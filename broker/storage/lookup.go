package storage

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// TimestampOffset is a record that a look-up by time has found.
type TimestampOffset struct {
	Offset    int64
	Timestamp int64
	Epoch     kafka.LeaderEpoch // that the record was written under
}

// OffsetForTimestamp finds the first local record below upTo whose timestamp is at or after the one asked for. Records
// below the log start offset do not count. No such record is not an error.
func (l *Log) OffsetForTimestamp(timestamp, upTo int64) (TimestampOffset, bool, error) {
	base := l.LocalLogStartOffset()
	for {
		view, more, err := l.viewForTimestamp(base, timestamp)
		if err != nil || !more {
			return TimestampOffset{}, false, err
		}
		found, ok, err := view.offsetForTimestamp(timestamp, l.LocalLogStartOffset())
		switch {
		case err == errSegmentRemoved:
			base = l.LocalLogStartOffset()
			continue
		case err != nil:
			return TimestampOffset{}, false, l.readError(view.segment, err)
		case ok && found.Offset >= upTo:
			return TimestampOffset{}, false, nil
		case ok:
			return found, true, nil
		case view.nextBase < 0:
			return TimestampOffset{}, false, nil
		}
		base = view.nextBase // its largest timestamp lies below the log start
	}
}

// viewForTimestamp finds the first segment, from the one that answers for an offset on, with such a timestamp.
func (l *Log) viewForTimestamp(offset, timestamp int64) (segmentView, bool, error) {
	if err := l.Err(); err != nil {
		return segmentView{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return segmentView{}, false, fmt.Errorf("read %s, which is closed: %w", l.topicPartition, kafka.KafkaStorageError)
	}
	for i := max(l.segmentIndex(offset), 0); i < len(l.segments); i++ {
		if s := l.segments[i]; s.state.Size > 0 && s.state.MaxTimestamp >= timestamp {
			return l.viewOf(i), true, nil
		}
	}
	return segmentView{}, false, nil
}

func (v *segmentView) offsetForTimestamp(timestamp, startOffset int64) (TimestampOffset, bool, error) {
	found, ok, err := v.tryOffsetForTimestamp(timestamp, startOffset)
	if err == errIndexMismatch && v.maps != nil {
		v.distrustIndexes()
		found, ok, err = v.tryOffsetForTimestamp(timestamp, startOffset)
	}
	return found, ok, err
}

func (v *segmentView) tryOffsetForTimestamp(timestamp, startOffset int64) (TimestampOffset, bool, error) {
	if err := v.acquire(); err != nil {
		return TimestampOffset{}, false, err
	}
	defer v.release()
	older, found, err := v.lookupTime(timestamp)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	from := startOffset
	if found { // all batches up to that offset are older
		from = max(from, v.segment.baseOffset+int64(older.relative)+1)
	}
	scan := v.segment.env.scan()
	defer v.segment.env.put(scan)
	place, err := v.seek(scan, from)
	for ; err == nil; place, err = nextPlace(scan) {
		if place.maxTimestamp < timestamp {
			continue
		}
		batch, err := readBatch(v.file, place.position, int(place.size))
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if found, ok, err := v.segment.firstAtOrAfter(batch, timestamp, startOffset); ok || err != nil {
			return found, ok, err
		}
	}
	if err == io.EOF {
		err = nil
	}
	return TimestampOffset{}, false, err
}

func (v *segmentView) lookupTime(timestamp int64) (entry timeEntry, found bool, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	entry, found = findTime(v.times, timestamp)
	return entry, found, nil
}

// firstAtOrAfter finds the first record of a batch, at or after an offset, with such a timestamp.
func (s *segment) firstAtOrAfter(batch record.Batch, timestamp, startOffset int64) (TimestampOffset, bool, error) {
	found, ok, err := s.env.lookup.OffsetForTimestamp(batch, timestamp, startOffset)
	if !ok || err != nil {
		return TimestampOffset{}, false, err
	}
	return TimestampOffset{Offset: found.Offset, Timestamp: found.Timestamp, Epoch: batch.LeaderEpoch()}, true, nil
}

// MaxTimestamp finds the first of the local records below upTo that have the largest timestamp.
func (l *Log) MaxTimestamp(upTo int64) (TimestampOffset, bool, error) {
	for {
		largest, ok, retry, err := l.maxTimestamp(upTo)
		if !retry {
			return largest, ok, err
		}
	}
}

func (l *Log) maxTimestamp(upTo int64) (largest TimestampOffset, ok, retry bool, err error) {
	if err := l.Err(); err != nil {
		return TimestampOffset{}, false, false, err
	}
	views, largest := l.viewsForMaxTimestamp(upTo)
	for _, view := range views {
		found, ok, err := view.maxTimestampBefore(upTo, l.LocalLogStartOffset())
		if err == errSegmentRemoved {
			return TimestampOffset{}, false, true, nil
		}
		if err != nil {
			return TimestampOffset{}, false, false, l.readError(view.segment, err)
		}
		if ok && (found.Timestamp > largest.Timestamp ||
			found.Timestamp == largest.Timestamp && found.Offset < largest.Offset) {
			largest = found
		}
	}
	return largest, largest.Offset >= 0, false, nil
}

// viewsForMaxTimestamp returns the largest timestamp of the segments that lie wholly within the bounds, and views of
// the others: their own largest may be on the wrong side.
func (l *Log) viewsForMaxTimestamp(upTo int64) (views []segmentView, largest TimestampOffset) {
	largest = TimestampOffset{Offset: -1, Timestamp: record.NoTimestamp, Epoch: kafka.NoLeaderEpoch}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, largest
	}
	start := l.LocalLogStartOffset()
	for i, s := range l.segments {
		if s.state.MaxTimestampLast < 0 || s.state.EndOffset <= start || s.baseOffset >= upTo {
			continue
		}
		if s.state.MaxTimestampOffset < start || s.state.MaxTimestampOffset >= upTo {
			views = append(views, l.viewOf(i))
			continue
		}
		if s.state.MaxTimestamp > largest.Timestamp {
			largest = TimestampOffset{
				Offset: s.state.MaxTimestampOffset, Timestamp: s.state.MaxTimestamp,
				Epoch: l.epochs.at(s.state.MaxTimestampOffset),
			}
		}
	}
	return views, largest
}

// maxTimestampBefore walks the batches of a segment that is only partly within the bounds.
func (v *segmentView) maxTimestampBefore(upTo, startOffset int64) (largest TimestampOffset, ok bool, err error) {
	if err := v.acquire(); err != nil {
		return TimestampOffset{}, false, err
	}
	defer v.release()
	largest = TimestampOffset{Offset: -1, Timestamp: record.NoTimestamp}
	var best batchPlace // the first batch with the largest timestamp, unless largest has been found already
	scan := v.segment.env.scan()
	defer v.segment.env.put(scan)
	scan.reset(v.file, 0, v.size)
	place, err := nextPlace(scan)
	for ; err == nil && place.nextOffset <= upTo; place, err = nextPlace(scan) {
		switch {
		case place.nextOffset <= startOffset || place.maxTimestamp <= largest.Timestamp:
		case place.baseOffset >= startOffset:
			best, largest = place, TimestampOffset{Offset: -1, Timestamp: place.maxTimestamp}
		default: // the log start lies within: the largest may be below it
			if largest, err = v.largestFrom(place, startOffset); err != nil {
				return largest, false, err
			}
		}
	}
	if err != nil && err != io.EOF {
		return largest, false, err
	}
	if largest.Offset >= 0 || best.size == 0 {
		return largest, largest.Offset >= 0, nil
	}
	batch, err := readBatch(v.file, best.position, int(best.size))
	if err != nil {
		return largest, false, err
	}
	return v.segment.firstAtOrAfter(batch, largest.Timestamp, startOffset)
}

// largestFrom is the first record with the largest timestamp among those of a batch at or after an offset.
func (v *segmentView) largestFrom(place batchPlace, startOffset int64) (TimestampOffset, error) {
	largest := TimestampOffset{Offset: -1, Timestamp: record.NoTimestamp}
	batch, err := readBatch(v.file, place.position, int(place.size))
	if err != nil {
		return largest, err
	}
	found, ok, err := v.segment.env.lookup.MaxTimestamp(batch, startOffset)
	if !ok || err != nil {
		return largest, err
	}
	return TimestampOffset{Offset: found.Offset, Timestamp: found.Timestamp, Epoch: batch.LeaderEpoch()}, nil
}
