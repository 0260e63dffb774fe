package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceRequest is the command line of `produce`.
type produceRequest struct {
	topic       string // empty: each record names its own
	inputs      []string
	format      string
	separator   string
	delimiter   string
	key         string
	hasKey      bool
	headers     []string
	partition   int32
	repartition bool
	nullValue   bool
	nullKey     bool
	timestamp   string

	sendingFlags
	sync         bool
	reportFormat string
	noProgress   bool
	transaction  transactionFlags
}

func produceCommand() *cobra.Command {
	var request produceRequest
	cmd := &cobra.Command{
		Use:   "produce [TOPIC]",
		Short: "Send records, one a line of standard input",
		Long: "Send records, one a line of standard input or of files, and say on stderr what was sent.\n\n" +
			"The exit status is 0 only if the cluster has acknowledged every record. An interrupt stops the reading;\n" +
			"what was read is still sent, and the count on stderr says how many records that were.\n\n" +
			"A layout for -f is text around percent verbs: %k key, %v value, %p partition, %t topic, %d timestamp in ms,\n" +
			"%H number of headers and then %h{%k=%v;} each of them, %K %V %T size of what follows, %% a percent sign, and\n" +
			"\\t \\n \\r \\\\ \\xNN. Sizes and numbers are ascii, or %V{big32}, {big64}, {little16}, {hex8}, {byte}, {3}\n" +
			"and so on; keys and values may be %v{hex}, {base64}, {json}, {re#…#}. What has no size ends at the text that\n" +
			"follows. What is empty is not null, unless -Z or --null-key say so; what has no verb is null.",
		Example: "  echo hello | firn produce greetings\n" +
			"  printf 'a:1\\nb:2\\n' | firn produce pairs -K :\n" +
			"  echo | firn produce pairs -k a -Z             # a tombstone\n" +
			"  firn produce blobs -f raw -i photo.jpg --sync\n" +
			"  firn produce framed -f '%K{big32}%k%V{big32}%v' -i dump.bin\n" +
			"  firn consume from -f json | firn produce to -f json",
		Args: takes(cobra.MaximumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	request.addInputFlags(cmd.Flags())
	request.addSendingFlags(cmd.Flags())
	completeProduce(cmd, brokers)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if request.format == formatHelp {
			return writeSchema[recordJSON](cmd.OutOrStdout())
		}
		if len(args) == 1 {
			request.topic = args[0]
		}
		request.settle(cmd.Flags().Changed)
		return request.run(cmd, brokers)
	}
	return finishStreaming(cmd, &request.format, formatRaw)
}

func (p *produceRequest) addInputFlags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&p.inputs, "input", "i", nil,
		"read this file instead of standard input (repeatable; - is standard input)")
	flags.StringVarP(&p.format, "format", "f", formatText,
		"input format: text (a value a line), json (a record a line, as consume -f json prints it), raw (an input as a\n"+
			"whole is one value), a percent layout such as '%k %v\\n', or help for the fields of the JSON")
	flags.StringVarP(&p.separator, "key-separator", "K", "",
		"text: what stands between key and value, such as : or \\t")
	flags.StringVarP(&p.delimiter, "delimiter", "D", `\n`, "text: what ends a record, such as ; or \\x00")
	flags.StringVarP(&p.key, "key", "k", "", "key of every record that has none")
	flags.StringArrayVarP(&p.headers, "header", "H", nil, "header KEY=VALUE of every record (repeatable)")
	flags.Int32VarP(&p.partition, "partition", "p", anyPartition,
		"send everything to this partition; -1: to the record's own, if the input names one, else by --partitioner")
	flags.BoolVar(&p.repartition, "repartition", false,
		"choose partitions by --partitioner even where the input names them")
	flags.BoolVarP(&p.nullValue, "null-value", "Z", false, "send empty values as null (tombstones)")
	flags.BoolVar(&p.nullKey, "null-key", false, "send empty keys as null")
	flags.StringVar(&p.timestamp, "timestamp", "",
		"timestamp of every record that has none: Unix ms, 2013-01-31 or RFC 3339 (default now)")
}

