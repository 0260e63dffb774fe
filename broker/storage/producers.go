package storage

import (
	"cmp"
	"slices"
)

// ProducerInfo is what a log knows of one producer, for DescribeProducers.
type ProducerInfo struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // −1 without
	LastTimestamp    int64 // of the newest batch; −1 without
	CoordinatorEpoch int32 // −1 without
	TxnStartOffset   int64 // of the open transaction; −1 without
}

// Producers lists the producers that are remembered, by id.
func (l *Log) Producers() []ProducerInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := make([]ProducerInfo, 0, len(l.producers.producers))
	for id, p := range l.producers.producers {
		infos = append(infos, ProducerInfo{
			ProducerID: id, Epoch: p.epoch, LastSequence: p.lastSequence(), LastTimestamp: p.timestamp,
			CoordinatorEpoch: p.coordinatorEpoch, TxnStartOffset: p.txnFirstOffset,
		})
	}
	slices.SortFunc(infos, func(a, b ProducerInfo) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return infos
}
