package segment_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/segment"
)

// batchSpec describes a batch of records that all have a timestamp of their own.
type batchSpec struct {
	baseOffset int64
	timestamps []int64
	codec      record.Codec
}

func (s batchSpec) build() record.Batch {
	options := record.PlainProducer()
	options.BaseOffset, options.LeaderEpoch, options.Codec = s.baseOffset, 3, s.codec
	builder := record.NewBuilder(options)
	for i, timestamp := range s.timestamps {
		builder.Append(timestamp, []byte("key"), bytes.Repeat([]byte{'a' + byte(i)}, 20))
	}
	return builder.Build()
}

// built is a segment as storage would hand it over: data and indexes with an entry for each batch but the first.
type built struct {
	data        []byte
	offsetIndex []byte
	timeIndex   []byte
	positions   []int64
}

func build(indexBase int64, specs ...batchSpec) built {
	var b built
	newest := int64(-1)
	for _, spec := range specs {
		batch := spec.build()
		position := len(b.data)
		b.positions = append(b.positions, int64(position))
		relative := uint32(batch.LastOffset() - indexBase)
		if position > 0 {
			b.offsetIndex = binary.BigEndian.AppendUint32(b.offsetIndex, relative)
			b.offsetIndex = binary.BigEndian.AppendUint32(b.offsetIndex, uint32(position))
		}
		if batch.MaxTimestamp() > newest {
			newest = batch.MaxTimestamp()
			b.timeIndex = binary.BigEndian.AppendUint64(b.timeIndex, uint64(newest))
			b.timeIndex = binary.BigEndian.AppendUint32(b.timeIndex, relative)
		}
		b.data = append(b.data, batch...)
	}
	return b
}

func id(first byte) (id kafka.UUID) {
	for i := range id {
		id[i] = first + byte(i)
	}
	return id
}

// tailFor is a tail of the range [base, end) around what was built; the index base is base.
func tailFor(b built, base, end int64) segment.Tail {
	tail := segment.Tail{
		ClusterID:       id(0x10),
		Partition:       kafka.TopicIDPartition{ID: id(0x30), Partition: 7},
		Topic:           "flights",
		BaseOffset:      base,
		EndOffset:       end,
		LeaderEpoch:     3,
		UploadID:        id(0x50),
		LogStartOffset:  min(5, base),
		IndexBaseOffset: base,
		FirstAppendedAt: 1_700_000_000_000,
		LastAppendedAt:  1_700_000_009_000,
		OffsetIndex:     b.offsetIndex,
		TimeIndex:       b.timeIndex,
		LeaderEpochs:    []segment.EpochStart{{Epoch: 0, StartOffset: 5}, {Epoch: 3, StartOffset: 90}},
		AbortedTransactions: []segment.AbortedTransaction{
			{ProducerID: 4000, FirstOffset: 101, LastOffset: 104, LastStableOffset: 102},
		},
		ProducerSnapshot: []byte("a file in Kafka's .snapshot format"),
	}
	tail.DataBytes = int64(len(b.data))
	return tail
}

// threeBatches is the data of most tests: offsets 100 to 109, the largest timestamp at offset 104.
func threeBatches() built {
	return build(100,
		batchSpec{baseOffset: 100, timestamps: []int64{1000, 1005, 1002}},
		batchSpec{baseOffset: 103, timestamps: []int64{1010, 1030, 1020, 1030}, codec: record.Zstd},
		batchSpec{baseOffset: 107, timestamps: []int64{1025, 1026, 1029}, codec: record.LZ4},
	)
}

func newObject(t *testing.T, b built, tail segment.Tail) *segment.Object {
	t.Helper()
	object, err := segment.New(t.Context(), bytes.NewReader(b.data), tail)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// bytesOf reads an object whole.
func bytesOf(t *testing.T, object *segment.Object) []byte {
	t.Helper()
	data := make([]byte, object.Size())
	if n, err := object.ReadAt(data, 0); n != len(data) || err != nil {
		t.Fatalf("read %d of %d bytes: %v", n, len(data), err)
	}
	return data
}
