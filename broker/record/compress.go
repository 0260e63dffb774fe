package record

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// DefaultLevel is a codec's own default.
const DefaultLevel = 0

// compressor encodes records. It keeps what the codecs need for the next batch, and is not for concurrent use.
type compressor struct {
	sink      sink
	gzip      *gzip.Writer
	gzipLevel int
	zstd      *zstd.Encoder
	zstdLevel zstd.EncoderLevel
	lz4       *lz4.Compressor
	lz4HC     *lz4.CompressorHC
}

// sink is where gzip writes to. It is a field so that a writer can be kept without keeping what it wrote.
type sink struct{ data []byte }

// Write appends.
func (s *sink) Write(data []byte) (int, error) {
	s.data = append(s.data, data...)
	return len(data), nil
}

// append encodes src behind dst. Levels are Kafka's (gzip −1 and 1–9, lz4 1–17, zstd −131072 to 22), 0 is the codec's
// default, and what lies beyond is brought back into the range. Snappy has none.
func (c *compressor) append(dst, src []byte, codec Codec, level int) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return c.appendGzip(dst, src, level)
	case Snappy:
		return appendSnappy(dst, src), nil
	case LZ4:
		return c.appendLZ4(dst, src, level)
	case Zstd:
		return c.appendZstd(dst, src, level)
	}
	return nil, fmt.Errorf("%s does not exist", codec)
}

func (c *compressor) appendGzip(dst, src []byte, level int) ([]byte, error) {
	if level <= DefaultLevel {
		level = gzip.DefaultCompression // −1, which Kafka's default is too
	}
	level = min(level, gzip.BestCompression)
	c.sink.data = dst
	defer func() { c.sink.data = nil }()
	if c.gzip == nil || c.gzipLevel != level {
		writer, err := gzip.NewWriterLevel(&c.sink, level)
		if err != nil {
			return nil, err
		}
		c.gzip, c.gzipLevel = writer, level
	} else {
		c.gzip.Reset(&c.sink)
	}
	if _, err := c.gzip.Write(src); err != nil {
		return nil, err
	}
	if err := c.gzip.Close(); err != nil {
		return nil, err
	}
	return c.sink.data, nil
}

func (c *compressor) appendZstd(dst, src []byte, level int) ([]byte, error) {
	// Our library has four levels: up to 2, where the negative ones are, up to 5, up to 9, and all above.
	speed := zstd.SpeedDefault
	if level != DefaultLevel {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	if c.zstd == nil || c.zstdLevel != speed {
		// The batch has a checksum of its own.
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(speed),
			zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, err
		}
		c.zstd, c.zstdLevel = encoder, speed
	}
	return c.zstd.EncodeAll(src, dst), nil
}

// compressors keeps compressors for the next batch. The zero value is ready.
type compressors struct{ pool sync.Pool }

func (p *compressors) get() *compressor {
	if c, ok := p.pool.Get().(*compressor); ok {
		return c
	}
	return new(compressor)
}

func (p *compressors) put(c *compressor) { p.pool.Put(c) }
