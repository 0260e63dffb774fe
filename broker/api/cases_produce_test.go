package api

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/internal/kafka"
)

// Where the fields of a batch lie, for tests that make wrong ones.
const (
	atCRC             = 17
	atLastOffsetDelta = 23
	atMaxTimestamp    = 35
	atCount           = 57
)

// patched is a batch with a change and the checksum right again: wrong on purpose.
func patched(data []byte, change func([]byte)) []byte {
	data = append([]byte(nil), data...)
	change(data)
	binary.BigEndian.PutUint32(data[atCRC:], crc32.Checksum(data[atCRC+4:], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// build makes a batch of records with the given times.
func build(change func(*record.BuilderOptions), times ...int64) []byte {
	options := record.PlainProducer()
	if change != nil {
		change(&options)
	}
	b := record.NewBuilder(options)
	for _, at := range times {
		b.Append(at, []byte("k"), []byte("v"))
	}
	return b.Build()
}

// send1 produces to partition 0 of a topic with acks=all.
func (n *testNode) send1(topic string, data []byte) kmsg.ProduceResponseTopicPartition {
	n.t.Helper()
	return n.produceCode(produceRequest(topic, kafka.TopicID{}, 0, acksAll, data), 9)
}

func (n *testNode) endOffset(topic string) int64 {
	n.t.Helper()
	return must(must(n.replicas.Partition(kafka.TopicPartition{Topic: topic})).Log()).EndOffset()
}

func TestPD01RecordsOfABatchWithoutAMaxTimestampAreFoundByTime(t *testing.T) {
	n := newTestNode(t, nil)
	for _, codec := range []record.Codec{record.None, record.LZ4} {
		topic := "in-" + codec.String()
		n.createTopic(topic, 1)
		times := make([]int64, 20)
		for i := range times {
			times[i] = int64(i) + 1
		}
		data := build(func(o *record.BuilderOptions) { o.Codec = codec }, times...)
		unset := patched(data, func(b []byte) { binary.BigEndian.PutUint64(b[atMaxTimestamp:], ^uint64(0)) })
		if answer := n.send1(topic, unset); answer.ErrorCode != 0 {
			t.Fatal(kafka.Errno(answer.ErrorCode))
		}
		for i, at := range times {
			if got := n.listOffset(topic, at, 7, 0); got.Offset != int64(i) || got.Timestamp != at {
				t.Errorf("%s: time %d is at offset %d", topic, at, got.Offset)
			}
		}
		if stored := n.fetchAll(topic, 0, 0).batches(t)[0]; stored.MaxTimestamp() != 20 || stored.VerifyCRC() != nil {
			t.Errorf("%s: stored with max timestamp %d, checksum %v", topic, stored.MaxTimestamp(), stored.VerifyCRC())
		}
	}
}

func TestPD04TheLimitIsOnWhatIsStored(t *testing.T) {
	n := newTestNode(t, nil)
	single := func(codec record.Codec, value []byte) []byte {
		options := record.PlainProducer()
		options.Codec = codec
		b := record.NewBuilder(options)
		b.Append(1, []byte("k"), value)
		return b.Build()
	}
	noise := make([]byte, 1_500_000)
	random := rand.New(rand.NewPCG(4, 4))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	n.createTopic("a", 1, "max.message.bytes", "1048576")
	if answer := n.send1("a", single(record.Zstd, make([]byte, 5_000_000))); answer.ErrorCode != 0 {
		t.Errorf("5 MB of zeros in a few KB of zstd: %v", kafka.Errno(answer.ErrorCode))
	}
	if answer := n.send1("a", single(record.Zstd, noise)); kafka.Errno(answer.ErrorCode) != kafka.MessageTooLarge {
		t.Errorf("1.5 MB that do not compress: %v", kafka.Errno(answer.ErrorCode))
	}
	const limit, guess = 1 << 20, 1<<20 - 100
	overhead := len(single(record.None, noise[:guess])) - guess
	for size, want := range map[int]kafka.Errno{limit - 1: 0, limit: 0, limit + 1: kafka.MessageTooLarge} {
		data := single(record.None, noise[:size-overhead])
		if answer := n.send1("a", data); kafka.Errno(answer.ErrorCode) != want || len(data) != size {
			t.Errorf("%d bytes: %v, want %v for %d", len(data), kafka.Errno(answer.ErrorCode), want, size)
		}
	}
	n.createTopic("b", 1, "max.message.bytes", "2000000", "segment.bytes", "1048576")
	for size, want := range map[int]kafka.Errno{limit: 0, limit + 1: kafka.RecordListTooLarge} {
		answer := n.send1("b", single(record.None, noise[:size-overhead]))
		if kafka.Errno(answer.ErrorCode) != want {
			t.Errorf("%d bytes with segment.bytes=%d: %v, want %v", size, limit, kafka.Errno(answer.ErrorCode), want)
		}
	}
}

func TestPD05StructurallyWrongBatchesLeaveTheLogAlone(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produce("a", 0, "before")
	good := build(nil, 1, 2)
	put := func(at int, value int32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], uint32(value)) }
	}
	second := record.HeaderSize + 1 + int(good[record.HeaderSize]/2) // length and body of the first record
	for name, data := range map[string][]byte{
		"a base offset":                  patched(good, func(b []byte) { b[7] = 5 }),
		"no records":                     patched(good, put(atCount, 0)),
		"less than no records":           patched(good, put(atCount, -1)),
		"a negative last offset":         patched(good, put(atLastOffsetDelta, -1)),
		"fewer records than offsets":     patched(good, put(atLastOffsetDelta, 2)),
		"a gap between the records":      patched(good, func(b []byte) { b[second+3] = 4 }),
		"an offset twice":                patched(good, func(b []byte) { b[second+3] = 0 }),
		"bytes behind the batch":         append(append([]byte(nil), good...), 0),
		"bytes behind the last record":   patched(append(append([]byte(nil), good...), 0), put(8, int32(len(good)+1-12))),
		"a checksum of something else":   append(append([]byte(nil), good[:len(good)-1]...), good[len(good)-1]^1),
		"a batch that is shorter inside": patched(good, put(8, int32(len(good)-12-1))),
	} {
		answer := n.send1("a", data)
		if code := kafka.Errno(answer.ErrorCode); code != kafka.InvalidRecord && code != kafka.CorruptMessage {
			t.Errorf("%s: %v", name, code)
		}
	}
	if end := n.endOffset("a"); end != 1 {
		t.Errorf("the log ends at %d", end)
	}
	if answer := n.send1("a", good); answer.ErrorCode != 0 || answer.BaseOffset != 1 {
		t.Errorf("a good one after them: %+v", answer)
	}
	if got := n.fetchAll("a", 0, 0); len(got.batches(t)) != 2 || got.HighWatermark != 3 {
		t.Errorf("fetched %d batches up to %d", len(got.batches(t)), got.HighWatermark)
	}
}

