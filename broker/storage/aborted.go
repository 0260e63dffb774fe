package storage

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
)

// AbortedTransactions lists the aborted transactions that overlap [start, end), by their first offsets: readers of
// committed data leave their records out. The end is at or below the last stable offset, so that every transaction in
// the range is decided; its marker may lie in a later segment.
func (l *Log) AbortedTransactions(start, end int64) ([]AbortedTransaction, error) {
	for {
		found, err := l.abortedTransactions(start, end)
		if err != errSegmentRemoved { // the log start has moved meanwhile, and the next look-up sees it
			return found, err
		}
	}
}

func (l *Log) abortedTransactions(start, end int64) (found []AbortedTransaction, err error) {
	views, err := l.viewsWithAborted(start)
	if err != nil {
		return nil, err
	}
	for i, settled := 0, false; i < len(views) && !settled; i++ {
		found, settled, err = views[i].collectAborted(found, start, end)
		if err == errSegmentRemoved {
			return nil, err
		}
		if err != nil {
			return nil, l.readError(views[i].segment, err)
		}
	}
	slices.SortFunc(found, func(a, b AbortedTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return found, nil
}

// viewsWithAborted are those of the segments, from the one that answers for an offset on, in which transactions were
// aborted: usually none.
func (l *Log) viewsWithAborted(offset int64) (views []segmentView, err error) {
	if err := l.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("read %s, which is closed: %w", l.topicPartition, kafka.KafkaStorageError)
	}
	for i := max(l.segmentIndex(offset), 0); i < len(l.segments); i++ {
		s := l.segments[i]
		if s.abortedEntries.Load() > 0 || s.indexes != nil && len(s.indexes.aborted) > 0 {
			views = append(views, l.viewOf(i))
		}
	}
	return views, nil
}

func (v *segmentView) collectAborted(into []AbortedTransaction, start, end int64) (
	found []AbortedTransaction, settled bool, err error,
) {
	if err := v.acquire(); err != nil {
		return into, false, err
	}
	defer v.release()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	found, settled = collectAborted(into, v.aborted, start, end)
	return found, settled, nil
}
