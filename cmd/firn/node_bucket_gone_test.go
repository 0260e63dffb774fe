package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/bulk"
)

// firstObject is the file of the first segment of a partition of "history".
func (s bucketShell) firstObject(t *testing.T, partition string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.folder, "*", "*", partition, "seg", "00000000000000000000-*.seg"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	return found[0]
}

func testBucketGone(t *testing.T, s bucketShell) {
	object := s.firstObject(t, "1")
	if err := os.Rename(object, object+".away"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Rename(object+".away", object); err != nil {
			t.Error(err)
		}
	}()
	want := "partition 1 from offset 0 on: object " + strings.TrimPrefix(object, s.folder+"/") + " is gone"
	for _, read := range []func(*testing.T, string) outcome{s.fromBucket, s.withoutBroker} {
		got := read(t, "history -f %p:%o,")
		if got.status != exitFailed || !strings.Contains(got.err, want) ||
			!strings.HasSuffix(got.err, "what is left: -p 1 -o 0:24\n") || !strings.HasSuffix(got.out, "0:22,") {
			t.Errorf("status %d, error %q, printed %q", got.status, got.err, got.out)
		}
	}
	got := s.fromBucket(t, "history -f %p:%o, --resume "+filepath.Join(t.TempDir(), "marks.json"))
	if got.status != exitFailed || !strings.HasSuffix(got.err, "the same command goes on there\n") {
		t.Errorf("status %d, error %q", got.status, got.err)
	}
}

// replaced is a source without a broker whose snapshot names a segment that is gone, the first of partition 1 if index
// is 0. Its bucket has another one in that place, as after compaction, which newer snapshots name.
func (s bucketShell) replaced(t *testing.T, index int) *bucketSource {
	t.Helper()
	bucket, err := openStore(t.Context(), s.store())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bucket.Close(); err != nil {
			t.Error(err)
		}
	})
	source := &bucketSource{bucket: bucket}
	source.renew = func(ctx context.Context) (*bulk.Snapshot, error) {
		return bulk.FromBucket(ctx, bucket, [16]byte{}, "history")
	}
	if source.snapshot, err = source.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	items := source.snapshot.Partitions[1].Items
	entry := items[index].(command.SegmentEntry)
	entry.UploadID[0] ^= 0xff
	items[index] = entry
	return source
}

// loaded is what a load has printed and said, and where its bookmark is.
type loaded struct {
	out, notes bytes.Buffer
	next       map[int32]int64
	err        error
}

func load(t *testing.T, source *bucketSource) *loaded {
	t.Helper()
	request := consumeRequest{format: formatJSON, delimiter: `\n`}
	output, err := request.output(false, false)
	if err != nil {
		t.Fatal(err)
	}
	spans := map[int32]span{0: {end: historyEnd}, 1: {end: historyEnd}}
	reading := newReading(topicSpans{"history": spans}, 0)
	reading.output = output
	marks := &bookmark{file: filepath.Join(t.TempDir(), "marks.json")}
	if err := marks.begin(source.snapshot, spans); err != nil {
		t.Fatal(err)
	}
	var result loaded
	load := newBucketLoad(source, reading, marks, &result.out)
	load.notes = &result.notes
	result.err = load.run(t.Context())
	result.next = marks.Next
	return &result
}

// testBucketRenewed: where compaction has put another object in the place of the one that is gone, a newer snapshot
// names it.
func testBucketRenewed(t *testing.T, s bucketShell) {
	want := s.fromBucket(t, "history -f json").out
	for index := range 3 {
		got := load(t, s.replaced(t, index))
		if got.err != nil || got.out.String() != want || got.notes.Len() > 0 {
			t.Errorf("%v, said %q, printed\n%s\nwant\n%s", got.err, &got.notes, &got.out, want)
		}
		if got.next[0] != historyEnd || got.next[1] != historyEnd {
			t.Errorf("the next offsets are %v", got.next)
		}
	}
	source := s.replaced(t, 1)
	renew := source.renew
	source.renew = func(ctx context.Context) (*bulk.Snapshot, error) {
		newer, err := renew(ctx)
		newer.TopicID[0] ^= 0xff
		return newer, err
	}
	got := load(t, source)
	if got.err == nil || !strings.Contains(got.err.Error(), "topic history was deleted, and made anew") || got.next[1] != 8 {
		t.Errorf("%v, the next offsets are %v", got.err, got.next)
	}
}

// testBucketSkipped is the last one: it deletes records.
func testBucketSkipped(t *testing.T, s bucketShell) {
	old, file := s.replaced(t, 0), filepath.Join(t.TempDir(), "marks.json")
	if got := s.fromBucket(t, "history -n 2 --resume "+file); got.status != 0 {
		t.Fatalf("status %d, error %q", got.status, got.err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	offsets := kadm.Offsets{}
	offsets.AddOffset("history", 0, 10, -1)
	offsets.AddOffset("history", 1, 10, -1)
	if _, err := kadm.NewClient(client).DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	got := s.fromBucket(t, "history -p 0 -f %o, --resume "+file)
	if want := "history partition 0: offsets 2 to 9 are gone, as the log start has passed them\n"; got.status != 0 ||
		!strings.Contains(got.err, want) || got.out != "10,12,13,14,16,17,18,20,21,22," {
		t.Errorf("status %d, error %q, printed %q", got.status, got.err, got.out)
	}
	if got := s.fromBucket(t, "history -p 0 -o 3:13 -f %o,"); got.out != "10,12," || !strings.Contains(got.err, "offset 3 is no longer there") {
		t.Errorf("status %d, error %q, printed %q", got.status, got.err, got.out)
	}

	for deadline := time.Now().Add(20 * time.Second); ; {
		newest, err := old.renew(t.Context())
		if err == nil && newest.Partitions[1].Start == 10 {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no checkpoint knows of the log start: %+v, %v", newest, err)
		}
	}
	skipped := load(t, old)
	if want := "firn: history partition 1: offsets 0 to 9 are gone, as the log start has passed them\n"; skipped.err != nil ||
		skipped.notes.String() != want || strings.Count(skipped.out.String(), `"partition":1`) != 10 ||
		skipped.next[1] != historyEnd {
		t.Errorf("%v, said %q, the next offsets are %v, printed\n%s", skipped.err, &skipped.notes, skipped.next, &skipped.out)
	}
}