func TestPD07CompactedTopicsTakeNoRecordWithoutAKey(t *testing.T) {
	n := newTestNode(t, nil)
	keyed := func(keys ...string) []byte {
		b := record.NewBuilder(record.PlainProducer())
		for _, key := range keys {
			if key == "" {
				b.Append(1, nil, []byte("v"))
				continue
			}
			b.Append(1, []byte(key), []byte("v"))
		}
		return b.Build()
	}
	for topic, policy := range map[string]string{"compacted": "compact", "both": "compact,delete"} {
		n.createTopic(topic, 1, "cleanup.policy", policy)
		for _, test := range []struct {
			data  []byte
			index int32
		}{{keyed(""), 0}, {keyed("a", "", "b"), 1}} {
			for version := int16(7); version <= 9; version++ {
				answer := n.produceCode(produceRequest(topic, kafka.TopicID{}, 0, acksAll, test.data), version)
				code := kafka.Errno(answer.ErrorCode)
				if code != kafka.InvalidRecord || code.Retriable() {
					t.Errorf("%s v%d: %v", policy, version, code)
				}
				if version >= 8 && (len(answer.ErrorRecords) != 1 || answer.ErrorRecords[0].RelativeOffset != test.index ||
					deref(answer.ErrorRecords[0].ErrorMessage) == "" || deref(answer.ErrorMessage) == "") {
					t.Errorf("%s v%d: record errors %+v, message %q", policy, version, answer.ErrorRecords, deref(answer.ErrorMessage))
				}
			}
		}
		if end := n.endOffset(topic); end != 0 {
			t.Errorf("%s: the log ends at %d: a part of a refused batch is stored", policy, end)
		}
		if answer := n.send1(topic, keyed("a", "b")); answer.ErrorCode != 0 {
			t.Errorf("%s: records with keys: %v", policy, kafka.Errno(answer.ErrorCode))
		}
	}
}

func TestPD08ProducersAreRememberedByTheBrokersClock(t *testing.T) {
	n := newTestNode(t, nil)
	for topic, at := range map[string]int64{"none": -1, "zero": 0, "year-1970": 1000} {
		n.createTopic(topic, 1)
		for sequence := int32(0); sequence <= 5; sequence += 5 {
			data := build(func(o *record.BuilderOptions) {
				o.ProducerID, o.ProducerEpoch, o.BaseSequence = 9, 0, sequence
			}, at, at, at, at, at)
			for range 2 { // once more, as after a lost answer
				if answer := n.send1(topic, data); answer.ErrorCode != 0 || answer.BaseOffset != int64(sequence) {
					t.Errorf("%s: sequence %d: %+v", topic, sequence, answer)
				}
			}
		}
	}
}

