package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/broker/admin/view"
)

// bucketShell runs command lines against a node and the folder that is its bucket.
type bucketShell struct {
	shell
	folder string
}

func (s bucketShell) store() string { return "file://" + s.folder }

// fromBucket runs consume over the bucket, with the broker asked once.
func (s bucketShell) fromBucket(t *testing.T, line string) outcome {
	t.Helper()
	return firn(t, "", append([]string{"consume", "--http", s.http, "--from-bucket=" + s.store()}, strings.Fields(line)...)...)
}

// withoutBroker runs it with nobody asked.
func (s bucketShell) withoutBroker(t *testing.T, line string) outcome {
	t.Helper()
	return firn(t, "", append([]string{"consume", "--no-broker", "--from-bucket=" + s.store()}, strings.Fields(line)...)...)
}

const (
	// historyEnd is where the history of each partition of topic "history" ends in the bucket, of logEnd.
	historyEnd = 24
	logEnd     = 32
	// historyBegin is the time of the first record: past the markers' times, which are now, so that only rounds roll.
	historyBegin = 4_000_000_000_000
	roundMs      = 3_600_000
)

func TestBucketReadsAgainstANode(t *testing.T) {
	s := bucketShell{folder: t.TempDir()}
	s.broker, s.http = startNode(t, "firn.object.store=file://"+s.folder, "firn.tier.checkpoint.interval.ms=1000")
	s.writeHistory(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, bucketShell)
	}{
		{"a read from the bucket is a read from the brokers", testBucketEquals},
		{"ranges mean the same", testBucketRanges},
		{"filters, layouts and limits", testBucketPrinting},
		{"what is not in the bucket yet is said", testBucketMissing},
		{"without a broker", testBucketWithoutBroker},
		{"a load that is run again neither loses nor repeats", testBucketResume},
		{"an interrupt and a broken output end the pin", testBucketInterrupt},
		{"what is wrong is told in a line", testBucketFailures},
		{"checkpoints are dumped", testCheckpointDump},
		{"pins that are left are listed and ended", testPins},
		{"an object that is gone", testBucketGone},
		{"another object in its place", testBucketRenewed},
		{"offsets that are gone", testBucketSkipped},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, s)
			var pins view.Pins
			server := httpFlag{s.http}
			if err := server.get(t.Context(), view.PathPins, &pins); err != nil || len(pins.Pins) != 0 {
				t.Errorf("pins that were left: %+v, %v", pins.Pins, err)
			}
		})
	}
}

// writeHistory fills topic "history": two partitions, a transaction that is committed and one that is aborted in each
// round, codecs, headers, nulls, and times an hour apart between rounds. Each round is a segment.
func (s bucketShell) writeHistory(t *testing.T) {
	t.Helper()
	s.ok(t, "", "topic create local -c remote.storage.enable=false")
	s.ok(t, "", "topic create history -p 2 -c remote.storage.enable=true -c segment.ms=1000 -c retention.ms=-1 "+
		"-c message.timestamp.after.max.ms=9223372036854775807")
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression(), kgo.GzipCompression(), kgo.Lz4Compression()}
	for round, codec := range codecs {
		client, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.TransactionalID("writer"), kgo.ProducerBatchCompression(codec),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
			var records []*kgo.Record
			for partition := range int32(2) {
				for i := range 3 {
					record := &kgo.Record{Topic: "history", Partition: partition, Key: fmt.Appendf(nil, "k%d", i),
						Value:     fmt.Appendf(nil, "round %d record %d committed %t %s", round, i, bool(end), strings.Repeat("x", 100*i)),
						Timestamp: time.UnixMilli(historyBegin + int64(round)*roundMs + int64(i)),
						Headers:   []kgo.RecordHeader{{Key: "h", Value: []byte{byte(round)}}}}
					if i == 1 {
						record.Value = nil
					}
					records = append(records, record)
				}
			}
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := client.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		client.Close()
	}
	waitRemote(t, s.http, "history", 2*historyEnd)
}

