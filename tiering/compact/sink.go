package compact

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// indexBytes is how far apart the entries of an index are, as by default in a local log.
const indexBytes = 4096

// Sink is a segment in the making. It is for one goroutine, which calls Abort when it is done, whatever Commit has
// returned.
type Sink struct {
	log                *Log
	firstBase, endBase int64
	old                []command.SegmentEntry // that it takes the place of
	path               string
	file               vfs.File
	size               int64
	aborted            []segment.AbortedTransaction
	index              indexes
}

// Append adds whole batches; their offsets rise.
func (s *Sink) Append(batches []byte) error {
	options := &s.log.options
	space, err := options.FS.Space(options.Dir)
	if err == nil && space.FreeBytes < options.LeaveBytes+int64(len(batches)) {
		return fmt.Errorf("compact %s-%d: %w", s.log.topic.Name, s.log.tp.Partition, storage.ErrNoSpace)
	}
	n, err := s.file.WriteAt(batches, s.size)
	if err == nil && n < len(batches) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return told(fmt.Errorf("write a segment: %w", err))
	}
	for len(batches) > 0 {
		batch, rest, err := record.Next(batches)
		if err != nil {
			return err
		}
		s.index.add(batch, s.size, s.firstBase)
		s.size, batches = s.size+int64(len(batch)), rest
	}
	return nil
}

// KeepAborted says that the marker of an aborted transaction is kept; they come in the order of their markers.
func (s *Sink) KeepAborted(aborted storage.AbortedTransaction) {
	s.aborted = append(s.aborted, segment.AbortedTransaction(aborted))
}

// Abort gives up what is not committed.
func (s *Sink) Abort() {
	if s.file == nil {
		return
	}
	_ = s.file.Close() // its content has been read, or is given up
	if err := s.log.options.FS.Remove(s.path); err != nil {
		s.log.options.Logger.Warn("a segment on its way could not be removed; the next start does", "file",
			path.Base(s.path), "err", err)
	}
	s.file = nil
}

// Commit puts the segment into the bucket and has it take the place of the old ones, at once.
func (s *Sink) Commit() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.log.options.Deadline)
	defer cancel()
	entry, err := s.put(ctx)
	if err == nil {
		err = s.log.swap(ctx, s, entry)
	}
	if err != nil {
		return fmt.Errorf("replace the segments [%d, %d) of %s-%d in the bucket: %w", s.firstBase, s.endBase,
			s.log.topic.Name, s.log.tp.Partition, told(err))
	}
	return nil
}

// put makes the object. What it says of leader epochs and producers is what the last of the old ones says. It is of
// that one's epoch, too, not of the present one: a restore goes on by epochs that do not fall, through segments of
// which some are written anew and some are not.
func (s *Sink) put(ctx context.Context) (command.SegmentEntry, error) {
	l := s.log
	last, err := l.tail(s.old[len(s.old)-1])
	if err != nil {
		return command.SegmentEntry{}, err
	}
	ids, err := l.reserve(ctx, 1, s.firstBase)
	if err != nil {
		return command.SegmentEntry{}, err
	}
	tail := segment.Tail{
		ClusterID: l.topic.OriginID(l.options.ClusterID, l.topic.Origin()), Partition: l.tp, Topic: l.topic.Name,
		BaseOffset: s.firstBase, EndOffset: s.endBase, LeaderEpoch: s.old[len(s.old)-1].LeaderEpoch, UploadID: ids[0],
		LogStartOffset: min(last.LogStartOffset, s.firstBase), IndexBaseOffset: s.firstBase,
		FirstAppendedAt: s.old[0].FirstAppendedAt, LastAppendedAt: s.old[len(s.old)-1].LastAppendedAt,
		OffsetIndex: s.index.offsets, TimeIndex: s.index.times, AbortedTransactions: s.aborted,
		LeaderEpochs: last.LeaderEpochs, ProducerSnapshot: last.ProducerSnapshot,
	}
	tail.DataBytes = s.size
	object, err := segment.New(ctx, s.file, tail)
	if err != nil {
		return command.SegmentEntry{}, err
	}
	entry := object.Tail.Entry().WithOrigin(l.topic.Origin())
	return entry, l.options.Bucket.Put(ctx, l.key(entry), object, object.Size(),
		objectstore.PutOptions{CRC32C: object.CRC32C(), HasCRC32C: true})
}

// indexes are those of a segment, as Kafka's files have them.
type indexes struct {
	offsets, times []byte
	last           int64 // position of the last batch that has an entry
	begun          bool
	timestamp      int64 // the largest so far
	offset         int64 // of the end of the batch that has it
	told           int64 // the largest that has an entry
}

// add takes in a batch. A first batch that begins before the segment's range gets no entry: a look-up begins there
// anyway.
func (x *indexes) add(batch record.Batch, position, base int64) {
	if !x.begun {
		x.begun, x.timestamp, x.told = true, -1, -1
	} else if position-x.last >= indexBytes && batch.BaseOffset() >= base {
		x.last = position
		if x.timestamp > x.told {
			x.times = binary.BigEndian.AppendUint64(x.times, uint64(x.timestamp))
			x.times = binary.BigEndian.AppendUint32(x.times, uint32(x.offset-base))
			x.told = x.timestamp
		}
		x.offsets = binary.BigEndian.AppendUint32(x.offsets, uint32(batch.BaseOffset()-base))
		x.offsets = binary.BigEndian.AppendUint32(x.offsets, uint32(position))
	}
	if batch.Count() > 0 && batch.MaxTimestamp() > x.timestamp {
		x.timestamp, x.offset = batch.MaxTimestamp(), batch.LastOffset()
	}
}
