package replica

import (
	"fmt"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
)

// AppendRequest is what a Produce request says about its records.
type AppendRequest struct {
	// Version of the Produce API: it decides which codecs may be used.
	Version int16
	// AwaitCommit is set for acks=all: the caller will wait for RequiredOffset.
	AwaitCommit bool
	// Guard is what BeginVerification gave for records that may begin a transaction.
	Guard VerificationGuard
}

// Appended says where records went.
type Appended struct {
	BaseOffset int64
	// LogAppendTime is the broker's time in ms when the topic stamps records itself, else −1.
	LogAppendTime  int64
	LogStartOffset int64
	// RequiredOffset is the high watermark from which on the records survive the loss of any one thing.
	RequiredOffset int64
}

// ErrNoSpace says that an append was refused because a disk is nearly full.
var ErrNoSpace = storage.ErrNoSpace

// Append validates one producer's records and appends them as leader. The batch is patched in place: records must not
// be used by the caller afterwards, and nothing keeps a reference to them. Errors carry Kafka codes; record errors
// are a *record.InvalidRecordsError.
func (p *Partition) Append(records []byte, request AppendRequest) (Appended, error) {
	appended, summary, err := p.validateAndAppend(records, request)
	p.countAppend(summary, len(records), err)
	return appended, err
}

func (p *Partition) validateAndAppend(records []byte, request AppendRequest) (Appended, record.Summary, error) {
	log, err := p.leaderLog(kafka.NoLeaderEpoch)
	if err != nil {
		return Appended{}, record.Summary{}, err
	}
	cfg := p.config.Load()
	if request.AwaitCommit {
		if err := p.checkInsyncReplicas(); err != nil {
			return Appended{}, record.Summary{}, err
		}
	}
	now := time.Now().UnixMilli()
	batch, summary, err := p.manager.validator.Validate(records, record.Options{
		MaxBytes:           cfg.MaxMessageBytes,
		TimestampLogAppend: cfg.TimestampTypeLogAppend,
		Now:                now,
		BeforeMaxMs:        cfg.TimestampBeforeMaxMs,
		AfterMaxMs:         cfg.TimestampAfterMaxMs,
		RequireKeys:        cfg.CleanupCompact,
		MaxRecordBytes:     cfg.MaxDecompressedMessageBytes,
		Target:             target(cfg),
		HeaderOnly:         p.manager.options.HeaderOnlyValidation,
		RequestVersion:     request.Version,
	})
	if err != nil {
		return Appended{}, summary, fmt.Errorf("records for %s: %w", p.topicPartition, err)
	}
	if int64(len(batch)) > cfg.SegmentBytes {
		return Appended{}, summary, fmt.Errorf("a batch of %d bytes for %s is larger than a segment, segment.bytes=%d: %w",
			len(batch), p.topicPartition, cfg.SegmentBytes, kafka.RecordListTooLarge)
	}
	appended, err := p.append(log, batch, summary, request, storage.AppendOptions{AppendedAt: now, Guard: request.Guard})
	return appended, summary, err
}

// appendOwn appends a batch that this broker has made, and asks for the flush at once: who appends it waits for it.
func (p *Partition) appendOwn(log *storage.Log, batch record.Batch, opts storage.AppendOptions) (Appended, error) {
	summary := record.Summary{Count: batch.Count(), MaxTimestamp: batch.MaxTimestamp(), Size: len(batch)}
	opts.AppendedAt, opts.Origin = time.Now().UnixMilli(), storage.FromCoordinator
	appended, err := p.append(log, batch, summary, AppendRequest{AwaitCommit: true}, opts)
	p.countAppend(summary, len(batch), err)
	return appended, err
}

func (p *Partition) append(log *storage.Log, batch record.Batch, summary record.Summary, request AppendRequest,
	opts storage.AppendOptions,
) (Appended, error) {
	opts.LeaderEpoch = p.state.Load().epoch
	info, err := log.Append(batch, summary, opts)
	if err != nil {
		return Appended{}, fmt.Errorf("append to %s: %w", p.topicPartition, err)
	}
	switch {
	case !p.groupCommit():
		p.advance()
	case p.awaited() || request.AwaitCommit:
		log.RequestFlush() // the producer, or a long poll, waits for the disk
	}
	return Appended{
		BaseOffset:     info.BaseOffset,
		LogAppendTime:  info.LogAppendTime,
		LogStartOffset: info.LogStartOffset,
		RequiredOffset: info.EndOffset,
	}, nil
}

// checkInsyncReplicas refuses acks=all when too few replicas are in sync. The minimum is capped at the number of
// replicas, as Kafka 4 does: a topic with one replica and min.insync.replicas=2 can be written.
func (p *Partition) checkInsyncReplicas() error {
	state := p.state.Load()
	required := p.requiredInSync(state)
	if state.isr < required {
		return fmt.Errorf("%s has %d replicas in sync and needs %d: %w",
			p.topicPartition, state.isr, required, kafka.NotEnoughReplicas)
	}
	return nil
}

// requiredInSync is how many replicas must be in sync for acks=all: no more than there are.
func (p *Partition) requiredInSync(state *leadership) int {
	return min(int(p.config.Load().MinInsyncReplicas), state.replicas)
}

// target is the codec the topic stores, and how thoroughly it compresses.
func target(cfg *config.TopicConfig) record.Target {
	switch cfg.CompressionType {
	case "uncompressed":
		return record.Recode(record.None, record.DefaultLevel)
	case "gzip":
		return record.Recode(record.Gzip, int(cfg.CompressionGzipLevel))
	case "snappy":
		return record.Recode(record.Snappy, record.DefaultLevel)
	case "lz4":
		return record.Recode(record.LZ4, int(cfg.CompressionLZ4Level))
	case "zstd":
		return record.Recode(record.Zstd, int(cfg.CompressionZstdLevel))
	}
	return record.KeepCodec()
}
