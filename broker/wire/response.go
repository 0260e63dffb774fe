package wire

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/vfs"
)

// Chunk is a piece of a response: bytes in memory, or a region of a file that is sent without being read. Exactly one
// of the two is set.
type Chunk struct {
	Bytes  []byte
	Region vfs.Region
	// Hold, if not nil, is released together with the response: it keeps Bytes valid (cached remote data).
	Hold vfs.Holder
}

// Size is the number of bytes the chunk puts on the wire.
func (c Chunk) Size() int64 { return int64(len(c.Bytes)) + c.Region.Size() }

// Response is one whole response frame, length prefix included, as a list of chunks.
type Response struct {
	chunks []Chunk
	size   int64
	inline [3]Chunk // header, one partition's records, trailer: the common Fetch needs no slice of its own

	throttleMs   int32
	errors       []ErrorCount
	inlineErrors [2]ErrorCount
}

// NewResponse makes an empty response.
func NewResponse() *Response {
	r := &Response{}
	r.chunks = r.inline[:0]
	return r
}

// AppendChunk adds a chunk and takes over its references. An empty chunk is released at once.
func (r *Response) AppendChunk(chunk Chunk) {
	size := chunk.Size()
	if size == 0 {
		chunk.release()
		return
	}
	r.chunks = append(r.chunks, chunk)
	r.size += size
}

// Chunks returns the chunks in sending order. They belong to the response.
func (r *Response) Chunks() []Chunk { return r.chunks }

// Size is the number of bytes of the frame, the length prefix included.
func (r *Response) Size() int64 { return r.size }

// BytesInMemory is how much memory the response holds until it is released: all but regions of files.
func (r *Response) BytesInMemory() int64 {
	if r == nil {
		return 0
	}
	var size int64
	for i := range r.chunks {
		size += int64(len(r.chunks[i].Bytes))
	}
	return size
}

// Throttle is how long the answer tells the client to wait before its next request (throttle_time_ms). The server
// reads nothing from the connection for as long, so that a client which does not obey gains nothing (KIP-219).
func (r *Response) Throttle() time.Duration { return time.Duration(r.throttleMs) * time.Millisecond }

// Release gives back every reference the chunks hold. It must be called exactly once, after the last use; a second
// call does nothing.
func (r *Response) Release() {
	if r == nil {
		return
	}
	chunks := r.chunks
	r.chunks, r.size = nil, 0
	for i := range chunks {
		chunks[i].release()
		chunks[i] = Chunk{}
	}
}

func (c Chunk) release() {
	c.Region.Release()
	if c.Hold != nil {
		c.Hold.Release()
	}
}

const (
	lengthPrefixSize   = 4
	responseHeaderSize = lengthPrefixSize + 4 // length, correlation id
)

// EncodeResponse encodes a response of kmsg with its header. The header is version 1 (with tagged fields, none of which
// exist) when the body is flexible, except for ApiVersions, whose header is always version 0: a client must be able to
// read it before it knows what we speak.
func EncodeResponse(version int16, correlationID int32, body kmsg.Response) *Response {
	body.SetVersion(version)
	frame := make([]byte, responseHeaderSize, 256)
	if body.IsFlexible() && body.Key() != KeyApiVersions {
		frame = append(frame, 0)
	}
	frame = body.AppendTo(frame)
	r := finishFrame(frame, correlationID)
	r.countErrors(body)
	if throttling, ok := body.(kmsg.ThrottleResponse); ok {
		r.throttleMs, _ = throttling.Throttle()
	}
	return r
}

// finishFrame fills in length and correlation id of a frame that consists of one run of bytes.
func finishFrame(frame []byte, correlationID int32) *Response {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-lengthPrefixSize))
	binary.BigEndian.PutUint32(frame[lengthPrefixSize:], uint32(correlationID))
	r := NewResponse()
	r.AppendChunk(Chunk{Bytes: frame})
	return r
}
