package storage

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// SegmentInfo describes a local segment.
type SegmentInfo struct {
	BaseOffset         int64
	EndOffset          int64 // exclusive: the next segment's base, or the log end
	Size               int64
	IndexBytes         int64 // of the offset index and of the time index, whichever is larger
	FirstTimestamp     int64 // largest timestamp of the first batch; −1 without
	MaxTimestamp       int64 // −1 without
	MaxTimestampOffset int64 // of the first record with it
	FirstAppendedAt    int64 // broker time in ms, −1 unknown
	LastAppendedAt     int64
	Sealed             bool
	Flushed            bool
	Damaged            bool // its batches are not all readable; it is not served and must not be uploaded
}

// Segments lists the local segments, oldest first; the last is the active one.
func (l *Log) Segments() []SegmentInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	infos := make([]SegmentInfo, len(l.segments))
	for i, s := range l.segments {
		infos[i] = SegmentInfo{
			BaseOffset:         s.baseOffset,
			EndOffset:          l.endOffset.Load(),
			Size:               s.state.Size,
			IndexBytes:         s.indexBytes(),
			FirstTimestamp:     s.state.FirstTimestamp,
			MaxTimestamp:       s.state.MaxTimestamp,
			MaxTimestampOffset: s.state.MaxTimestampOffset,
			FirstAppendedAt:    s.state.FirstAppendedAt,
			LastAppendedAt:     s.state.LastAppendedAt,
			Sealed:             s.state.Sealed,
			Flushed:            s.state.EndOffset <= l.flushedOffset.Load(),
			Damaged:            s.damage.Load() != nil,
		}
		if i > 0 {
			infos[i-1].EndOffset = s.baseOffset
		}
	}
	return infos
}

// SegmentFiles is a sealed segment as an upload needs it.
type SegmentFiles struct {
	Data        vfs.Region // holds a reference: release it once
	OffsetIndex []byte     // Kafka's file bytes
	TimeIndex   []byte
}

// SegmentFiles opens a sealed segment for upload. The log start may lie inside it, or even above it for a moment.
func (l *Log) SegmentFiles(baseOffset int64) (SegmentFiles, error) {
	view, err := l.sealedView(baseOffset)
	if err != nil {
		return SegmentFiles{}, err
	}
	if err := view.acquire(); err != nil {
		return SegmentFiles{}, l.readError(view.segment, err)
	}
	files, err := view.copyIndexes()
	view.releaseIndexes()
	if err != nil {
		view.segment.Release()
		return SegmentFiles{}, l.readError(view.segment, err)
	}
	files.Data = vfs.NewRegion(view.file, 0, view.size, view.segment)
	return files, nil
}

// sealedView finds a sealed segment by its base offset.
func (l *Log) sealedView(baseOffset int64) (segmentView, error) {
	if err := l.Err(); err != nil {
		return segmentView{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.segmentIndex(baseOffset)
	if l.closed || at < 0 || at == len(l.segments)-1 || l.segments[at].baseOffset != baseOffset {
		return segmentView{}, fmt.Errorf("%s has no sealed segment with base offset %d: %w",
			l.topicPartition, baseOffset, kafka.OffsetOutOfRange)
	}
	return l.viewOf(at), nil
}

func (v *segmentView) copyIndexes() (files SegmentFiles, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	return SegmentFiles{OffsetIndex: slices.Clone(v.offsets), TimeIndex: slices.Clone(v.times)}, nil
}

// MarkDamaged says that a segment's batches are not what they should be. It is not served from now on and not
// uploaded, while the rest of the log serves.
func (l *Log) MarkDamaged(baseOffset int64, damage *CorruptError) {
	l.mu.Lock()
	var found *segment
	for _, s := range l.segments {
		if s.baseOffset == baseOffset {
			found = s
		}
	}
	l.mu.Unlock()
	if found != nil {
		_ = l.readError(found, damage) // remembered and logged there
	}
}
