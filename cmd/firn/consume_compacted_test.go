package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// compactedNode runs a node with a topic of a thousand records of ten keys that was compacted.
func compactedNode(t *testing.T) (s shell) {
	t.Helper()
	s.broker, s.http = startNode(t)
	s.ok(t, "", "topic create compacted -c cleanup.policy=compact")
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "key %d:value %d\n", i%10, i)
	}
	s.ok(t, lines.String(), "produce compacted -K :")
	if got := firn(t, "", "topic", "compact", "compacted", "--http", s.http); got.status != 0 {
		t.Fatal(got.err)
	}
	return s
}

// TestCN04TheNewestRecordsOfATopicWithHoles: the last offsets are fewer records where some were compacted away or
// aborted, and that is said.
func TestCN04TheNewestRecordsOfATopicWithHoles(t *testing.T) {
	s := compactedNode(t)
	s.ok(t, "", "topic create transactions")
	client, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.TransactionalID("t"), kgo.DefaultProduceTopic("transactions"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		records := []*kgo.Record{kgo.StringRecord("a"), kgo.StringRecord("b"), kgo.StringRecord("c")}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(context.Background(), end); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line    string
		records int
		says    string
	}{
		{"compacted -o -10", 10, ""},
		{"compacted -o -50", 10, "40 of these 50 offsets hold no record"},
		{"compacted -o -50 -n 3", 3, ""},
		{"compacted -o -50 --filter-key 1", 1, "40 of these 50 offsets hold no record"},
		{"compacted -o 900", 10, ""}, // offsets, which nobody takes for a number of records
		{"transactions -o -10 --isolation read_committed", 4, "6 of these 10 offsets hold no record"},
		{"transactions -o -10 --isolation read_uncommitted", 7, "3 of these 10 offsets hold no record"},
		{"transactions -o -10 --isolation read_uncommitted --print-control-records", 10, ""},
	} {
		got := firn(t, "", s.args("consume "+c.line+" --no-progress")...)
		if got.status != 0 || strings.Count(got.out, "\n") != c.records || (c.says == "") != (got.err == "") ||
			!strings.Contains(got.err, c.says) {
			t.Errorf("consume %s: status %d\n%s%s", c.line, got.status, got.out, got.err)
		}
	}
}

// TestCN05OffsetsAreNotShownAsNumbersOfRecords: of a thousand records ten are left, and nothing calls them a thousand.
func TestCN05OffsetsAreNotShownAsNumbersOfRecords(t *testing.T) {
	s := compactedNode(t)
	for _, line := range []string{"topic describe compacted", "topic list", "topic list -f json"} {
		got := strings.ToLower(s.ok(t, "", line))
		for _, word := range []string{"records", "messages", "count"} {
			if strings.Contains(got, word) {
				t.Errorf("firn %s speaks of %s:\n%s", line, word, got)
			}
		}
		if strings.Contains(line, "describe c") && !strings.Contains(got, "1000") {
			t.Errorf("firn %s does not tell the end offset:\n%s", line, got)
		}
	}
	if got := s.ok(t, "", "consume compacted -o start"); strings.Count(got, "\n") != 10 {
		t.Errorf("there are %d records", strings.Count(got, "\n"))
	}
}
