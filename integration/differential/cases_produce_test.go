//go:build integration

package differential

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// produceCases append records.
func produceCases() []testCase {
	return []testCase{
		{key: wire.KeyProduce, name: "versions without a handler", to: 2, run: askProduceOld},
		{key: wire.KeyProduce, name: "acks", from: 3, run: askAcks},
		{key: wire.KeyProduce, name: "targets", from: 3, run: askTargets},
		{key: wire.KeyProduce, name: "damaged batches", from: 3, run: askDamaged},
		{key: wire.KeyProduce, name: "codecs", from: 3, run: askCodecs},
		{key: wire.KeyProduce, name: "codec corners", from: 13, run: askCodecCorners},
		{key: wire.KeyProduce, name: "settings of the topic", from: 3, run: askTopicRules},
		{key: wire.KeyProduce, name: "idempotent sequences", from: 3, run: askSequences},
		{key: wire.KeyProduce, name: "idempotent epochs", from: 3, run: askProducerEpochs},
		{key: wire.KeyInitProducerID, name: "without a transaction", run: askProducerID},
		{key: wire.KeyInitProducerID, name: "with a transactional id", run: askTransactionalID},
		{key: wire.KeyDescribeProducers, name: "producers of a partition", run: askProducers},
	}
}

// askProduce sends one batch for partition 0.
func (s *script) askProduce(step string, acks int16, topic string, data []byte) {
	s.ask(step, produceRequest(acks, s.version, topic, s.id(topic), 0, data))
}

func askProduceOld(s *script) {
	topic := s.create("a")
	s.askProduce("a good batch", -1, topic, plain(s.start, 1))
}

func askAcks(s *script) {
	topic := s.create("a")
	for _, acks := range []int16{-1, 1, 2, -2} {
		s.askProduce(fmt.Sprintf("acks %d", acks), acks, topic, plain(s.start, 2))
	}
	s.silent("acks 0", produceRequest(0, s.version, topic, s.id(topic), 0, plain(s.start, 1)))
	s.silent("acks 0 with a damaged batch", produceRequest(0, s.version, topic, s.id(topic), 0, []byte("damaged")))
	s.silent("acks 0 to an unknown partition", produceRequest(0, s.version, topic, s.id(topic), 7, plain(s.start, 1)))
	s.askProduce("what has come of it", -1, topic, plain(s.start, 1))
}

func askTargets(s *script) {
	topic := s.createWith("a", 2)
	s.ask("an unknown partition", produceRequest(-1, s.version, topic, s.id(topic), 9, plain(s.start, 1)))
	s.ask("a negative partition", produceRequest(-1, s.version, topic, s.id(topic), -1, plain(s.start, 1)))
	s.ask("an unknown topic", produceRequest(-1, s.version, s.topic("none"), strangerID, 0, plain(s.start, 1)))
	if s.version >= 13 {
		s.ask("zero id", produceRequest(-1, s.version, topic, kafka.TopicID{}, 0, plain(s.start, 1)))
	} else {
		s.ask("an illegal name", produceRequest(-1, s.version, "a/b", strangerID, 0, plain(s.start, 1)))
		s.ask("an empty name", produceRequest(-1, s.version, "", strangerID, 0, plain(s.start, 1)))
	}
	two := produceRequest(-1, s.version, topic, s.id(topic), 0, plain(s.start, 1))
	more := kmsg.NewProduceRequestTopicPartition()
	more.Partition, more.Records = 1, plain(s.start, 3)
	two.Topics[0].Partitions = append(two.Topics[0].Partitions, more)
	s.ask("two partitions", two)
	two.Topics[0].Partitions[1].Records = []byte("damaged")
	s.ask("a good and a damaged one", two)
	none := produceRequest(-1, s.version, topic, s.id(topic), 0, plain(s.start, 1))
	none.Topics[0].Partitions = nil
	s.ask("no partitions", none)
	none.Topics = nil
	s.ask("no topics", none)
	twice := produceRequest(-1, s.version, topic, s.id(topic), 0, plain(s.start, 1))
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, twice.Topics[0].Partitions[0])
	s.ask("the same partition twice", twice)
	other := s.create("b")
	twice = produceRequest(-1, s.version, other, s.id(other), 0, plain(s.start, 1))
	twice.Topics = append(twice.Topics, twice.Topics[0])
	s.ask("the same topic twice", twice)
}

