package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
)

// fails runs a command line against the node that must fail, and returns what it says about that.
func (s shell) fails(t *testing.T, stdin, line string) string {
	t.Helper()
	got := firn(t, stdin, s.args(line)...)
	if got.status != exitFailed {
		t.Errorf("firn %s: status %d, output %q, error %q", line, got.status, got.out, got.err)
	}
	return got.err
}

func testTooLarge(t *testing.T, s shell) {
	s.ok(t, "", "topic create tight -c max.message.bytes=2000")
	large := strings.Repeat("x", 3000)
	for line, want := range map[string]string{
		"produce tight":                     "record 2: MESSAGE_TOO_LARGE: it has 3000 bytes, and the topic takes",
		"produce tight --batch-size 1k":     "record 2: it has 3000 bytes, and --batch-size is 1024: raise that",
		"produce tight --buffer-memory 600": "record 2: it has 3000 bytes, and --buffer-memory is 600: raise that",
		"produce tight --batch-size 1m":     "its batch is too large with this --batch-size of 1048576, and the topic",
	} {
		got := s.fails(t, "fits\n"+large+"\n", line)
		if !strings.Contains(got, want) || !strings.Contains(got, " failed\n") {
			t.Errorf("firn %s: %q, want %q", line, got, want)
		}
	}
	if got := s.fails(t, large, "produce tight"); !strings.Contains(got, "raise the topic's max.message.bytes") {
		t.Errorf("no advice: %q", got)
	}
}

func testRegexFollow(t *testing.T, s shell) {
	s.ok(t, "", "topic create later-1")
	s.ok(t, "one\n", "produce later-1")
	ctx, interrupt := context.WithCancel(t.Context())
	out := lineWriter{lines: make(chan string, 16)}
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		ended <- run(ctx, s.args("consume -r ^later- -F"), streams{in: strings.NewReader(""), out: out, err: &errs})
	}()
	if got := <-out.lines; got != "one\n" {
		t.Errorf("first printed %q", got)
	}
	s.ok(t, "", "topic create later-2")
	s.ok(t, "two\n", "produce later-2")
	if got := <-out.lines; got != "two\n" {
		t.Errorf("then printed %q", got)
	}
	interrupt()
	if status := <-ended; status != 0 {
		t.Errorf("status %d, error %q", status, errs.String())
	}
}

func testRows(t *testing.T, s shell) {
	s.ok(t, "", "topic create rows -p 10")
	s.ok(t, strings.Repeat("x\n", 10), "produce rows -p 3")
	lines := strings.Split(strings.TrimSpace(s.ok(t, "", "topic describe rows")), "\n")
	rows := lines[len(lines)-10:]
	for i, row := range rows {
		end := "0"
		if i == 3 {
			end = "10" // CL-15: the end is the next offset
		}
		fields := strings.Fields(row)
		if fields[0] != fmt.Sprint(i) || fields[len(fields)-1] != end || len(fields) != len(strings.Fields(rows[0])) {
			t.Errorf("row %d is %q", i, row)
		}
	}
}

func testWaysOfSending(t *testing.T, s shell) {
	sent := 0
	s.ok(t, "", "topic create ways -p 3")
	for _, line := range []string{
		"--acks all", "--acks -1", "--acks 1", "--acks 0", "--idempotent=false", "--linger 20ms", "--linger 0s",
		"--batch-size 600", "--buffer-memory 1k", "--partitioner murmur2", "--partitioner sticky",
		"--partitioner round-robin", "--partitioner random", "-z gzip", "-z snappy", "-z lz4", "-z zstd --sync",
	} {
		sent += 30
		got := firn(t, strings.Repeat("a:value\nb:value\nc:value\n", 10), s.args("produce ways -K : "+line)...)
		if got.status != 0 || !strings.HasPrefix(got.err, "produced 30 records (180 B) to ways in ") {
			t.Errorf("produce %s: status %d, error %q", line, got.status, got.err)
		}
	}
	// Without an acknowledgement nobody knows when the records of acks=0 arrive, but by now they have.
	if got := strings.Count(s.ok(t, "", "consume ways"), "\n"); got != sent {
		t.Errorf("%d of %d records have arrived", got, sent)
	}
	s.ok(t, "", "topic create turns -p 3")
	s.ok(t, "k:v\nk:v\nk:v\n", "produce turns -K : --partitioner round-robin")
	if got := s.ok(t, "", "consume turns -o start -f %p"); len(got) != 3 || strings.Count(got, got[:1]) != 1 {
		t.Errorf("round-robin wrote to the partitions %q", got)
	}
	s.ok(t, "", "topic create once")
	s.ok(t, "a\n", "produce once")
	s.ok(t, "a\n", "produce once --idempotent=false")
	if got := s.ok(t, "", "consume once -f %x,"); !regexp.MustCompile(`^\d+,-1,$`).MatchString(got) {
		t.Errorf("producer ids with and without idempotence: %q", got)
	}
}