// waitRemote waits until so many offsets of a topic are in the bucket.
func waitRemote(t *testing.T, http, topic string, offsets int64) {
	t.Helper()
	server, deadline := httpFlag{http}, time.Now().Add(30*time.Second)
	for remote := int64(0); remote < offsets; {
		if time.Now().After(deadline) {
			t.Fatalf("%d offsets of %s are in the bucket after 30 s, not %d", remote, topic, offsets)
		}
		var status view.TierStatus
		if err := server.get(t.Context(), view.PathTier, &status); err != nil {
			t.Fatal(err)
		}
		remote = 0
		for _, p := range status.Partitions {
			if p.Topic == topic {
				remote += p.End - p.Start
			}
		}
	}
}

func testBucketEquals(t *testing.T, s bucketShell) {
	for _, flags := range []string{
		"", " --isolation read_committed", " --print-control-records", " --isolation read_committed --print-control-records",
		" --meta-only", " -f %t/%p/%o/%k/%v/%d/%h{%k=%v;}/%e/%x/%y/%a{compression}/%a{timestamp-type}/%i\\n",
	} {
		if !strings.Contains(flags, "-f ") {
			flags += " -f json"
		}
		var want strings.Builder
		for partition := range 2 {
			want.WriteString(s.ok(t, "", fmt.Sprintf("consume history -p %d -o :%d%s", partition, historyEnd, flags)))
		}
		got := s.fromBucket(t, "history"+flags)
		if got.status != 0 || renumbered(got.out) != renumbered(want.String()) || got.out == "" {
			t.Errorf("%s: status %d, error %q, printed\n%s\nwant\n%s", flags, got.status, got.err, got.out, want.String())
		}
		alone := firn(t, "", append([]string{"consume", "history", "--http", s.http, "--from-bucket"}, strings.Fields(flags)...)...)
		if alone.out != got.out {
			t.Errorf("%s: by the broker's store: status %d, error %q, printed\n%s", flags, alone.status, alone.err, alone.out)
		}
		apart := firn(t, "", append([]string{"consume", "history", "--http", s.http, "--from-bucket", s.store()},
			strings.Fields(flags)...)...)
		if apart.out != got.out {
			t.Errorf("%s: with the URL apart: status %d, error %q", flags, apart.status, apart.err)
		}
	}
}

