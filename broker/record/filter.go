package record

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/invariant"
)

// Filter writes batches anew without some of their records, as compaction does. It keeps its memory and its codecs, so
// it is worth keeping; it is not for concurrent use. The zero value is ready.
type Filter struct {
	records    Iterator
	compressor compressor
	kept       []span // of the encoded records
	encoded    []byte // the records that are kept, if they are to be compressed
}

// span is a range of encoded records, [start, end).
type span struct{ start, end int }

// FilterOptions say what is to become of one batch.
type FilterOptions struct {
	// Keep decides about a record. Nil keeps none, and the records are not even read.
	Keep func(*Record) bool
	// RetainEmpty leaves a batch without records behind if none is kept, else nothing is left.
	RetainEmpty bool
	// DeleteHorizon is set in a batch that has none and of which a tombstone is kept (KIP-534): ms since 1970, from
	// which on the tombstone may go.
	DeleteHorizon int64
	// NeedsHorizon sets the horizon whatever is kept: the batch is the marker of a transaction without records.
	NeedsHorizon bool
}

// Filtered is what became of a batch.
type Filtered struct {
	Records   int32 // that are kept
	Unchanged bool  // the batch was copied byte for byte
}

// Append filters a batch behind dst. What is kept has its offsets, timestamps, keys, values and headers; the batch has
// its range of offsets, producer, codec, attributes and leader epoch. The checksum is not verified. An error is a
// *CorruptError, and dst is as it was.
func (f *Filter) Append(dst []byte, b Batch, opts FilterOptions) ([]byte, Filtered, error) {
	if opts.Keep == nil {
		return appendEmpty(dst, b, opts)
	}
	verdict, err := f.decide(b, opts.Keep)
	if err != nil {
		return dst, Filtered{}, err
	}
	if verdict.records == 0 {
		return appendEmpty(dst, b, opts)
	}
	setHorizon := (verdict.tombstones || opts.NeedsHorizon) && !b.HasDeleteHorizon()
	if verdict.records == b.Count() && !setHorizon {
		return append(dst, b...), Filtered{Records: verdict.records, Unchanged: true}, nil
	}
	start := len(dst)
	dst = f.appendKept(dst, b, setHorizon, opts.DeleteHorizon)
	rewritten := Batch(dst[start:])
	binary.BigEndian.PutUint32(rewritten[atCount:], uint32(verdict.records))
	if b.TimestampType() == CreateTime {
		binary.BigEndian.PutUint64(rewritten[atMaxTimestamp:], uint64(verdict.maxTimestamp))
	}
	rewritten.finish()
	return dst, Filtered{Records: verdict.records}, nil
}

// finish sets what depends on everything else.
func (b Batch) finish() {
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-LogOverhead))
	b.updateCRC()
}

// verdict is what is known of a batch once all its records are decided.
type verdict struct {
	records      int32 // that are kept
	tombstones   bool  // there are some among them
	maxTimestamp int64 // of them
}

// decide notes in kept what is kept; neighbours share a span.
func (f *Filter) decide(b Batch, keep func(*Record) bool) (verdict, error) {
	v := verdict{maxTimestamp: NoTimestamp}
	f.kept = f.kept[:0]
	if err := f.records.Reset(b); err != nil {
		return v, err
	}
	all := len(f.records.encoded)
	base := b.BaseTimestamp()
	for start := 0; f.records.Next(); {
		end := all - len(f.records.records.piece)
		r := &f.records.record
		if keep(r) {
			v.records++
			v.tombstones = v.tombstones || r.Value == nil
			v.maxTimestamp = max(v.maxTimestamp, base+r.TimestampDelta)
			f.keep(start, end)
		}
		start = end
	}
	return v, f.records.Err()
}

func (f *Filter) keep(start, end int) {
	if last := len(f.kept) - 1; last >= 0 && f.kept[last].end == start {
		f.kept[last].end = end
		return
	}
	f.kept = append(f.kept, span{start, end})
}

// appendKept appends header and records that are kept. The offsets are relative to a base that stays, so the encoded
// records are copied as they are, unless their timestamps become relative to a delete horizon.
func (f *Filter) appendKept(dst []byte, b Batch, setHorizon bool, horizon int64) []byte {
	header := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	codec := b.Codec()
	into := dst
	if codec != None {
		into = f.encoded[:0]
	}
	shift := int64(0)
	if setHorizon {
		shift = b.BaseTimestamp() - horizon
		dst[header+atAttributes+1] |= deleteHorizonBit
		binary.BigEndian.PutUint64(dst[header+atBaseTimestamp:], uint64(horizon))
	}
	for _, s := range f.kept {
		if records := f.records.encoded[s.start:s.end]; setHorizon {
			into = appendShifted(into, records, shift)
		} else {
			into = append(into, records...)
		}
	}
	if codec == None {
		return into
	}
	f.encoded = into
	if cap(into) > maxKeptRecords {
		f.encoded = nil
	}
	dst, err := f.compressor.append(dst, into, codec, DefaultLevel)
	invariant.Check(err == nil, "compress into memory with %s: %v", codec, err)
	return dst
}

// appendShifted appends sound encoded records with their timestamp deltas changed.
func appendShifted(dst, records []byte, shift int64) []byte {
	for len(records) > 0 {
		number, at := longVarint(records, 0)
		end := at + int(number>>1)
		attributes := records[at]
		number, next := longVarint(records, at+1)
		delta := unzigzag(number) + shift
		rest := records[next:end]
		dst = binary.AppendVarint(dst, int64(1+varintSize(delta)+len(rest)))
		dst = append(dst, attributes)
		dst = binary.AppendVarint(dst, delta)
		dst = append(dst, rest...)
		records = records[end:]
	}
	return dst
}

// appendEmpty appends the header alone, without codec and delete horizon, which are nothing's. It has the max timestamp
// still, as in Kafka.
func appendEmpty(dst []byte, b Batch, opts FilterOptions) ([]byte, Filtered, error) {
	if !opts.RetainEmpty {
		return dst, Filtered{}, nil
	}
	if b.Count() == 0 {
		return append(dst, b...), Filtered{Unchanged: true}, nil
	}
	start := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	empty := Batch(dst[start:])
	attributes := b.Attributes() & (logAppendTimeBit | transactionalBit | controlBit)
	binary.BigEndian.PutUint16(empty[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint32(empty[atCount:], 0)
	noTimestamp := NoTimestamp
	binary.BigEndian.PutUint64(empty[atBaseTimestamp:], uint64(noTimestamp))
	empty.finish()
	return dst, Filtered{}, nil
}
