package bulk

import (
	"fmt"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/tiering/segment"
)

// Chunk is what a split holds.
type Chunk struct {
	Split Split
	// Batches are those that are wanted, in order: of those with records in [Split.From, Split.To) the ones that the
	// reader's options let through. They may have other records, too: Wants tells.
	Batches []record.Batch
	// Next is the offset with which the log goes on behind the split.
	Next int64

	// head and edge are the checksums of what lies before the split and at its end in a chunk of the object that it has
	// only a part of: see readSplit.
	head, edge uint32
}

// Wants tells whether the record with an offset is one of those that the split is read for.
func (c *Chunk) Wants(offset int64) bool { return offset >= c.Split.From && offset < c.Split.To }

// parse finds the batches in the data of a split.
func (r *Reader) parse(split Split, tail *segment.Tail, data []byte) (*Chunk, error) {
	chunk := &Chunk{Split: split}
	var aborted map[int64][]segment.AbortedTransaction
	if r.readCommitted {
		aborted = byProducer(tail.Aborted(split.From, split.To))
	}
	position, next := split.Position, int64(0)
	for len(data) > 0 {
		batch, rest, err := record.Next(data)
		if err == nil && (batch.BaseOffset() < next || batch.LastOffsetDelta() < 0 || batch.NextOffset() > tail.EndOffset) {
			err = fmt.Errorf("%s follows offset %d", batch.String(), next-1)
		}
		if err != nil {
			return nil, &segment.CorruptError{Position: position, Err: err}
		}
		if batch.NextOffset() > split.From && batch.BaseOffset() < split.To && r.lets(batch, aborted) {
			chunk.Batches = append(chunk.Batches, batch)
		}
		position, next, data = position+int64(len(batch)), batch.NextOffset(), rest
	}
	if chunk.Next = min(next, split.To); split.last || split.Position+split.Size == tail.DataBytes {
		chunk.Next = split.To
	}
	return chunk, nil
}

// lets tells whether a batch is let through.
func (r *Reader) lets(batch record.Batch, aborted map[int64][]segment.AbortedTransaction) bool {
	if batch.IsControl() {
		return r.controlBatches
	}
	if !batch.IsTransactional() {
		return true
	}
	for _, transaction := range aborted[batch.ProducerID()] {
		if transaction.FirstOffset <= batch.LastOffset() && batch.BaseOffset() <= transaction.LastOffset {
			return false
		}
	}
	return true
}

// byProducer sorts aborted transactions out. A producer has one at a time.
func byProducer(all []segment.AbortedTransaction) map[int64][]segment.AbortedTransaction {
	aborted := map[int64][]segment.AbortedTransaction{}
	for _, transaction := range all {
		aborted[transaction.ProducerID] = append(aborted[transaction.ProducerID], transaction)
	}
	return aborted
}
