package coordinator

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryJournal is a journal in memory. What is appended is committed at once unless held is set.
type memoryJournal struct {
	mu     sync.Mutex
	log    *memoryLog
	epoch  kafka.LeaderEpoch
	refuse error // of every append
	broken error // of every read
}

// memoryLog outlives the journals that lead it.
type memoryLog struct {
	batches       []record.Batch
	start         int64
	end           int64
	highWatermark int64
	held          bool
	epochs        []epochStart
}

type epochStart struct {
	epoch kafka.LeaderEpoch
	start int64
}

func (l *memoryLog) lead(epoch kafka.LeaderEpoch) *memoryJournal {
	return &memoryJournal{log: l, epoch: epoch}
}

func (l *memoryLog) append(epoch kafka.LeaderEpoch, batch record.Batch) int64 {
	batch.SetBaseOffset(l.end)
	batch.SetLeaderEpoch(epoch)
	if len(l.epochs) == 0 || l.epochs[len(l.epochs)-1].epoch < epoch {
		l.epochs = append(l.epochs, epochStart{epoch, l.end})
	}
	l.batches = append(l.batches, batch)
	l.end = batch.NextOffset()
	if !l.held {
		l.highWatermark = l.end
	}
	return l.end
}

// cut loses what is at or above an offset, as a power cut may.
func (l *memoryLog) cut(offset int64) {
	l.batches = slices.DeleteFunc(l.batches, func(b record.Batch) bool { return b.NextOffset() > offset })
	l.end = l.start
	if last := len(l.batches); last > 0 {
		l.end = l.batches[last-1].NextOffset()
	}
	l.highWatermark = min(l.highWatermark, l.end)
	l.epochs = slices.DeleteFunc(l.epochs, func(e epochStart) bool { return e.start >= l.end })
}

func (j *memoryJournal) Append(producer *Producer, records []Record) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refuse != nil {
		return 0, j.refuse
	}
	return j.log.append(j.epoch, batchOf(producer, records...)), nil
}

func batchOf(producer *Producer, records ...Record) record.Batch {
	options := record.PlainProducer()
	if producer != nil {
		options.Transactional, options.ProducerID, options.ProducerEpoch = true, producer.ID, producer.Epoch
	}
	builder := record.NewBuilder(options)
	for _, r := range records {
		builder.Append(1, r.Key, r.Value)
	}
	return builder.Build()
}

func markerOf(producer int64, end record.ControlType) record.Batch {
	options := record.PlainProducer()
	options.Transactional, options.Control, options.ProducerID = true, true, producer
	builder := record.NewBuilder(options)
	builder.AppendEndMarker(1, record.EndMarker{Type: end})
	return builder.Build()
}

func (j *memoryJournal) Read(_ context.Context, offset int64, maxBytes int) (data []byte, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, batch := range j.log.batches {
		if batch.NextOffset() <= offset || batch.NextOffset() > j.log.highWatermark {
			continue
		}
		if len(data) > 0 && len(data)+len(batch) > maxBytes {
			break
		}
		data = append(data, batch...)
	}
	return data, j.broken
}

func (j *memoryJournal) Bounds() Bounds {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Bounds{Start: j.log.start, HighWatermark: j.log.highWatermark, End: j.log.end}
}

func (j *memoryJournal) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	known, end := kafka.NoLeaderEpoch, int64(-1)
	for i, e := range j.log.epochs {
		if e.epoch > epoch {
			break
		}
		known, end = e.epoch, j.log.end
		if i+1 < len(j.log.epochs) {
			end = j.log.epochs[i+1].start
		}
	}
	return known, end
}

func (j *memoryJournal) breakReads(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = err
}

// release commits what was held back, and says so.
func (j *memoryJournal) release(r *Runtime, partition int32) {
	j.mu.Lock()
	j.log.highWatermark = j.log.end
	j.mu.Unlock()
	r.Advanced(partition)
}

// memoryStore is a state database in memory that remembers every state it has been in.
type memoryStore struct {
	mu      sync.Mutex
	keys    map[string]string
	history []map[string]string
	fail    error
}

func newMemoryStore() *memoryStore {
	return &memoryStore{keys: map[string]string{}, history: []map[string]string{{}}}
}

func (s *memoryStore) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.keys[string(key)]
	if !ok {
		return nil, nil
	}
	return []byte(value), nil
}

func (s *memoryStore) Scan(prefix []byte, visit func(key, value []byte) error) error {
	s.mu.Lock()
	keys := maps.Clone(s.keys)
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if strings.HasPrefix(key, string(prefix)) {
			if err := visit([]byte(key), []byte(keys[key])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *memoryStore) Write(changes []Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	for _, change := range changes {
		if change.Value == nil {
			delete(s.keys, string(change.Key))
		} else {
			s.keys[string(change.Key)] = string(change.Value)
		}
	}
	s.history = append(s.history, maps.Clone(s.keys))
	return nil
}

// crash goes back to an earlier state: what was not synced is lost, but never a part of it.
func (s *memoryStore) crash(to int) {
	s.keys = maps.Clone(s.history[to])
	s.history = s.history[:to+1]
}

// content is what a shard's view says, "key=value", in order.
func content(t testing.TB, s *Shard) (all []string) {
	t.Helper()
	err := s.Scan(nil, func(key []byte, entry Entry) error {
		all = append(all, string(key)+"="+string(entry.Value))
		got, exists, err := s.Get(key)
		if err != nil || !exists || got.Offset != entry.Offset || string(got.Value) != string(entry.Value) {
			t.Errorf("Get(%s) is %v, %v, %v, and Scan has %v", key, got, exists, err, entry)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func set(key, value string) Record { return Record{Key: []byte(key), Value: []byte(value)} }
func unset(key string) Record      { return Record{Key: []byte(key)} }

var discard = slog.New(slog.DiscardHandler)
