package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/latency"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestBenchAgainstANode runs real loads, so small that a busy machine is no matter: figures are not looked at.
func TestBenchAgainstANode(t *testing.T) {
	var s shell
	s.broker, s.http = startNode(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, shell)
	}{
		{"what is measured with what, as JSON", testBenchJSON},
		{"what is measured, as text", testBenchText},
		{"a topic that was made is removed, or kept", testBenchTopics},
		{"how much is read", testBenchConsume},
		{"in a topic with other people's records", testBenchShared},
		{"what fails is told", testBenchFailures},
		{"an interrupt prints what was measured", testBenchInterrupt},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// figures are what no two runs have the same.
var figures = regexp.MustCompile(`(?m)^( +"(?:firn_version|topic|p50|p90|p99|p99_9|max|mean|first_record_ms|seconds|` +
	`megabytes_per_second|records_per_second)": |^ +"127.0.0.1:)("[^"]*"|[0-9.e-]+)`)

// golden compares with a file, which -rewrite writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func testBenchJSON(t *testing.T, s shell) {
	s.ok(t, "", "topic create filled -p 3")
	s.ok(t, strings.Repeat("0123456789\n", 300), "produce filled --partitioner round-robin")
	for name, line := range map[string]string{
		"bench_produce.golden": "bench produce -n 500 --warm-up 0s -s 200 -p 3 --keys 10 --seed 9 --linger 1ms -z lz4 -f json",
		"bench_open.golden":    "bench produce -n 50 -d 1h --warm-up 1ms --rate 20kB -s 20 --acks 1 --in-flight 2 --clients 2 -f json",
		"bench_e2e.golden":     "bench e2e -n 150 --warm-up 100ms --rate 500 -p 2 --clients 3 --linger 0s --batch-size 4k -f json",
		"bench_consume.golden": "bench consume filled --clients 2 -o -90: -p 1,2 --fetch-partition-bytes 2k -f json",
	} {
		got := s.ok(t, "", line)
		for _, zero := range []string{`"seconds": 0,`, `"megabytes_per_second": 0,`, `"first_record_ms": 0`} {
			if strings.Contains(got, zero) {
				t.Errorf("firn %s prints %s", line, zero)
			}
		}
		golden(t, name, figures.ReplaceAllString(got, "${1}…"))
	}
}

func testBenchText(t *testing.T, s shell) {
	s.ok(t, "", "topic create read")
	s.ok(t, "a\nb\n", "produce read")
	for line, want := range map[string]string{
		"bench produce -n 300 --warm-up 0s": `^records of 1024 B, 1 partition, 1 client, acks all, compression none, ` +
			`batches of 1048588 B or 5 ms, as fast as it goes\nproduced 300 records \(300.0 KiB\) in \d+\.\d\d s: ` +
			`\d+ records/s, \d+\.\d\d MB/s\nMS +P50 +P90 +P99 +P99.9 +MAX\n` +
			`call to acknowledged \(closed loop\)( +\d+\.\d{3}){5}\n$`,
		"bench produce -n 30 --rate 1k --warm-up 0s": `, 1000 records/s due \(1.02 MB/s\)\nproduced 30 records (.|\n)*\n` +
			`due to acknowledged( +\d+\.\d{3}){5}\ndue to sent( +\d+\.\d{3}){5}\n$`,
		"bench e2e -n 30 --warm-up 0s": `\nreceived 30 records .*\n30 acknowledged, 0 lost, 0 duplicates\nMS .*\n` +
			`due to received .*\ndue to acknowledged .*\ndue to sent .*\n$`,
		"bench consume read": `^1 partition of read from start, 1 client, fetches of up to 50.0 MiB, 1.0 MiB of a partition\n` +
			`consumed 2 records \(2 B\) in .*\nthe first record after \d+\.\d{3} ms\n$`,
	} {
		if got := s.ok(t, "", line); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("firn %s prints\n%s", line, got)
		}
	}
}

// benchTopics are the topics there are that bench has made.
func benchTopics(t *testing.T, s shell) []string {
	t.Helper()
	return regexp.MustCompile(`firn-bench-[0-9a-f]{8} +\d+`).FindAllString(s.ok(t, "", "topic list"), -1)
}

