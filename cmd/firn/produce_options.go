package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	acksAll = "all"
	// defaultLinger is that of Java's producer since Kafka 4.
	defaultLinger = 5 * time.Millisecond
	// defaultBufferBytes bounds what waits in memory when the input is faster than the cluster.
	defaultBufferBytes = 256 << 20
	// recordRetries bounds how often the cluster may turn a record away with an error that could pass: with kgo's
	// growing waits that is about half a minute, and the error that comes then is the cluster's own.
	recordRetries = 10
)

// producerOptions checks what the command line says about the way records are sent.
func (p *produceRequest) producerOptions() ([]kgo.Opt, error) {
	switch {
	case p.timeout <= 0:
		return nil, errors.New("--timeout must be positive")
	case p.linger < 0 || p.linger > time.Minute:
		return nil, errors.New("--linger must be between 0 and 1m")
	case p.batchBytes != 0 && (p.batchBytes < minBatchBytes || p.batchBytes > maxBatchBytes):
		return nil, fmt.Errorf("--batch-size must be between %d and %d", minBatchBytes, maxBatchBytes)
	case p.bufferBytes < minBatchBytes:
		return nil, fmt.Errorf("--buffer-memory must be at least %d", minBatchBytes)
	case p.acks == "0" && (p.sync || p.reportFormat != ""):
		return nil, errors.New("--acks 0 is never answered, so --sync and --output-format have nothing to go by")
	}
	// There is no kgo.RecordDeliveryTimeout: it counts from a record's timestamp, which here may be years ago.
	options := []kgo.Opt{kgo.RecordRetries(recordRetries), kgo.MaxBufferedBytes(int(p.bufferBytes)),
		kgo.ProducerLinger(p.linger)}
	acks, ok := map[string]kgo.Acks{
		acksAll: kgo.AllISRAcks(), "-1": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck(),
	}[p.acks]
	if !ok {
		return nil, fmt.Errorf("unknown --acks %q: all, 1 and 0 are known", p.acks)
	}
	options = append(options, kgo.RequiredAcks(acks))
	switch {
	case !p.idempotent:
		options = append(options, kgo.DisableIdempotentWrite())
	case acks != kgo.AllISRAcks():
		return nil, errors.New("--idempotent needs --acks all")
	}
	codec, ok := codecOptions()[p.compression]
	if !ok {
		return nil, fmt.Errorf("unknown --compression %q: %s are known", p.compression,
			strings.Join(sortedKeys(codecOptions()), ", "))
	}
	partitioner, err := newPartitioner(p.partitioner, p.stickiness())
	if err != nil {
		return nil, err
	}
	return append(options, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(partitioner)), nil
}

// stickiness is how many bytes of records without a key go to one partition before another one's turn: a batch's
// worth, as with Java's producer.
func (p *produceRequest) stickiness() int {
	if p.batchBytes != 0 {
		return int(p.batchBytes)
	}
	return partitionStickiness
}

func codecOptions() map[string]kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
}
