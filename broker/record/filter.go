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
	shown      [ChooserRecords]shownRecord
	keep       [ChooserRecords]bool
}

// ChooserRecords is how many records a Chooser is shown at most before it has to decide about them.
const ChooserRecords = 128

// Chooser decides which records of a batch are kept. It is shown some of them, one after the other, and then decides
// about them together, so that it can look up at once what it needs to know of all of them; then it is shown the next
// ones.
type Chooser interface {
	// See is shown a record, valid until it returns, and its place among those that are decided about together.
	See(at int, r *Record)
	// Choose sets keep, which is false for each of the records that were shown, for those that are kept.
	Choose(keep []bool)
}

// All is the Chooser that keeps every record.
type All struct{}

// See implements Chooser.
func (All) See(int, *Record) {}

// Choose implements Chooser.
func (All) Choose(keep []bool) {
	for i := range keep {
		keep[i] = true
	}
}

// shownRecord is what is needed of a record after the Chooser has seen it.
type shownRecord struct {
	encoded   span
	timestamp int64
	tombstone bool
}

// span is a range of encoded records, [start, end).
type span struct{ start, end int }

// FilterOptions say what is to become of one batch.
type FilterOptions struct {
	// Choose decides about the records. Nil keeps none, and the records are not even read.
	Choose Chooser
	// Level is that of the batch's codec, on the scale of Recode; 0 is the codec's own default.
	Level int
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
	if opts.Choose == nil {
		return appendEmpty(dst, b, opts)
	}
	verdict, err := f.decide(b, opts.Choose)
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
	dst = f.appendKept(dst, b, setHorizon, opts)
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
func (f *Filter) decide(b Batch, choose Chooser) (verdict, error) {
	v := verdict{maxTimestamp: NoTimestamp}
	f.kept = f.kept[:0]
	if err := f.records.Reset(b); err != nil {
		return v, err
	}
	for shown := len(f.shown); shown == len(f.shown); {
		shown = f.show(b.BaseTimestamp(), choose)
		keep := f.keep[:shown]
		clear(keep)
		choose.Choose(keep)
		for i, kept := range keep {
			if r := &f.shown[i]; kept {
				v.records++
				v.tombstones = v.tombstones || r.tombstone
				v.maxTimestamp = max(v.maxTimestamp, r.timestamp)
				f.noteKept(r.encoded)
			}
		}
	}
	return v, f.records.Err()
}

// show shows the next records, and counts them; fewer than there could be are the last.
func (f *Filter) show(baseTimestamp int64, choose Chooser) (shown int) {
	position := func() int { return len(f.records.encoded) - len(f.records.records.piece) }
	for start := position(); shown < len(f.shown) && f.records.Next(); shown++ {
		r, end := &f.records.record, position()
		f.shown[shown] = shownRecord{
			encoded: span{start, end}, timestamp: baseTimestamp + r.TimestampDelta, tombstone: r.Value == nil,
		}
		choose.See(shown, r)
		start = end
	}
	return shown
}

func (f *Filter) noteKept(encoded span) {
	if last := len(f.kept) - 1; last >= 0 && f.kept[last].end == encoded.start {
		f.kept[last].end = encoded.end
		return
	}
	f.kept = append(f.kept, encoded)
}

// appendKept appends header and records that are kept. The offsets are relative to a base that stays, so the encoded
// records are copied as they are, unless their timestamps become relative to a delete horizon.
func (f *Filter) appendKept(dst []byte, b Batch, setHorizon bool, opts FilterOptions) []byte {
	header := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	codec := b.Codec()
	into := dst
	if codec != None {
		into = f.encoded[:0]
	}
	shift := int64(0)
	if setHorizon {
		shift = b.BaseTimestamp() - opts.DeleteHorizon
		dst[header+atAttributes+1] |= deleteHorizonBit
		binary.BigEndian.PutUint64(dst[header+atBaseTimestamp:], uint64(opts.DeleteHorizon))
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
	dst, err := f.compressor.append(dst, into, codec, opts.Level)
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