func testBenchTopics(t *testing.T, s shell) {
	s.ok(t, "", "bench produce -n 1 --warm-up 0s")
	s.ok(t, "", "bench e2e -n 1 --warm-up 0s")
	s.fails(t, "", "bench produce -n 1 -r 3")                            // there is nothing to remove
	s.fails(t, "", "bench produce -n 1 -s 2k -c max.message.bytes=1000") // there is
	if got := benchTopics(t, s); len(got) != 0 {
		t.Errorf("left are %q", got)
	}
	s.ok(t, "", "bench produce -n 1 --warm-up 0s -p 7 --keep -c retention.ms=12345")
	got := benchTopics(t, s)
	if len(got) != 1 || !strings.HasSuffix(got[0], " 7") {
		t.Fatalf("kept are %q", got)
	}
	name, _, _ := strings.Cut(got[0], " ")
	if settings := settingsOf(t, s, name); settings["retention.ms"] != "12345" {
		t.Errorf("its settings are %v", settings)
	}
	s.ok(t, "", "topic delete "+name)
}

func testBenchConsume(t *testing.T, s shell) {
	s.ok(t, "", "topic create long -p 2")
	s.ok(t, "", "bench produce long -n 5000 -s 100 --warm-up 0s")
	s.ok(t, "", "topic create none")
	for line, want := range map[string]int64{
		"long": 5000, "long --clients 9": 5000, "long -n 700 --clients 2": 700, "long -d 1h": 5000, "long -d 1ns": 0,
		"none": 0, "long --isolation read_committed -o start:+100": 200,
	} {
		var got benchConsumed
		if err := json.Unmarshal([]byte(s.ok(t, "", "bench consume -f json "+line)), &got); err != nil {
			t.Fatal(err)
		}
		if got.Results.Records != want || got.Results.Bytes != 100*want || got.Settings.Clients > 2 {
			t.Errorf("bench consume %s: %+v", line, got)
		}
	}
}

func testBenchShared(t *testing.T, s shell) {
	s.ok(t, "", "topic create shared -p 2")
	s.ok(t, "others'\n", "produce shared")
	var got benchEndToEnd
	line := "bench e2e shared -n 40 --rate 1k --warm-up 10ms -f json"
	for range 2 {
		if err := json.Unmarshal([]byte(s.ok(t, "", line)), &got); err != nil {
			t.Fatal(err)
		}
		if r := got.Results; r.Records != 40 || r.Acknowledged != 40 || r.Lost != 0 || r.Duplicates != 0 {
			t.Errorf("%+v", r)
		}
	}
	if n := strings.Count(s.ok(t, "", "consume shared"), `{"run":"`); n != 2*(40+10) {
		t.Errorf("%d records are in the topic, those of the warm-up among them", n)
	}
}

func testBenchFailures(t *testing.T, s shell) {
	s.ok(t, "", "topic create narrow -c max.message.bytes=1000")
	s.ok(t, "", "topic create keyed -c cleanup.policy=compact")
	for line, want := range map[string]string{
		"bench produce missing":                           "UNKNOWN_TOPIC_OR_PARTITION",
		"bench consume missing":                           "UNKNOWN_TOPIC_OR_PARTITION",
		"bench consume narrow -p 4":                       "has no partition 4",
		"bench produce narrow -s 2k":                      "--record-size 2048: MESSAGE_TOO_LARGE: it has 2048 bytes, and the topic takes",
		"bench produce narrow -s 600 --batch-size 600":    "--record-size 600: it has 600 bytes, and --batch-size is 600",
		"bench produce narrow -s 600 --buffer-memory 512": "--record-size 600: it has 600 bytes, and --buffer-memory is 512",
		"bench produce keyed -n 10 --warm-up 0s":          "10 records failed, the first with: INVALID_RECORD",
		"bench e2e keyed -n 10 --warm-up 0s":              "10 records failed, the first with: INVALID_RECORD",
		"bench produce -c nonsense=1":                     "INVALID_CONFIG",
	} {
		if got := s.fails(t, "", line); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("firn %s: %q, want %q", line, got, want)
		}
	}
	got := firn(t, "", s.args("bench produce keyed -n 10 --warm-up 0s")...)
	if !strings.Contains(got.out, "produced 0 records (0 B) in 0.00 s: 0 records/s, 0.00 MB/s, 10 failed\n") {
		t.Errorf("the report is\n%s", got.out)
	}
}

