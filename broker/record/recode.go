package record

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/firnlog/firn/internal/kafka"
)

// maxRecodeBytes bounds what is held of a batch that is encoded again: unlike the checks, that needs all of it.
const maxRecodeBytes = 128 << 20

// recode checks a batch and encodes its records with the topic's codec, in new memory. The records themselves, and
// with them offsets, timestamps and sequence, stay as they are.
func (v *Validator) recode(b Batch, opts Options) (Batch, Summary, error) {
	encoded, err := v.decompress(b, opts)
	if err != nil {
		return nil, Summary{}, err
	}
	summary, err := v.checkDecompressed(b, encoded, opts)
	if err != nil {
		return nil, Summary{}, err
	}
	compressor := v.compressors.get()
	defer v.compressors.put(compressor)
	recoded := append(make([]byte, 0, len(b)), b[:HeaderSize]...)
	recoded, err = compressor.append(recoded, encoded, opts.Target.codec, opts.Target.level)
	if err != nil {
		return nil, Summary{}, refused(kafka.UnknownServerError, "compress with %s: %w", opts.Target.codec, err)
	}
	if len(recoded) > int(opts.MaxBytes) {
		return nil, Summary{}, tooLarge(len(recoded), opts.MaxBytes)
	}
	batch := Batch(recoded)
	binary.BigEndian.PutUint32(batch[atLength:], uint32(len(batch)-LogOverhead))
	batch.setCodec(opts.Target.codec)
	batch.setTimestamps(opts.timestampType(), summary.MaxTimestamp)
	batch.updateCRC()
	summary.Size, summary.Rewritten = len(batch), true
	return batch, summary, nil
}

// checkDecompressed is checkRecords where the records are in memory anyway.
func (v *Validator) checkDecompressed(b Batch, encoded []byte, opts Options) (Summary, error) {
	if opts.HeaderOnly && !opts.RequireKeys {
		return headerSummary(b, opts)
	}
	return checkEncoded(b, encoded, opts)
}

// decompress gives all encoded records of a batch; they alias the batch if it has no codec.
func (v *Validator) decompress(b Batch, opts Options) ([]byte, error) {
	if b.Codec() == None {
		return b.Records(), nil
	}
	limit := v.maxRecoded
	if opts.Target.codec == None {
		limit = int64(opts.MaxBytes)
	}
	source := v.sources.get()
	defer v.sources.put(source)
	encoded, err := source.appendAll(nil, b.Codec(), b.Records(), limit)
	if err != nil {
		return nil, undecodable(err)
	}
	return encoded, nil
}

// appendAll decompresses data behind dst, which grows with what comes out.
func (s *source) appendAll(dst []byte, codec Codec, data []byte, limit int64) ([]byte, error) {
	if err := s.reset(codec, data, limit); err != nil {
		return dst, err
	}
	for {
		piece, err := s.next()
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, piece...)
	}
}

// setCodec changes what the attributes say; the checksum is to be computed again.
func (b Batch) setCodec(codec Codec) {
	attributes := b.Attributes()&knownAttributes&^codecMask | int16(codec)
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
}
