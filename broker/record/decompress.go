package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// readChunk is how much gzip and zstd give at a time: large enough that the calls do not count, small enough to
	// stay in the cache.
	readChunk = 64 << 10
	// maxDecompressed bounds what one batch may decompress to. It is what franz-go accepts, and far above what a
	// producer with a sane batch.size makes; without it a megabyte could keep a core busy for minutes.
	maxDecompressed = 1 << 30
	// maxZstdWindow is the largest window that is decompressed as a stream. The decoder reserves it at once, whatever
	// the batch really holds, so it must not be what a frame claims. Levels up to 19 need no more.
	maxZstdWindow = 8 << 20
	// maxZstdWhole bounds what a frame with a larger window may hold; it is decompressed in one piece, whose memory
	// grows with what comes out.
	maxZstdWhole = 128 << 20
	// maxKeptBuffer bounds the memory that is kept for the next batch: the largest block of lz4. More is an exception.
	maxKeptBuffer = 4 << 20
)

var (
	errTooMuch   = errors.New("more comes out than one batch may hold")
	errTruncated = errors.New("compressed data ends early")
)

// source decompresses the records of one batch piece by piece. Whatever the data claims, it holds no more memory than
// a block or window of the codec, and that only in proportion to what the data has to show for it.
type source struct {
	codec    Codec
	produced int64
	limit    int64
	plain    []byte // of codec None, until it was given
	input    bytes.Reader
	buffer   []byte // gzip and zstd read into it; lz4 and snappy decode a block into it
	gzip     *gzip.Reader
	zstd     *zstd.Decoder
	whole    []byte // of a zstd frame with a large window
	isWhole  bool
	lz4      lz4Frame
	snappy   snappyStream
}

// reset begins with the records of a batch. A source that is reset, or closed, lets go of the data it had before.
func (s *source) reset(codec Codec, data []byte, limit int64) error {
	s.codec, s.produced, s.limit = codec, 0, limit
	switch codec {
	case None:
		s.plain = data
		return nil
	case Gzip:
		return s.resetGzip(data)
	case Snappy:
		return s.snappy.reset(data)
	case LZ4:
		return s.lz4.reset(data)
	case Zstd:
		return s.resetZstd(data)
	}
	return fmt.Errorf("%s does not exist", codec)
}

// next gives the next piece, never an empty one, or io.EOF. It is valid until the following call.
func (s *source) next() ([]byte, error) {
	piece, err := s.piece()
	if err != nil {
		return nil, err
	}
	s.produced += int64(len(piece))
	if s.produced > s.limit {
		return nil, errTooMuch
	}
	return piece, nil
}

func (s *source) piece() (piece []byte, err error) {
	switch s.codec {
	case Gzip:
		return s.read(s.gzip)
	case Snappy:
		piece, s.buffer, err = s.snappy.next(s.buffer)
		return piece, err
	case LZ4:
		piece, s.buffer, err = s.lz4.next(s.buffer)
		return piece, err
	case Zstd:
		if s.isWhole {
			return take(&s.whole)
		}
		return s.read(s.zstd)
	}
	return take(&s.plain)
}

// take gives all of data once.
func take(data *[]byte) ([]byte, error) {
	piece := *data
	*data = nil
	if len(piece) == 0 {
		return nil, io.EOF
	}
	return piece, nil
}

func (s *source) read(from io.Reader) ([]byte, error) {
	s.buffer = slices.Grow(s.buffer[:0], readChunk)
	for {
		n, err := from.Read(s.buffer[:readChunk])
		if n > 0 {
			// An error that came with data comes again.
			return s.buffer[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *source) resetGzip(data []byte) error {
	s.input.Reset(data)
	if s.gzip == nil {
		s.gzip = new(gzip.Reader)
	}
	return s.gzip.Reset(&s.input)
}

func (s *source) resetZstd(data []byte) error {
	var header zstd.Header
	if err := header.Decode(data); err != nil {
		return err
	}
	window := header.WindowSize
	if header.SingleSegment {
		window = header.FrameContentSize
	}
	s.isWhole = window > maxZstdWindow
	if s.isWhole {
		return s.decodeWhole(data)
	}
	s.input.Reset(data)
	if s.zstd == nil {
		decoder, err := zstd.NewReader(&s.input, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		s.zstd = decoder
		return err
	}
	return s.zstd.Reset(&s.input)
}

// decodeWhole makes a decoder of its own: such frames are rare (levels 20 to 22), and what they need is not kept.
func (s *source) decodeWhole(data []byte) error {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(min(s.limit, maxZstdWhole))))
	if err != nil {
		return err
	}
	defer decoder.Close()
	s.whole, err = decoder.DecodeAll(data, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return errTooMuch
	}
	return err
}

// release lets go of everything that is not the source's own.
func (s *source) release() error {
	s.plain, s.whole = nil, nil
	if cap(s.buffer) > maxKeptBuffer {
		s.buffer = nil
	}
	s.input.Reset(nil)
	s.lz4, s.snappy = lz4Frame{}, snappyStream{}
	if s.zstd != nil {
		return s.zstd.Reset(nil)
	}
	return nil
}

// sources keeps decompressors for the next batch. The zero value is ready.
type sources struct{ pool sync.Pool }

func (p *sources) get() *source {
	if s, ok := p.pool.Get().(*source); ok {
		return s
	}
	return new(source)
}

func (p *sources) put(s *source) {
	// A source that cannot be released is left to the garbage collector.
	if s.release() == nil {
		p.pool.Put(s)
	}
}
