package group

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryJournal is a journal in memory. Unless it is held back, what is appended is committed at once.
type memoryJournal struct {
	advanced func()

	mu      sync.Mutex // guards the fields below
	data    []byte
	ends    []int // of the batches in data
	end     int64
	high    int64
	held    bool
	refused error
}

func (j *memoryJournal) Append(producer *coordinator.Producer, list []coordinator.Record) (int64, error) {
	options := record.PlainProducer()
	if producer != nil {
		options.Transactional, options.ProducerID, options.ProducerEpoch = true, producer.ID, producer.Epoch
	}
	builder := record.NewBuilder(options)
	for _, r := range list {
		builder.Append(time.Now().UnixMilli(), r.Key, r.Value)
	}
	return j.append(builder.Build())
}

func (j *memoryJournal) append(batch record.Batch) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refused != nil {
		return 0, j.refused
	}
	batch.SetBaseOffset(j.end)
	batch.SetLeaderEpoch(1)
	j.data = append(j.data, batch...)
	j.ends = append(j.ends, len(j.data))
	j.end = batch.NextOffset()
	if !j.held {
		j.high = j.end
		j.advanced()
	}
	return j.end, nil
}

// hold keeps what is appended from now on above the high watermark; release lets it pass.
func (j *memoryJournal) hold() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = true
}

func (j *memoryJournal) release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held, j.high = false, j.end
	j.advanced()
}

func (j *memoryJournal) Read(_ context.Context, offset int64, _ int) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []byte
	for rest := j.data; len(rest) > 0; {
		batch, after, err := record.Next(rest)
		if err != nil {
			return nil, err
		}
		if batch.LastOffset() >= offset && batch.NextOffset() <= j.high {
			found = append(found, batch...)
		}
		rest = after
	}
	return found, nil
}

func (j *memoryJournal) Bounds() coordinator.Bounds {
	j.mu.Lock()
	defer j.mu.Unlock()
	return coordinator.Bounds{HighWatermark: j.high, End: j.end}
}

func (j *memoryJournal) EpochEnd(kafka.LeaderEpoch) (kafka.LeaderEpoch, int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return 1, j.end
}

// memoryStore is a coordinator.Store in memory.
type memoryStore struct {
	mu    sync.Mutex // guards the fields below
	data  map[string][]byte
	reads int
}

func (s *memoryStore) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.data[string(key)], nil
}

func (s *memoryStore) Scan(prefix []byte, visit func(key, value []byte) error) error {
	s.mu.Lock()
	s.reads++
	data := maps.Clone(s.data)
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !strings.HasPrefix(key, string(prefix)) {
			continue
		}
		if err := visit([]byte(key), data[key]); err != nil {
			return err
		}
	}
	return nil
}

func (s *memoryStore) Write(changes []coordinator.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, change := range changes {
		if change.Value == nil {
			delete(s.data, string(change.Key))
		} else {
			s.data[string(change.Key)] = slices.Clone(change.Value)
		}
	}
	return nil
}

// memoryTopics are the topics that there are.
type memoryTopics map[string]kafka.TopicID

func (t *memoryTopics) Named(name string) (consumer.Topic, bool) {
	id, ok := (*t)[name]
	return consumer.Topic{ID: id, Name: name, Partitions: 3}, ok
}

func (t *memoryTopics) WithID(id kafka.TopicID) (consumer.Topic, bool) {
	for name, one := range *t {
		if one == id {
			return t.Named(name)
		}
	}
	return consumer.Topic{}, false
}

func (t *memoryTopics) Names() iter.Seq[string] { return maps.Keys(*t) }

var (
	topicA  = kafka.TopicID{0xa}
	topicB  = kafka.TopicID{0xb}
	topicA2 = kafka.TopicID{0xa2} // another one with the name of A
)

const (
	commitTimeout = 5 * time.Second
	retention     = 24 * time.Hour
	checkInterval = 10 * time.Minute
)

// bench is a coordinator of one journal, in a bubble. What is on disk outlives a restart.
type bench struct {
	t           *testing.T
	coordinator *Coordinator
	journal     *memoryJournal
	store       *memoryStore
	topics      memoryTopics
	stop        func()
	epoch       kafka.LeaderEpoch
	intervals   consumer.Intervals
	log         io.Writer // nil for none
}

func (b *bench) logger() *slog.Logger {
	if b.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(b.log, nil))
}

// inBubble runs a test in fake time with a coordinator.
func inBubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	inBubbleLogging(t, nil, test)
}

func inBubbleLogging(t *testing.T, log io.Writer, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			t: t, log: log, store: &memoryStore{data: map[string][]byte{}}, journal: &memoryJournal{},
			topics:    memoryTopics{"a": topicA, "b": topicB},
			intervals: consumer.Intervals{Session: 45 * time.Second, Heartbeat: 5 * time.Second},
		}
		b.start()
		defer func() { b.stop() }()
		test(b)
	})
}

func (b *bench) start() {
	b.coordinator = New(Options{
		Store: b.store, Logger: b.logger(),
		Cluster: consumer.Cluster{
			Topics:    func() consumer.Topics { return &b.topics },
			Intervals: func(string) consumer.Intervals { return b.intervals },
		},
		Config: Config{
			Classic: classic.Settings{
				MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute,
				InitialRebalanceDelay: 3 * time.Second, MaxSize: 1000,
			},
			Consumer: consumer.Settings{
				MaxSize: 1000, Assignors: []string{"uniform"},
			},
			CommitTimeout: commitTimeout, MaxMetadataLength: 4096, OffsetsRetention: retention, RetentionCheckInterval: checkInterval,
		},
	})
	runtime := b.coordinator.Runtime()
	b.journal.mu.Lock()
	b.journal.advanced = func() { runtime.Advanced(0) }
	b.journal.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.coordinator.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.t.Error(err)
		}
	}
	b.epoch++
	runtime.SetTopic(kafka.TopicID{1}, 1)
	runtime.Lead(0, b.epoch, b.journal)
	synctest.Wait()
}

