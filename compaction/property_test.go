package compaction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
)

const retentionMs = 1000

// entry is a record of the history, or of the log.
type entry struct {
	offset, timestamp int64
	key, value        string
	tombstone         bool
	headers           string
	producer          int64
}

// history makes a log and remembers what was written.
type history struct {
	t       *rapid.T
	log     *memLog
	entries map[int64]entry
	aborted map[int64]bool  // offsets of records that were aborted
	open    map[int64]int64 // producer id → first offset of its transaction
	pending map[int64][]int64
	next    int64
	now     int64
}

func newHistory(t *rapid.T) *history {
	h := &history{t: t, now: 1_000_000, entries: map[int64]entry{}, aborted: map[int64]bool{},
		open: map[int64]int64{}, pending: map[int64][]int64{}}
	h.log = &memLog{steps: -1, producers: map[int64]storage.LastRecord{}, settings: Settings{
		DeleteRetentionMs: retentionMs,
		SegmentBytes:      rapid.Int64Range(1, 2000).Draw(t, "segment.bytes"), IndexBytes: 1 << 20,
	}}
	h.log.segments = []memSegment{{}}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0, 1, 2, 3:
			h.write(record.NoProducerID)
		case 4, 5, 6:
			h.write(rapid.Int64Range(1, 3).Draw(t, "producer"))
		case 7:
			h.end(rapid.Int64Range(1, 3).Draw(t, "producer"))
		default:
			h.roll()
		}
	}
	h.roll()
	return h
}

func (h *history) active() *memSegment { return &h.log.segments[len(h.log.segments)-1] }

func (h *history) append(b record.Batch) {
	s := h.active()
	s.batches = append(s.batches, b)
	s.Size += int64(len(b))
	h.next = b.NextOffset()
	s.EndOffset = h.next
	h.log.stable = h.next
	for _, first := range h.open {
		h.log.stable = min(h.log.stable, first)
	}
}

func (h *history) write(producer int64) {
	options := record.PlainProducer()
	options.BaseOffset, options.Codec = h.next, record.Codec(rapid.IntRange(0, 4).Draw(h.t, "codec"))
	if producer != record.NoProducerID {
		options.ProducerID, options.ProducerEpoch, options.BaseSequence = producer, 0, 0
		options.Transactional = true
		if _, ok := h.open[producer]; !ok {
			h.open[producer] = h.next
		}
	}
	b := record.NewBuilder(options)
	for range rapid.IntRange(1, 4).Draw(h.t, "records") {
		e := entry{offset: h.next + int64(b.Count()), timestamp: h.now + rapid.Int64Range(-50, 50).Draw(h.t, "time"),
			key: fmt.Sprint("k", rapid.IntRange(0, 5).Draw(h.t, "key")), producer: producer}
		var value []byte
		if e.tombstone = rapid.IntRange(0, 3).Draw(h.t, "tombstone") == 0; !e.tombstone {
			e.value = fmt.Sprint("v", e.offset)
			value = []byte(e.value)
		}
		e.headers = fmt.Sprint("h=", e.offset, ";")
		b.Append(e.timestamp, []byte(e.key), value, record.Header{Key: "h", Value: fmt.Append(nil, e.offset)})
		h.entries[e.offset] = e
		if producer != record.NoProducerID {
			h.pending[producer] = append(h.pending[producer], e.offset)
		}
	}
	batch := b.Build()
	if producer != record.NoProducerID {
		h.log.producers[producer] = storage.LastRecord{LastDataOffset: batch.LastOffset()}
	}
	h.append(batch)
}

func (h *history) end(producer int64) {
	first, ok := h.open[producer]
	if !ok {
		return
	}
	kind := record.ControlType(rapid.IntRange(0, 1).Draw(h.t, "commit"))
	b := record.NewEndMarker(producer, 0, h.now, record.EndMarker{Type: kind})
	b.SetBaseOffset(h.next)
	if kind == record.Abort {
		for _, offset := range h.pending[producer] {
			h.aborted[offset] = true
		}
		h.active().aborted = append(h.active().aborted, storage.AbortedTransaction{
			ProducerID: producer, FirstOffset: first, LastOffset: h.next, LastStableOffset: h.log.stable,
		})
	}
	delete(h.open, producer)
	delete(h.pending, producer)
	h.append(b)
}

