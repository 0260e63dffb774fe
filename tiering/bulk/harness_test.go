package bulk

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	kib = 1 << 10
	mib = 1 << 20
)

var (
	cluster = kafka.UUID{0xc1}
	topicID = kafka.TopicID{0x70}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// history is a topic in a bucket, and what is in it.
type history struct {
	t        testing.TB
	random   *rand.Rand
	bucket   *objectstore.Memory
	snapshot *Snapshot
	records  []known
	serial   uint64 // of the next object
}

// known is a record, or the marker of a transaction, as it must come out.
type known struct {
	partition int32
	offset    int64
	checksum  uint32 // of the value
	control   bool
	aborted   bool
}

func newHistory(t testing.TB, seed uint64, partitions int) *history {
	h := &history{
		t: t, random: rand.New(rand.NewPCG(seed, 3)), bucket: objectstore.NewMemory(),
		snapshot: &Snapshot{ClusterID: cluster, Topic: "events", TopicID: topicID},
	}
	for i := range partitions {
		h.snapshot.Partitions = append(h.snapshot.Partitions, Partition{Partition: int32(i)})
	}
	return h
}

func (h *history) id() kafka.UUID {
	h.serial++
	var id kafka.UUID
	binary.BigEndian.PutUint64(id[:], h.serial)
	return id
}

// batches builds as many batches as have so many bytes together, some of them of transactions, as a log has them.
func (h *history) batches(base int64, size, largest int) (
	batches []record.Batch, aborted []segment.AbortedTransaction,
) {
	open := map[int64]int64{} // first offsets of transactions, by producer
	add := func(batch record.Batch) {
		batch.SetBaseOffset(base)
		batches, base, size = append(batches, batch), batch.NextOffset(), size-len(batch)
	}
	end := func(producer int64) {
		marker := record.EndMarker{Type: record.Commit}
		if h.random.IntN(2) == 0 {
			marker.Type = record.Abort
			aborted = append(aborted, segment.AbortedTransaction{
				ProducerID: producer, FirstOffset: open[producer], LastOffset: base, LastStableOffset: open[producer],
			})
		}
		delete(open, producer)
		add(record.NewEndMarker(producer, 0, base, marker))
	}
	for size > 0 {
		options := record.PlainProducer()
		if h.random.IntN(20) == 0 {
			options.Codec = record.LZ4
		}
		if producer := int64(h.random.IntN(5)); producer < 3 {
			if _, is := open[producer]; !is {
				open[producer] = base
			} else if h.random.IntN(4) == 0 {
				end(producer)
				continue
			}
			options.ProducerID, options.ProducerEpoch, options.Transactional = producer, 0, true
		}
		if h.random.IntN(2) == 0 { // there are small ones everywhere, and the large ones make up the bytes
			add(h.batch(options, 1+h.random.IntN(largest/16+1)))
		} else {
			add(h.batch(options, largest/2+h.random.IntN(largest)))
		}
	}
	for producer := range int64(3) {
		if _, is := open[producer]; is {
			end(producer)
		}
	}
	return batches, aborted
}

func (h *history) batch(options record.BuilderOptions, size int) record.Batch {
	builder := record.NewBuilder(options)
	delta, most := int32(0), 1+h.random.IntN(4)
	for range most {
		value := make([]byte, max(size/most, 8))
		binary.BigEndian.PutUint64(value, h.random.Uint64())
		builder.AppendAt(delta, 1000+h.random.Int64N(1000), nil, value)
		delta += 1 + int32(h.random.IntN(2)) // compaction leaves holes
	}
	return builder.Build()
}

// add puts a segment of batches; it answers for hole offsets more than they have. An entry of the index comes every
// so many bytes.
func (h *history) add(partition int32, hole int64, interval int, batches []record.Batch,
	aborted []segment.AbortedTransaction,
) {
	h.t.Helper()
	p := &h.snapshot.Partitions[partition]
	var data, index []byte
	since, size := 0, 0
	for _, batch := range batches {
		size += len(batch)
	}
	data = make([]byte, 0, size)
	for _, batch := range batches {
		if since > interval {
			index = binary.BigEndian.AppendUint32(index, uint32(batch.LastOffset()-p.End))
			index = binary.BigEndian.AppendUint32(index, uint32(len(data)))
			since = 0
		}
		since += len(batch)
		data = append(data, batch...)
		h.note(partition, batch, aborted)
	}
	end := batches[len(batches)-1].NextOffset() + hole
	tail := segment.Tail{
		ClusterID: cluster, Partition: kafka.TopicIDPartition{ID: topicID, Partition: partition}, Topic: "events",
		BaseOffset: p.End, EndOffset: end, UploadID: h.id(), IndexBaseOffset: p.End, OffsetIndex: index,
		FirstAppendedAt: -1, LastAppendedAt: -1, AbortedTransactions: aborted,
		LeaderEpochs: []segment.EpochStart{{StartOffset: 0}},
	}
	tail.DataBytes = int64(len(data))
	object, err := segment.New(context.Background(), bytes.NewReader(data), tail)
	must(h.t, err)
	must(h.t, h.bucket.Put(context.Background(), object.Tail.Key().String(), object, object.Size(),
		objectstore.PutOptions{}))
	p.End, p.Items = end, append(p.Items, object.Tail.Entry())
}

func (h *history) note(partition int32, batch record.Batch, aborted []segment.AbortedTransaction) {
	h.t.Helper()
	var it record.Iterator
	must(h.t, it.Reset(batch))
	for it.Next() {
		one := known{
			partition: partition, offset: it.Offset(), control: batch.IsControl(),
			checksum: crc32.ChecksumIEEE(it.Record().Value),
		}
		for _, a := range aborted {
			if batch.IsTransactional() && batch.ProducerID() == a.ProducerID && it.Offset() >= a.FirstOffset &&
				it.Offset() <= a.LastOffset {
				one.aborted = true
			}
		}
		h.records = append(h.records, one)
	}
	must(h.t, it.Err())
}

// addRandom puts a segment of about so many bytes, with batches of up to so many.
func (h *history) addRandom(partition int32, size, largest int) {
	h.t.Helper()
	batches, aborted := h.batches(h.snapshot.Partitions[partition].End, size, largest)
	h.add(partition, h.random.Int64N(3), 4*kib, batches, aborted)
}

// seal puts a leaf in the place of the first so many items of a partition.
func (h *history) seal(partition int32, count int) {
	h.t.Helper()
	p := &h.snapshot.Partitions[partition]
	run := p.Items[:count]
	key := segment.KeyOfItem(cluster, kafka.TopicIDPartition{ID: topicID, Partition: partition}, command.Reference{
		Level: run[0].Summary().Level + 1, BaseOffset: run[0].Summary().BaseOffset,
		EndOffset: run[count-1].Summary().EndOffset, UploadID: h.id(),
	})
	data, reference := manifest.Seal(key, "events", 0, run)
	must(h.t, h.bucket.Put(context.Background(), key.String(), bytes.NewReader(data), int64(len(data)),
		objectstore.PutOptions{}))
	p.Items = append([]command.Item{reference}, p.Items[count:]...)
}

// want is what a read must deliver.
func (h *history) want(ranges []Range, options Options) (want []known) {
	for _, wanted := range ranges {
		p := h.snapshot.Partitions[wanted.Partition]
		for _, one := range h.records {
			if one.partition == wanted.Partition && one.offset >= max(wanted.From, p.Start) && one.offset < wanted.To &&
				(options.ControlBatches || !one.control) && (!options.ReadCommitted || one.control || !one.aborted) {
				one.aborted = false
				want = append(want, one)
			}
		}
	}
	return want
}

// decode reads the records of a chunk that are wanted.
func decode(chunk *Chunk) (found []known, err error) {
	var it record.Iterator
	for _, batch := range chunk.Batches {
		if err := it.Reset(batch); err != nil {
			return nil, err
		}
		for it.Next() {
			if chunk.Wants(it.Offset()) {
				found = append(found, known{
					partition: chunk.Split.Partition, offset: it.Offset(), control: batch.IsControl(),
					checksum: crc32.ChecksumIEEE(it.Record().Value),
				})
			}
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
	}
	return found, nil
}

// collected is what a read has delivered.
type collected struct {
	records []known
	next    map[int32]int64
	splits  []Split
}

func collect(ctx context.Context, r *Reader, ranges []Range) (all collected, err error) {
	all.next = map[int32]int64{}
	err = Read(ctx, r, ranges, decode, func(d Delivered, found []known) error {
		if d.Next < all.next[d.Split.Partition] {
			return fmt.Errorf("offset %d comes after %d", d.Next, all.next[d.Split.Partition])
		}
		all.records, all.splits = append(all.records, found...), append(all.splits, d.Split)
		all.next[d.Split.Partition] = d.Next
		return nil
	})
	return all, err
}

// watched is a bucket that keeps the books of its requests, and lets a test into them.
type watched struct {
	segment.Getter
	delay func() time.Duration
	// spoil may change an answer.
	spoil func(key string, offset int64, data []byte)

	mu           sync.Mutex // guards the fields below
	tails, data  int        // requests
	bytes        int64
	inside, most int // requests for data at a time
}

func (w *watched) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	trailer := strings.HasSuffix(key, ".seg") && offset > 0 && w.isTail(key, offset, len(dst))
	w.mu.Lock()
	w.bytes += int64(len(dst))
	if trailer {
		w.tails++
	} else {
		w.data++
		w.inside++
		w.most = max(w.most, w.inside)
	}
	w.mu.Unlock()
	if w.delay != nil {
		timer := time.NewTimer(w.delay())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	n, err := w.Getter.Get(ctx, key, offset, dst)
	if err == nil && w.spoil != nil {
		w.spoil(key, offset, dst)
	}
	if !trailer {
		w.mu.Lock()
		w.inside--
		w.mu.Unlock()
	}
	return n, err
}

// isTail tells whether a range ends where its object does.
func (w *watched) isTail(key string, offset int64, size int) bool {
	info, err := w.Getter.(*objectstore.Memory).Stat(context.Background(), key)
	return err == nil && offset+int64(size) == info.Size
}
