package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// model is what a journal says, worked out from its beginning, in memory.
type model struct {
	values map[string]Entry
	staged map[int64]map[string]Entry
}

func (m *model) apply(t *rapid.T, batch record.Batch) {
	if batch.IsControl() {
		marker, _, err := batch.EndMarker()
		if err != nil {
			t.Fatal(err)
		}
		for key, entry := range m.staged[batch.ProducerID()] {
			if known, exists := m.values[key]; marker.Type == record.Commit && (!exists || known.Offset < entry.Offset) {
				m.set(key, entry)
			}
		}
		delete(m.staged, batch.ProducerID())
		return
	}
	var it record.Iterator
	if err := it.Reset(batch); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		key, entry := string(it.Record().Key), Entry{Offset: it.Offset(), Value: slices.Clone(it.Record().Value)}
		if batch.IsTransactional() {
			if m.staged[batch.ProducerID()] == nil {
				m.staged[batch.ProducerID()] = map[string]Entry{}
			}
			m.staged[batch.ProducerID()][key] = entry
			continue
		}
		m.set(key, entry)
		if entry.Value == nil {
			for _, keys := range m.staged {
				delete(keys, key)
			}
		}
	}
}

func (m *model) set(key string, entry Entry) {
	if entry.Value == nil {
		delete(m.values, key)
	} else {
		m.values[key] = entry
	}
}

func (m *model) content() []string {
	var all []string
	for key, entry := range m.values {
		all = append(all, key+"="+string(entry.Value))
	}
	slices.Sort(all)
	return all
}

func (m *model) isStaged(key string) bool {
	for _, keys := range m.staged {
		if _, ok := keys[key]; ok {
			return true
		}
	}
	return false
}

var keys = []string{"a", "b", "c"}

// someBatch draws records, those of a transaction, or the end of one.
func someBatch(t *rapid.T, number int) record.Batch {
	producer := &Producer{ID: rapid.Int64Range(1, 3).Draw(t, "producer")}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		end := record.Abort
		if rapid.Bool().Draw(t, "commit") {
			end = record.Commit
		}
		return markerOf(producer.ID, end)
	case 1:
		producer = nil
	}
	records := make([]Record, rapid.IntRange(1, 3).Draw(t, "records"))
	for i := range records {
		records[i] = set(rapid.SampledFrom(keys).Draw(t, "key"), fmt.Sprintf("%d.%d", number, i))
		if rapid.IntRange(0, 4).Draw(t, "tombstone") == 0 {
			records[i].Value = nil
		}
	}
	return batchOf(producer, records...)
}

// TestAViewIsWhatItsJournalSays whatever is written, however it is read, and wherever the database or the log loses
// its end: a shard that opens the view again comes to what one would that reads the journal from its beginning.
func TestAViewIsWhatItsJournalSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, store := &memoryLog{}, newMemoryStore()
		runtime := New(Options{Topic: "t", Store: store, Logger: discard})
		epoch := kafka.LeaderEpoch(0)
		var shard *Shard
		var apply *applier
		lead := func() {
			shard = newShard(runtime, 7, epoch, log.lead(epoch))
			if err := shard.openView(); err != nil {
				t.Fatal(err)
			}
			apply = &applier{view: shard.view}
		}
		lead()
		for number := range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0: // the process ends: the database loses what it had not synced
				store.crash(rapid.IntRange(0, len(store.history)-1).Draw(t, "state"))
				epoch++
				lead()
			case 1: // the log loses more than the database does, and goes on in another epoch
				log.cut(rapid.Int64Range(0, log.end).Draw(t, "cut"))
				epoch++
				lead()
			default:
				log.append(epoch, someBatch(t, number))
			}
			if rapid.Bool().Draw(t, "apply") {
				if err := shard.catchUp(t.Context(), apply); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := shard.catchUp(t.Context(), apply); err != nil {
			t.Fatal(err)
		}
		compare(t, log, shard)
	})
}

