package storage

import (
	"errors"
	"fmt"
	"io"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// AppendOptions say in whose name a batch is appended.
type AppendOptions struct {
	LeaderEpoch kafka.LeaderEpoch
	AppendedAt  int64 // the broker's clock, ms since 1970
	Origin      Origin
	// Guard is what BeginVerification gave for a batch with which a transaction may begin.
	Guard VerificationGuard
	// TransactionVersion is the transaction.version that a marker was written under.
	TransactionVersion int8
}

// AppendInfo says where a batch is in the log.
type AppendInfo struct {
	BaseOffset int64
	LastOffset int64
	EndOffset  int64 // LastOffset+1: the high watermark that commits the batch
	Duplicate  bool  // the batch had been appended before, at these offsets; nothing was written
	// LogAppendTime is of the batch, under message.timestamp.type=LogAppendTime; −1 under CreateTime. Of a duplicate it
	// is the largest timestamp of the original under both, as Kafka answers it.
	LogAppendTime  int64
	LogStartOffset int64
}

// maxUnflushedBytes is how much a crash may take of what was answered with acks=0 and 1 under FlushGroup. More in one
// flush gains no throughput worth having.
const maxUnflushedBytes = 1 << 20

// Append writes one validated batch of a producer at the end of the log. It assigns the base offset and the leader
// epoch in place, both of which lie outside the batch's checksum. A producer's retry of one of its last five batches
// is no error, and is not written again.
func (l *Log) Append(batch record.Batch, summary record.Summary, opts AppendOptions) (AppendInfo, error) {
	l.mu.Lock()
	info, err := l.append(batch, summary, opts)
	flushNow := err == nil && !info.Duplicate && l.unflushedMessages >= l.config.FlushMessages
	rolled := l.takeRolled()
	l.mu.Unlock()
	l.reportRolled(rolled)
	if err != nil {
		return info, l.dir.judge(err)
	}
	if flushNow {
		err = l.Flush() // as in Kafka, flush.messages makes the producer wait
	}
	return info, err
}

func (l *Log) append(batch record.Batch, summary record.Summary, opts AppendOptions) (AppendInfo, error) {
	if err := l.writable(opts); err != nil {
		return AppendInfo{}, err
	}
	verdict, err := l.checkProducer(batch, opts)
	if err != nil {
		return AppendInfo{}, fmt.Errorf("append to %s: %w", l.topicPartition, err)
	}
	if verdict.duplicate {
		return l.duplicate(verdict.known), nil
	}
	if err := l.dir.checkReserve(len(batch), opts.AppendedAt); err != nil {
		return AppendInfo{}, fmt.Errorf("append to %s: %w", l.topicPartition, err)
	}
	if err := l.rollIfNeeded(batch, summary, opts.AppendedAt); err != nil {
		return AppendInfo{}, err
	}
	batch.SetBaseOffset(l.endOffset.Load())
	batch.SetLeaderEpoch(opts.LeaderEpoch)
	if err := l.write(batch); err != nil {
		return AppendInfo{}, err
	}
	l.noteAppended(batch, verdict.marker, summary, opts)
	return AppendInfo{
		BaseOffset:     batch.BaseOffset(),
		LastOffset:     batch.LastOffset(),
		EndOffset:      batch.NextOffset(),
		LogAppendTime:  logAppendTime(batch),
		LogStartOffset: l.logStart.Load(),
	}, nil
}

// verdict is what is known of a batch that may be appended, or need not be.
type verdict struct {
	known     producedBatch // what a duplicate is one of
	duplicate bool
	marker    *record.EndMarker // nil unless the batch ends a transaction
}

// checkProducer judges the batch by what is known of its producer.
func (l *Log) checkProducer(batch record.Batch, opts AppendOptions) (v verdict, err error) {
	switch {
	case !batch.HasProducerID():
	case batch.IsControl():
		if v.marker, err = endMarkerOf(batch); err == nil && v.marker != nil {
			err = l.producers.checkMarker(batch, *v.marker, opts.TransactionVersion)
		}
	default:
		v.known, v.duplicate, err = l.producers.check(batch, opts)
	}
	return v, err
}

func (l *Log) writable(opts AppendOptions) error {
	if err := l.Err(); err != nil {
		return err
	}
	if l.closed {
		return fmt.Errorf("append to %s, which is closed: %w", l.topicPartition, kafka.KafkaStorageError)
	}
	if latest := l.epochs.latest(); opts.LeaderEpoch < latest {
		return fmt.Errorf("append to %s under leader epoch %d after %d: %w",
			l.topicPartition, opts.LeaderEpoch, latest, kafka.NotLeaderOrFollower)
	}
	return nil
}

func (l *Log) duplicate(known producedBatch) AppendInfo {
	return AppendInfo{
		BaseOffset:     known.baseOffset(),
		LastOffset:     known.lastOffset,
		EndOffset:      known.lastOffset + 1,
		Duplicate:      true,
		LogAppendTime:  known.timestamp,
		LogStartOffset: l.logStart.Load(),
	}
}

func logAppendTime(batch record.Batch) int64 {
	if batch.TimestampType() == record.LogAppendTime {
		return batch.MaxTimestamp()
	}
	return record.NoTimestamp
}

// write puts the batch at the end of the active segment with one write. A short or failed write is cut back before
// anything else may be appended; if that fails too, the log goes offline, because its file no longer ends where we
// think it does.
func (l *Log) write(batch record.Batch) error {
	active := l.active()
	file, err := l.openForWriting(active)
	if err != nil {
		return storageError(fmt.Sprintf("append to %s", l.topicPartition), err)
	}
	n, err := file.WriteAt(batch, active.state.Size)
	if err == nil && n == len(batch) {
		return nil
	}
	if err == nil {
		err = io.ErrShortWrite
	}
	if cutErr := file.Truncate(active.state.Size); cutErr != nil {
		return l.fail(errors.Join(err, cutErr))
	}
	return storageError(fmt.Sprintf("append to %s", l.topicPartition), err)
}

// noteAppended brings everything that is kept about the log up to a batch that has been written.
func (l *Log) noteAppended(batch record.Batch, marker *record.EndMarker, summary record.Summary, opts AppendOptions) {
	active := l.active()
	if active.state.Size == 0 {
		active.state.FirstAppendedAt = opts.AppendedAt
	}
	active.state.LastAppendedAt = max(opts.AppendedAt, active.state.LastAppendedAt)
	note := newNote(batch)
	note.maxTimestampOffset = note.baseOffset + int64(summary.MaxTimestampOffsetDelta)
	active.note(note)
	l.noteEpoch(opts.LeaderEpoch, batch.BaseOffset())
	if aborted, found := l.producers.update(batch, marker, opts.AppendedAt); found {
		active.noteAborted(aborted)
	}
	if batch.IsTransactional() {
		l.publishStableBound(l.highWatermark.Load())
	}
	l.size.Add(int64(len(batch)))
	l.endOffset.Store(batch.NextOffset())
	l.unflushedMessages += int64(summary.Count)
	l.unflushedBytes += int64(len(batch))
	l.scheduleFlush()
}

// noteEpoch records that a batch was written under an epoch. The file follows when the segment is sealed. Until then
// the state database tells after a clean stop, and after any other the batches themselves, since an active segment is
// read then.
func (l *Log) noteEpoch(epoch kafka.LeaderEpoch, baseOffset int64) {
	if l.epochs.assign(epoch, baseOffset) || l.epochs.assigned {
		l.epochs.assigned = false
		l.epochsStale = min(l.epochsStale, baseOffset)
	}
}
