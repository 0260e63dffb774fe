//go:build integration

package clients

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// TestKafkasDumpToolReadsCompactedLogs has Kafka's own tool read every file of logs that were compacted: batches with
// offsets that are missing, batches without records, markers, and the indexes that were made with them.
func TestKafkasDumpToolReadsCompactedLogs(t *testing.T) {
	t.Parallel()
	node := process.Serve(t, process.Options{Set: []string{"log.index.interval.bytes=300"}})
	var topics []compacted
	for _, codec := range codecs {
		topics = append(topics, compacted{name: "compacted-" + string(codec), codec: codec, idempotent: true})
	}
	names := []string{"transactions"}
	for i := range topics {
		topics[i].make(t, node)
		names = append(names, topics[i].name)
	}
	want := map[string][]string{"transactions": compactTransactions(t, node, "transactions")}
	for _, topic := range topics {
		for _, r := range topic.left {
			want[topic.name] = append(want[topic.name],
				fmt.Sprintf("offset: %d keySize: %d valueSize: %d", r.Offset, size(r.Key), size(r.Value)))
		}
	}
	node.Stop()
	var files []string
	for _, name := range names {
		for _, suffix := range []string{".log", ".index", ".timeindex", ".txnindex"} {
			found, err := filepath.Glob(filepath.Join(node.Dir, "log", name+"-0", "*"+suffix))
			if hasAborted := name == "transactions"; err != nil || len(found) == 0 && (suffix != ".txnindex" || hasAborted) {
				t.Fatalf("%s has %d files %s: %v", name, len(found), suffix, err)
			}
			files = append(files, found...)
		}
	}
	sections := dumpCompacted(t, files)
	for _, name := range names {
		expectCompacted(t, name, files, sections, want[name])
	}
}

// dumpCompacted runs the tool in its three ways, and returns what it prints when it looks into everything. It may
// complain of the offsets that are missing, and of nothing else.
func dumpCompacted(t *testing.T, files []string) map[string][]string {
	t.Helper()
	options := []string{"--deep-iteration", "--index-sanity-check", "--verify-index-only"}
	var calls []toolCall
	for _, option := range options {
		calls = append(calls, toolCall{
			Tool: "DumpLogSegments", Args: []string{option, "--files", strings.Join(files, ",")},
		})
	}
	var deep map[string][]string
	for i, result := range runTools(t, calls) {
		if result.Status != 0 {
			t.Fatalf("%s ended with status %d: %s", options[i], result.Status, result.Stderr)
		}
		sections, harmless := sectionsOf(t, files, options[i], result), map[string]bool{}
		if i == 0 {
			deep = sections
			for _, file := range files {
				harmless[gapsOf(file, sections[file])] = true
			}
		}
		expectComplaints(t, options[i], result, harmless)
		for _, file := range files {
			passed := slices.Equal(sections[file], []string{file + " passed sanity check."})
			if isIndex := strings.HasSuffix(file, "index") && !strings.HasSuffix(file, ".txnindex"); i == 1 && isIndex &&
				!passed && !isEmpty(file, sections[file]) {
				t.Errorf("sanity check of %s: %q", file, sections[file])
			}
		}
	}
	return deep
}

var dumpedOffset = regexp.MustCompile(`^\| offset: (\d+) `)

// gapsOf is how the tool complains of the gaps between the offsets that it has printed itself.
func gapsOf(file string, section []string) string {
	text := fmt.Sprintf(" offsets in %s\n", file)
	last := int64(-1)
	for _, line := range section {
		if found := dumpedOffset.FindStringSubmatch(line); found != nil {
			offset, _ := strconv.ParseInt(found[1], 10, 64) // it is digits
			if offset != last+1 {
				text += fmt.Sprintf("  %d is followed by %d\n", last, offset)
			}
			last = offset
		}
	}
	return text
}

var (
	compactedBatch  = regexp.MustCompile(`^baseOffset: \d+ lastOffset: \d+ count: (\d+) .* isvalid: true$`)
	compactedRecord = regexp.MustCompile(`^\| (offset: \d+) \w+: \d+ (keySize: -?\d+ valueSize: -?\d+) .*$`)
)

// expectCompacted compares what the tool has printed of a topic with what must be left, and looks for empty batches.
func expectCompacted(t *testing.T, name string, files []string, sections map[string][]string, want []string) {
	t.Helper()
	var records []string
	empty, aborted := 0, 0
	for _, file := range files {
		if filepath.Base(filepath.Dir(file)) != name+"-0" {
			continue
		}
		if strings.HasSuffix(file, ".txnindex") {
			aborted += len(sections[file])
			continue
		}
		if !strings.HasSuffix(file, ".log") {
			expectEntries(t, file, sections[file])
			continue
		}
		for _, line := range sections[file][1:] {
			if record := compactedRecord.FindStringSubmatch(line); record != nil {
				if !strings.Contains(line, "endTxnMarker") {
					records = append(records, record[1]+" "+record[2])
				}
			} else if batch := compactedBatch.FindStringSubmatch(line); batch == nil {
				t.Errorf("the dump of %s has the line %.300q", file, line)
			} else if batch[1] == "0" {
				empty++
			}
		}
	}
	if !slices.Equal(records, want) {
		t.Errorf("%s has the records %q, want %q", name, records, want)
	}
	if isTransactions := name == "transactions"; isTransactions && aborted == 0 || !isTransactions && empty == 0 {
		t.Errorf("%s has %d batches without records and %d aborted transactions", name, empty, aborted)
	}
}

// compactTransactions writes and aborts in turn, has the topic compacted, and returns the records that must be left. The
// last transaction is written afterwards, and aborted: the log has its records still.
func compactTransactions(t *testing.T, node *process.Node, topic string) (left []string) {
	t.Helper()
	node.CreateTopic(topic, 1, "cleanup.policy=compact", "internal.segment.bytes=2000", "index.interval.bytes=300")
	clients := make([]*kgo.Client, 3)
	for i := range clients {
		clients[i] = node.Client(kgo.TransactionalID(fmt.Sprint("t", i)), kgo.DefaultProduceTopic(topic))
		defer clients[i].Close()
	}
	newest := map[string]*kgo.Record{}
	var all []*kgo.Record
	write := func(client *kgo.Client, end kgo.TransactionEndTry, keys int) {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for key := range keys {
			r := &kgo.Record{Key: fmt.Appendf(nil, "key %d", key), Value: fmt.Appendf(nil, "value %0*d", 30+len(all)%7, len(all))}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
			if end == kgo.TryCommit {
				newest[string(r.Key)] = r
			}
		}
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		write(clients[i%3], i%2 == 0, 8-i%3)
	}
	node.CLI("topic", "compact", topic).Output(t)
	compacted := len(all)
	write(clients[1], kgo.TryAbort, 2)
	for i, r := range all {
		if newest[string(r.Key)] == r || i >= compacted {
			left = append(left, fmt.Sprintf("offset: %d keySize: %d valueSize: %d", r.Offset, size(r.Key), size(r.Value)))
		}
	}
	return left
}
