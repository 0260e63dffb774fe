//go:build integration

package process

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKillingDuringCompactionLosesNothing kills a node with SIGKILL, again and again, while its cleaner never rests: what
// is left is of each key the last record, each record is one that was sent, at its offset, and no file is left over.
func TestKillingDuringCompactionLosesNothing(t *testing.T) {
	const kills = 20
	set := []string{"log.cleaner.backoff.ms=1"}
	node := Serve(t, Options{Set: set})
	set = append(set, "listeners=PLAINTEXT://"+node.Kafka) // clients come back to where they were
	node.CreateTopic("compacted", 1, "cleanup.policy=compact", "internal.segment.bytes=100000",
		"min.cleanable.dirty.ratio=0.001")
	l := startLoader(t, node, "compacted", kgo.Lz4Compression())
	for round := range int64(kills) {
		l.waitFor(l.acked.Load() + 900 + 37*round)
		node.Kill()
		node = Serve(t, Options{Dir: node.Dir, Set: set})
		l.waitFor(l.acked.Load() + 1)
	}
	l.finish()
	expectCompacted(t, node, l)
	node.Stop()
	folder := filepath.Join(node.Dir, "log", "compacted-0")
	if left, err := filepath.Glob(filepath.Join(folder, "*.cleaned")); err != nil || len(left) != 0 {
		t.Errorf("%v are left over: %v", left, err)
	}
	Command{Path: Firn(t), Args: []string{"log", "verify", filepath.Join(node.Dir, "log")}}.Output(t)
}

// expectCompacted reads a topic and compares it with what was sent.
func expectCompacted(t *testing.T, node *Node, l *loader) {
	t.Helper()
	newest := map[string]int64{}
	values := map[int64]string{}
	last := int64(-1)
	for _, record := range l.sent {
		newest[string(record.Key)] = max(newest[string(record.Key)], record.Offset)
		values[record.Offset] = string(record.Value)
		last = max(last, record.Offset)
	}
	consumer := node.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: {0: kgo.NewOffset().At(0)}}))
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	read, found, at := 0, map[string]int64{}, int64(-1)
	for at < last {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, record := range fetches.Records() {
			if record.Offset <= at || values[record.Offset] != string(record.Value) {
				t.Fatalf("behind offset %d comes %d with %.80q, where %.80q was sent",
					at, record.Offset, record.Value, values[record.Offset])
			}
			read, at, found[string(record.Key)] = read+1, record.Offset, record.Offset
		}
	}
	for key, offset := range newest {
		if found[key] != offset {
			t.Errorf("the last record of key %s is at %d, and %d was sent", key, found[key], offset)
		}
	}
	t.Logf("%d of %d records are left, of %d keys", read, len(l.sent), len(newest))
	if read > len(l.sent)/2 {
		t.Errorf("%d of %d records are left", read, len(l.sent))
	}
}
