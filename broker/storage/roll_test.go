package storage

import (
	"testing"

	"github.com/firnlog/firn/internal/kafka"
)

// rollsAt is the record time, after that of the first record, at which a log begins its second segment.
func rollsAt(t *testing.T, m *Manager, tp kafka.TopicPartition, config Config) int64 {
	t.Helper()
	l, err := m.Create(tp, testID, config, kafka.UUID{})
	if err != nil {
		t.Fatal(err)
	}
	const first = 1_000_000
	appendBatch(t, l, batchOf(1, first), 0, 1)
	for after := int64(0); after <= 2*config.SegmentMs; after += 100 {
		appendBatch(t, l, batchOf(1, first+after), 0, 1)
		if len(l.Segments()) > 1 {
			return after
		}
	}
	t.Fatalf("%s never rolls", tp)
	return 0
}

func TestSegmentJitterSpreadsTheRolls(t *testing.T) {
	d := newDisk()
	m, _ := d.open(t, Config{})
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	plain := Config{SegmentMs: 10_000}
	if at := rollsAt(t, m, kafka.TopicPartition{Topic: "plain"}, plain); at != 10_100 {
		t.Errorf("without jitter it rolls after %d ms", at)
	}
	jittered := Config{SegmentMs: 10_000, SegmentJitterMs: 4_000}
	seen := map[int64]bool{}
	for p := range int32(12) {
		at := rollsAt(t, m, kafka.TopicPartition{Topic: "jittered", Partition: p}, jittered)
		if at <= 6_000 || at > 10_100 {
			t.Errorf("with 4 s of jitter partition %d rolls after %d ms", p, at)
		}
		seen[at] = true
	}
	if len(seen) < 6 {
		t.Errorf("12 partitions roll at %d different times", len(seen))
	}
	// The jitter is at most the whole time: a larger setting must not make each batch a segment.
	l, err := m.Create(kafka.TopicPartition{Topic: "much"}, testID,
		Config{SegmentMs: 10_000, SegmentJitterMs: 1 << 60}, kafka.UUID{})
	if err != nil {
		t.Fatal(err)
	}
	for base := range int64(1000) {
		if jitter := l.rollJitter(base); jitter < 0 || jitter >= 10_000 {
			t.Fatalf("a jitter of %d ms", jitter)
		}
	}
}
