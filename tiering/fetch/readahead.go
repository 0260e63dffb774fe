package fetch

import (
	"math"
	"sync"
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

// stream is a reader that goes through a partition in order. Readers have no names: one is known by the offset at which
// it goes on.
type stream struct {
	last   int64 // the offset it asked for last: it may ask again, if the answer came too late for it
	next   int64 // the offset it will ask for if it goes on
	at     chunkID
	begin  int64 // position of last in the data of that upload
	end    int64 // position of next, if it is still in there
	window int64 // bytes to be read ahead of it
	epoch  int64 // when it was seen last
}

// readAhead keeps track of streams.
type readAhead struct {
	limit int64 // bytes ahead of one stream
	share int64 // bytes ahead of all of them

	mu      sync.Mutex                          // guards the fields below
	streams map[kafka.TopicIDPartition][]stream // the least recently used first
	epoch   int64                               // the second at which one was seen last
	seen    int64                               // streams in it
	before  int64                               // and in the one before
}

const (
	// maxStreams bounds the readers that are told apart in one partition. One that is forgotten begins anew.
	maxStreams = 32
	// maxStreamPartitions bounds the partitions with streams; beyond it any one goes.
	maxStreamPartitions = 4096
)

func (a *readAhead) init(limit, share int64) {
	a.limit, a.share, a.streams = limit, share, map[kafka.TopicIDPartition][]stream{}
}

// answered is what a reader got: from the offset it asked for to the next one, and where that is in the segment's data.
type answered struct{ offset, next, begin, end int64 }

// position tells where the batch of an offset begins in the data of an upload, if a reader has just been there.
func (a *readAhead) position(tp kafka.TopicIDPartition, upload kafka.UUID, offset int64) (position int64, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.streams[tp] {
		switch {
		case s.at.upload != upload:
		case s.next == offset:
			return s.end, true
		case s.last == offset:
			return s.begin, true
		}
	}
	return 0, false
}

// note takes down what a reader was answered, up to the chunk at, and tells how many bytes from there on should be read
// ahead of it. That is nothing on the first read: most look-ups of single records end with it. Each chunk that it
// enters while it goes on in order doubles the window, up to an equal share of the memory for this.
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
	s.last, s.next, s.at, s.begin, s.end = got.offset, got.next, at, got.begin, got.end
	share := max(a.share/a.count(&s), maxChunkBytes)
	if len(known) == 0 && len(a.streams) >= maxStreamPartitions {
		for some := range a.streams {
			delete(a.streams, some)
			break
		}
	}
	a.streams[tp] = append(known, s)
	return min(s.window, share)
}

// count tells how many streams there are at present, this one included.
func (a *readAhead) count(s *stream) int64 {
	if now := time.Now().Unix(); now != a.epoch {
		a.before = 0
		if now == a.epoch+1 {
			a.before = a.seen
		}
		a.epoch, a.seen = now, 0
	}
	if s.epoch != a.epoch {
		s.epoch = a.epoch
		a.seen++
	}
	return max(a.seen, a.before)
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
	if got.end == o.tail.DataBytes {
		r.chunks.pass(o.chunk(chunk))
	}
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