func testReports(t *testing.T, s shell) {
	s.ok(t, "", "topic create reported -p 2 -c retention.ms=-1")
	if got := s.ok(t, "a\nb\n", "produce reported -p 1 --sync"); got != "partition 1 offset 0\npartition 1 offset 1\n" {
		t.Errorf("--sync prints %q", got)
	}
	if got := s.ok(t, "k:c\n", "produce reported -p 1 -K : -o %t/%p@%o=%k:%v;"); got != "reported/1@2=k:c;" {
		t.Errorf("a layout prints %q", got)
	}
	var lines []reportJSON
	decoder := json.NewDecoder(strings.NewReader(s.ok(t, "d\ne\n", "produce reported -p 0 --timestamp 77 -o json")))
	for decoder.More() {
		var line reportJSON
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) != 2 || lines[0] != (reportJSON{"reported", 0, 0, 77}) || lines[1].Offset != 1 {
		t.Errorf("as JSON: %+v", lines)
	}
	broken := streams{in: strings.NewReader("f\n"), out: fullDisk{}, err: new(bytes.Buffer)}
	if status := run(t.Context(), s.args("produce reported -o %o"), broken); status != exitFailed {
		t.Errorf("a report that nobody reads ends with status %d", status)
	}
}

func testNamedTopics(t *testing.T, s shell) {
	s.ok(t, "", "topic create named-a named-b -p 2")
	s.ok(t, "named-a 1 x\nnamed-b 0 y\n", "produce -f %t\\x20%p\\x20%v\\n")
	copied := s.ok(t, "", "consume named-a named-b -f json")
	got := firn(t, copied, s.args("produce -f json")...)
	var summary produceSummary
	if err := json.Unmarshal([]byte(got.err), &summary); err != nil || got.status != 0 || summary.Records != 2 ||
		strings.Join(summary.Topics, " ") != "named-a named-b" {
		t.Errorf("status %d, summary %+v of %q", got.status, summary, got.err)
	}
	for topic, want := range map[string]string{"named-a": "1x1x", "named-b": "0y0y"} {
		if got := s.ok(t, "", "consume "+topic+" -f %p%v"); got != want {
			t.Errorf("%s holds %q, want %q", topic, got, want)
		}
	}
	s.ok(t, copied, "produce named-a -f json") // what the command line says wins
	if got := s.ok(t, "", "consume named-b -f %p%v"); got != "0y0y" {
		t.Errorf("named-b holds %q", got)
	}
	if got := s.fails(t, `{"value":"v"}`, "produce -f json"); !strings.Contains(got, "record 1: it names no topic") {
		t.Errorf("a record without a topic: %q", got)
	}
	nowhere := s.fails(t, `{"topic":"nowhere","value":"v"}`, "produce -f json")
	if !strings.Contains(nowhere, "topic nowhere: UNKNOWN") {
		t.Errorf("a topic that is not there: %q", nowhere)
	}
}

func testNulls(t *testing.T, s shell) {
	s.ok(t, "", "topic create nulls")
	s.ok(t, "a:\n:b\n", "produce nulls -K :")
	s.ok(t, "a:\n:b\n", "produce nulls -K : -Z")
	s.ok(t, "a:\n:b\n", "produce nulls -K : --null-key")
	if got, want := s.ok(t, "", "consume nulls -Z --keys -D ;"), "a\t;\tb;a\tNULL;\tb;a\t;NULL\tb;"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if got, want := s.ok(t, "", "consume nulls --null=- -f %k|%v,"), "a|,|b,a|-,|b,a|,-|b,"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// testInterruptedProduce holds the records back with a long linger: only the end of the command can have sent them.
func testInterruptedProduce(t *testing.T, s shell) {
	s.ok(t, "", "topic create stopped")
	ctx, interrupt := context.WithCancel(t.Context())
	in, typed := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, s.args("produce stopped --linger 1m"), streams{in: in, out: io.Discard, err: &errs})
	}()
	for _, text := range []string{"a\n", "b\n", "not a line yet"} { // that the last is taken says that the others are read
		if _, err := io.WriteString(typed, text); err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	status := <-ended
	typed.Close()
	want := regexp.MustCompile(`^produced 2 records \(2 B\) to stopped in [0-9.]+ s\nfirn: interrupted\n$`)
	if status != exitFailed || !want.MatchString(errs.String()) {
		t.Errorf("status %d, error %q", status, errs.String())
	}
	if got := s.ok(t, "", "consume stopped"); got != "a\nb\n" {
		t.Errorf("the topic holds %q", got)
	}
}

