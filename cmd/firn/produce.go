package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceRequest is the command line of `produce`.
type produceRequest struct {
	topic       string
	format      string
	separator   string
	key         string
	hasKey      bool
	headers     []string
	partition   int32
	repartition bool
	nullValue   bool
	timestamp   string
	acks        string
	compression string
	maxBytes    int32
	timeout     time.Duration
}

func produceCommand() *cobra.Command {
	var request produceRequest
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send records, one a line of standard input",
		Long: "Send records, one a line of standard input, and say on stderr what was sent.\n\n" +
			"The exit status is 0 only if the cluster has acknowledged every record.",
		Example: "  echo hello | firn produce greetings\n" +
			"  printf 'a:1\\nb:2\\n' | firn produce pairs -K :\n" +
			"  firn consume from -f json | firn produce to -f json",
		Args: takes(cobra.ExactArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&request.format, "format", "f", formatText,
		"input format: text (a value a line), json (a record a line, as consume -f json prints it),\n"+
			"a percent layout such as '%k %v\\n', or help for the fields of the JSON")
	flags.StringVarP(&request.separator, "key-separator", "K", "",
		"text: what stands between key and value, such as : or \\t")
	flags.StringVarP(&request.key, "key", "k", "", "key of every record that has none")
	flags.StringArrayVarP(&request.headers, "header", "H", nil, "header KEY=VALUE of every record (repeatable)")
	flags.Int32VarP(&request.partition, "partition", "p", anyPartition,
		"send everything to this partition; -1: to the record's own, if the input names one, else by its key")
	flags.BoolVar(&request.repartition, "repartition", false, "choose partitions by key even where the input names them")
	flags.BoolVarP(&request.nullValue, "null-value", "Z", false, "send empty values as null (tombstones)")
	flags.StringVar(&request.timestamp, "timestamp", "",
		"timestamp of every record that has none: Unix ms, 2013-01-31 or RFC 3339 (default now)")
	flags.StringVar(&request.acks, "acks", "all",
		"whose acknowledgement counts: all (in-sync replicas), 1 (leader) or 0 (nobody)")
	flags.StringVarP(&request.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.Int32Var(&request.maxBytes, "max-message-bytes", 0,
		"largest batch before compression (default the topic's max.message.bytes)")
	flags.DurationVar(&request.timeout, "timeout", 30*time.Second, "give up when nothing is acknowledged for this long")
	cmd.ValidArgsFunction = completeTopics(brokers, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if request.format == formatHelp {
			return writeSchema[recordJSON](cmd.OutOrStdout())
		}
		request.topic, request.hasKey = args[0], flags.Changed("key")
		return request.run(cmd, brokers)
	}
	return finishStreaming(cmd, &request.format)
}

// producerOptions checks what the command line says about the way records are sent.
func (p *produceRequest) producerOptions() ([]kgo.Opt, error) {
	if p.timeout <= 0 {
		return nil, errors.New("--timeout must be positive")
	}
	// There is no kgo.RecordDeliveryTimeout: it counts from a record's timestamp, which here may be years ago.
	options := []kgo.Opt{kgo.RecordRetries(recordRetries), kgo.MaxBufferedBytes(maxBufferedBytes)}
	switch p.acks {
	case "all", "-1":
		options = append(options, kgo.RequiredAcks(kgo.AllISRAcks()))
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, fmt.Errorf("unknown --acks %q: all, 1 and 0 are known", p.acks)
	}
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	codec, ok := codecs[p.compression]
	if !ok {
		known := strings.Join(sortedKeys(codecs), ", ")
		return nil, fmt.Errorf("unknown --compression %q: %s are known", p.compression, known)
	}
	return append(options, kgo.ProducerBatchCompression(codec)), nil
}

// recordRetries bounds how often the cluster may turn a record away with an error that could pass: with kgo's growing
// waits that is about half a minute, and the error that comes then is the cluster's own.
const recordRetries = 10

// maxBufferedBytes bounds what waits in memory when standard input is faster than the cluster.
const maxBufferedBytes = 256 << 20

// recordDefaults is what the command line gives to each record.
type recordDefaults struct {
	key        []byte
	headers    []kgo.RecordHeader
	timestamp  time.Time
	partition  int32
	partitions int32 // how many the topic has
	byKey      bool  // ignore the input's partitions
	nullValue  bool
}

func (p *produceRequest) defaults() (recordDefaults, error) {
	defaults := recordDefaults{partition: p.partition, byKey: p.repartition, nullValue: p.nullValue}
	if p.hasKey {
		defaults.key = []byte(p.key)
	}
	if p.hasKey && p.separator != "" {
		return defaults, errors.New("--key and --key-separator exclude each other")
	}
	if p.partition != anyPartition && p.repartition {
		return defaults, errors.New("--partition and --repartition exclude each other")
	}
	if p.separator != "" && p.format != formatText {
		return defaults, errors.New("--key-separator belongs to --format text")
	}
	for _, text := range p.headers {
		header, err := parseHeader(text)
		if err != nil {
			return defaults, err
		}
		defaults.headers = append(defaults.headers, header)
	}
	if p.timestamp != "" {
		moment, err := parseMoment(p.timestamp)
		if err != nil {
			return defaults, fmt.Errorf("--timestamp: %w", err)
		}
		defaults.timestamp = moment
	}
	return defaults, nil
}

// apply fills in what the record lacks and checks its partition, which kgo would answer for less clearly.
func (d *recordDefaults) apply(record *kgo.Record) error {
	if record.Key == nil {
		record.Key = d.key
	}
	record.Headers = append(slices.Clip(record.Headers), d.headers...)
	if record.Timestamp.IsZero() {
		record.Timestamp = d.timestamp
	}
	if d.nullValue && len(record.Value) == 0 {
		record.Value = nil
	}
	switch {
	case d.partition != anyPartition:
		record.Partition = d.partition
	case d.byKey:
		record.Partition = anyPartition
	}
	if record.Partition >= d.partitions || record.Partition < anyPartition {
		return fmt.Errorf("there is no partition %d: the topic has %d; --repartition chooses by key",
			record.Partition, d.partitions)
	}
	return nil
}

// topicLimits asks for what the topic demands of a producer: its number of partitions and its largest batch.
func topicLimits(client *session, topic string) (partitions, maxBytes int32, err error) {
	topics, err := findTopics(client.ctx, client.admin, []string{topic})
	if err != nil {
		return 0, 0, err
	}
	maxBytes = defaultBatchBytes
	configs, err := client.admin.DescribeTopicConfigs(client.ctx, topic)
	if ctxErr := context.Cause(client.ctx); ctxErr != nil {
		return 0, 0, ctxErr
	}
	if err == nil { // else the right to read settings may be missing: the default is safe
		maxBytes = maxMessageBytes(configs, topic)
	}
	return int32(len(topics[topic].Partitions)), maxBytes, nil
}