func (p *produceRequest) addSendingFlags(flags *pflag.FlagSet) {
	p.addFlags(flags)
	flags.BoolVar(&p.sync, "sync", false,
		"send the next record only when the one before is acknowledged, and print where each went; --linger is 0 then")
	flags.StringVarP(&p.reportFormat, "output-format", "o", "",
		"print each acknowledged record to stdout: json, or a percent layout such as '%t %p %o\\n'")
	flags.BoolVar(&p.noProgress, "no-progress", false, "show no progress on a terminal")
	p.transaction.addFlags(flags)
}

func completeProduce(cmd *cobra.Command, brokers *brokerFlag) {
	cmd.ValidArgsFunction = completeTopics(brokers, 1)
	completeSending(cmd)
}

// settle fills in what depends on other flags.
func (p *produceRequest) settle(given func(flag string) bool) {
	p.hasKey = given("key")
	p.sendingFlags.settle(given)
	if p.sync && !given("linger") {
		p.linger = 0
	}
	if p.sync && p.reportFormat == "" {
		p.reportFormat = syncReport
	}
}

// recordDefaults is what the command line gives to each record.
type recordDefaults struct {
	topic     string // wins over the record's own; empty: the record must name one
	key       []byte
	headers   []kgo.RecordHeader
	timestamp time.Time
	partition int32
	byKey     bool // ignore the input's partitions
	nullValue bool
	nullKey   bool
}

func (p *produceRequest) defaults() (recordDefaults, error) {
	if p.acks == "0" && (p.sync || p.reportFormat != "") {
		return recordDefaults{}, errors.New("--acks 0 is never answered, so --sync and --output-format have nothing to go by")
	}
	defaults := recordDefaults{topic: p.topic, partition: p.partition, byKey: p.repartition, nullValue: p.nullValue,
		nullKey: p.nullKey}
	if p.topic == "" && p.format != formatJSON && p.format != formatJSONLines && !strings.Contains(p.format, "%t") {
		return defaults, errors.New("a topic is missing: firn produce TOPIC (only JSON lines and layouts with %t name one)")
	}
	if p.hasKey {
		defaults.key = []byte(p.key)
	}
	if p.hasKey && p.separator != "" {
		return defaults, errors.New("--key and --key-separator exclude each other")
	}
	if p.partition != anyPartition && p.repartition {
		return defaults, errors.New("--partition and --repartition exclude each other")
	}
	if p.format != formatText && (p.separator != "" || p.delimiter != `\n`) {
		return defaults, errors.New("--key-separator and --delimiter belong to --format text")
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

// apply fills in what the record lacks.
func (d *recordDefaults) apply(record *kgo.Record) error {
	if d.topic != "" {
		record.Topic = d.topic
	}
	if record.Topic == "" {
		return errors.New("it names no topic: give firn produce TOPIC")
	}
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
	if d.nullKey && len(record.Key) == 0 {
		record.Key = nil
	}
	switch {
	case d.partition != anyPartition:
		record.Partition = d.partition
	case d.byKey:
		record.Partition = anyPartition
	}
	return nil
}

// checkPartition does what kgo would answer for less clearly.
func checkPartition(record *kgo.Record, partitions int32) error {
	if record.Partition >= partitions || record.Partition < anyPartition {
		return fmt.Errorf("there is no partition %d: topic %s has %d; --repartition chooses by key",
			record.Partition, record.Topic, partitions)
	}
	return nil
}

// input opens what is to be read. Files are opened one after the other; that they are there is checked at once.
func (p *produceRequest) input(stdin io.Reader) (recordInput, error) {
	separator, err := unescape(p.separator)
	if err != nil {
		return nil, err
	}
	delimiter, err := unescape(p.delimiter)
	if err != nil {
		return nil, err
	}
	if len(delimiter) == 0 {
		return nil, errors.New("--delimiter is empty")
	}
	open := func(in io.Reader) (recordInput, error) {
		return newRecordInput(in, p.format, textForm{separator: separator, delimiter: delimiter})
	}
	if _, err := open(strings.NewReader("")); err != nil {
		return nil, err
	}
	names := p.inputs
	if len(names) == 0 {
		names = []string{standardInput}
	}
	for _, name := range names {
		if _, err := os.Stat(name); err != nil && name != standardInput {
			return nil, fmt.Errorf("--input: %w", err)
		}
	}
	return &inputFiles{names: names, stdin: stdin, open: open}, nil
}