// restart ends the coordinator and begins another one with what is on disk.
func (b *bench) restart() {
	b.t.Helper()
	b.stop()
	b.start()
}

// answered waits for an answer until nothing happens any more, without letting time pass.
func answered[T kmsg.Response](b *bench, promise *Answer) T {
	b.t.Helper()
	synctest.Wait()
	select {
	case <-promise.Done():
	default:
		b.t.Fatal("there is no answer")
	}
	return promise.Value().(T)
}

// offset is a commit of one partition.
type offset struct {
	topic     string
	id        kafka.TopicID
	partition int32
	offset    int64
	epoch     int32
	metadata  string
}

// commitRequest commits from outside of a group.
func commitRequest(group string, offsets ...offset) *kmsg.OffsetCommitRequest {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Version, request.Group, request.Generation = 9, group, -1
	request.RetentionTimeMillis = -1
	for _, o := range offsets {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = o.topic, o.id
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset = o.partition, o.offset
		partition.LeaderEpoch = cmp.Or(o.epoch, -1)
		partition.Metadata = &o.metadata
		topic.Partitions = append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

func a(partition int32, committed int64) offset {
	return offset{topic: "a", id: topicA, partition: partition, offset: committed}
}

// commit commits, and returns the codes of the partitions.
func (b *bench) commit(request *kmsg.OffsetCommitRequest) []kafka.Errno {
	b.t.Helper()
	return commitCodes(answered[*kmsg.OffsetCommitResponse](b, b.coordinator.Commit(request)))
}

func commitCodes(response *kmsg.OffsetCommitResponse) []kafka.Errno {
	var codes []kafka.Errno
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			codes = append(codes, kafka.Errno(partition.ErrorCode))
		}
	}
	return codes
}

// mustCommit commits offsets from outside of a group.
func (b *bench) mustCommit(group string, offsets ...offset) {
	b.t.Helper()
	for i, code := range b.commit(commitRequest(group, offsets...)) {
		if code != kafka.None {
			b.t.Fatalf("commit of %+v: %v", offsets[i], code)
		}
	}
}

// fetched is what OffsetFetch answers for a partition.
type fetched struct {
	offset   int64
	epoch    int32
	metadata string
	code     kafka.Errno
}

// none is the answer where nothing is committed.
var none = fetched{offset: -1, epoch: -1}

func fetchedFrom(p kmsg.OffsetFetchResponseGroupTopicPartition) fetched {
	return fetched{p.Offset, p.LeaderEpoch, *p.Metadata, kafka.Errno(p.ErrorCode)}
}

// fetch reads one partition's offset.
func (b *bench) fetch(group string, o offset, requireStable bool) fetched {
	b.t.Helper()
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = group
	asked.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: o.topic, TopicID: o.id, Partitions: []int32{o.partition}}}
	response := answered[*kmsg.OffsetFetchResponse](b, b.coordinator.Fetch(&asked, requireStable)).Groups[0]
	if response.ErrorCode != 0 {
		return fetched{code: kafka.Errno(response.ErrorCode)}
	}
	return fetchedFrom(response.Topics[0].Partitions[0])
}

func (b *bench) expect(group string, o offset, want fetched) {
	b.t.Helper()
	if got := b.fetch(group, o, false); got != want {
		b.t.Errorf("group %s in %s-%d: %+v, want %+v", group, o.topic, o.partition, got, want)
	}
}

// at is what is fetched after a commit of an offset and nothing else.
func at(committed int64) fetched { return fetched{offset: committed, epoch: -1} }

// fetchAll reads all offsets of a group, by topic and partition.
func (b *bench) fetchAll(group string) map[kafka.TopicPartition]fetched {
	b.t.Helper()
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = group
	response := answered[*kmsg.OffsetFetchResponse](b, b.coordinator.Fetch(&asked, false)).Groups[0]
	if response.ErrorCode != 0 {
		b.t.Fatal(kafka.Errno(response.ErrorCode))
	}
	all := map[kafka.TopicPartition]fetched{}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			all[kafka.TopicPartition{Topic: topic.Topic, Partition: partition.Partition}] = fetchedFrom(partition)
		}
	}
	return all
}

// groups lists the groups with their states.
func (b *bench) groups() map[string]string {
	b.t.Helper()
	response := b.coordinator.List(kmsg.NewPtrListGroupsRequest())
	if response.ErrorCode != 0 {
		b.t.Fatal(kafka.Errno(response.ErrorCode))
	}
	states := map[string]string{}
	for _, group := range response.Groups {
		states[group.Group] = group.GroupState
	}
	return states
}

const transactionalProducer = 77

// commitInTransaction commits in the open transaction of the one producer.
func (b *bench) commitInTransaction(group string, o offset) kafka.Errno {
	b.t.Helper()
	producer := coordinator.Producer{ID: transactionalProducer}
	committing := b.coordinator.CommitInTransaction(commitRequest(group, o), producer)
	return commitCodes(answered[*kmsg.OffsetCommitResponse](b, committing))[0]
}

// endTransaction writes the marker of the one producer.
func (b *bench) endTransaction(kind record.ControlType) {
	b.t.Helper()
	marker := record.NewEndMarker(transactionalProducer, 0, time.Now().UnixMilli(), record.EndMarker{Type: kind})
	if _, err := b.journal.append(marker); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}
