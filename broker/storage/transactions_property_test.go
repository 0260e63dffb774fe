package storage

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// transactionLog is a Log beside what its batches say about transactions.
type transactionLog struct {
	config  Config
	mem     *vfs.Mem
	store   *memoryStore
	manager *Manager
	log     *Log
	batches []record.Batch
	flushed int // batches
}

func (m *transactionLog) open(t *rapid.T) {
	d := &disk{fs: m.mem, store: m.store}
	m.manager, m.log = d.open(t, m.config, func(o *ManagerOptions) { o.Policy = FlushOS })
	kept := 0
	for kept < len(m.batches) && m.batches[kept].NextOffset() <= m.log.EndOffset() {
		kept++
	}
	if kept < m.flushed {
		t.Fatalf("of %d flushed batches %d are left", m.flushed, kept)
	}
	m.batches, m.flushed = m.batches[:kept], kept
}

func (m *transactionLog) note(t *rapid.T, batch record.Batch, info AppendInfo, err error) {
	if err != nil {
		t.Fatal(err)
	}
	m.batches = append(m.batches, slices.Clone(batch))
	if got := m.batches[len(m.batches)-1].BaseOffset(); got != info.BaseOffset {
		t.Fatalf("a batch at %d instead of %d", info.BaseOffset, got)
	}
}

func (m *transactionLog) data(t *rapid.T) {
	id := rapid.Int64Range(1, 4).Draw(t, "producer")
	sequence := int32(0)
	for _, batch := range m.batches {
		if batch.ProducerID() == id && !batch.IsControl() {
			sequence = batch.LastSequence() + 1
		}
	}
	batch := inTransaction(produced(id, 0, sequence, rapid.IntRange(1, 3).Draw(t, "records")))
	info, err := tryAppendWith(m.log, batch, AppendOptions{
		Guard: m.log.BeginVerification(startOf(batch, false)), AppendedAt: time.Now().UnixMilli(),
	})
	m.note(t, batch, info, err)
}

func (m *transactionLog) plain(t *rapid.T) {
	batch := batchOf(1, 1000)
	info, err := tryAppendWith(m.log, batch, AppendOptions{AppendedAt: time.Now().UnixMilli()})
	m.note(t, batch, info, err)
}

func (m *transactionLog) end(t *rapid.T) {
	kind := rapid.SampledFrom([]record.ControlType{record.Abort, record.Commit}).Draw(t, "type")
	id := rapid.Int64Range(1, 4).Draw(t, "producer")
	batch := record.NewEndMarker(id, 0, 1000, record.EndMarker{Type: kind})
	info, err := appendMarker(m.log, batch, AppendOptions{AppendedAt: time.Now().UnixMilli()})
	m.note(t, batch, info, err)
}

func (m *transactionLog) flush(t *rapid.T) {
	if err := m.log.Flush(); err != nil {
		t.Fatal(err)
	}
	m.flushed = len(m.batches)
}

func (m *transactionLog) roll(t *rapid.T) {
	if err := m.log.Roll(); err != nil {
		t.Fatal(err)
	}
}

func (m *transactionLog) truncate(t *rapid.T) {
	at := rapid.IntRange(0, len(m.batches)).Draw(t, "batches left")
	if at == len(m.batches) {
		return
	}
	if err := m.log.Truncate(m.batches[at].BaseOffset()); err != nil {
		t.Fatal(err)
	}
	m.batches, m.flushed = m.batches[:at], at
}

func (m *transactionLog) restart(t *rapid.T) {
	if err := m.manager.Close(); err != nil {
		t.Fatal(err)
	}
	m.flushed = len(m.batches)
	m.open(t)
}

func (m *transactionLog) powerCut(t *rapid.T) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	cut, store := m.mem.CrashClone(rng), m.store.crashClone(rng)
	_ = m.manager.Close() // the machine of before the cut
	m.mem, m.store = cut, store
	m.open(t)
}

// loseIndex removes the transaction index of a segment, which has to be made again.
func (m *transactionLog) loseIndex(t *rapid.T) {
	segments := m.log.Segments()
	lost := segments[rapid.IntRange(0, len(segments)-1).Draw(t, "segment")]
	if err := m.manager.Close(); err != nil {
		t.Fatal(err)
	}
	m.flushed = len(m.batches)
	_ = m.mem.Remove(segmentPath(scenarioFolder, lost.BaseOffset, txnIndexSuffix)) // or there is none
	m.open(t)
}

// check compares with what the batches say.
func (m *transactionLog) check(t *rapid.T) {
	var want []AbortedTransaction
	open := map[int64]int64{}
	for _, batch := range m.batches {
		first, isOpen := open[batch.ProducerID()]
		switch {
		case !batch.IsTransactional():
		case !batch.IsControl() && !isOpen:
			open[batch.ProducerID()] = batch.BaseOffset()
		case batch.IsControl() && isOpen:
			delete(open, batch.ProducerID())
			stable := batch.NextOffset()
			for _, other := range open {
				stable = min(stable, other)
			}
			if kind, _ := batch.ControlType(); kind == record.Abort {
				want = append(want, AbortedTransaction{batch.ProducerID(), first, batch.BaseOffset(), stable})
			}
		}
	}
	stable := m.log.EndOffset()
	for _, first := range open {
		stable = min(stable, first)
	}
	m.log.SetHighWatermark(m.log.EndOffset())
	if got := m.log.LastStableOffset(); got != stable {
		t.Fatalf("last stable offset %d instead of %d", got, stable)
	}
	from := rapid.Int64Range(0, stable).Draw(t, "from")
	to := rapid.Int64Range(from, stable).Draw(t, "to")
	want = slices.DeleteFunc(want, func(a AbortedTransaction) bool { return a.LastOffset < from || a.FirstOffset >= to })
	slices.SortFunc(want, func(a, b AbortedTransaction) int { return int(a.FirstOffset - b.FirstOffset) })
	got, err := m.log.AbortedTransactions(from, to)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("aborted in [%d, %d) are %v instead of %v", from, to, got, want)
	}
}

func TestAbortedTransactionsAreThoseOfTheMarkers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &transactionLog{
			mem: vfs.NewMem(), store: newMemoryStore(),
			config: Config{SegmentBytes: rapid.Int64Range(300, 900).Draw(t, "segment"), IndexIntervalBytes: 100},
		}
		m.open(t)
		t.Repeat(map[string]func(*rapid.T){
			"data": m.data, "more data": m.data, "marker": m.end, "another marker": m.end, "plain": m.plain,
			"flush": m.flush, "roll": m.roll, "truncate": m.truncate, "restart": m.restart, "power cut": m.powerCut,
			"index lost": m.loseIndex, "": m.check,
		})
		if err := m.manager.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
