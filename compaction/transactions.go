package compaction

import (
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
)

// transactions follows the transactions of a log, batch by batch, to know which records were aborted and which markers
// have no records any more.
type transactions struct {
	aborted   []storage.AbortedTransaction  // that have not begun yet, by first offset
	aborting  map[int64]*abortedTransaction // that have begun, by producer id
	committed map[int64]struct{}            // producer ids of which records were seen that are not aborted
}

type abortedTransaction struct {
	storage.AbortedTransaction
	hasRecords bool // a batch of it was seen
}

// newTransactions begins a walk at an offset. Transactions that were over by then do not count.
func newTransactions(aborted []storage.AbortedTransaction, startOffset int64) *transactions {
	t := &transactions{aborting: map[int64]*abortedTransaction{}, committed: map[int64]struct{}{}}
	for _, a := range aborted {
		if a.LastOffset >= startOffset {
			t.aborted = append(t.aborted, a)
		}
	}
	return t
}

// begin notes the transactions that have begun at or below an offset.
func (t *transactions) begin(offset int64) {
	for len(t.aborted) > 0 && t.aborted[0].FirstOffset <= offset {
		a := t.aborted[0]
		t.aborted = t.aborted[1:]
		if _, ok := t.aborting[a.ProducerID]; !ok {
			t.aborting[a.ProducerID] = &abortedTransaction{AbortedTransaction: a}
		}
	}
}

// data takes the next batch that is no control batch; true says that it was aborted.
func (t *transactions) data(b record.Batch) bool {
	t.begin(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if aborting, ok := t.aborting[b.ProducerID()]; ok {
		aborting.hasRecords = true
		return true
	}
	t.committed[b.ProducerID()] = struct{}{}
	return false
}

// marker is what is known of a control batch.
type marker struct {
	idle    bool                        // no batch of its transaction is left before it
	aborted *storage.AbortedTransaction // the row of the transaction index that must be kept with it
}

// control takes the next control batch. One without a record was cleaned before, and nothing holds it.
func (t *transactions) control(b record.Batch) (marker, error) {
	t.begin(b.LastOffset())
	if b.Count() == 0 {
		return marker{idle: true}, nil
	}
	kind, err := b.ControlType()
	if err != nil {
		return marker{}, err
	}
	switch kind {
	case record.Abort:
		aborting, ok := t.aborting[b.ProducerID()]
		delete(t.aborting, b.ProducerID())
		if !ok || !aborting.hasRecords {
			return marker{idle: true}, nil
		}
		return marker{aborted: &aborting.AbortedTransaction}, nil
	case record.Commit:
		_, ok := t.committed[b.ProducerID()]
		delete(t.committed, b.ProducerID())
		return marker{idle: !ok}, nil
	}
	return marker{}, nil
}