// Where the fields of a batch lie.
const (
	atBaseOffset      = 0
	atLength          = 8
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57
)

// damaged changes a copy of a batch and sets its checksum right.
func damaged(batch []byte, change func(b []byte)) []byte {
	b := bytes.Clone(batch)
	change(b)
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func put32(at int, value int32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[at:], uint32(value)) }
}

func put64(at int, value int64) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint64(b[at:], uint64(value)) }
}

func put16(at int, value int16) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint16(b[at:], uint16(value)) }
}

func askDamaged(s *script) {
	topic := s.create("a", "max.message.bytes", "2000")
	good := []byte(plain(s.start, 3))
	ask := func(step string, data []byte) { s.askProduce(step, -1, topic, data) }
	if s.version == 13 { // it takes time, as Kafka does not answer
		s.askBriefly("no records", produceRequest(-1, s.version, topic, s.id(topic), 0, nil))
	}
	ask("no bytes", []byte{})
	ask("a few bytes", []byte("damaged"))
	ask("a header alone", good[:61])
	ask("a batch cut short", good[:len(good)-1])
	ask("two batches", append(bytes.Clone(good), good...))
	wrong := bytes.Clone(good)
	wrong[len(wrong)-1] ^= 1
	ask("a wrong checksum", wrong)
	ask("a length of zero", damaged(good, put32(atLength, 0)))
	ask("a negative length", damaged(good, put32(atLength, -1)))
	ask("a length that is too large", damaged(good, put32(atLength, 1<<30)))
	ask("a length that is too small", damaged(good, put32(atLength, 60)))
	for _, magic := range []byte{0, 1, 3, 255} {
		ask(fmt.Sprintf("magic %d", magic), damaged(good, func(b []byte) { b[atMagic] = magic }))
	}
	ask("a message of format 0", message(0, s.start))
	ask("a message of format 1", message(1, s.start))
	ask("two messages of format 1", append(message(1, s.start), message(1, s.start)...))
	ask("a base offset of five", damaged(good, put64(atBaseOffset, 5)))
	ask("a count that is too small", damaged(good, put32(atCount, 2)))
	ask("a count that is too large", damaged(good, put32(atCount, 4)))
	ask("a count of zero", damaged(good, put32(atCount, 0)))
	ask("a negative count", damaged(good, put32(atCount, -1)))
	ask("a last offset delta that does not fit", damaged(good, put32(atLastOffsetDelta, 5)))
	ask("a negative last offset delta", damaged(good, put32(atLastOffsetDelta, -1)))
	ask("count and last offset delta too small", damaged(damaged(good, put32(atCount, 2)), put32(atLastOffsetDelta, 1)))
	ask("count and last offset delta too large", damaged(damaged(good, put32(atCount, 4)), put32(atLastOffsetDelta, 3)))
	ask("a codec that does not exist", damaged(good, put16(atAttributes, 5)))
	ask("unknown attributes", damaged(good, put16(atAttributes, 0x80)))
	ask("a delete horizon", damaged(good, put16(atAttributes, 0x40)))
	ask("a control batch", damaged(good, put16(atAttributes, 0x20)))
	ask("transactional without a producer", damaged(good, put16(atAttributes, 0x10)))
	ask("a producer epoch without a producer", damaged(good, put16(atProducerEpoch, 3)))
	ask("a sequence without a producer", damaged(good, put32(atBaseSequence, 3)))
	ask("a producer without epoch and sequence", damaged(good, put64(atProducerID, 77)))
	ask("a max timestamp that is wrong", damaged(good, put64(atMaxTimestamp, s.start+1000)))
	ask("no max timestamp", damaged(good, put64(atMaxTimestamp, -1)))
	ask("gzip that is none", damaged(good, put16(atAttributes, 1)))
	gap := record.NewBuilder(record.PlainProducer())
	gap.AppendAt(0, s.start, nil, nil)
	gap.AppendAt(2, s.start, nil, nil)
	gapped := gap.Build()
	ask("a gap in the offsets", gapped)
	empty := record.NewBuilder(record.PlainProducer())
	ask("a batch without records", empty.Build())
	large := record.NewBuilder(record.PlainProducer())
	large.Append(s.start, nil, make([]byte, 3000))
	ask("larger than the topic allows", large.Build())
	packed := record.PlainProducer()
	packed.Codec = record.Gzip
	large = record.NewBuilder(packed)
	large.Append(s.start, nil, make([]byte, 3000))
	ask("larger than the topic allows before compression", large.Build())
	ask("a good one at last", good)
	s.fetchAll("what was stored", topic)
	s.askProduce("bytes behind the batch", -1, s.create("trailing"), append(bytes.Clone(good), 1, 2, 3))
	s.askProduce("the timestamp type LogAppendTime", -1, s.create("type"), damaged(good, put16(atAttributes, 8)))
	s.askProduce("a gap in the offsets that the header hides", -1, s.create("gap"),
		damaged(gapped, put32(atLastOffsetDelta, 1)))
}

