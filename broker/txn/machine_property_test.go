package txn

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
)

// TestMachineKeepsItsPromises plays random events, of clients of both protocols that send what they were once told, in
// any order and again.
func TestMachineKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{T: t, t: unknown(), unused: 100, epochs: map[int64]int16{}}
		if rapid.Bool().Draw(t, "nearly exhausted") {
			m.t.Producer = Producer{ID: 99, Epoch: lastEpoch - 3}
			m.told(m.t.Producer)
		}
		t.Repeat(map[string]func(*rapid.T){
			"init":    func(t *rapid.T) { m.T = t; m.initialize() },
			"add":     func(t *rapid.T) { m.T = t; m.add() },
			"end":     func(t *rapid.T) { m.T = t; m.end() },
			"fence":   func(t *rapid.T) { m.T = t; m.fence() },
			"markers": func(t *rapid.T) { m.T = t; m.markers() },
			"restart": func(t *rapid.T) { m.T = t; m.restart() },
		})
	})
}

type model struct {
	*rapid.T
	t       Transaction
	unused  int64
	clients []Producer      // all that anybody was ever told
	epochs  map[int64]int16 // the highest epoch that clients were told, by producer id
	fenced  []Producer      // those whose successor has begun
	now     int64
}

func (m *model) told(p Producer) {
	m.clients = append(m.clients, p)
	m.epochs[p.ID] = max(m.epochs[p.ID], p.Epoch)
}

func (m *model) client() Producer {
	if len(m.clients) == 0 {
		return NoProducer
	}
	return rapid.SampledFrom(m.clients).Draw(m.T, "client")
}

func (m *model) id() int64 {
	m.unused++
	return m.unused
}

func (m *model) version() int16 {
	return rapid.SampledFrom([]int16{versionClassic, versionEpochBump}).Draw(m.T, "version")
}

// decide checks what holds of every decision and takes it over.
func (m *model) decide(d Decision) {
	before := m.t
	if d.Write {
		m.t = d.Next
		m.check(before, d.Next)
	}
	if d.Answer != NoProducer {
		m.told(d.Answer)
	}
}

func (m *model) check(before, next Transaction) {
	if next.ID == before.ID && next.Epoch < before.Epoch {
		m.Fatalf("the epoch goes back: %s, then %s", before.describe(), next.describe())
	}
	if next.ID != before.ID && next.ID != before.NextID && next.ID != m.unused {
		m.Fatalf("an id that may be another's: %s, then %s", before.describe(), next.describe())
	}
	if next.State.prepared() && next.Version == versionEpochBump && next.Epoch <= m.epochs[next.ID] {
		m.Fatalf("the markers have epoch %d, and a client has %d", next.Epoch, m.epochs[next.ID])
	}
	if next.State.prepared() && next.Epoch < m.epochs[next.ID] {
		m.Fatalf("the markers have epoch %d, and a client has %d", next.Epoch, m.epochs[next.ID])
	}
	if next.State.idle() && len(next.Partitions) != 0 {
		m.Fatalf("partitions without a transaction: %s", next.describe())
	}
}

func (m *model) initialize() {
	m.now++
	event := Initialize{TimeoutMs: 1, Owner: NoProducer, UnusedID: m.id(), NowMs: m.now}
	if rapid.Bool().Draw(m.T, "owned") {
		event.Owner = m.client()
	}
	before := slices.Clone(m.clients)
	d := m.t.Initialize(event)
	m.decide(d)
	if d.Err == nil && event.Owner == NoProducer {
		m.fenced = before
	}
}

func (m *model) add() {
	m.now++
	event := Add{Producer: m.client(), Version: m.version(), NowMs: m.now, Partitions: []kafka.TopicPartition{
		{Topic: rapid.SampledFrom([]string{"a", "b"}).Draw(m.T, "topic"), Partition: rapid.Int32Range(0, 3).Draw(m.T, "partition")},
	}}
	held := slices.Clone(m.t.Partitions)
	before := m.t
	d := m.t.Add(event)
	if !slices.Equal(before.Partitions, held) {
		m.Fatalf("the partitions of a transaction that somebody may hold have changed")
	}
	if d.Err == nil && slices.Contains(m.fenced, event.Producer) {
		m.Fatalf("%v is fenced and may add partitions", event.Producer)
	}
	m.decide(d)
	if d.Err == nil && m.t.Verify(event.Producer, event.Partitions[0]) != nil {
		m.Fatalf("a partition was added and has not joined")
	}
}

func (m *model) end() {
	m.now++
	event := End{
		Producer: m.client(), Commit: rapid.Bool().Draw(m.T, "commit"), Version: m.version(), UnusedID: m.id(), NowMs: m.now,
	}
	state := m.t.State
	d := m.t.End(event)
	if d.Err == nil && event.Commit && state != Ongoing && state != CompleteCommit {
		m.Fatalf("a commit is acknowledged in %s", state)
	}
	if d.Err == nil && slices.Contains(m.fenced, event.Producer) && d.Write {
		m.Fatalf("%v is fenced and may end a transaction", event.Producer)
	}
	m.decide(d)
}

func (m *model) fence() {
	m.now++
	if m.t.State == Ongoing {
		d := m.t.Fence(m.id(), m.now)
		if d.Err != nil {
			m.Fatalf("a fence is refused: %v", d.Err)
		}
		d.Answer = NoProducer
		m.decide(d)
	}
}

func (m *model) markers() {
	m.now++
	if m.t.State.prepared() {
		m.decide(Decision{Next: m.t.completed(m.now), Write: true, Answer: NoProducer})
	}
}

func (m *model) restart() {
	if m.t.ID == NoProducer.ID {
		return
	}
	read, err := decodeValue(encodeValue(m.t))
	if err != nil {
		m.Fatal(err)
	}
	want := m.t
	want.LastEpoch = -1
	if len(want.Partitions) == 0 {
		want.Partitions = nil
	}
	if !reflect.DeepEqual(read, want) {
		m.Fatalf("read back %+v, want %+v", read, want)
	}
	m.t = read
}
