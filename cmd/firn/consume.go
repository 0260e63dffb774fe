package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
)

// consumeRequest is the command line of `consume`.
type consumeRequest struct {
	regex         bool
	offset        string
	partitions    []int32
	limit         int64
	follow        bool
	isolation     isolationFlag
	control       bool
	rack          string
	filterKey     string
	filterValue   string
	filterHeaders []string

	format     string
	keys       bool
	separator  string
	delimiter  string
	null       string
	metaOnly   bool
	noProgress bool

	membershipFlags
	bucket bucketFlags

	choice  topicChoice
	offsets offsetRange
	filter  recordFilter
}

func consumeCommand() *cobra.Command {
	var request consumeRequest
	cmd := &cobra.Command{
		Use:   "consume TOPIC…",
		Short: "Print records",
		Long: "Print records from where -o says to the ends that the partitions have when the command starts, and exit;\n" +
			"with --follow, go on with what comes later.\n\n" +
			"With --group, share the partitions with the group's other members, go on where the group has committed, and\n" +
			"commit what the output has taken. So nothing is left out; what was printed and not committed, because the\n" +
			"command was killed or the commit failed, is printed again by whoever reads on.\n\n" +
			"With --from-bucket, read history from the object store itself, in parallel and past the brokers. A broker is\n" +
			"asked once, over --http, to keep the objects until the command is done; with --no-broker nobody is.\n\n" +
			"A layout for -f is text around percent verbs: %t topic, %p partition, %o offset, %k key, %v value, %d\n" +
			"timestamp, %h{%k=%v;} each header, %H number of headers, %K %V %T lengths, %e leader epoch,\n" +
			"%a{timestamp-type}, %a{compression}, %x producer id, %y producer epoch, %[ log start offset, %| last stable\n" +
			"offset, %] high watermark, %i count, %% a percent sign, and \\t \\n \\r \\\\ \\xNN. Numbers are ascii, or\n" +
			"%V{big32}, {hex8}, {little16}, {byte} and so on; text may be %v{hex}, {base64}, {unpack{…}}; times\n" +
			"%d{go#RFC3339#} or %d{strftime#%F#}.",
		Example: "  firn consume flights -n 5\n" +
			"  firn consume flights -o -10 --follow\n" +
			"  firn consume flights -o @2013-01-13:24h -f '%d{go#DateTime#} %k %v\\n'\n" +
			"  firn consume flights -f json --filter-key ^N14\n" +
			"  firn consume flights weather --group billing --follow\n" +
			"  firn consume flights --from-bucket s3://bucket/folder --resume flights.json -f json >>flights.jsonl",
		Args: takes(cobra.MinimumNArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	request.addReadingFlags(cmd.Flags())
	request.addPrintingFlags(cmd.Flags())
	request.membershipFlags.addFlags(cmd)
	request.bucket.addFlags(cmd)
	cmd.ValidArgsFunction = completeTopics(brokers, 0)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if request.format == formatHelp {
			return request.writeSchema(cmd.OutOrStdout())
		}
		output, err := request.check(cmd, args)
		if err != nil {
			return usageError{cmd.CommandPath(), err}
		}
		if request.follow {
			brokers.patience = 0 // who follows waits for the cluster to come back
		}
		if request.bucket.wanted() {
			return request.runFromBucket(cmd, output)
		}
		return request.run(cmd, brokers, output)
	}
	completeFlag(cmd, "offset", "start", "end", "-10", "@-1h", "@-1d")
	return finishStreaming(cmd, &request.format)
}

func (c *consumeRequest) addReadingFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&c.regex, "regex", "r", false,
		"read every topic that a regular expression finds in its name; with --follow, later ones too")
	flags.StringVarP(&c.offset, "offset", "o", "start", offsetHelp)
	flags.Int32SliceVarP(&c.partitions, "partitions", "p", nil, "read these partitions only")
	flags.Int64VarP(&c.limit, "num", "n", 0, "stop after this many records")
	flags.BoolVarP(&c.follow, "follow", "F", false, "do not stop at the end")
	c.isolation.addFlag(flags)
	flags.BoolVar(&c.control, "print-control-records", false, "print the markers of transactions, too")
	flags.StringVar(&c.rack, "rack", "", "read from replicas in this rack where there are any")
	flags.StringVar(&c.filterKey, "filter-key", "", "print only records whose key a regular expression finds something in")
	flags.StringVar(&c.filterValue, "filter-value", "", "the same for the value")
	flags.StringArrayVar(&c.filterHeaders, "filter-header", nil,
		"print only records with a header KEY, or KEY=REGEX (repeatable: all must be there)")
}

