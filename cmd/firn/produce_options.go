package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// sendingFlags are the flags of every command that produces.
type sendingFlags struct {
	acks        string
	idempotent  bool
	compression string
	partitioner string
	linger      time.Duration
	batchBytes  byteCount // 0: as much as the topic takes
	bufferBytes byteCount
	timeout     time.Duration
}

func (s *sendingFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.acks, "acks", acksAll,
		"whose acknowledgement counts: all (in-sync replicas), 1 (leader) or 0 (nobody)")
	flags.BoolVar(&s.idempotent, "idempotent", true,
		"write each record once and in order, whatever is sent again; needs --acks all")
	flags.StringVarP(&s.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVar(&s.partitioner, "partitioner", partitionMurmur2,
		"murmur2 (by key as Java's producer, without a key as sticky), or without a look at keys: sticky (a batch's worth\n"+
			"to one partition, then another), round-robin, random")
	flags.DurationVar(&s.linger, "linger", defaultLinger, "how long a batch waits for more records")
	flags.Var(&s.batchBytes, "batch-size",
		"largest batch before compression, so also the largest record (default the topic's max.message.bytes)")
	s.bufferBytes = defaultBufferBytes
	flags.Var(&s.bufferBytes, "buffer-memory", "how much may wait to be sent before no more is taken")
	flags.DurationVar(&s.timeout, "timeout", 30*time.Second, "give up when nothing is acknowledged for this long")
}

func completeSending(cmd *cobra.Command) {
	completeFlag(cmd, "acks", acksAll, "1", "0")
	completeFlag(cmd, "compression", sortedKeys(codecOptions())...)
	completeFlag(cmd, "partitioner", partitioners()...)
}

// settle fills in what depends on other flags.
func (s *sendingFlags) settle(given func(flag string) bool) {
	if !given("idempotent") && s.acks != acksAll && s.acks != "-1" {
		s.idempotent = false
	}
}

// producerOptions checks what the command line says about the way records are sent.
func (s *sendingFlags) producerOptions() ([]kgo.Opt, error) {
	switch {
	case s.timeout <= 0:
		return nil, errors.New("--timeout must be positive")
	case s.linger < 0 || s.linger > time.Minute:
		return nil, errors.New("--linger must be between 0 and 1m")
	case s.batchBytes != 0 && (s.batchBytes < minBatchBytes || s.batchBytes > maxBatchBytes):
		return nil, fmt.Errorf("--batch-size must be between %d and %d", minBatchBytes, maxBatchBytes)
	case s.bufferBytes < minBatchBytes:
		return nil, fmt.Errorf("--buffer-memory must be at least %d", minBatchBytes)
	}
	// There is no kgo.RecordDeliveryTimeout: it counts from a record's timestamp, which here may be years ago.
	options := []kgo.Opt{kgo.RecordRetries(recordRetries), kgo.MaxBufferedBytes(int(s.bufferBytes)),
		kgo.ProducerLinger(s.linger)}
	acks, ok := map[string]kgo.Acks{
		acksAll: kgo.AllISRAcks(), "-1": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck(),
	}[s.acks]
	if !ok {
		return nil, fmt.Errorf("unknown --acks %q: all, 1 and 0 are known", s.acks)
	}
	options = append(options, kgo.RequiredAcks(acks))
	switch {
	case !s.idempotent:
		options = append(options, kgo.DisableIdempotentWrite())
	case acks != kgo.AllISRAcks():
		return nil, errors.New("--idempotent needs --acks all")
	}
	codec, ok := codecOptions()[s.compression]
	if !ok {
		return nil, fmt.Errorf("unknown --compression %q: %s are known", s.compression,
			strings.Join(sortedKeys(codecOptions()), ", "))
	}
	partitioner, err := newPartitioner(s.partitioner, s.stickiness())
	if err != nil {
		return nil, err
	}
	return append(options, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(partitioner)), nil
}

// stickiness is how many bytes of records without a key go to one partition before another one's turn: a batch's
// worth, as with Java's producer.
func (s *sendingFlags) stickiness() int {
	if s.batchBytes != 0 {
		return int(s.batchBytes)
	}
	return partitionStickiness
}

func codecOptions() map[string]kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
}