// testBenchInterrupt interrupts once the first record has arrived.
func testBenchInterrupt(t *testing.T, s shell) {
	for _, command := range []string{"produce", "e2e"} {
		topic := "interrupted-" + command
		s.ok(t, "", "topic create "+topic)
		ctx, interrupt := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		ended := make(chan int, 1)
		line := "bench " + command + " " + topic + " --rate 100 --warm-up 0s -d 1h --linger 0s -f json"
		go func() {
			ended <- run(ctx, s.args(line), streams{in: strings.NewReader(""), out: &out, err: &errs})
		}()
		client, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(time.Second/4))
		if err != nil {
			t.Fatal(err)
		}
		client.PollFetches(t.Context())
		client.Close()
		interrupt()
		status := <-ended
		var got benchProduced
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if r := got.Results; status != exitFailed || errs.String() != "firn: interrupted\n" || r.Records == 0 || r.Unknown != 0 ||
			r.Unsent != 0 {
			t.Errorf("%s: status %d, error %q, %+v", command, status, errs.String(), r)
		}
	}
}

func TestWhatIsNoneOfARunThatWasAskedFor(t *testing.T) {
	reason := errors.New("no room")
	for _, test := range []struct {
		results    endToEndResults
		idempotent bool
		want       string
	}{
		{endToEndResults{}, true, ""},
		{endToEndResults{Lost: 2}, false, "2 records acknowledged and not received"},
		{endToEndResults{Duplicates: 1}, false, ""},
		{endToEndResults{Duplicates: 1}, true, "1 record received twice"},
		{endToEndResults{sendingResults: sendingResults{Failed: 3}}, true, "3 records failed, the first with: no room"},
		{endToEndResults{sendingResults: sendingResults{Unsent: 3}}, true, "3 records could not be sent in time"},
	} {
		b := benchEndToEnd{Settings: loadSettings{Idempotent: test.idempotent}, Results: test.results}
		err := b.failure(reason)
		if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: error %v, want %q", test.results, err, test.want)
		}
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "5000": 5000, "2.5k": 2500, "1M": 1e6, "10MB": 1e5, "10MB/s": 1e5, "10 MB": 1e5, "1GB": 1e7, "200kB": 2000,
		"100KiB": 1024, "100MiB": 1 << 20, "5000/s": 5000,
	} {
		var rate rateFlag
		if err := rate.Set(text); err != nil || rate.records(100) != want || rate.String() != text {
			t.Errorf("%s is %v records of 100 B, error %v, want %v", text, rate.records(100), err, want)
		}
	}
	for _, text := range []string{"", "-1", "MB", "10Mb", "10B/s/s", "1e400", "fast", "NaN", "10Mi", "10 5"} {
		var rate rateFlag
		if err := rate.Set(text); err == nil {
			t.Errorf("%q is %+v", text, rate)
		}
	}
}

func TestLatenciesAreInMilliseconds(t *testing.T) {
	h := latency.NewHistogram()
	for i := range 1000 {
		h.Record(time.Duration(i+1) * 10 * time.Microsecond)
	}
	want := []string{"x", "5.001", "9.003", "9.904", "9.994", "10.002"}
	got := newLatencyMs(h)
	if diff := cmp.Diff(want, got.row("x")); diff != "" || got.Mean < 5 || got.Mean > 5.01 {
		t.Errorf("%+v, (-want +got):\n%s", got, diff)
	}
}

func TestPartitionsAreDealtEvenly(t *testing.T) {
	spans := topicSpans{"a": {}}
	for partition := range int32(7) {
		spans["a"][partition] = span{end: int64(partition)}
	}
	for shares, want := range map[int]string{1: "7", 3: "3 2 2", 7: "1 1 1 1 1 1 1", 9: "1 1 1 1 1 1 1"} {
		var sizes []string
		seen := make(map[int32]bool)
		for _, share := range spans.deal(shares) {
			sizes = append(sizes, counted(len(share["a"]), "")[:1])
			for partition, wanted := range share["a"] {
				seen[partition] = wanted.end == int64(partition)
			}
		}
		if got := strings.Join(sizes, " "); got != want || len(seen) != 7 {
			t.Errorf("%d shares have %s partitions, want %s", shares, got, want)
		}
	}
}
