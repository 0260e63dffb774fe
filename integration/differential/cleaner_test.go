//go:build integration

package differential

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// often has both cleaners look for work ten times a second.
const often = "log.cleaner.backoff.ms=100"

// soiled are topics with a random history each, by what is set for them. Segments hold some ten batches.
var soiled = []struct {
	name     string
	seed     uint64
	settings []string
}{
	{"tombstones-go-at-once", 1, []string{"delete.retention.ms", "0"}},
	{"tombstones-stay", 2, []string{"delete.retention.ms", "86400000"}},
	{"stored-without-codec", 3, []string{"delete.retention.ms", "0", "compression.type", "uncompressed"}},
	{"times-of-the-broker", 4, []string{"delete.retention.ms", "0", "message.timestamp.type", "LogAppendTime"}},
	{"batches-alone", 5, []string{"delete.retention.ms", "0", "internal.segment.bytes", "1200"}},
}

// TestCompactionLeavesWhatApacheKafkaLeaves writes the same random histories to both brokers, has the cleaner of each
// compact them, three times with more records in between, and compares what is left: records as readers of either
// isolation level see them, and the batches that hold them, empty ones too.
func TestCompactionLeavesWhatApacheKafkaLeaves(t *testing.T) {
	peers := []*peer{startKafka(t, often), startFirn(t, often)}
	for _, topic := range soiled {
		t.Run(topic.name, func(t *testing.T) {
			const rounds = 3
			var left [2][rounds]remains
			both := testCase{name: topic.name, run: func(s *script) {
				h := newHistory(s, topic.name, topic.seed, topic.settings)
				for round := range rounds {
					h.write(150)
					left[slices.Index(peers, s.peer)][round] = h.cleaned()
				}
			}}
			playBoth(t, &both, peers)
			for round := range rounds {
				kafkas, ours := left[0][round], left[1][round]
				t.Logf("round %d: %d records of %d are left in %d batches",
					round, len(ours.uncommitted), ours.end, len(ours.batches))
				expectEqual(t, round, "active segment", []string{kafkas.active}, []string{ours.active})
				expectEqual(t, round, "records", kafkas.uncommitted, ours.uncommitted)
				expectEqual(t, round, "committed records", kafkas.committed, ours.committed)
				expectEqual(t, round, "batches", kafkas.batches, ours.batches)
				if len(ours.uncommitted) == 0 || int64(len(ours.uncommitted)) > ours.end/2 {
					t.Errorf("round %d: %d records of %d are left: nothing was compacted", round, len(ours.uncommitted), ours.end)
				}
			}
		})
	}
}