// message is a message of format 0 or 1, as clients of long ago sent them.
func message(magic byte, at int64) []byte {
	body := []byte{magic, 0}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(at))
	}
	body = binary.BigEndian.AppendUint32(body, 0xffffffff) // no key
	body = append(binary.BigEndian.AppendUint32(body, 5), "value"...)
	set := binary.BigEndian.AppendUint32(make([]byte, 8), uint32(4+len(body)))
	return append(binary.BigEndian.AppendUint32(set, crc32.ChecksumIEEE(body)), body...)
}

// fetchAll compares what a partition holds.
func (s *script) fetchAll(step, topic string) {
	req := fetchRequest(12, topic, s.id(topic), 0)
	req.SetVersion(12)
	s.askAsIs(step, req)
}

func askCodecs(s *script) {
	codecs := []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}
	batchOf := func(codec record.Codec) record.Batch {
		opts := record.PlainProducer()
		opts.Codec = codec
		return build(opts, s.start, 5)
	}
	for _, stored := range []string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		topic := s.create("to-"+stored, "compression.type", stored)
		for _, codec := range codecs {
			s.askProduce(fmt.Sprintf("%s to %s", codec, stored), -1, topic, batchOf(codec))
		}
		s.fetchAll("what was stored as "+stored, topic)
	}
	topic := s.create("damaged")
	for _, codec := range codecs[1:] {
		cut := batchOf(codec)
		cut = cut[:len(cut)-3]
		s.askProduce(fmt.Sprintf("%s cut short", codec), -1, topic, damaged(cut, put32(atLength, int32(len(cut)-12))))
		s.askProduce(fmt.Sprintf("%s with a count that is too large", codec), -1, topic,
			damaged(damaged(batchOf(codec), put32(atCount, 6)), put32(atLastOffsetDelta, 5)))
		s.askProduce(fmt.Sprintf("%s with a count that is too small", codec), -1, topic,
			damaged(damaged(batchOf(codec), put32(atCount, 4)), put32(atLastOffsetDelta, 3)))
	}
}

