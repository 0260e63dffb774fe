package wire

import (
	"github.com/firnlog/firn/internal/kafka"
)

// ProduceView is a Produce request (v3 to v13) read in place: nothing is decoded into structures and nothing is
// allocated. ParseProduce has checked the whole shape, so iterating cannot fail. Everything it returns aliases the
// request's frame, and record data may be patched in place: the view's owner owns those bytes.
type ProduceView struct {
	// TransactionalID is nil when the producer is not transactional.
	TransactionalID []byte
	Acks            int16
	TimeoutMs       int32
	// TopicCount and PartitionCount are totals of the request, for sizing what is kept per partition.
	TopicCount     int
	PartitionCount int

	version  int16
	flexible bool
	topics   []byte // from the first topic on
}

// Smallest encodings, to hold counts against what remains.
const (
	minProduceTopicSize     = 2 // an empty name and no partitions, compact
	minProducePartitionSize = 4 + 1
	// A partition that carries anything holds a batch header of 61 bytes; a request that claims far more topics and
	// partitions than that allows only wants us to allocate for each. The slack lets short lists of empty partitions
	// pass, so that each gets its error.
	produceBytesPerPartition = 61
	produceEmptyEntries      = 1000

	noTopic = -1 // partitionCount before the first topic and between two
)

// ParseProduce checks the shape of a Produce body, to its very end, and returns the view. The error is *MalformedError,
// or *UnsupportedVersionError for versions below 3.
func ParseProduce(version int16, body []byte) (ProduceView, error) {
	api := mustAPI(KeyProduce)
	if !api.Serves(version) {
		return ProduceView{}, &UnsupportedVersionError{Key: KeyProduce, Version: version}
	}
	view := ProduceView{version: version, flexible: api.Flexible(version)}
	c := cursor{data: body}
	view.TransactionalID = c.string(view.flexible, nullable)
	view.Acks, view.TimeoutMs = c.int16(), c.int32()
	view.TopicCount = c.arrayLength(view.flexible, nonNull, minProduceTopicSize)
	start := c.position
	topics := newProduceTopics(produceCursor{c, version, view.flexible, view.TopicCount})
	for topics.Next() {
		view.PartitionCount += topics.partitionCount
	}
	c = topics.cursor
	end := c.position
	if view.flexible {
		c.skipTags()
	}
	if c.ok() && c.remaining() > 0 {
		c.fail("bytes are left over at the end")
	}
	if view.TopicCount+view.PartitionCount > produceEmptyEntries+2*len(body)/produceBytesPerPartition {
		c.fail("more partitions than there can be record batches")
	}
	if !c.ok() {
		return ProduceView{}, &MalformedError{Key: KeyProduce, Version: version, What: c.failure}
	}
	view.topics = body[start:end:end]
	return view, nil
}

// Topics starts an iteration over the topics of the request.
func (v *ProduceView) Topics() ProduceTopics {
	c := produceCursor{cursor{data: v.topics}, v.version, v.flexible, v.TopicCount}
	return newProduceTopics(c)
}

// produceCursor is a place in a Produce body, and how many entries follow it.
type produceCursor struct {
	cursor
	version  int16
	flexible bool
	left     int
}

// ProduceTopics iterates over the topics of a Produce request; Next goes before each.
type ProduceTopics struct {
	produceCursor
	name           []byte
	id             kafka.TopicID
	partitionCount int // of the current topic, not yet passed over
}

func newProduceTopics(c produceCursor) ProduceTopics {
	return ProduceTopics{produceCursor: c, partitionCount: noTopic}
}

// Next goes on to the next topic and reports whether there is one.
func (t *ProduceTopics) Next() bool {
	t.passPartitions()
	if t.left <= 0 || !t.ok() {
		return false
	}
	t.left--
	if t.version >= topicIDsFrom {
		copy(t.id[:], t.take(len(t.id)))
	} else {
		t.name = t.string(t.flexible, nonNull)
	}
	t.partitionCount = t.arrayLength(t.flexible, nonNull, minProducePartitionSize)
	return t.ok()
}

// topicIDsFrom is the version of Produce that names topics by id instead of name.
const topicIDsFrom = 13

// passPartitions moves behind the current topic, if there is one.
func (t *ProduceTopics) passPartitions() {
	if t.partitionCount < 0 {
		return
	}
	partitions := t.Partitions()
	for partitions.Next() { // walking over them is all
	}
	t.cursor = partitions.cursor
	if t.flexible {
		t.skipTags()
	}
	t.partitionCount = noTopic
}

// Name is the topic's name; nil from v13 on.
func (t *ProduceTopics) Name() []byte { return t.name }

// ID is the topic's id from v13 on; zero before.
func (t *ProduceTopics) ID() kafka.TopicID { return t.id }

// PartitionCount is how many partitions of the topic the request has.
func (t *ProduceTopics) PartitionCount() int { return t.partitionCount }

// Partitions starts an iteration over the partitions of the current topic.
func (t *ProduceTopics) Partitions() ProducePartitions {
	c := t.produceCursor
	c.left = t.partitionCount
	return ProducePartitions{produceCursor: c}
}

// ProducePartitions iterates over the partitions of one topic; Next goes before each.
type ProducePartitions struct {
	produceCursor
	partition int32
	records   []byte
}

// Next goes on to the next partition and reports whether there is one.
func (p *ProducePartitions) Next() bool {
	if p.left <= 0 || !p.ok() {
		return false
	}
	p.left--
	p.partition = p.int32()
	p.records = p.bytes(p.flexible, nullable)
	if p.flexible {
		p.skipTags()
	}
	return p.ok()
}

// Partition is the partition's number.
func (p *ProducePartitions) Partition() int32 { return p.partition }

// Records is the partition's record data; nil when the client sent null. Its capacity ends with it.
func (p *ProducePartitions) Records() []byte { return p.records }
