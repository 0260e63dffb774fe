package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/tiering/bulk"
)

// storeOfBroker is what --from-bucket without a URL stands for: the store that the broker names.
const storeOfBroker = "the broker's"

// defaultPinLease is how long a broker keeps the objects if the command does not end the pin itself.
const defaultPinLease = 6 * time.Hour

// bucketFlags are those of reading from the object store.
type bucketFlags struct {
	store    string // its URL, or storeOfBroker; empty: the brokers are read from
	noBroker bool
	cluster  string
	lease    time.Duration
	resume   string
	server   *httpFlag
}

func (b *bucketFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.store, "from-bucket", "",
		"read from the object store with this `URL`, as in firn.object.store (alone: the one that the broker names)")
	flags.Lookup("from-bucket").NoOptDefVal = storeOfBroker
	flags.BoolVar(&b.noBroker, "no-broker", false,
		"from-bucket: ask no broker, but read the newest checkpoint and what was uploaded since")
	flags.StringVar(&b.cluster, "cluster", "",
		"no-broker: `ID` of the cluster, as in the bucket's keys (default the only one that nobody has taken over)")
	flags.DurationVar(&b.lease, "lease", defaultPinLease,
		"from-bucket: how long the broker keeps the objects at most; it is told when the command is done")
	flags.StringVar(&b.resume, "resume", "",
		"from-bucket: note in this `FILE` how far the output has come, and go on there if it exists")
	b.server = addHTTPFlag(cmd)
}

func (b *bucketFlags) wanted() bool { return b.store != "" }

// check holds the flags against the others, and finds the URL among the arguments: after a flag whose value may be left
// out it is one of them.
func (b *bucketFlags) check(changed func(name string) bool, args []string) (topics []string, err error) {
	if !changed("from-bucket") {
		for _, name := range []string{"no-broker", "cluster", "lease", "resume", "http"} {
			if changed(name) {
				return nil, fmt.Errorf("--%s belongs to --from-bucket", name)
			}
		}
		return args, nil
	}
	if url := slices.IndexFunc(args, isURL); url >= 0 && b.store == storeOfBroker {
		b.store = args[url]
		args = slices.Delete(slices.Clone(args), url, url+1)
	}
	for _, other := range []struct{ name, why string }{
		{"regex", "it reads one topic"},
		{"group", "--resume notes how far it has come"},
		{"follow", "what is new is not in the bucket yet"},
		{"rack", "it reads no replica"},
		{"brokers", "a broker is asked over --http"},
	} {
		if changed(other.name) {
			return nil, fmt.Errorf("--from-bucket and --%s exclude each other: %s", other.name, other.why)
		}
	}
	switch {
	case b.store == "":
		return nil, errors.New("--from-bucket is empty: give the URL of the store, or nothing")
	case len(args) != 1:
		return nil, fmt.Errorf("--from-bucket reads one topic, not %d", len(args))
	case b.lease <= 0:
		return nil, errors.New("--lease must be positive")
	case b.cluster != "" && !b.noBroker:
		return nil, errors.New("--cluster belongs to --no-broker: a broker knows its own")
	case b.noBroker && b.store == storeOfBroker:
		return nil, errors.New("--no-broker needs to be told the store: --from-bucket URL")
	case b.noBroker && (changed("lease") || changed("http")):
		return nil, errors.New("--no-broker asks nobody: --lease and --http do not go with it")
	}
	return args, nil
}

// runFromBucket reads what of one topic is in the bucket.
func (c *consumeRequest) runFromBucket(cmd *cobra.Command, output recordOutput) (err error) {
	ctx, notes := cmd.Context(), cmd.ErrOrStderr()
	// Where whoever reads the output has had enough (`| head`), the write fails and the pin is ended. The signal would end
	// the process at once.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	marks, err := openBookmark(c.bucket.resume)
	if err != nil {
		return err
	}
	source, err := c.openBucketSource(ctx, notes)
	if err != nil {
		return err
	}
	defer source.close(ctx, notes)
	wanted, err := c.bucketSpans(ctx, source, marks)
	if err != nil {
		return err
	}
	if err := marks.begin(source.snapshot, wanted.spans); err != nil {
		return err
	}
	for _, note := range wanted.notes {
		fmt.Fprintf(notes, "firn: %s\n", note)
	}
	reading := newReading(topicSpans{source.snapshot.Topic: wanted.spans}, c.limit)
	for _, note := range reading.notes {
		fmt.Fprintf(notes, "firn: %s\n", note)
	}
	reading.output, reading.filter, reading.control = output, c.filter, c.control
	if !c.noProgress && !isTerminal(cmd.OutOrStdout()) {
		reading.progress = newProgress(notes, time.Now())
	}
	reading.isolation = c.isolation
	load := newBucketLoad(source, reading, marks, cmd.OutOrStdout())
	load.notes = notes
	err = errors.Join(load.run(ctx), marks.save(cmd.OutOrStdout()))
	reading.progress.end()
	if err != nil {
		return load.advise(err)
	}
	if c.offsets.from.kind == beforeEnd {
		reading.tellShortfall(notes)
	}
	if reading.limit != 0 {
		wanted.tellMissing(notes, source.snapshot.Topic)
	}
	return nil
}

