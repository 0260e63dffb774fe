package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryStore is a coordinator.Store whose content outlives a crash of its broker.
type memoryStore struct {
	mu      sync.Mutex
	content map[string][]byte
}

func (s *memoryStore) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content[string(key)], nil
}

func (s *memoryStore) Scan(prefix []byte, visit func(key, value []byte) error) error {
	s.mu.Lock()
	content := maps.Clone(s.content)
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(content)) {
		if bytes.HasPrefix([]byte(key), prefix) {
			if err := visit([]byte(key), content[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *memoryStore) Write(changes []coordinator.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, change := range changes {
		if change.Value == nil {
			delete(s.content, string(change.Key))
		} else {
			s.content[string(change.Key)] = bytes.Clone(change.Value)
		}
	}
	return nil
}

// memoryJournal is a journal in memory. Its records are committed at once, unless it is held.
type memoryJournal struct {
	mu            sync.Mutex
	epoch         kafka.LeaderEpoch
	batches       []record.Batch
	end           int64
	highWatermark int64
	held          bool
	fails         error // of appends
	advanced      func()
}

func (j *memoryJournal) Append(_ *coordinator.Producer, records []coordinator.Record) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fails != nil {
		return 0, j.fails
	}
	options := record.PlainProducer()
	options.BaseOffset, options.LeaderEpoch = j.end, j.epoch
	builder := record.NewBuilder(options)
	for _, r := range records {
		builder.Append(time.Now().UnixMilli(), r.Key, r.Value)
	}
	j.batches = append(j.batches, builder.Build())
	j.end += int64(len(records))
	if !j.held {
		j.highWatermark = j.end
		j.advanced()
	}
	return j.end, nil
}

func (j *memoryJournal) Read(_ context.Context, offset int64, _ int) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var read []byte
	for _, batch := range j.batches {
		if batch.LastOffset() >= offset && batch.LastOffset() < j.highWatermark {
			read = append(read, batch...)
		}
	}
	return read, nil
}

func (j *memoryJournal) Bounds() coordinator.Bounds {
	j.mu.Lock()
	defer j.mu.Unlock()
	return coordinator.Bounds{HighWatermark: j.highWatermark, End: j.end}
}

func (j *memoryJournal) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, int64) {
	return epoch, j.Bounds().End
}

// hold keeps what is appended from now on from being committed.
func (j *memoryJournal) hold() { j.set(func() { j.held = true }) }

func (j *memoryJournal) failWith(err error) { j.set(func() { j.fails = err }) }

func (j *memoryJournal) set(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
}

// powerCut takes what is not committed.
func (j *memoryJournal) powerCut() {
	j.set(func() {
		j.batches = slices.DeleteFunc(j.batches, func(b record.Batch) bool { return b.LastOffset() >= j.highWatermark })
		j.end, j.held = j.highWatermark, false
	})
}

// fakeMarkers take markers down, or fail.
type fakeMarkers struct {
	mu      sync.Mutex
	written []Marker
	fail    func(Marker) error
}

func (m *fakeMarkers) Write(_ context.Context, markers []Marker) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := make([]error, len(markers))
	for i, marker := range markers {
		if m.fail != nil {
			errs[i] = m.fail(marker)
		}
		if errs[i] == nil {
			m.written = append(m.written, marker)
		}
	}
	return errs
}

func (m *fakeMarkers) failing(fail func(Marker) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

// take returns what was written since the last time, as text.
func (m *fakeMarkers) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lines []string
	for _, w := range m.written {
		lines = append(lines, fmt.Sprintf("%s %d/%d to %s, coordinator epoch %d, version %d",
			w.Type, w.Producer.ID, w.Producer.Epoch, w.Partition, w.CoordinatorEpoch, w.Version))
	}
	m.written = nil
	return lines
}

// broker is a coordinator with one journal, which starts and crashes.
type broker struct {
	*Coordinator
	t       *testing.T
	store   *memoryStore
	journal *memoryJournal
	markers *fakeMarkers
	ids     *ProducerIDs
	config  Config
	crash   func()
}

// inBubble plays with a broker in fake time.
func inBubble(t *testing.T, play func(t *testing.T, b *broker)) {
	synctest.Test(t, func(t *testing.T) {
		next := int64(0)
		b := &broker{
			t: t, store: &memoryStore{content: map[string][]byte{}}, journal: &memoryJournal{}, markers: &fakeMarkers{},
			ids: NewProducerIDs(func(context.Context) (int64, int64, error) { next += 10; return next, next + 10, nil }),
			config: Config{
				MaxTimeout: 15 * time.Minute, AbortInterval: 10 * time.Second,
				Expiration: 7 * 24 * time.Hour, RemoveInterval: time.Hour,
			},
		}
		b.start()
		play(t, b)
		b.crash()
	})
}

// start has the coordinator lead its journal in a new epoch.
func (b *broker) start() {
	b.Coordinator = New(Options{
		Store: b.store, Logger: slog.New(slog.DiscardHandler), ProducerIDs: b.ids, Markers: b.markers, Config: b.config,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	b.crash = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.t.Errorf("the coordinator ended with %v", err)
		}
	}
	runtime := b.Runtime()
	b.journal.advanced = func() { runtime.Advanced(0) }
	b.journal.epoch++
	runtime.SetTopic(kafka.TopicID{1}, 1)
	runtime.Lead(0, b.journal.epoch, b.journal)
	synctest.Wait()
}

func (b *broker) restart() {
	b.crash()
	b.start()
}

// begin begins a producer that must be welcome.
func (b *broker) begin(id string) Producer {
	b.t.Helper()
	producer, err := b.InitProducerID(b.t.Context(), id, 1000, NoProducer)
	if err != nil {
		b.t.Fatalf("begin a producer of %q: %v", id, err)
	}
	return producer
}

// join lets partition t-0 join.
func (b *broker) join(id string, producer Producer) error {
	return await(b.t.Context(), b.Add(id, producer, partitions(b.t, []string{"t-0"}), versionEpochBump)).Err
}

func (b *broker) commit(id string, producer Producer) Outcome {
	return await(b.t.Context(), b.End(id, producer, true, versionEpochBump))
}

func (b *broker) abort(id string, producer Producer) Outcome {
	return await(b.t.Context(), b.End(id, producer, false, versionEpochBump))
}

func (b *broker) wantState(id, want string) {
	b.t.Helper()
	got, err := b.Describe(b.t.Context(), id)
	text := fmt.Sprintf("%s %d/%d", got.State, got.Producer.ID, got.Epoch)
	if err != nil {
		text = kafka.CodeOf(err).Name()
	}
	if text != want {
		b.t.Errorf("%q is %s, want %s", id, text, want)
	}
}

func wantError(t *testing.T, err error, want kafka.Errno) {
	t.Helper()
	if got := kafka.CodeOf(err); got != want {
		t.Errorf("got %s (%v), want %s", got.Name(), err, want.Name())
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("markers\n%q\nwant\n%q", got, want)
	}
}