func askTopicRules(s *script) {
	nullKey := func(at int64) *record.Builder {
		builder := record.NewBuilder(record.PlainProducer())
		builder.Append(at, []byte("k"), []byte("v"))
		builder.Append(at, nil, []byte("v"))
		builder.Append(at, []byte{}, nil)
		builder.Append(at, nil, nil)
		return builder
	}
	compacted := s.create("compacted", "cleanup.policy", "compact")
	s.askProduce("null keys in a compacted topic", -1, compacted, nullKey(s.start).Build())
	s.askProduce("keys in a compacted topic", -1, compacted, plain(s.start, 2))
	both := s.create("both", "cleanup.policy", "compact,delete")
	s.askProduce("null keys in a topic that is compacted and deleted", -1, both, nullKey(s.start).Build())
	s.askProduce("null keys in a plain topic", -1, s.create("plain"), nullKey(s.start).Build())

	appended := s.create("appended", "message.timestamp.type", "LogAppendTime")
	s.askProduce("LogAppendTime", -1, appended, plain(s.start, 3))
	s.askProduce("LogAppendTime and a timestamp of long ago", -1, appended, plain(1, 3))
	s.askProduce("LogAppendTime and no timestamp", -1, appended, plain(-1, 1))
	s.askProduce("LogAppendTime and the type set", -1, appended, damaged(plain(s.start, 3), put16(atAttributes, 8)))
	packed := record.PlainProducer()
	packed.Codec = record.Gzip
	s.askProduce("LogAppendTime and gzip", -1, appended, build(packed, s.start, 3))

	small := s.create("small", "max.message.bytes", "2000000", "segment.bytes", "1048576")
	wide := record.NewBuilder(record.PlainProducer())
	wide.Append(s.start, nil, make([]byte, 1_100_000))
	s.askProduce("a batch that is larger than a segment", -1, small, wide.Build())

	const hour = 3_600_000
	bounds := s.create("bounds", "message.timestamp.before.max.ms", "3600000", "message.timestamp.after.max.ms", "7200000")
	for _, c := range []struct {
		step string
		at   int64
	}{
		{"now", s.start}, {"no timestamp", -1}, {"half an hour ago", s.start - hour/2}, {"two hours ago", s.start - 2*hour},
		{"in an hour", s.start + hour}, {"in three hours", s.start + 3*hour}, {"zero", 0}, {"far below zero", -1000},
	} {
		s.askProduce("bounded timestamps: "+c.step, -1, bounds, plain(c.at, 2))
	}
	mixed := record.NewBuilder(record.PlainProducer())
	for _, at := range []int64{s.start, s.start - 2*hour, s.start + 1, s.start + 3*hour} {
		mixed.Append(at, []byte("k"), nil)
	}
	s.askProduce("bounded timestamps: some good and some bad", -1, bounds, mixed.Build())
	ordinary := s.create("ordinary")
	s.askProduce("default bounds: in half an hour", -1, ordinary, plain(s.start+hour/2, 1))
	s.askProduce("default bounds: in two hours", -1, ordinary, plain(s.start+2*hour, 1))
	s.askProduce("default bounds: 1970", -1, ordinary, plain(0, 1))
	insync := s.create("insync", "min.insync.replicas", "2")
	for _, acks := range []int16{-1, 1} {
		s.askProduce(fmt.Sprintf("more replicas in sync than there can be, acks %d", acks), acks, insync, plain(s.start, 1))
	}
	strict := s.create("strict", "cleanup.policy", "compact", "message.timestamp.before.max.ms", "3600000")
	both2 := record.NewBuilder(record.PlainProducer())
	both2.Append(s.start, nil, nil)
	both2.Append(s.start-2*hour, []byte("k"), nil)
	s.askProduce("a null key and a bad timestamp", -1, strict, both2.Build())
	s.fetchAll("what was stored within the bounds", bounds)
	s.fetchAll("what was stored with LogAppendTime", appended)
}

// idempotent is a batch of a producer.
func (s *script) idempotent(id int64, epoch int16, sequence int32, count int) []byte {
	opts := record.PlainProducer()
	opts.ProducerID, opts.ProducerEpoch, opts.BaseSequence = id, epoch, sequence
	return build(opts, s.start, count)
}

// producerID gets a new id from the broker.
func (s *script) producerID() int64 {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	var resp *kmsg.InitProducerIDResponse
	s.poll("no producer id", func() bool { // the coordinator that hands them out is the last to start
		resp = quiet[*kmsg.InitProducerIDResponse](s, req, 4)
		return resp.ErrorCode == 0
	})
	return resp.ProducerID
}