func (h *history) roll() {
	if len(h.active().batches) > 0 {
		h.log.segments = append(h.log.segments, memSegment{Segment: Segment{BaseOffset: h.next, EndOffset: h.next}})
	}
}

// content is all that is in the log.
type content struct {
	batches []record.Batch
	entries []entry
	markers map[int64]int64 // offset → producer id
}

func read(t *rapid.T, log *memLog) content {
	c := content{markers: map[int64]int64{}}
	var records record.Iterator
	for _, s := range log.segments {
		for _, data := range s.batches {
			b := record.Batch(data)
			if err := b.VerifyCRC(); err != nil || b.Size() != len(b) {
				t.Fatalf("%s: %v", b, err)
			}
			if b.BaseOffset() < s.BaseOffset || b.NextOffset() > s.EndOffset {
				t.Fatalf("%s is not in its segment [%d, %d)", b, s.BaseOffset, s.EndOffset)
			}
			if n := len(c.batches); n > 0 && b.BaseOffset() < c.batches[n-1].NextOffset() {
				t.Fatalf("%s comes after %s", b, c.batches[n-1])
			}
			c.batches = append(c.batches, b)
			if err := records.Reset(b); err != nil {
				t.Fatal(err)
			}
			for records.Next() {
				if b.IsControl() {
					c.markers[records.Offset()] = b.ProducerID()
					continue
				}
				r := records.Record()
				e := entry{offset: records.Offset(), timestamp: records.Timestamp(), key: string(r.Key),
					value: string(r.Value), tombstone: r.Value == nil, producer: b.ProducerID()}
				for key, value := range r.Headers() {
					e.headers += fmt.Sprintf("%s=%s;", key, value)
				}
				c.entries = append(c.entries, e)
			}
			if records.Err() != nil {
				t.Fatal(records.Err())
			}
		}
	}
	return c
}

// check holds the log against the history.
func (h *history) check() content {
	c := read(h.t, h.log)
	if n := len(c.batches); h.next > 0 && (n == 0 || c.batches[n-1].NextOffset() != h.next) {
		h.t.Fatalf("the last offset %d went, a reader waits for it for ever", h.next-1)
	}
	present := map[int64]bool{}
	for _, e := range c.entries {
		if e != h.entries[e.offset] {
			h.t.Fatalf("%+v was written, %+v is there", h.entries[e.offset], e)
		}
		present[e.offset] = true
		if h.aborted[e.offset] && !h.hidden(e) {
			h.t.Fatalf("aborted record %d can be read", e.offset)
		}
		if !h.aborted[e.offset] && h.hidden(e) {
			h.t.Fatalf("committed record %d cannot be read", e.offset)
		}
	}
	h.checkKeys(present)
	return c
}

// hidden tells whether a reader of committed data leaves a record out.
func (h *history) hidden(e entry) bool {
	for _, s := range h.log.segments {
		for _, a := range s.aborted {
			if a.ProducerID == e.producer && a.FirstOffset <= e.offset && e.offset <= a.LastOffset {
				return true
			}
		}
	}
	return false
}

// checkKeys: whatever offset a reader begins at, it ends with the last value of every key that is written there or
// later.
func (h *history) checkKeys(present map[int64]bool) {
	want, got := map[string]entry{}, map[string]entry{}
	for _, offset := range slices.Backward(slices.Sorted(maps.Keys(h.entries))) {
		e := h.entries[offset]
		if h.aborted[offset] {
			continue
		}
		if _, later := want[e.key]; !later {
			want[e.key] = e
		}
		if _, later := got[e.key]; !later && present[offset] {
			got[e.key] = e
		}
		if last := got[e.key]; last.value != want[e.key].value {
			h.t.Fatalf("from offset %d on, key %s is %q instead of %q", offset, e.key, last.value, want[e.key].value)
		}
	}
}