func TestPD14TimestampsAreBoundedWhereTheTopicSaysSo(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("bounded", 1, "message.timestamp.before.max.ms", "3600000", "message.timestamp.after.max.ms", "60000")
	n.createTopic("free", 1)
	n.createTopic("stamped", 1, "message.timestamp.type", "LogAppendTime", "message.timestamp.before.max.ms", "1")
	now := time.Now().UnixMilli()
	for _, test := range []struct {
		topic string
		times []int64
		want  kafka.Errno
		index int32
	}{
		{topic: "bounded", times: []int64{now}},
		{topic: "bounded", times: []int64{now, now - 3*3_600_000}, want: kafka.InvalidTimestamp, index: 1},
		{topic: "bounded", times: []int64{now + 120_000}, want: kafka.InvalidTimestamp},
		{topic: "free", times: []int64{now - 3*3_600_000}},
		{topic: "free", times: []int64{now + 2*3_600_000}, want: kafka.InvalidTimestamp}, // RE-01: an hour by default
		{topic: "free", times: []int64{now * 1000}, want: kafka.InvalidTimestamp},        // microseconds
		{topic: "stamped", times: []int64{now * 1000, 5}},                                // nobody looks at them
	} {
		answer := n.send1(test.topic, build(nil, test.times...))
		if kafka.Errno(answer.ErrorCode) != test.want {
			t.Errorf("%s %v: %v, want %v", test.topic, test.times, kafka.Errno(answer.ErrorCode), test.want)
			continue
		}
		if test.want != 0 && (len(answer.ErrorRecords) != 1 || answer.ErrorRecords[0].RelativeOffset != test.index) {
			t.Errorf("%s %v: record errors %+v", test.topic, test.times, answer.ErrorRecords)
		}
	}
}

// TestRP07MinInsyncReplicasNeverAsksForMoreThanThereAre: a topic with one replica can be written, whatever it says.
func TestRP07MinInsyncReplicasNeverAsksForMoreThanThereAre(t *testing.T) {
	n := newTestNode(t, map[string]string{"min.insync.replicas": "2"})
	n.createTopic("inherits", 1)
	n.createTopic("sets", 1, "min.insync.replicas", "3")
	for _, topic := range []string{"inherits", "sets"} {
		for _, acks := range []int16{acksLeader, acksAll} {
			answer := n.produceCode(produceRequest(topic, kafka.TopicID{}, 0, acks, batch("x")), 9)
			if answer.ErrorCode != 0 {
				t.Errorf("%s, acks %d: %v", topic, acks, kafka.Errno(answer.ErrorCode))
			}
		}
	}
}

// message is one message of the formats before record batches, with a checksum of its own.
func message(magic byte, value string) []byte {
	body := []byte{magic, 0}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, 1000)
	}
	body = binary.BigEndian.AppendUint32(body, 0xffffffff) // no key
	body = append(binary.BigEndian.AppendUint32(body, uint32(len(value))), value...)
	framed := binary.BigEndian.AppendUint64(nil, 0)
	framed = binary.BigEndian.AppendUint32(framed, uint32(len(body)+4))
	framed = binary.BigEndian.AppendUint32(framed, crc32.ChecksumIEEE(body))
	return append(framed, body...)
}

// TestPR07PD16OldMessageFormatsAreNeverStored: Kafka 4 answers INVALID_RECORD to them, in every version that is served.
func TestPR07PD16OldMessageFormatsAreNeverStored(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1)
	for magic := range byte(2) {
		for _, set := range [][]byte{
			message(magic, "one"),
			append(append(message(magic, "one"), message(magic, "two")...), message(magic, "three")...),
		} {
			for version := int16(3); version <= 13; version++ {
				answer := n.produceCode(produceRequest("a", id, 0, acksAll, set), version)
				if kafka.Errno(answer.ErrorCode) != kafka.InvalidRecord || answer.BaseOffset != -1 {
					t.Errorf("format %d in v%d: %+v", magic, version, answer)
				}
			}
		}
	}
	if end := n.endOffset("a"); end != 0 {
		t.Errorf("the log ends at %d", end)
	}
	if got := n.listOffset("a", replica.TimestampLatest, 7, 0); got.Offset != 0 {
		t.Errorf("latest is %d", got.Offset)
	}
}