func askSequences(s *script) {
	topic, id := s.create("a"), s.producerID()
	ask := func(step string, sequence int32, count int) {
		s.askProduce(step, -1, topic, s.idempotent(id, 0, sequence, count))
	}
	ask("the first", 0, 2)
	ask("the first again", 0, 2)
	for i := range int32(6) {
		ask(fmt.Sprintf("number %d", i+2), 2+i, 1)
	}
	for i := range int32(5) {
		ask(fmt.Sprintf("one of the last five again, %d", 7-i), 7-i, 1)
	}
	ask("older than the last five", 0, 2)
	ask("the last again, but longer", 7, 2)
	ask("two of the last as one", 6, 2)
	ask("a gap", 10, 1)
	ask("where it should go on", 8, 1)
	ask("back at the first", 0, 1)
	s.askProduce("with acks=1 again", 1, topic, s.idempotent(id, 0, 8, 1))
	stranger := s.producerID()
	s.askProduce("an unknown producer in the middle", -1, topic, s.idempotent(stranger, 0, 5, 1))
	s.askProduce("and on", -1, topic, s.idempotent(stranger, 0, 6, 1))
	wrap := s.producerID()
	s.askProduce("to the largest sequence", -1, topic, s.idempotent(wrap, 0, 2147483646, 2))
	s.askProduce("and from zero", -1, topic, s.idempotent(wrap, 0, 0, 2))
	s.askProduce("the largest again", -1, topic, s.idempotent(wrap, 0, 2147483646, 2))
	across := s.producerID()
	s.askProduce("a batch across the largest", -1, topic, s.idempotent(across, 0, 2147483646, 4))
	s.askProduce("behind it", -1, topic, s.idempotent(across, 0, 2, 1))
	s.askProduce("across again", -1, topic, s.idempotent(across, 0, 2147483646, 4))
	s.askProduce("a negative epoch", -1, topic, s.idempotent(id, -1, 9, 1))
	s.askProduce("a negative epoch of an unknown producer", -1, s.create("stranger"), s.idempotent(stranger+999, -1, 0, 1))
	s.askProduce("a negative sequence", -1, topic, s.idempotent(id, 0, -1, 1))
	s.askProduce("a negative producer below -1", -1, topic, s.idempotent(-5, 0, 0, 1))
	transactional := record.PlainProducer()
	transactional.ProducerID, transactional.ProducerEpoch, transactional.BaseSequence = id, 0, 9
	transactional.Transactional = true
	s.askProduce("transactional", -1, topic, build(transactional, s.start, 1))
}

func askProducerEpochs(s *script) {
	topic, id := s.create("a"), s.producerID()
	ask := func(step string, epoch int16, sequence int32) {
		s.askProduce(step, -1, topic, s.idempotent(id, epoch, sequence, 1))
	}
	ask("an unknown producer with epoch 3", 3, 0)
	ask("and on", 3, 1)
	ask("a newer epoch in the middle", 5, 2)
	ask("a newer epoch from zero", 5, 0)
	ask("the older epoch", 3, 2)
	ask("the older epoch from zero", 3, 0)
	ask("a batch of the newer epoch again", 5, 0)
	ask("and on with the newer epoch", 5, 1)
	ask("the largest epoch", 32767, 0)
}

func askProducerID(s *script) {
	s.producerID()
	ask := func(step string, id int64, epoch int16) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 60_000, id, epoch
		s.ask(step, req)
	}
	ask("new", -1, -1)
	if s.version >= 3 {
		ask("id and epoch", s.producerID(), 0)
		ask("id and epoch of a stranger", 1<<40, 5)
		ask("id without epoch", s.producerID(), -1)
		ask("epoch without id", -1, 3)
		ask("the largest epoch", s.producerID(), 32767)
		ask("negative", -2, -2)
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = -1, -1, -1
	s.ask("a negative timeout", req)
}

func askTransactionalID(s *script) {
	empty := ""
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &empty, 60_000, -1, -1
	s.ask("empty", req)
}

func askProducers(s *script) {
	topic := s.createWith("a", 2)
	ask := func(step, topic string, partitions ...int32) {
		req := kmsg.NewPtrDescribeProducersRequest()
		req.Topics = append(req.Topics, kmsg.DescribeProducersRequestTopic{Topic: topic, Partitions: partitions})
		s.ask(step, req)
	}
	ask("without producers", topic, 0)
	for i := range int32(3) {
		s.produce(topic, s.idempotent(s.producerID(), int16(i), 0, int(i)+1))
	}
	s.produce(topic, plain(s.start, 2))
	ask("with producers", topic, 0, 1)
	ask("an unknown partition", topic, 7)
	ask("an unknown topic", s.topic("none"), 0)
	ask("an illegal name", "a/b", 0)
	ask("no partitions", topic)
	s.ask("no topics", kmsg.NewPtrDescribeProducersRequest())
	known := slices.Sorted(slices.Values([]int32{1, 0, 1}))
	ask("a partition twice", topic, known...)
}