// renumbered leaves the count of records out, which begins anew with each command.
func renumbered(lines string) string {
	kept := make([]string, 0, 64)
	for line := range strings.Lines(lines) {
		if cut := strings.LastIndexByte(line, '/'); cut >= 0 {
			line = line[:cut]
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

func testBucketRanges(t *testing.T, s bucketShell) {
	at := func(round, ms int64) string { return decimal(historyBegin + round*roundMs + ms) }
	for _, offsets := range []string{
		"start:20", "5:10", "+3:20", "3:+2", "7:8", "20:10000", "11:11", "47", "end",
		"@" + at(1, 0) + ":@" + at(2, 0), "@" + at(1, 0) + ":1h", "@:" + at(1, 2), "@" + at(0, 2) + ":" + at(2, 1),
		"@1000:" + at(1, 0), "@" + at(2, 0),
	} {
		offsets = strings.ReplaceAll(offsets, ":@", ":")
		want := ""
		for line := range strings.Lines(s.ok(t, "", "consume history -p 1 -f %o:%v\\n -o "+offsets)) {
			var offset int
			if _, err := fmt.Sscanf(line, "%d:", &offset); err != nil {
				t.Fatal(err)
			}
			if offset < historyEnd {
				want += line
			}
		}
		got := s.fromBucket(t, "history -p 1 -f %o:%v\\n -o "+offsets)
		if got.status != 0 || got.out != want {
			t.Errorf("-o %s: status %d, error %q, printed\n%s\nwant\n%s", offsets, got.status, got.err, got.out, want)
		}
	}
	if got := s.fromBucket(t, "history -p 1 -o -5 -f %o,"); got.out != "20,21,22," {
		t.Errorf("the last five offsets hold %q; %q", got.out, got.err)
	}
}

func testBucketPrinting(t *testing.T, s bucketShell) {
	for line, want := range map[string]string{
		"-n 4 -f %p:%o,": "0:0,0:1,0:2,0:4,",
		"-p 1 -f %o, --filter-key ^k2$ --isolation read_committed": "2,10,18,",
		"-p 1 -f %o, --filter-value committed.true -n 2":           "0,2,",
		"-p 0 -o 1:3 -Z -f %v|":                                    "NULL|round 0 record 2 committed true " + strings.Repeat("x", 200) + "|",
		"-p 1 -o 22:24 --print-control-records -f %o,":             "22,23,",
	} {
		if got := s.fromBucket(t, "history "+line); got.status != 0 || got.out != want {
			t.Errorf("%s: status %d, error %q, printed %q, want %q", line, got.status, got.err, got.out, want)
		}
	}
}

func testBucketMissing(t *testing.T, s bucketShell) {
	missing := func(from, to int64) string {
		return fmt.Sprintf("firn: history partition 1: offsets %d to %d were not read: they are in the log, and not in the "+
			"bucket yet\n", from, to)
	}
	for line, want := range map[string]string{
		"":                      missing(24, 31),
		"-o :24":                "",
		"-o :26":                missing(24, 25),
		"-o :+99":               missing(24, 31),
		"-o 26:99":              "firn: history partition 1: offset 26 is not in the bucket yet, which ends at 24\n" + missing(26, 31),
		"-o end":                "",
		"-o -3":                 missing(24, 31),
		"-n 2":                  "",
		"-o @:5000000000000":    missing(24, 31),
		"-o @:4000000000000":    "",
		"-o 0:3 --no-progress ": "",
	} {
		if got := s.fromBucket(t, "history -p 1 --print-control-records "+line); got.status != 0 || got.err != want {
			t.Errorf("%q: status %d, said %q, want %q", line, got.status, got.err, want)
		}
	}
}

func testBucketWithoutBroker(t *testing.T, s bucketShell) {
	cluster := ""
	for _, entry := range s.entries(t, "") {
		cluster = entry
	}
	want := s.fromBucket(t, "history -f json").out
	for _, flags := range []string{"", " --cluster " + cluster} {
		got := s.withoutBroker(t, "history -f json"+flags)
		if got.status != 0 || got.out != want || !strings.Contains(got.err, "only the grace time") ||
			strings.Count(got.err, "\n") != 1 {
			t.Errorf("%q: status %d, said %q, printed\n%s", flags, got.status, got.err, got.out)
		}
	}
}

// entries are the names in a folder of the bucket.
func (s bucketShell) entries(t *testing.T, folder string) (names []string) {
	t.Helper()
	listed, err := os.ReadDir(filepath.Join(s.folder, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range listed {
		if entry.Name()[0] != '.' {
			names = append(names, entry.Name())
		}
	}
	return names
}

func testBucketResume(t *testing.T, s bucketShell) {
	whole := s.fromBucket(t, "history -f json").out
	file := filepath.Join(t.TempDir(), "marks.json")
	var printed strings.Builder
	for _, flags := range []string{" -n 5", " -n 1", " -p 1 -n 4", "", "", " -p 0"} {
		got := s.fromBucket(t, "history -f json --resume "+file+flags)
		if got.status != 0 {
			t.Fatalf("%q: status %d, error %q", flags, got.status, got.err)
		}
		printed.WriteString(got.out)
	}
	if sortedLines(printed.String()) != sortedLines(whole) {
		t.Errorf("all runs printed\n%s\nwant\n%s", printed.String(), whole)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var marks bookmarkJSON
	if err := json.Unmarshal(data, &marks); err != nil || marks.Topic != "history" || len(marks.Next) != 2 ||
		marks.Next[0] != historyEnd || marks.Next[1] != historyEnd {
		t.Errorf("the file says %s, %v", data, err)
	}
	other := strings.Replace(string(data), marks.TopicID[:4], "AAAA", 1)
	for content, want := range map[string]string{other: "belongs to topic history", "{": "--resume", "{}": "names no topic"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got := s.fromBucket(t, "history --resume "+file)
		left, err := os.ReadFile(file)
		if got.status != exitFailed || !strings.Contains(got.err, want) || got.out != "" || string(left) != content || err != nil {
			t.Errorf("%s: status %d, error %q, left %s", content, got.status, got.err, left)
		}
	}
}

func sortedLines(text string) string {
	lines := map[string]string{}
	for line := range strings.Lines(text) {
		lines[line] += line
	}
	var all strings.Builder
	for _, line := range sortedKeys(lines) {
		all.WriteString(lines[line])
	}
	return all.String()
}

// breaking is an output that takes so many writes, and then does what is said.
type breaking struct {
	bytes.Buffer
	writes int
	then   func() error
}

func (b *breaking) Write(data []byte) (int, error) {
	if b.writes--; b.writes < 0 {
		if err := b.then(); err != nil {
			return 0, err
		}
	}
	return b.Buffer.Write(data)
}

func testBucketInterrupt(t *testing.T, s bucketShell) {
	whole := s.fromBucket(t, "history -f json").out
	for name, want := range map[string]string{"interrupt": "interrupted", "broken": "write: no room"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, errs := &breaking{writes: 2}, &bytes.Buffer{}
		out.then = func() error {
			if name == "broken" {
				return errors.New("no room")
			}
			cancel()
			return nil
		}
		file := filepath.Join(t.TempDir(), "marks.json")
		status := run(ctx, []string{"consume", "history", "-f", "json", "--from-bucket=" + s.store(), "--http", s.http,
			"--resume", file}, streams{in: strings.NewReader(""), out: out, err: errs})
		if status != exitFailed || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, error %q", name, status, errs)
		}
		rest := s.fromBucket(t, "history -f json --resume "+file)
		if rest.status != 0 || out.String()+rest.out != whole || out.Len() == 0 || rest.out == "" {
			t.Errorf("%s: status %d, error %q, printed\n%s\nand then\n%s", name, rest.status, rest.err, out, rest.out)
		}
	}
}

func testBucketFailures(t *testing.T, s bucketShell) {
	empty := "file://" + t.TempDir()
	for _, test := range []struct {
		status int
		line   string
		want   string
	}{
		{exitFailed, "missing --from-bucket", `there is no topic "missing"`},
		{exitFailed, "local --from-bucket", "remote.storage.enable"},
		{exitFailed, "history --from-bucket -p 5", "has no partition 5"},
		{exitFailed, "history --from-bucket --lease 9999h", "lease"},
		{exitFailed, "history --from-bucket=" + empty, "somebody else has deleted it, or the broker has another store"},
		{exitFailed, "history --from-bucket=" + empty + "/no", "no such file"},
		{exitFailed, "history --from-bucket --resume /dev/null/x", "--resume"},
		{exitFailed, "missing --no-broker --from-bucket=" + s.store(), "missing"},
		{exitFailed, "local --no-broker --from-bucket=" + s.store(), "nothing of the topic is in the bucket"},
		{exitFailed, "history --no-broker -p 5 --from-bucket=" + s.store(), "has no partition 5"},
		{exitFailed, "history --no-broker --from-bucket=" + empty, "there is no cluster"},
		{exitFailed, "history --no-broker --cluster x --from-bucket=" + s.store(), "--cluster"},
		{exitUsage, "history --from-bucket=", "is empty"},
		{exitUsage, "history --no-broker", "belongs to --from-bucket"},
		{exitUsage, "history --resume x", "belongs to --from-bucket"},
		{exitUsage, "history --from-bucket --no-broker", "needs to be told the store"},
		{exitUsage, "history --from-bucket --cluster x", "belongs to --no-broker"},
		{exitUsage, "history --from-bucket=mem: --no-broker --lease 1h", "asks nobody"},
		{exitUsage, "history other --from-bucket", "reads one topic"},
		{exitUsage, "history --from-bucket --follow", "not in the bucket yet"},
		{exitUsage, "history --from-bucket --group g", "exclude each other"},
		{exitUsage, "history --from-bucket --rack r", "exclude each other"},
		{exitUsage, "history --from-bucket -r", "exclude each other"},
		{exitUsage, "history --from-bucket -b x", "asked over --http"},
		{exitUsage, "history --from-bucket --lease 0s", "must be positive"},
	} {
		args := append([]string{"consume"}, strings.Fields(test.line)...)
		if test.status == exitFailed && !strings.Contains(test.line, "--no-broker") {
			args = append(args, "--http", s.http)
		}
		got := firn(t, "", args...)
		said := strings.Split(strings.TrimSpace(got.err), "\n")
		if got.status != test.status || !strings.Contains(said[len(said)-1], test.want) || got.out != "" {
			t.Errorf("consume %s: status %d, error %q, printed %q; want %d, %q", test.line, got.status, got.err, got.out,
				test.status, test.want)
		}
	}
	got := firn(t, "", "consume", "history", "--from-bucket", "--http", closedPort(t))
	if got.status != exitFailed || !strings.Contains(got.err, "give --http HOST:PORT") {
		t.Errorf("without a broker: status %d, error %q", got.status, got.err)
	}
}

func testCheckpointDump(t *testing.T, s bucketShell) {
	s.ok(t, "", "consume history --group loaders")
	cluster := s.entries(t, "")[0]
	found := map[string]bool{}
	for deadline := time.Now().Add(20 * time.Second); !found["commit"]; {
		if time.Now().After(deadline) {
			t.Fatalf("dumped %v", found)
		}
		got := firn(t, "", "log", "dump", s.store()+"/"+cluster+"/meta/", "-f", "json")
		if got.status != 0 {
			continue // a checkpoint that is deleted meanwhile
		}
		for line := range strings.Lines(got.out) {
			var item dumpedItem
			if err := json.Unmarshal([]byte(line), &item); err != nil {
				t.Fatal(err)
			}
			found[item.Type] = true
		}
	}
	for _, wanted := range []string{"checkpoint", "shard", "contents", "topic", "partition", "segment", "group", "commit"} {
		if !found[wanted] {
			t.Errorf("no %s was dumped: %v", wanted, found)
		}
	}
}

func testPins(t *testing.T, s bucketShell) {
	server := httpFlag{s.http}
	var pin view.Pin
	request := view.PinRequest{Topic: "history", Partitions: []view.PinRange{{Partition: 1}}}
	if err := server.send(t.Context(), view.PathPins, request, &pin); err != nil {
		t.Fatal(err)
	}
	listed := firn(t, "", "tier", "pins", "--http", s.http)
	if want := pin.ID + " history 1 5h59m"; listed.status != 0 || !strings.Contains(squeeze(listed.out), want) {
		t.Errorf("status %d, error %q, printed\n%s", listed.status, listed.err, listed.out)
	}
	ended := firn(t, "", "tier", "pins", "--end", pin.ID, "--http", s.http)
	if ended.status != 0 || !strings.Contains(ended.out, pin.ID) {
		t.Errorf("status %d, error %q, printed\n%s", ended.status, ended.err, ended.out)
	}
	again := firn(t, "", "tier", "pins", "--end", pin.ID, "--http", s.http)
	if again.status != exitFailed || !strings.Contains(again.err, pin.ID) {
		t.Errorf("ended twice: status %d, error %q", again.status, again.err)
	}
}