func (c *consumeRequest) addPrintingFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&c.format, "format", "f", formatText,
		"output format: text (a value a line), json (a record a line, nothing lost), a percent layout such as\n"+
			"'%t %p %o %d{go#RFC3339#} %k %v\\n', or help for the fields of the JSON")
	flags.BoolVar(&c.keys, "keys", false, "text: print the key and a tab before the value")
	flags.StringVarP(&c.separator, "key-separator", "K", "", "text: print the key and this before the value")
	flags.StringVarP(&c.delimiter, "delimiter", "D", `\n`, "text: print this after each record")
	flags.StringVarP(&c.null, "null", "Z", "",
		"text and layouts: print this for a null key or value (NULL with -Z alone; default nothing, as for empty ones)")
	flags.Lookup("null").NoOptDefVal = "NULL"
	flags.BoolVar(&c.metaOnly, "meta-only", false, "json: leave out keys, values and headers, and say how long they are")
	flags.BoolVar(&c.noProgress, "no-progress", false, "show no progress on a terminal")
}

func (c *consumeRequest) writeSchema(w io.Writer) error {
	if c.metaOnly {
		return writeSchema[metaJSON](w)
	}
	return writeSchema[recordJSON](w)
}

// check reads what needs no cluster.
func (c *consumeRequest) check(cmd *cobra.Command, args []string) (recordOutput, error) {
	args, err := c.bucket.check(cmd.Flags().Changed, args)
	if err != nil {
		return nil, err
	}
	if c.choice, err = newTopicChoice(args, c.regex); err != nil {
		return nil, err
	}
	if c.offsets, err = parseOffsetRange(c.offset, time.Now()); err != nil {
		return nil, err
	}
	if c.follow && c.offsets.bounded {
		return nil, errors.New("--follow has no end, but -o names one")
	}
	if c.limit < 0 {
		return nil, errors.New("-n must not be negative")
	}
	if err = c.checkMembership(cmd.Flags().Changed); err != nil {
		return nil, err
	}
	if c.filter, err = newRecordFilter(c.filterKey, c.filterValue, c.filterHeaders); err != nil {
		return nil, err
	}
	return c.output(hasColours(cmd.OutOrStdout()), cmd.Flags().Changed("null"))
}

// output is how records are printed.
func (c *consumeRequest) output(colours, showNull bool) (recordOutput, error) {
	isJSON := c.format == formatJSON || c.format == formatJSONLines
	switch {
	case c.keys && c.separator != "":
		return nil, errors.New("--keys and --key-separator exclude each other")
	case c.format != formatText && (c.keys || c.separator != "" || c.delimiter != `\n`):
		return nil, errors.New("--keys, --key-separator and --delimiter belong to --format text")
	case c.metaOnly && !isJSON:
		return nil, errors.New("--meta-only belongs to --format json")
	case showNull && isJSON:
		return nil, errors.New("--null belongs to text and layouts: JSON has its own null")
	case c.metaOnly:
		return appendMetaJSON, nil
	}
	form := outputForm{colours: colours}
	if c.keys {
		form.separator = []byte("\t")
	}
	if showNull {
		form.null = []byte(c.null)
	}
	var err error
	if c.separator != "" {
		if form.separator, err = unescape(c.separator); err != nil {
			return nil, err
		}
	}
	if form.delimiter, err = unescape(c.delimiter); err != nil {
		return nil, err
	}
	return newRecordOutput(c.format, form)
}

