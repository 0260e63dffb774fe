package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	node "github.com/firnlog/firn"
)

// startNode runs a broker of this process and returns its two addresses.
func startNode(t *testing.T, settings ...string) (broker, http string) {
	t.Helper()
	cfg, err := node.LoadConfig(node.Sources{DataDir: t.TempDir(), Set: append([]string{
		"listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0",
		"log.retention.check.interval.ms=100",
	}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	running, err := node.Start(t.Context(), cfg, node.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return running.Addr(), running.HTTPAddr()
}

// ok runs a command line against the node; it must succeed.
func (s shell) ok(t *testing.T, stdin, line string) string {
	t.Helper()
	got := firn(t, stdin, s.args(line)...)
	if got.status != 0 {
		t.Fatalf("firn %s: status %d, error %q", line, got.status, got.err)
	}
	return got.out
}

// shell runs command lines against one node.
type shell struct{ broker, http string }

func (s shell) args(line string) []string { return append(strings.Fields(line), "-b", s.broker) }

func TestCommandsAgainstANode(t *testing.T) {
	var s shell
	s.broker, s.http = startNode(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, shell)
	}{
		{"CL-02 failures are told and exit non-zero", testFailures},
		{"CL-03 altering one setting leaves the others", testAlter},
		{"CL-08 topics by regular expression", testRegex},
		{"CL-09 ranges are exact", testRanges},
		{"CL-11 reading to the end ends while producers go on", testBusyEnd},
		{"CL-14 an empty partition among others", testEmptyPartition},
		{"JSON lines copy a topic", testCopy},
		{"topic compact keeps the last record of each key", testCompact},
		{"topic describe says where a topic is capped", testCappedNote},
		{"the tier is shown and its objects verify", testTier},
		{"following prints what comes and ends at an interrupt", testFollow},
		{"topic names complete", testCompletion},
		{"CL-02 a record that is too large says which limit to raise", testTooLarge},
		{"CL-08 a topic that is made later is followed", testRegexFollow},
		{"CL-12 a table has a row a line", testRows},
		{"every way of sending", testWaysOfSending},
		{"acknowledged records are printed", testReports},
		{"records that name their topic", testNamedTopics},
		{"tombstones and null keys", testNulls},
		{"an interrupt sends what was read", testInterruptedProduce},
		{"an input that breaks off", testBrokenInput},
		{"only some records are printed", testFilters},
		{"what a record is without its content", testMetaOnly},
		{"the topic's codec, level and largest record", testCodecSettings},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

func testFailures(t *testing.T, s shell) {
	s.ok(t, "", "topic create small -c max.message.bytes=1000")
	for _, test := range []struct{ line, stdin, want string }{
		{"produce missing", "x\n", "UNKNOWN_TOPIC_OR_PARTITION"},
		{"consume missing", "", "UNKNOWN_TOPIC_OR_PARTITION"},
		{"topic describe missing", "", "UNKNOWN_TOPIC_OR_PARTITION"},
		{"topic alter missing -c retention.ms=1", "", "missing"},
		{"topic delete missing", "", "UNKNOWN_TOPIC_OR_PARTITION"},
		{"topic create small", "", "TOPIC_ALREADY_EXISTS"},
		{"topic create bad -c retention.ms=soon", "", "INVALID_CONFIG"},
		{"topic create wide -r 3", "", "INVALID_REPLICATION_FACTOR"},
		{"produce small", strings.Repeat("x", 2000), "MESSAGE_TOO_LARGE"},
		{"produce small --batch-size 5000", strings.Repeat("x", 2000), "MESSAGE_TOO_LARGE"},
		{"produce small -p 1", "x\n", "there is no partition 1"},
		{"consume small -p 1", "", "has no partition 1"},
	} {
		got := firn(t, test.stdin, s.args(test.line)...)
		lines := strings.Split(strings.TrimSpace(got.err), "\n")
		last := lines[len(lines)-1]
		if got.status == 0 || !strings.HasPrefix(last, "firn: ") || !strings.Contains(last, test.want) {
			t.Errorf("firn %s: status %d, error %q, want %q", test.line, got.status, got.err, test.want)
		}
	}
	// A record that fails does not take the connection or the topic with it.
	s.ok(t, "fits\n", "produce small")
	if got := s.ok(t, "", "consume small"); got != "fits\n" {
		t.Errorf("consumed %q", got)
	}
}

// settingsOf are the settings of a topic that were set on it.
func settingsOf(t *testing.T, s shell, topic string) map[string]string {
	t.Helper()
	var described struct {
		Topics []struct {
			Configs []struct{ Name, Value, Source string }
		}
	}
	if err := json.Unmarshal([]byte(s.ok(t, "", "topic describe -f json "+topic)), &described); err != nil {
		t.Fatal(err)
	}
	settings := make(map[string]string)
	for _, config := range described.Topics[0].Configs {
		if config.Source == "DYNAMIC_TOPIC_CONFIG" {
			settings[config.Name] = config.Value
		}
	}
	return settings
}

func testAlter(t *testing.T, s shell) {
	s.ok(t, "", "topic create altered -c cleanup.policy=compact -c segment.ms=60000")
	s.ok(t, "", "topic alter altered -c retention.ms=1000")
	got := settingsOf(t, s, "altered")
	if len(got) != 3 || got["cleanup.policy"] != "compact" || got["segment.ms"] != "60000" || got["retention.ms"] != "1000" {
		t.Errorf("after setting one: %v", got)
	}
	s.ok(t, "", "topic alter altered --delete segment.ms -p 2")
	if got = settingsOf(t, s, "altered"); len(got) != 2 || got["segment.ms"] != "" {
		t.Errorf("after deleting one: %v", got)
	}
	if got := s.ok(t, "", "topic list altered"); !strings.Contains(squeeze(got), "altered 2 1") {
		t.Errorf("after adding a partition: %s", got)
	}
}

func testRegex(t *testing.T, s shell) {
	s.ok(t, "", "topic create apple apricot banana")
	for topic, value := range map[string]string{"apple": "1\n", "apricot": "2\n", "banana": "3\n"} {
		s.ok(t, value, "produce "+topic)
	}
	got := strings.Fields(s.ok(t, "", "consume --regex ^ap"))
	if len(got) != 2 || !strings.Contains("1 2 1", strings.Join(got, " ")) {
		t.Errorf("^ap: %q", got)
	}
	if got := s.ok(t, "", "consume --regex .*nan.* -f %t:%v"); got != "banana:3" {
		t.Errorf(".*nan.*: %q", got)
	}
	if none := firn(t, "", s.args("consume --regex ^zzz$")...); none.status != exitFailed ||
		!strings.Contains(none.err, "no topic matches ^zzz$") {
		t.Errorf("^zzz$: status %d, error %q", none.status, none.err)
	}
}

func testRanges(t *testing.T, s shell) {
	s.ok(t, "", "topic create ranged blank")
	var lines strings.Builder
	start := time.Now().Add(-10 * time.Hour)
	for i := range 10 { // one an hour, the last an hour ago and a bit
		record := kgo.Record{Value: []byte{byte('0' + i)}, Timestamp: start.Add(time.Duration(i)*time.Hour - time.Minute)}
		line, err := appendRecordJSON(nil, nil, &record)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(line)
	}
	s.ok(t, lines.String(), "produce ranged -f json")
	for offset, want := range map[string]string{
		"start": "0123456789", "end": "", ":end": "0123456789", "5:10": "56789", "5:7": "56", "-3": "789", "+8": "89",
		"3:+2": "34", "-5:-3": "56", "8:99": "89", "5:5": "", "47": "",
		"@:-1h": "0123456789", "@-2h:-1h": "9", "@-3h": "89", "@:-5h": "012345", "@-3h:end": "89",
	} {
		if got := s.ok(t, "", "consume ranged -f %v -o "+offset); got != want {
			t.Errorf("-o %s of ten records: %q, want %q", offset, got, want)
		}
		if got := s.ok(t, "", "consume blank -f %v -o "+offset); got != "" {
			t.Errorf("-o %s of none: %q", offset, got)
		}
	}
	if got := s.ok(t, "", "consume ranged -f %v -n 4 -o 2"); got != "2345" {
		t.Errorf("-n 4: %q", got)
	}
}

// testBusyEnd reads twelve partitions to their ends while a producer adds to all of them.
func testBusyEnd(t *testing.T, s shell) {
	s.ok(t, "", "topic create busy -p 12")
	s.ok(t, strings.Repeat("record\n", 5000), "produce busy")
	client, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.DefaultProduceTopic("busy"),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithCancel(t.Context())
	var producer sync.WaitGroup
	producer.Go(func() {
		for ctx.Err() == nil {
			client.Produce(ctx, kgo.StringRecord("later"), nil)
		}
	})
	got := s.ok(t, "", "consume busy")
	stop()
	producer.Wait()
	if records := strings.Count(got, "record\n"); records != 5000 {
		t.Errorf("read %d of the 5000 records that were there", records)
	}
}

func testEmptyPartition(t *testing.T, s shell) {
	s.ok(t, "", "topic create three -p 3")
	s.ok(t, "a\nb\n", "produce three -p 0")
	s.ok(t, "c\n", "produce three -p 2")
	got := strings.Fields(s.ok(t, "", "consume three -o oldest"))
	if len(got) != 3 {
		t.Errorf("consumed %q, want a, b and c", got)
	}
}

func testCopy(t *testing.T, s shell) {
	s.ok(t, "", "topic create original copy -p 2 -c retention.ms=-1")
	var lines strings.Builder
	for _, record := range []kgo.Record{
		{Partition: 0, Value: []byte{}, Timestamp: time.UnixMilli(1)},
		{Partition: 1, Key: []byte{}, Timestamp: time.UnixMilli(2)},
		{Partition: 1, Key: []byte{0xff}, Value: []byte("v"), Timestamp: time.UnixMilli(1357035300000),
			Headers: []kgo.RecordHeader{{Key: "h"}, {Key: "h", Value: []byte{0xfe}}, {Key: "", Value: []byte{}}}},
	} {
		line, err := appendRecordJSON(nil, nil, &record)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(line)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		s.ok(t, lines.String(), "produce original -f json -z "+codec)
	}
	first := s.ok(t, "", "consume original -f json")
	s.ok(t, first, "produce copy -f json")
	for _, partition := range []string{"0", "1"} {
		want := s.ok(t, "", "consume original -f json -p "+partition)
		want = strings.ReplaceAll(want, `"topic":"original"`, `"topic":"copy"`)
		if got := s.ok(t, "", "consume copy -f json -p "+partition); got != want || got == "" {
			t.Errorf("partition %s is\n%s\nwant\n%s", partition, got, want)
		}
	}
}

func testCompact(t *testing.T, s shell) {
	s.ok(t, "", "topic create compacted -c cleanup.policy=compact")
	for range 3 {
		s.ok(t, `{"key":"a","value":"1"}`+"\n"+`{"key":"b","value":"2"}`+"\n", "produce compacted -f json")
	}
	got := firn(t, "", "topic", "compact", "compacted", "-f", "json", "--http", s.http)
	var seen topicCompaction
	if err := json.Unmarshal([]byte(got.out), &seen); err != nil || got.status != 0 || len(seen.Partitions) != 1 {
		t.Fatalf("status %d, %v: %s%s", got.status, err, got.out, got.err)
	}
	if p := seen.Partitions[0]; p.RecordsRead != 6 || p.RecordsKept != 2 || p.EndOffset != 6 || p.Waiting {
		t.Errorf("compacted as %+v", p)
	}
	if records := s.ok(t, "", "consume compacted -f json"); strings.Count(records, "\n") != 2 {
		t.Errorf("consumed\n%s", records)
	}
	if got := firn(t, "", "topic", "compact", "deleted-only", "--http", s.http); got.status == 0 {
		t.Errorf("a topic that is not there was compacted: %s", got.out)
	}
	s.ok(t, "", "topic create plain")
	if got := firn(t, "", "topic", "compact", "plain", "--http", s.http); got.status == 0 ||
		!strings.Contains(got.err, "cleanup.policy=compact") {
		t.Errorf("a topic without compaction: status %d, %s", got.status, got.err)
	}
}

func testCappedNote(t *testing.T, s shell) {
	s.ok(t, "", "topic create deleted")
	s.ok(t, "x\n", "produce deleted --transactional-id t")
	const capped = "note: 1 replica instead of transaction.state.log.replication.factor=3"
	if got := s.ok(t, "", "topic describe __transaction_state"); !strings.Contains(got, capped) {
		t.Errorf("described as\n%s", got)
	}
	if got := s.ok(t, "", "topic describe deleted"); strings.Contains(got, "note:") {
		t.Errorf("described as\n%s", got)
	}
}

// testTier rolls segments by the time in the records, so that they go to the bucket at once.
func testTier(t *testing.T, s shell) {
	s.ok(t, "", "topic create tiered -c remote.storage.enable=true -c segment.ms=1000 -c retention.ms=-1")
	for _, timestamp := range []string{"1000", "9000", "19000"} {
		s.ok(t, "x\n", "produce tiered --timestamp "+timestamp)
	}
	var objects tierObjects
	for deadline := time.Now().Add(20 * time.Second); len(objects.Entries) < 2; {
		if time.Now().After(deadline) {
			t.Fatalf("objects after 20 s: %+v", objects)
		}
		got := firn(t, "", "tier", "ls", "tiered", "-f", "json", "--http", s.http)
		if got.status != 0 {
			t.Fatalf("tier ls: status %d, error %q", got.status, got.err)
		}
		objects = tierObjects{}
		if err := json.Unmarshal([]byte(got.out), &objects); err != nil {
			t.Fatal(err)
		}
	}
	if first := objects.Entries[0]; first.BaseOffset != 0 || first.EndOffset != 1 || first.MaxTimestamp != 1000 {
		t.Errorf("the first object is %+v", first)
	}
	status := firn(t, "", "tier", "status", "tiered", "--http", s.http)
	if status.status != 0 || !strings.Contains(squeeze(status.out), "tiered 0 0 0–2 2 ") {
		t.Errorf("tier status: status %d, error %q, printed\n%s", status.status, status.err, status.out)
	}
	if got := s.ok(t, "", "topic describe tiered"); !strings.Contains(squeeze(got), "TIERED END END\n0 1 ") {
		t.Errorf("described as\n%s", got)
	}
	nobody := firn(t, "", "topic", "delete", "tiered", "nobody", "--keep-objects", "-b", s.broker)
	if nobody.status != exitFailed || !strings.Contains(nobody.err, "topic nobody") {
		t.Errorf("deletion of what is not there: status %d, %q", nobody.status, nobody.err)
	}
	if got := s.ok(t, "", "topic describe tiered"); !strings.Contains(got, "firn.remote.delete") {
		t.Errorf("nothing was to be deleted, and the other topic is described as\n%s", got)
	}
	if got := s.ok(t, "", "topic delete tiered --keep-objects"); !strings.Contains(got, "deleted") {
		t.Errorf("deleted as %q", got)
	}
}

// lineWriter tells of each write.
type lineWriter struct{ lines chan string }

func (w lineWriter) Write(data []byte) (int, error) {
	w.lines <- string(data)
	return len(data), nil
}

func testFollow(t *testing.T, s shell) {
	s.ok(t, "", "topic create followed")
	s.ok(t, "before\n", "produce followed")
	ctx, interrupt := context.WithCancel(t.Context())
	out := lineWriter{lines: make(chan string, 16)}
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		ended <- run(ctx, s.args("consume followed --follow"), streams{in: strings.NewReader(""), out: out, err: &errs})
	}()
	if got := <-out.lines; got != "before\n" {
		t.Errorf("first printed %q", got)
	}
	s.ok(t, "after\n", "produce followed")
	if got := <-out.lines; got != "after\n" {
		t.Errorf("then printed %q", got)
	}
	interrupt()
	if status := <-ended; status != 0 {
		t.Errorf("status %d, error %q", status, errs.String())
	}
}

func testCompletion(t *testing.T, s shell) {
	t.Setenv("FIRN_BROKERS", s.broker)
	s.ok(t, "", "topic create completed")
	for _, command := range []string{"topic describe", "topic delete", "topic alter", "produce", "consume"} {
		got := firn(t, "", append(append([]string{"__complete"}, strings.Fields(command)...), "")...)
		if !strings.Contains(got.out, "completed\n") {
			t.Errorf("%s completes to %q, error %q", command, got.out, got.err)
		}
	}
}

func TestTheDemoShowsWhatItPromises(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	got := firn(t, "", "demo", "--dir", dir, "-f", "json")
	var summary struct {
		Events        int
		Keys          int
		Objects       int64
		Same          bool
		Remote        int64 `json:"remote_end_offset"`
		DayStart      int64 `json:"day_start_offset"`
		LocalBytes    int64 `json:"local_bytes"`
		RemoteBytes   int64 `json:"remote_bytes"`
		EventBytes    int64 `json:"event_bytes"`
		LocalStartsAt int64 `json:"local_start_offset"`
		DayEndsAt     int64 `json:"day_end_offset"`
		RestoredEnd   int64 `json:"restored_end_offset"`
	}
	if err := json.Unmarshal([]byte(got.out), &summary); err != nil || got.status != 0 {
		t.Fatalf("status %d, error %q, printed %q", got.status, got.err, got.out)
	}
	if summary.Events != 27004 || summary.Keys != 3148 || !summary.Same || summary.Objects < 25 || summary.Objects > 35 ||
		summary.Remote < 25000 || summary.LocalStartsAt != summary.Remote || summary.DayEndsAt-summary.DayStart != 767 ||
		summary.LocalBytes >= summary.RemoteBytes || summary.RemoteBytes < summary.EventBytes ||
		summary.RestoredEnd != summary.Remote {
		t.Errorf("%+v", summary)
	}
	verify := firn(t, "", "log", "verify", filepath.Join(dir, "log"), filepath.Join(dir, "bucket"))
	if verify.status != 0 || !strings.Contains(verify.out, fmt.Sprintf("%d records", summary.Remote)) {
		t.Errorf("verify what it left: status %d, error %q, printed\n%s", verify.status, verify.err, verify.out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		t.Errorf("--dir holds %v, error %v", entries, err)
	}
}
