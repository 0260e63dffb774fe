//go:build integration

package clients

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// TestKafkasDumpToolReadsOurLogs has clients write with every codec to segments of a few batches, ends the node
// cleanly or with SIGKILL and a recovery, and has Kafka's own tool read every file of the partitions.
func TestKafkasDumpToolReadsOurLogs(t *testing.T) {
	t.Parallel()
	set := []string{"log.index.interval.bytes=300"}
	kill := func(node *process.Node) {
		node.Kill()
		process.Serve(t, process.Options{Dir: node.Dir, Set: set}).Stop()
	}
	for name, c := range map[string]struct {
		writers []string
		end     func(*process.Node)
	}{
		"after a clean stop":           {[]string{"franz-go", "kcat", "confluent-kafka"}, (*process.Node).Stop},
		"after SIGKILL and a recovery": {[]string{"franz-go", "confluent-kafka"}, kill},
	} {
		t.Run(name, func(t *testing.T) {
			node := process.Serve(t, process.Options{Set: set})
			records := someRecords(rand.New(rand.NewPCG(3, 4)))
			var all []record // of each topic
			var topics []written
			for _, codec := range codecs {
				node.CreateTopic(string(codec), 1, "retention.ms=-1")
				topics = append(topics, written{string(codec), codec, records})
			}
			for _, writer := range clients() {
				if slices.Contains(c.writers, writer.name) {
					writer.open(t, node).produce(t, topics)
					all = append(all, records...)
				}
			}
			for _, topic := range topics { // for many segments of small batches
				node.CLI("topic", "alter", topic.name, "-c", "internal.segment.bytes=6000").Output(t)
			}
			small := slices.Repeat(records[len(records)-100:], 3)
			for few := range slices.Chunk(small, 10) { // for many entries in the indexes
				for _, topic := range topics {
					topic.records = few
					franz{node}.produceTo(t, topic)
				}
				all = append(all, few...)
			}
			c.end(node)
			for i := range all {
				all[i].Offset = int64(i)
			}
			expectDumps(t, filepath.Join(node.Dir, "log"), all)
		})
	}
}

// expectDumps dumps the partitions that are called like codecs: each of them holds the same records.
func expectDumps(t *testing.T, folder string, records []record) {
	t.Helper()
	var files []string
	for _, codec := range codecs {
		for _, suffix := range []string{".log", ".index", ".timeindex"} {
			found, err := filepath.Glob(filepath.Join(folder, string(codec)+"-0", "*"+suffix))
			if err != nil || len(found) < 3 {
				t.Fatalf("%s has %d files %s, want a few", codec, len(found), suffix)
			}
			files = append(files, found...)
		}
	}
	options := []string{"--deep-iteration", "--index-sanity-check", "--verify-index-only"}
	var calls []toolCall
	for _, option := range options {
		args := []string{option, "--files", strings.Join(files, ",")}
		calls = append(calls, toolCall{Tool: "DumpLogSegments", Args: args})
	}
	var dumps []map[string][]string
	for i, result := range runTools(t, calls) {
		dumps = append(dumps, dumped(t, files, options[i], result))
	}
	deep, checked := dumps[0], dumps[1]
	entries := 0
	for _, codec := range codecs {
		var lines []string
		var compressed int
		for _, file := range files {
			if filepath.Base(filepath.Dir(file)) != string(codec)+"-0" {
				continue
			}
			section := deep[file]
			if strings.HasSuffix(file, ".log") {
				records, batches := expectBatches(t, file, string(codec), section)
				lines, compressed = append(lines, records...), compressed+batches
			} else {
				entries += expectEntries(t, file, section)
			}
		}
		expectRecords(t, string(codec), lines, records)
		if compressed < 3 {
			t.Errorf("%d batches have codec %s", compressed, codec)
		}
	}
	if entries < 50 {
		t.Errorf("all indexes together have %d entries, want many", entries)
	}
	for _, file := range files {
		passed := file + " passed sanity check."
		if strings.HasSuffix(file, ".log") || slices.Equal(checked[file], []string{passed}) || isEmpty(file, checked[file]) {
			continue
		}
		t.Errorf("sanity check of %s: %q", file, checked[file])
	}
}

