package fetch

import (
	"math"
	"sync"

	"github.com/firnlog/firn/internal/kafka"
)

// stream is a reader that goes through a partition in order. Readers have no names: one is known by the offset at which
// it goes on.
type stream struct {
	last   int64 // the offset it asked for last: it may ask again, if the answer came too late for it
	next   int64 // the offset it will ask for if it goes on
	at     chunkID
	window int64 // bytes to be read ahead of it
}

// readAhead keeps track of streams.
type readAhead struct {
	limit int64 // bytes ahead of one stream

	mu      sync.Mutex                          // guards the field below
	streams map[kafka.TopicIDPartition][]stream // the least recently used first
}

const (
	// maxStreams bounds the readers that are told apart in one partition. One that is forgotten begins anew.
	maxStreams = 8
	// maxStreamPartitions bounds the partitions with streams; beyond it any one goes.
	maxStreamPartitions = 4096
)

func (a *readAhead) init(limit int64) {
	a.limit, a.streams = limit, map[kafka.TopicIDPartition][]stream{}
}

// answered is what a reader got: from the offset it asked for to the next one, up to a position in the segment's data.
type answered struct{ offset, next, end int64 }

// note takes down what a reader was answered, up to the chunk at, and tells how many bytes from there on should be read
// ahead of it. That is nothing on the first read: most look-ups of single records end with it. Each chunk that it
// enters while it goes on in order doubles the window.
func (a *readAhead) note(tp kafka.TopicIDPartition, got answered, at chunkID) (bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, s := a.take(tp, got.offset)
	switch {
	case s.next == got.offset && s.window == 0:
		s.window = min(maxChunkBytes, a.limit)
	case s.next == got.offset && s.at != at:
		s.window = min(2*s.window, a.limit)
	}
	s.last, s.next, s.at = got.offset, got.next, at
	if len(known) == 0 && len(a.streams) >= maxStreamPartitions {
		for some := range a.streams {
			delete(a.streams, some)
			break
		}
	}
	a.streams[tp] = append(known, s)
	return s.window
}

// take removes the stream that an offset belongs to, or makes one, for whose sake the oldest may go.
func (a *readAhead) take(tp kafka.TopicIDPartition, offset int64) (others []stream, s stream) {
	known := a.streams[tp]
	for i, s := range known {
		if s.next == offset || s.last == offset {
			return append(known[:i], known[i+1:]...), s
		}
	}
	if len(known) == maxStreams {
		known = append(known[:0], known[1:]...)
	}
	return known, stream{next: -1}
}

// maxChunksAhead bounds how many chunks one read has fetched ahead of it: small segments are many to the window.
const maxChunksAhead = 32

// readOn reads ahead of a reader, across segment borders.
func (r *Reader) readOn(at segmentAt, o *object, got answered) {
	chunk := o.index(got.end - 1)
	left := r.ahead.note(at.tp, got, chunkID{o.entry.UploadID, chunk})
	budget := maxChunksAhead
	for chunk++; left > 0 && budget > 0 && chunk*o.chunkBytes < o.tail.DataBytes; chunk++ {
		r.chunks.readAhead(o, chunk)
		left -= o.chunkSize(chunk)
		budget--
	}
	if left > 0 && budget > 0 {
		r.work.Go(func() { r.readBeyond(at, left, budget) })
	}
}

// readBeyond reads the segments behind one ahead. Which they are may have to be read first.
func (r *Reader) readBeyond(at segmentAt, left int64, budget int) {
	for entry, err := range at.tree.Segments(r.background(), at.entry.EndOffset, math.MaxInt64) {
		if err != nil || left <= 0 || budget <= 0 {
			return // what fails here fails again when somebody asks for it
		}
		bytes := min(left, entry.DataBytes)
		r.work.Go(func() { r.readAheadIn(segmentOf(at.tree, entry), bytes) })
		left -= entry.DataBytes
		budget -= 1 + int(bytes/maxChunkBytes)
	}
}

// readAheadIn reads the first bytes of a segment ahead. What fails here fails again when somebody asks for it.
func (r *Reader) readAheadIn(entry remoteSegment, bytes int64) {
	o, err := r.open(r.background(), entry)
	if err != nil {
		return
	}
	for at := int64(0); at*o.chunkBytes < min(bytes, o.tail.DataBytes); at++ {
		r.chunks.readAhead(o, at)
	}
}