func testBrokenInput(t *testing.T, s shell) {
	s.ok(t, "", "topic create broken")
	in := io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(io.ErrClosedPipe))
	var errs bytes.Buffer
	status := run(t.Context(), s.args("produce broken"), streams{in: in, out: io.Discard, err: &errs})
	if status != exitFailed || !strings.HasPrefix(errs.String(), "produced 2 records") ||
		!strings.HasSuffix(errs.String(), "firn: read line 3: "+io.ErrClosedPipe.Error()+"\n") {
		t.Errorf("status %d, error %q", status, errs.String())
	}
}

func testFilters(t *testing.T, s shell) {
	s.ok(t, "", "topic create sieved")
	s.ok(t, "apple:1\nbanana:2\n", "produce sieved -K : -H colour=red")
	s.ok(t, "cherry:3\napricot:12\n", "produce sieved -K : -H colour=blue -H rare")
	s.ok(t, "4\n", "produce sieved")
	for line, want := range map[string]string{
		"--filter-key ^a": "1,12,", "--filter-value 2": "2,12,", "--filter-key ^a --filter-value 2": "12,",
		"--filter-header rare": "3,12,", "--filter-header colour=^r": "1,2,", "--filter-header rare --filter-key ^c": "3,",
		"--filter-key .*": "1,2,3,12,", "--filter-value 2 -n 1": "2,", "--filter-header colour=x": "",
	} {
		if got := s.ok(t, "", "consume sieved -f %v, "+line); got != want {
			t.Errorf("%s prints %q, want %q", line, got, want)
		}
	}
}

func testMetaOnly(t *testing.T, s shell) {
	s.ok(t, "", "topic create bare -c retention.ms=-1")
	s.ok(t, "a:"+strings.Repeat("content", 100)+"\n", "produce bare -K : -z lz4 -H h=v --timestamp 5")
	s.ok(t, "\n", "produce bare -Z --idempotent=false --timestamp 6 -H g")
	var lines []metaJSON
	out := s.ok(t, "", "consume bare -f json --meta-only")
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var line metaJSON
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) != 2 || strings.Contains(out, "content") {
		t.Fatalf("printed %s", out)
	}
	first, second := lines[0], lines[1]
	if first.Compression != "lz4" || *first.KeyBytes != 1 || *first.ValueBytes != 700 || first.Headers != 1 ||
		first.ProducerID < 0 || first.Timestamp != 5 || first.TimestampType != "CreateTime" {
		t.Errorf("the first record is %s", out)
	}
	if second.Compression != "none" || second.KeyBytes != nil || second.ValueBytes != nil || second.ProducerID != -1 ||
		second.Offset != 1 {
		t.Errorf("the second record is %s", out)
	}
}

func testCodecSettings(t *testing.T, s shell) {
	s.ok(t, "", "topic create recoded -c compression.type=gzip -c compression.gzip.level=9")
	s.ok(t, "", "topic create kept -c max.decompressed.message.bytes=1000")
	s.ok(t, strings.Repeat("x", 500)+"\n", "produce recoded -z zstd")
	if got := s.ok(t, "", "consume recoded -f %a{compression}%V"); got != "gzip500" {
		t.Errorf("stored as %q", got)
	}
	// A bomb: a few bytes on the wire that are more than the topic allows once they are decompressed.
	bomb := strings.Repeat("0", 500_000)
	for _, codec := range []string{"gzip", "snappy", "lz4", "zstd"} {
		got := s.fails(t, bomb, "produce kept -z "+codec)
		if !strings.Contains(got, "INVALID_RECORD") {
			t.Errorf("%s: %q", codec, got)
		}
	}
	s.ok(t, bomb, "produce kept") // it never was compressed, and max.message.bytes allows it
	s.ok(t, bomb[:900], "produce kept -z zstd")
	if got := s.ok(t, "", "consume kept -f %V,"); got != "500000,900," {
		t.Errorf("the topic holds values of %q bytes", got)
	}
}