// dumped is what Kafka's dump tool has printed of each file. It says that it has found nothing wrong by saying nothing.
func dumped(t *testing.T, files []string, option string, result toolResult) map[string][]string {
	t.Helper()
	if result.Status != 0 {
		t.Fatalf("%s ended with status %d: %s", option, result.Status, result.Stderr)
	}
	expectComplaints(t, option, result, falseComplaints(files, option))
	return sectionsOf(t, files, option, result)
}

// expectComplaints lets the tool complain of offsets that do not follow each other where it must.
func expectComplaints(t *testing.T, option string, result toolResult, harmless map[string]bool) {
	t.Helper()
	for complaint := range strings.SplitSeq(complaints(result.Stderr), "Non-consecutive") { // each is of one file
		if complaint != "" && !harmless[complaint] {
			t.Errorf("%s complains: %s", option, complaint)
		}
	}
}

// sectionsOf are the lines that the tool has printed of each file.
func sectionsOf(t *testing.T, files []string, option string, result toolResult) map[string][]string {
	t.Helper()
	sections := map[string][]string{}
	var file string
	for line := range strings.Lines(result.Stdout) {
		line = strings.TrimSuffix(line, "\n")
		if path, found := strings.CutPrefix(line, "Dumping "); found {
			file = path
			sections[file] = []string{}
			continue
		}
		sections[file] = append(sections[file], line)
	}
	if len(sections) != len(files) {
		t.Errorf("%s has dumped %d files, want %d", option, len(sections), len(files))
	}
	return sections
}

// falseComplaints are those that the tool has of every sound log. It takes the offset before the first record of a file
// to be -1, so that each segment that does not begin at offset 0 seems to have a gap before it.
func falseComplaints(files []string, option string) map[string]bool {
	all := map[string]bool{}
	for _, file := range files {
		name, isLog := strings.CutSuffix(filepath.Base(file), ".log")
		base := strings.TrimLeft(name, "0")
		if isLog && base != "" && option == "--deep-iteration" {
			all[fmt.Sprintf(" offsets in %s\n  -1 is followed by %s\n", file, base)] = true
		}
	}
	return all
}

var (
	dumpedBatch  = regexp.MustCompile(`^baseOffset: \d+ lastOffset: \d+ .* compresscodec: (\w+) crc: \d+ isvalid: true$`)
	dumpedRecord = regexp.MustCompile(`^\| (offset: \d+) CreateTime: \d+ (keySize: -?\d+ valueSize: -?\d+) ` +
		`sequence: -?\d+ (headerKeys: \[.*\])$`)
	dumpedEntry = regexp.MustCompile(`^(offset: \d+ position: \d+|timestamp: \d+ offset: \d+)$`)
)

// expectBatches checks the dump of a segment, returns its records and counts the batches that have the codec. A client
// may leave a batch uncompressed that does not get smaller.
func expectBatches(t *testing.T, file, codec string, section []string) (records []string, compressed int) {
	t.Helper()
	base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".log"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Log starting offset: %d", base); len(section) == 0 || section[0] != want {
		t.Fatalf("the dump of %s begins with %.1q, want %q", file, section, want)
	}
	for _, line := range section[1:] {
		if record := dumpedRecord.FindStringSubmatch(line); record != nil {
			records = append(records, strings.Join(record[1:], " "))
			continue
		}
		batch := dumpedBatch.FindStringSubmatch(line)
		if batch == nil || batch[1] != codec && batch[1] != "none" {
			t.Errorf("the dump of %s has the line %.300q", file, line)
		} else if batch[1] == codec {
			compressed++
		}
	}
	if len(records) == 0 && len(section) > 1 {
		t.Errorf("%s has batches without records", file)
	}
	return records, compressed
}