// playBoth plays a script with both brokers at once.
func playBoth(t *testing.T, c *testCase, peers []*peer) {
	t.Helper()
	start := time.Now().UnixMilli()
	failed := make(chan error, len(peers))
	for _, p := range peers {
		if p.topics == nil {
			p.topics = map[string]kafka.TopicID{}
		}
		go func() {
			_, err := play(c, p, 0, "", start)
			failed <- err
		}()
	}
	for range peers {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func expectEqual(t *testing.T, round int, what string, kafkas, ours []string) {
	t.Helper()
	const most = 5 // differences that are told
	told := 0
	for i := range max(len(kafkas), len(ours)) {
		a, b := "nothing", "nothing"
		if i < len(kafkas) {
			a = kafkas[i]
		}
		if i < len(ours) {
			b = ours[i]
		}
		if a != b && told < most {
			t.Errorf("round %d, %s, number %d: Kafka has left\n\t%.200s\nfirn\n\t%.200s", round, what, i, a, b)
			told++
		}
	}
	if len(kafkas) != len(ours) {
		t.Errorf("round %d: Kafka has left %d %s, firn %d", round, len(kafkas), what, len(ours))
	}
}

// remains are what a cleaner has left of a topic.
type remains struct {
	end                    int64
	active                 string // the base offset of the active segment
	uncommitted, committed []string
	batches                []string
}

// history writes to a topic what its seed says, whatever the broker answers.
type history struct {
	*script
	topic      string
	random     *rand.Rand
	next       int64 // offset of what comes next
	idempotent []*transactor
	transacted []*transaction
}

// transaction is a producer with a transactional id.
type transaction struct {
	*transactor
	bumps bool // it takes a new epoch with each transaction (KIP-890)
	open  bool
}

func newHistory(s *script, topic string, seed uint64, settings []string) *history {
	base := []string{
		"internal.segment.bytes", "6000", "index.interval.bytes", "500", "min.cleanable.dirty.ratio", "0",
		"retention.ms", "-1", "cleanup.policy", "delete",
	}
	values := map[string]string{}
	for all := append(base, settings...); len(all) > 0; all = all[2:] {
		values[all[0]] = all[1]
	}
	var flat []string
	for name, value := range values {
		flat = append(flat, name, value)
	}
	h := &history{script: s, topic: s.create(topic, flat...), random: rand.New(rand.NewPCG(seed, 0))}
	for range 3 {
		h.idempotent = append(h.idempotent, &transactor{producer: s.producerID()})
	}
	for i := range 4 {
		h.transacted = append(h.transacted, &transaction{
			transactor: s.transactor(fmt.Sprintf("%s-%d", topic, i)), bumps: i%2 == 0,
		})
	}
	return h
}

// write writes some batches and markers, in which all transactions end, and then enough for the active segment to hold
// none of them.
func (h *history) write(steps int) {
	for range steps {
		switch choice := h.random.IntN(10); {
		case choice < 3:
			h.append(record.PlainProducer())
		case choice < 5:
			producer := h.idempotent[h.random.IntN(len(h.idempotent))]
			h.append(producer.options(false))
		default:
			h.transact(h.transacted[h.random.IntN(len(h.transacted))])
		}
	}
	for _, t := range h.transacted {
		if t.open {
			h.finish(t)
		}
	}
	const fill = 8 << 10 // more than a segment
	for written := 0; written < fill; {
		builder := record.NewBuilder(record.PlainProducer())
		builder.Append(h.start+h.next, []byte("the last"), fmt.Appendf(nil, "%0*d", 500, h.next))
		batch := builder.Build()
		h.produce(h.topic, batch)
		h.next, written = h.next+1, written+len(batch)
	}
}

func (t *transactor) options(transactional bool) record.BuilderOptions {
	options := record.PlainProducer()
	options.ProducerID, options.ProducerEpoch, options.BaseSequence = t.producer, t.epoch, t.sequence
	options.Transactional = transactional
	return options
}

// batch makes a batch of a few records of a few keys, some of them tombstones, some without a key.
func (h *history) batch(options record.BuilderOptions) (batch []byte, count int) {
	codecs := []record.Codec{record.None, record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}
	options.Codec = codecs[h.random.IntN(len(codecs))]
	builder := record.NewBuilder(options)
	count = 1 + h.random.IntN(6)
	for i := range count {
		key := fmt.Appendf(nil, "key %d", h.random.IntN(25))
		value := fmt.Appendf(nil, "%d %0*d", h.next+int64(i), h.random.IntN(60), h.random.IntN(1000))
		switch choice := h.random.IntN(20); {
		case choice == 0:
			key = nil
		case choice == 1:
			key = []byte{}
		case choice < 6:
			value = nil
		}
		var headers []record.Header
		for n := range h.random.IntN(3) {
			headers = append(headers, record.Header{Key: fmt.Sprint("h", n), Value: []byte{byte(i)}})
		}
		builder.Append(h.start+h.next+int64(h.random.IntN(5)), key, value, headers...)
	}
	return builder.Build(), count
}

func (h *history) append(options record.BuilderOptions) {
	batch, count := h.batch(options)
	h.produce(h.topic, batch)
	h.next += int64(count)
	for _, producer := range h.idempotent {
		if options.ProducerID == producer.producer {
			producer.sequence += int32(count)
		}
	}
}

// transact goes on with a transaction: a batch of it, or its end.
func (h *history) transact(t *transaction) {
	if t.open && h.random.IntN(3) == 0 {
		h.finish(t)
		return
	}
	if !t.bumps && !t.open {
		t.join(h.script, h.topic)
		if t.open = h.random.IntN(6) > 0; !t.open { // a transaction without records has a marker, too
			h.finish(t)
			return
		}
	}
	t.open = true
	batch, count := h.batch(t.options(true))
	version := int16(9)
	if t.bumps {
		version = 12 // the partition joins by itself
	}
	h.poll("a transaction does not go on", func() bool {
		answer := quiet[*kmsg.ProduceResponse](h.script, t.request(h.script, version, h.topic, batch), version)
		return answer.Topics[0].Partitions[0].ErrorCode == 0
	})
	t.sequence += int32(count)
	h.next += int64(count)
}

// finish ends a transaction, either way, and waits for the marker.
func (h *history) finish(t *transaction) {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = t.id, t.producer, t.epoch
	req.Commit = h.random.IntN(2) == 0
	version := int16(4)
	if t.bumps {
		version = 5
	}
	h.poll("a transaction does not end", func() bool {
		answer := quiet[*kmsg.EndTxnResponse](h.script, req, version)
		if t.bumps && answer.ErrorCode == 0 {
			t.producer, t.epoch, t.sequence = answer.ProducerID, answer.ProducerEpoch, 0
		}
		return answer.ErrorCode == 0
	})
	t.open = false
	h.next++
	h.poll("a transaction has no marker", func() bool { return h.end() == h.next })
}

func (h *history) end() int64 {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.Topics = []kmsg.ListOffsetsRequestTopic{{
		Topic: h.topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{listPartition(0, -1)},
	}}
	return quiet[*kmsg.ListOffsetsResponse](h.script, req, 7).Topics[0].Partitions[0].Offset
}

// cleaned has the topic compacted, as long as there is anything dirty below the active segment, and reads what is left.
func (h *history) cleaned() remains {
	active, err := h.peer.activeBase(h.topic)
	h.check(err)
	h.setPolicy("compact")
	h.pollFor(time.Minute, "the log is not cleaned", func() bool {
		cleaned, err := h.peer.cleanedBelow(h.topic)
		h.check(err)
		return cleaned >= active
	})
	h.setPolicy("delete") // so that nothing is cleaned while it is written, and records without a key are taken
	return remains{
		end: h.next, active: strconv.FormatInt(active, 10),
		uncommitted: h.read(kgo.ReadUncommitted()), committed: h.read(kgo.ReadCommitted()), batches: h.readBatches(),
	}
}

func (h *history) setPolicy(policy string) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, h.topic
	one.Configs = append(one.Configs, change("cleanup.policy", kmsg.IncrementalAlterConfigOpSet, policy))
	req.Resources = append(req.Resources, one)
	if code := quiet[*kmsg.IncrementalAlterConfigsResponse](h.script, req, 1).Resources[0].ErrorCode; code != 0 {
		h.check(fmt.Errorf("set cleanup.policy=%s: %s", policy, codeName(code)))
	}
}

// activeBase is the base offset of the active segment of a topic's only partition.
func (p *peer) activeBase(topic string) (int64, error) {
	files, err := filepath.Glob(filepath.Join(p.logs, topic+"-0", "*.log"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("%s has no segments of %s: %w", p.name, topic, err)
	}
	return strconv.ParseInt(strings.TrimSuffix(filepath.Base(slices.Max(files)), ".log"), 10, 64)
}

// cleanedBelow is how far the cleaner has come: firn tells it, Kafka notes it in a file.
func (p *peer) cleanedBelow(topic string) (int64, error) {
	if p.http == "" {
		text, err := os.ReadFile(filepath.Join(p.logs, "cleaner-offset-checkpoint"))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == topic {
				return strconv.ParseInt(fields[2], 10, 64)
			}
		}
		return -1, nil
	}
	transport := http.Transport{DisableKeepAlives: true}
	request, err := http.NewRequest(http.MethodGet, "http://"+p.http+view.PathCompaction+"/"+topic, nil)
	if err != nil {
		return 0, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusConflict {
		return -1, nil // it does not know yet that the topic is to be compacted
	}
	var status view.TopicCompaction
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil || len(status.Partitions) != 1 {
		return 0, fmt.Errorf("%s: %+v: %w", response.Status, status, err)
	}
	if one := status.Partitions[0]; one.SetAside != "" {
		return 0, fmt.Errorf("set aside: %s", one.SetAside)
	} else if one.Running {
		return -1, nil
	}
	return status.Partitions[0].EndOffset, nil
}

// read is what a consumer gets of the topic, from its begin to its end.
func (h *history) read(isolation kgo.IsolationLevel) (records []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(h.peer.address), kgo.FetchIsolationLevel(isolation),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{h.topic: {0: kgo.NewOffset().At(0)}}))
	h.check(err)
	defer client.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for position := int64(0); position < h.next; { // the last one is a record that nobody aborts
		fetches := client.PollFetches(ctx)
		h.check(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			position = r.Offset + 1
			at := "the broker's"
			if r.Attrs.TimestampType() == 0 {
				at = strconv.FormatInt(r.Timestamp.UnixMilli()-h.start, 10)
			}
			records = append(records,
				fmt.Sprintf("%d: %s = %s, %v, at %s", r.Offset, quoted(r.Key), quoted(r.Value), r.Headers, at))
		})
	}
	return records
}

