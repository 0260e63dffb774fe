package storage

import (
	"testing"

	"github.com/firnlog/firn/internal/kafka"
)

// counted is a resource that counts how often it is open.
type counted struct {
	open_  *int
	opened *int
}

func (c counted) open() (counted, error) {
	*c.open_++
	*c.opened++
	return c, nil
}

func (c counted) Close() error {
	*c.open_--
	return nil
}

func TestOpenCacheClosesTheLeastRecentlyUsedAndNothingInUse(t *testing.T) {
	cache := newOpenCache[counted](2)
	var open, opened int
	from := counted{open_: &open, opened: &opened}
	var a, b, c resource[counted]
	use := func(r *resource[counted]) {
		t.Helper()
		if _, err := cache.acquire(r, from); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(wantOpen, wantOpened int) {
		t.Helper()
		if open != wantOpen || opened != wantOpened || cache.open != wantOpen {
			t.Fatalf("%d open (%d in the cache) after %d opens; wanted %d after %d",
				open, cache.open, opened, wantOpen, wantOpened)
		}
	}
	use(&a)
	use(&b)
	use(&c)
	expect(3, 3) // all in use
	cache.release(&b)
	expect(2, 3) // one too many was open
	cache.release(&a)
	use(&a)
	expect(2, 3) // still open
	use(&b)
	cache.release(&a)
	expect(2, 4)
	cache.remove(&b)
	expect(2, 4) // in use
	if _, err := cache.acquire(&b, from); err != errSegmentRemoved {
		t.Fatal(err)
	}
	cache.release(&b)
	expect(1, 4)
	cache.release(&c)
	cache.remove(&c)
	expect(0, 4)
}

func TestFilesStayReadableWhileARegionHoldsThem(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, Config{SegmentBytes: 300}, func(o *ManagerOptions) { o.MaxOpenFiles = 1 })
	for range 12 {
		appendBatch(t, l, batchOf(2, 1000), 0, 1)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(l.EndOffset())
	held, err := l.Read(ReadRequest{Offset: 0, AtLeastOne: true, UpTo: l.EndOffset()})
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, l, 0)
	if err := l.MoveLogStart(l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	if removed, err := l.MoveLocalStart(l.EndOffset(), "test"); err != nil || removed != 5 {
		t.Fatal(removed, err)
	}
	if data := regionBytes(t, held.Region); len(data) == 0 {
		t.Fatal("nothing")
	}
	if l.env.files.open != 1 {
		t.Fatalf("%d files are open, which should be the one a reader holds", l.env.files.open)
	}
	held.Region.Release()
	appendBatch(t, l, batchOf(2, 1000), 0, 1)
	if l.env.files.open != 1 {
		t.Fatalf("%d files are open, which should be the active one", l.env.files.open)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if l.env.files.open != 0 {
		t.Fatalf("%d files are open after Close", l.env.files.open)
	}
}

func TestQuietLogsNeedNoDescriptors(t *testing.T) {
	d := newDisk()
	config := Config{}
	change := func(o *ManagerOptions) { o.MaxOpenFiles = 3 }
	m, _ := d.open(t, config, change)
	var logs []*Log
	for i := range int32(20) {
		l, err := m.Create(kafka.TopicPartition{Topic: "many", Partition: i}, testID, config, kafka.UUID{})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	if m.env.files.open > 3 {
		t.Errorf("%d files are open although nothing was appended", m.env.files.open)
	}
	for range 2 {
		for _, l := range logs {
			appendBatch(t, l, batchOf(1, 1), 0, 1)
		}
		if m.env.files.open != len(logs) {
			t.Errorf("%d files are open while %d logs have something unflushed", m.env.files.open, len(logs))
		}
		for _, l := range logs {
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if m.env.files.open > 3 {
			t.Errorf("%d files are open when everything is flushed", m.env.files.open)
		}
	}
	for _, l := range logs {
		if got := len(readAll(t, l, 0)); got != 2*len(batchOf(1, 1)) {
			t.Errorf("%d bytes in %s", got, l.TopicPartition())
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