func compare(t *rapid.T, log *memoryLog, shard *Shard) {
	want := &model{values: map[string]Entry{}, staged: map[int64]map[string]Entry{}}
	for _, batch := range log.batches {
		want.apply(t, batch)
	}
	var got []string
	err := shard.Scan(nil, func(key []byte, entry Entry) error {
		got = append(got, string(key)+"="+string(entry.Value))
		if known := want.values[string(key)]; known.Offset != entry.Offset {
			t.Errorf("%s is of offset %d, not %d", key, entry.Offset, known.Offset)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want.content()) {
		t.Errorf("the view has %v, and the journal says %v", got, want.content())
	}
	for _, key := range keys {
		if staged := shard.Staged([]byte(key)); staged != want.isStaged(key) {
			t.Errorf("%s is staged: %v", key, staged)
		}
		if staged := len(shard.StagedKeys([]byte(key))) > 0; staged != want.isStaged(key) {
			t.Errorf("something under %s is staged: %v", key, staged)
		}
	}
}

// A view that was dropped half way does not count, whatever is left of it.
func TestAViewThatIsBeingDroppedBeginsAnew(t *testing.T) {
	log, store := &memoryLog{}, newMemoryStore()
	for i := range 5 {
		log.append(1, batchOf(nil, set(fmt.Sprint(i), "old")))
	}
	runtime := New(Options{Topic: "t", Store: store, Logger: discard})
	shard := newShard(runtime, 0, 1, log.lead(1))
	catchUp := func() {
		t.Helper()
		if err := shard.openView(); err != nil {
			t.Fatal(err)
		}
		if err := shard.catchUp(t.Context(), &applier{view: shard.view}); err != nil {
			t.Fatal(err)
		}
	}
	catchUp()
	full := len(store.history)
	if err := shard.view.drop(0); err != nil {
		t.Fatal(err)
	}
	log.cut(0)
	log.append(2, batchOf(nil, set("4", "new")))
	history := slices.Clone(store.history)
	for state := full; state < len(history); state++ {
		store.history = slices.Clone(history)
		store.crash(state)
		shard = newShard(runtime, 0, 2, log.lead(2))
		catchUp()
		if got := content(t, shard); !slices.Equal(got, []string{"4=new"}) {
			t.Errorf("dropped after %d steps: %v", state-full, got)
		}
	}
}

func TestWhatMakesAViewBeginAnew(t *testing.T) {
	for name, c := range map[string]struct {
		change func(log *memoryLog)
		want   []string
	}{
		"nothing":          {func(*memoryLog) {}, []string{"a=1", "b=2"}},
		"more of it":       {func(l *memoryLog) { l.append(1, batchOf(nil, set("c", "3"))) }, []string{"a=1", "b=2", "c=3"}},
		"a shorter log":    {func(l *memoryLog) { l.cut(1) }, []string{"a=1"}},
		"another history":  {func(l *memoryLog) { l.cut(1); l.append(2, batchOf(nil, set("b", "9"))) }, []string{"a=1", "b=9"}},
		"a longer history": {func(l *memoryLog) { l.cut(0); appendMany(l, 2, 5) }, []string{"x=4"}},
		"a later start": {func(l *memoryLog) {
			appendMany(l, 1, 5)
			l.batches, l.start = l.batches[5:], l.batches[5].BaseOffset()
		}, []string{"x=4"}},
		"a start in reach": {func(l *memoryLog) {
			appendMany(l, 1, 1)
			l.batches, l.start = l.batches[2:], 2
		}, []string{"a=1", "b=2", "x=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, store := &memoryLog{}, newMemoryStore()
			log.append(1, batchOf(nil, set("a", "1")))
			log.append(1, batchOf(nil, set("b", "2")))
			runtime := New(Options{Topic: "t", Store: store, Logger: discard})
			for range 2 {
				shard := newShard(runtime, 0, 1, log.lead(1))
				if err := shard.openView(); err != nil {
					t.Fatal(err)
				}
				if err := shard.catchUp(t.Context(), &applier{view: shard.view}); err != nil {
					t.Fatal(err)
				}
				if c.change != nil {
					c.change(log)
					c.change = nil
					continue
				}
				if got := content(t, shard); !slices.Equal(got, c.want) {
					t.Errorf("the view has %v, not %v", got, c.want)
				}
			}
		})
	}
}

func appendMany(log *memoryLog, epoch kafka.LeaderEpoch, count int) {
	for i := range count {
		log.append(epoch, batchOf(nil, set("x", fmt.Sprint(i))))
	}
}

func TestADamagedJournalIsNotApplied(t *testing.T) {
	log := &memoryLog{}
	log.append(1, batchOf(nil, set("a", "1")))
	batch := batchOf(nil, set("b", "2"))
	batch[len(batch)-2]++
	log.append(1, batch)
	shard := newShard(New(Options{Topic: "t", Store: newMemoryStore(), Logger: discard}), 0, 1, log.lead(1))
	err := errors.Join(shard.openView(), shard.catchUp(t.Context(), &applier{view: shard.view}))
	if !errors.Is(err, kafka.CorruptMessage) {
		t.Errorf("damage is %v", err)
	}
}

func TestPartitionOfIsJavas(t *testing.T) {
	for id, want := range map[string]int32{
		"":                   0,
		"a":                  97 % 50,
		"hello":              99162322 % 50,
		"Hello World":        862545276 % 50, // the hash is negative
		"polygenelubricants": 0,              // the smallest int
		"\U0001f600":         1772899 % 50,   // two UTF-16 units
	} {
		if got := PartitionOf(id, 50); got != want {
			t.Errorf("%q falls on %d, not %d", id, got, want)
		}
	}
}