// checkCleaned holds what is below an offset to be clean.
func (h *history) checkCleaned(c content, cleaned int64) {
	last := map[string]int64{}
	for _, e := range c.entries {
		if e.offset >= cleaned {
			break
		}
		if h.aborted[e.offset] {
			h.t.Fatalf("aborted record %d is still there", e.offset)
		}
		if before, ok := last[e.key]; ok {
			h.t.Fatalf("key %s is at %d and at %d", e.key, before, e.offset)
		}
		last[e.key] = e.offset
	}
}

// pass cleans until all is clean.
func (h *history) pass(work *workspace) {
	for {
		stats, err := clean(h.t.Context(), h.log, work, passOptions{Now: h.now})
		if err != nil {
			h.t.Fatal(err)
		}
		c := h.check()
		h.checkCleaned(c, stats.EndOffset)
		if stats.EndOffset == stats.TargetOffset {
			return
		}
		if stats.EndOffset <= stats.StartOffset {
			h.t.Fatalf("a pass from %d to %d made no progress", stats.StartOffset, stats.TargetOffset)
		}
	}
}

func TestACleanedLogMeansTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.check()
		work := newWorkspace(slotBytes*rapid.Int64Range(1, 30).Draw(t, "slots"), 0.9)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			h.log.steps = rapid.IntRange(0, 60).Draw(t, "crash after")
			if _, err := clean(t.Context(), h.log, work, passOptions{Now: h.now}); err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			h.log.steps = -1
			h.check()
			h.pass(work)
			h.now += rapid.Int64Range(0, 2*retentionMs).Draw(t, "time passes")
			for range rapid.IntRange(0, 5).Draw(t, "more") {
				h.write(record.NoProducerID)
			}
			h.end(rapid.Int64Range(1, 3).Draw(t, "producer"))
			h.roll()
		}
	})
}

// Nothing is left of tombstones and of aborted transactions but what the last offset and live producers need.
func TestCO07TombstonesAndMarkersGoWhenTheyAreDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for producer := range int64(3) {
			h.end(producer + 1)
		}
		h.log.producers = nil
		work := newWorkspace(1<<20, 0.9)
		h.dirty()
		h.pass(work)
		first := h.now
		tombstones := h.tombstones()
		h.now = first + retentionMs - 1
		h.dirty()
		h.pass(work)
		if kept := h.tombstones(); !slices.Equal(kept, tombstones) {
			t.Fatalf("tombstones %v are %v before delete.retention.ms is over", tombstones, kept)
		}
		h.now = first + 4*retentionMs
		for range 2 {
			h.dirty()
			h.pass(work)
		}
		if kept := h.tombstones(); len(kept) > 0 {
			t.Fatalf("tombstones %v are there for ever", kept)
		}
	})
}

// dirty writes a record of a key of its own and seals it, so that there is something to clean.
func (h *history) dirty() {
	h.roll()
	options := record.PlainProducer()
	options.BaseOffset = h.next
	b := record.NewBuilder(options)
	b.Append(h.now, []byte("dirty"), []byte("x"), record.Header{Key: "h", Value: []byte("0")})
	h.entries[h.next] = entry{offset: h.next, timestamp: h.now, key: "dirty", value: "x", headers: "h=0;", producer: -1}
	h.append(b.Build())
	h.roll()
}

func (h *history) tombstones() (offsets []int64) {
	for _, e := range read(h.t, h.log).entries {
		if e.tombstone {
			offsets = append(offsets, e.offset)
		}
	}
	return offsets
}

func TestAPassIsTheSameTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		work := newWorkspace(1<<20, 0.9)
		h.pass(work)
		before := read(t, h.log)
		h.log.cleaned = 0
		h.pass(work)
		after := read(t, h.log)
		if len(after.entries) != len(before.entries) {
			t.Fatalf("%d records became %d", len(before.entries), len(after.entries))
		}
		for i := range after.entries {
			if after.entries[i] != before.entries[i] {
				t.Fatalf("%+v became %+v", before.entries[i], after.entries[i])
			}
		}
	})
}