func quoted(field []byte) string {
	if field == nil {
		return "null"
	}
	return strconv.Quote(string(field))
}

const logAppendTime = 1 << 3 // of a batch's attributes

// readBatches is how what is left is stored. Producers are numbered in the order in which they are met, since each
// broker gives them ids of its own. Of times only the largest is told: where records go, and where a batch is given a
// delete horizon, the base is whatever it needs to be.
func (h *history) readBatches() (batches []string) {
	producers := map[int64]int{}
	for position := int64(0); position < h.next; {
		req := fetchRequest(12, h.topic, h.id(h.topic), position)
		data := quiet[*kmsg.FetchResponse](h.script, req, 12).Topics[0].Partitions[0].RecordBatches
		for len(data) > 0 {
			b, rest, err := record.Next(data)
			if err != nil {
				break // the rest of an answer may be cut off
			}
			data = rest
			if b.NextOffset() <= position {
				continue
			}
			position = b.NextOffset()
			producer := "no producer"
			if b.HasProducerID() {
				if _, known := producers[b.ProducerID()]; !known {
					producers[b.ProducerID()] = len(producers)
				}
				producer = fmt.Sprintf("producer %d epoch %d sequence %d to %d", producers[b.ProducerID()], b.ProducerEpoch(),
					b.BaseSequence(), b.LastSequence())
			}
			at, attributes := "the broker's", b.Attributes()
			if b.IsControl() {
				attributes &^= logAppendTime // Kafka marks markers in topics of LogAppendTime, firn does not
			} else if b.TimestampType() == record.CreateTime {
				at = strconv.FormatInt(b.MaxTimestamp()-h.start, 10)
			}
			batches = append(batches, fmt.Sprintf("[%d, %d] %d records, attributes %#x, %s, up to %s",
				b.BaseOffset(), b.LastOffset(), b.Count(), attributes, producer, at))
		}
	}
	return batches
}
