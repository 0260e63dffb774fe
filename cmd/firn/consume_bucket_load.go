package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/tiering/bulk"
)

// bucketSplitBytes is what one request reads. A split in memory may have ten times its size once it is unpacked into
// records, and there are some in flight: at 30 ms a request eight of them bring 500 MB/s.
const bucketSplitBytes = 2 << 20

// bucketLoad is a reading from the bucket under way.
type bucketLoad struct {
	source  *bucketSource
	reading *reading
	marks   *bookmark
	notes   io.Writer // for what a person should know
	target  io.Writer // what out writes to
	out     *bufio.Writer
	gone    *bulk.GoneError // for which a newer snapshot was made last
}

func newBucketLoad(source *bucketSource, reading *reading, marks *bookmark, target io.Writer) *bucketLoad {
	return &bucketLoad{source: source, reading: reading, marks: marks, notes: io.Discard, target: target,
		out: bufio.NewWriterSize(target, 1<<16)}
}

// errLimit ends a reading whose limit is reached.
var errLimit = errors.New("the limit is reached")

// run prints what is left to read. Where no pin keeps the objects and one has gone, a newer snapshot has what took its
// place.
func (l *bucketLoad) run(ctx context.Context) error {
	for !l.reading.finished() {
		err := l.read(ctx)
		var gone *bulk.GoneError
		switch {
		case errors.Is(err, errLimit):
			return nil
		case err == nil:
			l.finish()
			return nil
		case !errors.As(err, &gone) || l.source.renew == nil:
			return err
		case l.gone != nil && l.gone.Partition == gone.Partition && l.gone.Next == gone.Next && l.gone.Key == gone.Key:
			return err // the newest checkpoint names it still
		}
		l.gone = gone
		if err := l.renew(ctx); err != nil {
			return errors.Join(gone, err)
		}
	}
	return nil
}

// topic is the topic that is read.
func (l *bucketLoad) topic() string { return l.source.snapshot.Topic }

// left is what is left to read, by partition.
func (l *bucketLoad) left() []bulk.Range {
	var ranges []bulk.Range
	for partition, wanted := range l.reading.left[l.topic()] {
		ranges = append(ranges, bulk.Range{Partition: partition, From: wanted.start, To: wanted.end})
	}
	slices.SortFunc(ranges, func(a, b bulk.Range) int { return int(a.Partition) - int(b.Partition) })
	return ranges
}

// read reads what is left from the present snapshot.
func (l *bucketLoad) read(ctx context.Context) error {
	reader := bulk.NewReader(bulk.Options{Bucket: l.source.bucket, Snapshot: l.source.snapshot,
		SplitBytes: bucketSplitBytes, ReadCommitted: l.reading.isolation == readCommitted, ControlBatches: true})
	partitions := make(map[int32]bulk.Partition)
	for _, p := range l.source.snapshot.Partitions {
		partitions[p.Partition] = p
	}
	decompressor := kgo.DefaultDecompressor()
	decode := func(chunk *bulk.Chunk) (*kgo.FetchPartition, error) {
		return decodeChunk(chunk, l.topic(), partitions[chunk.Split.Partition], decompressor)
	}
	return bulk.Read(ctx, reader, l.left(), decode, l.print)
}

// decodeChunk makes of batches what a fetch would have brought.
func decodeChunk(chunk *bulk.Chunk, topic string, p bulk.Partition, decompressor kgo.Decompressor) (
	*kgo.FetchPartition, error,
) {
	size := 0
	for _, batch := range chunk.Batches {
		size += len(batch)
	}
	answer := kmsg.NewFetchResponseTopicPartition()
	answer.Partition, answer.LogStartOffset, answer.HighWatermark, answer.LastStableOffset = p.Partition, p.Start, p.End,
		p.End
	answer.RecordBatches = make([]byte, 0, size) // records may alias it, and must not alias the chunk
	for _, batch := range chunk.Batches {
		answer.RecordBatches = append(answer.RecordBatches, batch...)
	}
	fetched, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: chunk.Split.From, Topic: topic,
		Partition: p.Partition, KeepControlRecords: true, DisableCRCValidation: true}, &answer, decompressor, nil)
	return &fetched, fetched.Err
}

// print prints one chunk, and notes how far the output has come.
func (l *bucketLoad) print(at bulk.Delivered, fetched *kgo.FetchPartition) error {
	partition := at.Split.Partition
	before, known := l.reading.left[l.topic()][partition]
	if !known {
		return nil
	}
	if err := l.reading.take(l.out, fetched, l.topic()); err != nil {
		return err
	}
	after, unread := l.reading.left[l.topic()][partition]
	if unread && l.reading.limit != 0 && at.Next > after.start {
		l.reading.advance(l.topic(), partition, at.Next)
		after, unread = l.reading.left[l.topic()][partition]
	}
	if err := l.out.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	next := before.end
	if unread {
		next = after.start
	}
	l.marks.note(partition, next)
	l.reading.progress.tick(time.Now(), l.reading.describe)
	if err := l.marks.saveIfDue(l.target, time.Now()); err != nil {
		return err
	}
	if l.reading.finished() {
		return errLimit
	}
	return nil
}

// finish notes that everything was delivered: a range may end with offsets that hold no record.
func (l *bucketLoad) finish() {
	for _, r := range l.left() {
		l.marks.note(r.Partition, r.To)
		l.reading.forget(l.topic(), r.Partition)
	}
}

// renew makes a newer snapshot. What is gone for good meanwhile is passed over, and said.
func (l *bucketLoad) renew(ctx context.Context) error {
	newer, err := l.source.renew(ctx)
	if err != nil {
		return err
	}
	if newer.TopicID != l.source.snapshot.TopicID {
		return fmt.Errorf("topic %s was deleted, and made anew", newer.Topic)
	}
	l.source.snapshot = newer
	next := make(map[int32]int64)
	for _, r := range l.left() {
		next[r.Partition] = r.From
	}
	_, skipped := newer.RangesFrom(next)
	for _, r := range skipped {
		wanted := l.reading.left[l.topic()][r.Partition]
		fmt.Fprintf(l.notes, "firn: %s\n", gone(l.topic(), r.Partition, r.From, min(r.To, wanted.end)))
		l.marks.note(r.Partition, min(r.To, wanted.end))
		l.reading.advance(l.topic(), r.Partition, r.To)
	}
	return nil
}

// advise adds to an error about an object how to go on.
func (l *bucketLoad) advise(err error) error {
	var gone *bulk.GoneError
	var damaged *bulk.DamagedError
	isGone := errors.As(err, &gone)
	if !isGone && !errors.As(err, &damaged) {
		return err
	}
	why := ""
	if isGone && l.source.unpin != nil {
		why = "; it was pinned, so the lease is over, somebody else has deleted it, or the broker has another store"
	}
	if l.marks.file != "" {
		return fmt.Errorf("%w%s; the same command goes on there", err, why)
	}
	var left []string
	for _, r := range l.left() {
		left = append(left, fmt.Sprintf("-p %d -o %d:%d", r.Partition, r.From, r.To))
	}
	return fmt.Errorf("%w%s; what is left: %s", err, why, strings.Join(left, ", "))
}
