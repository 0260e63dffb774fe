package replica

import (
	"context"
	"fmt"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

// Journal is a partition in which this broker keeps a state of its own, as its leader in one epoch.
type Journal struct {
	*Partition
	epoch kafka.LeaderEpoch
}

// Journal gives access to the partition as a journal, for as long as the broker leads it in the present epoch.
func (p *Partition) Journal() Journal { return Journal{p, p.LeaderEpoch()} }

// Append appends a batch that this broker has made. It asks for the flush at once and returns the offset after the
// batch. The guard belongs to a transactional batch. Errors carry Kafka codes: FENCED_LEADER_EPOCH or
// NOT_LEADER_OR_FOLLOWER when the leadership is over, MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE by the topic's
// max.message.bytes and segment.bytes.
func (j Journal) Append(batch record.Batch, guard VerificationGuard) (end int64, err error) {
	log, err := j.leaderLog(j.epoch)
	if err != nil {
		return 0, err
	}
	if err := j.checkInsyncReplicas(); err != nil {
		return 0, err
	}
	cfg := j.config.Load()
	switch size := len(batch); {
	case size > int(cfg.MaxMessageBytes):
		return 0, fmt.Errorf("a batch of %d bytes for %s is larger than max.message.bytes=%d: %w",
			size, j.topicPartition, cfg.MaxMessageBytes, kafka.MessageTooLarge)
	case int64(size) > cfg.SegmentBytes:
		return 0, fmt.Errorf("a batch of %d bytes for %s is larger than a segment, segment.bytes=%d: %w",
			size, j.topicPartition, cfg.SegmentBytes, kafka.RecordListTooLarge)
	}
	appended, err := j.appendOwn(log, batch, storage.AppendOptions{Guard: guard})
	return appended.RequiredOffset, err
}

// Read returns whole batches below the high watermark, from the one that holds offset on: at least one, unless offset
// is the high watermark.
func (j Journal) Read(_ context.Context, offset int64, maxBytes int) ([]byte, error) {
	log, err := j.leaderLog(j.epoch)
	if err != nil {
		return nil, err
	}
	read, err := log.Read(storage.ReadRequest{
		Offset: offset, MaxBytes: maxBytes, AtLeastOne: true, UpTo: log.HighWatermark(),
	})
	if err != nil {
		return nil, fmt.Errorf("read %s from %d: %w", j.topicPartition, offset, err)
	}
	if read.Region.Size() == 0 {
		return nil, nil
	}
	defer read.Region.Release()
	data := make([]byte, read.Region.Size())
	if _, err := read.Region.ReadAt(data, 0); err != nil {
		return nil, fmt.Errorf("read %s from %d: %w", j.topicPartition, offset, err)
	}
	return data, nil
}