// expectEntries checks the dump of an index and counts its entries.
func expectEntries(t *testing.T, file string, section []string) int {
	t.Helper()
	if isEmpty(file, section) {
		return 0
	}
	for _, line := range section {
		if !dumpedEntry.MatchString(line) {
			t.Errorf("the dump of %s has the line %.300q", file, line)
		}
	}
	return len(section)
}

// isEmpty tells whether the tool has met an index without entries, as the offset index of one batch is.
func isEmpty(file string, section []string) bool {
	return slices.Equal(section, []string{file + " is empty."})
}

// expectRecords compares the lines of a partition's records with what was written.
func expectRecords(t *testing.T, codec string, dumped []string, records []record) {
	t.Helper()
	var want []string
	for _, r := range records {
		names := make([]string, len(r.Headers))
		for i, h := range r.Headers {
			names[i] = h.Name
		}
		want = append(want, fmt.Sprintf("offset: %d keySize: %d valueSize: %d headerKeys: [%s]",
			r.Offset, size(r.Key), size(r.Value), strings.Join(names, ",")))
	}
	if !slices.Equal(dumped, want) {
		for i := range min(len(dumped), len(want)) {
			if dumped[i] != want[i] {
				t.Errorf("%s has the record %q, want %q", codec, dumped[i], want[i])
				break
			}
		}
		t.Errorf("%s has %d records, want %d", codec, len(dumped), len(want))
	}
}

// size is the size of a field, as the tool tells it.
func size(field []byte) int {
	if field == nil {
		return -1
	}
	return len(field)
}

// TestKafkasDumpToolReadsTransactions has a client commit and abort, over several segments, and Kafka's tool read the
// markers and the transaction indexes.
func TestKafkasDumpToolReadsTransactions(t *testing.T) {
	t.Parallel()
	node := process.Serve(t, process.Options{})
	node.CreateTopic("a", 1, "retention.ms=-1")
	node.CLI("topic", "alter", "a", "-c", "internal.segment.bytes=400").Output(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Kafka), kgo.TransactionalID("t"), kgo.DefaultProduceTopic("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var want []string // endings, in order
	for i := range 6 {
		end, kind := kgo.TryCommit, "COMMIT"
		if i%2 == 1 {
			end, kind = kgo.TryAbort, "ABORT"
		}
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), kgo.StringRecord("x"), kgo.StringRecord("y")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		want = append(want, kind)
	}
	node.Stop()
	folder := filepath.Join(node.Dir, "log", "a-0")
	files, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d segments, %v", len(files), err)
	}
	indexes, err := filepath.Glob(filepath.Join(folder, "*.txnindex"))
	if err != nil || len(indexes) == 0 {
		t.Fatalf("%d transaction indexes, %v", len(indexes), err)
	}
	files = append(files, indexes...)
	result := runTools(t, []toolCall{{
		Tool: "DumpLogSegments", Args: []string{"--deep-iteration", "--files", strings.Join(files, ",")},
	}})[0]
	var endings, aborted []string
	for _, file := range files {
		for _, line := range dumped(t, files, "--deep-iteration", result)[file] {
			if found := dumpedMarker.FindStringSubmatch(line); found != nil {
				endings = append(endings, found[1])
			}
			if found := dumpedAborted.FindStringSubmatch(line); found != nil {
				aborted = append(aborted, found[1])
			}
		}
	}
	if !slices.Equal(endings, want) || len(aborted) != 3 {
		t.Errorf("endings %q and aborted %q in\n%s", endings, aborted, result.Stdout)
	}
}

var (
	dumpedMarker  = regexp.MustCompile(`endTxnMarker: (\w+) coordinatorEpoch: \d+`)
	dumpedAborted = regexp.MustCompile(`^version: 0 producerId: \d+ (firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+)$`)
)