// topicSpans are the offsets to read, by topic and partition.
type topicSpans map[string]map[int32]span

// spans finds out what the request means in offsets, at this moment: later records do not belong to it.
func (c *consumeRequest) spans(client *session) (topicSpans, error) {
	topics, err := c.choice.find(client)
	if err != nil {
		return nil, err
	}
	if err := c.checkPartitions(topics); err != nil {
		return nil, err
	}
	borders, err := listBorders(client, c.offsets, c.isolation, sortedKeys(topics))
	if err != nil {
		return nil, err
	}
	spans := make(topicSpans, len(topics))
	for topic, detail := range topics {
		spans[topic] = make(map[int32]span)
		for partition := range detail.Partitions {
			if len(c.partitions) > 0 && !slices.Contains(c.partitions, partition) {
				continue
			}
			found, err := borders.of(topic, partition)
			if err != nil {
				return nil, err
			}
			resolved := c.offsets.resolve(found)
			if c.follow {
				resolved.end = math.MaxInt64
			}
			spans[topic][partition] = resolved
		}
	}
	return spans, nil
}

func (c *consumeRequest) checkPartitions(topics kadm.TopicDetails) error {
	for _, partition := range c.partitions {
		for topic, detail := range topics {
			if _, ok := detail.Partitions[partition]; !ok {
				return noPartition(topic, partition, len(detail.Partitions))
			}
		}
	}
	return nil
}

// listedBorders are the answers that partitionBorders are made of.
type listedBorders struct {
	logStart, end, fromTime, toTime kadm.ListedOffsets
}

// listBorders finds what a range is resolved with. To a reader of committed records a partition ends at its last stable
// offset.
func listBorders(client *session, offsets offsetRange, isolation isolationFlag, topics []string,
) (listedBorders, error) {
	var borders listedBorders
	var err error
	// The ends come first: what arrives while the others are asked for is not part of the request.
	listEnd := client.admin.ListEndOffsets
	if isolation == readCommitted {
		listEnd = client.admin.ListCommittedOffsets
	}
	if borders.end, err = listEnd(client.ctx, topics...); err != nil {
		return borders, fmt.Errorf("list end offsets: %w", err)
	}
	if borders.logStart, err = client.admin.ListStartOffsets(client.ctx, topics...); err != nil {
		return borders, fmt.Errorf("list start offsets: %w", err)
	}
	if offsets.from.kind == atTimestamp {
		borders.fromTime, err = client.admin.ListOffsetsAfterMilli(client.ctx, max(offsets.from.value, 0), topics...)
		if err != nil {
			return borders, fmt.Errorf("list offsets by time: %w", err)
		}
	}
	if offsets.to.kind == atTimestamp {
		borders.toTime, err = client.admin.ListOffsetsAfterMilli(client.ctx, max(offsets.to.value, 0), topics...)
		if err != nil {
			return borders, fmt.Errorf("list offsets by time: %w", err)
		}
	}
	return borders, nil
}

// of gathers one partition's borders; a partition that did not answer is an error, since leaving it out would look
// like a partition without records.
func (l listedBorders) of(topic string, partition int32) (partitionBorders, error) {
	var borders partitionBorders
	for _, side := range []struct {
		listed kadm.ListedOffsets
		into   *int64
	}{
		{l.logStart, &borders.logStart}, {l.end, &borders.end},
		{l.fromTime, &borders.fromTime}, {l.toTime, &borders.toTime},
	} {
		if side.listed == nil {
			continue
		}
		offset, ok := side.listed.Lookup(topic, partition)
		switch {
		case !ok:
			return borders, fmt.Errorf("offsets of %s partition %d: %w", topic, partition, errNoAnswer)
		case offset.Err != nil:
			return borders, fmt.Errorf("offsets of %s partition %d: %w", topic, partition, offset.Err)
		case offset.Offset < 0: // to kgo, a start of −1 would mean the end
			return borders, fmt.Errorf("offsets of %s partition %d: the broker says %d", topic, partition, offset.Offset)
		}
		*side.into = offset.Offset
	}
	return borders, nil
}