// bucketSpans are the offsets to read.
type bucketSpans struct {
	spans   map[int32]span
	notes   []string
	missing []missingOffsets
}

// missingOffsets is what was asked for and lies in the log only: [from, to).
type missingOffsets struct {
	partition int32
	from, to  int64
}

// bucketSpans finds out what the request means in offsets. To the range's end the bucket's is the partition's; what the
// log has beyond that is noted, where a broker has told.
func (c *consumeRequest) bucketSpans(ctx context.Context, source *bucketSource, marks *bookmark) (bucketSpans, error) {
	wanted := bucketSpans{spans: make(map[int32]span)}
	snapshot := source.snapshot
	for _, partition := range c.partitions {
		if !slices.ContainsFunc(snapshot.Partitions, func(p bulk.Partition) bool { return p.Partition == partition }) {
			return wanted, noPartition(snapshot.Topic, partition, len(snapshot.Partitions))
		}
	}
	for i := range snapshot.Partitions {
		p := &snapshot.Partitions[i]
		if len(c.partitions) > 0 && !slices.Contains(c.partitions, p.Partition) {
			continue
		}
		borders, err := c.bucketBorders(ctx, source, p)
		if err != nil {
			return wanted, err
		}
		resolved := c.offsets.resolve(borders)
		if c.offsets.from.kind == atOffset && c.offsets.from.value > p.End {
			resolved.note = fmt.Sprintf("offset %d is not in the bucket yet, which ends at %d", c.offsets.from.value, p.End)
		}
		if logEnd, known := source.logEnds[p.Partition]; known {
			if from, to := c.offsets.beyond(borders, resolved.start, logEnd); from < to {
				wanted.missing = append(wanted.missing, missingOffsets{p.Partition, from, to})
			}
		}
		if next, known := marks.next(snapshot, p.Partition); known {
			if next < p.Start {
				wanted.notes = append(wanted.notes, gone(snapshot.Topic, p.Partition, next, p.Start))
			}
			resolved.start, resolved.note = max(next, p.Start), ""
		}
		wanted.spans[p.Partition] = resolved
	}
	return wanted, nil
}

// beyond is what the range has of a log that goes on behind the bucket.
func (r offsetRange) beyond(inBucket partitionBorders, start, logEnd int64) (from, to int64) {
	from, to = inBucket.end, min(r.to.resolve(inBucket, start, inBucket.toTime), logEnd)
	switch r.from.kind {
	case atEnd:
		return from, from
	case atOffset:
		from = max(from, r.from.value)
	}
	// No record in the bucket is as young as the time, so that the log's may belong to the range, too.
	if r.to.kind == atEnd || r.to.kind == atTimestamp && to == inBucket.end {
		to = logEnd
	}
	return from, to
}

// gone says that offsets cannot be read any more.
func gone(topic string, partition int32, from, to int64) string {
	return fmt.Sprintf("%s partition %d: offsets %d to %d are gone, as the log start has passed them", topic, partition,
		from, to-1)
}

func (b *bucketSpans) tellMissing(w io.Writer, topic string) {
	for _, missing := range b.missing {
		fmt.Fprintf(w, "firn: %s partition %d: offsets %d to %d were not read: they are in the log, and not in the bucket "+
			"yet\n", topic, missing.partition, missing.from, missing.to-1)
	}
}

// bucketBorders are what a partition has in the bucket, and the offsets of the range's times in it.
func (c *consumeRequest) bucketBorders(ctx context.Context, source *bucketSource, p *bulk.Partition) (
	borders partitionBorders, err error,
) {
	borders = partitionBorders{logStart: p.Start, end: p.End}
	for _, side := range []struct {
		border
		offset *int64
	}{{c.offsets.from, &borders.fromTime}, {c.offsets.to, &borders.toTime}} {
		if side.kind != atTimestamp {
			continue
		}
		if *side.offset, err = source.offsetForTimestamp(ctx, p.Partition, side.value); err != nil {
			return borders, err
		}
	}
	return borders, nil
}
