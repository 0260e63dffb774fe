package firn

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

// The metrics of how far consumers lag behind, of the groups that this broker coordinates, under the names of
// kafka_exporter, and the same in time:
//
//	kafka_consumergroup_members{consumergroup}
//	kafka_consumergroup_{current_offset,lag,lag_seconds}{consumergroup,topic,partition}
//	kafka_consumergroup_{current_offset_sum,lag_sum}{consumergroup,topic}
//	kafka_consumergroup_lag_seconds_max{consumergroup,topic}
//
// Each kind ends where it would have more than firn.metrics.partitions.max series (MX-10); sums come first.

// committedOffsets are the groups that this broker coordinates and what they have committed.
type committedOffsets interface {
	EachGroup(visit func(group string, members int)) error
	EachOffset(visit func(group.Committed)) error
}

var _ committedOffsets = (*group.Coordinator)(nil)

// partitionReader tells what there is to read in the partitions that this broker leads.
type partitionReader interface {
	// Borders returns the log start offset and the high watermark.
	Borders(tp kafka.TopicPartition) (start, highWatermark int64, ok bool)
	// Timestamp returns that of the batch which holds the offset, in Unix milliseconds, and of the first batch on disk
	// where that one lies in the bucket only.
	Timestamp(tp kafka.TopicPartition, offset int64) (timestamp int64, ok bool)
}

// lagCollector computes the lag at the moment of a scrape: what is deleted is gone from the next one.
type lagCollector struct {
	groups     committedOffsets
	partitions partitionReader
	maxSeries  int

	members, offset, offsetSum, lag, lagSum, seconds, maxSeconds *prometheus.Desc

	mu sync.Mutex // guards the field below, and serializes scrapes
	// unread remembers since when a group has had something to read, so that a group that stands still costs no reads.
	unread map[groupPartition]unreadSince
}

type groupPartition struct {
	group string
	kafka.TopicPartition
}

// unreadSince is the timestamp at an offset.
type unreadSince struct{ offset, timestamp int64 }

func newLagCollector(groups committedOffsets, partitions partitionReader, maxSeries int) *lagCollector {
	description := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kafka_consumergroup_"+name, help, append([]string{"consumergroup"}, labels...), nil)
	}
	return &lagCollector{
		groups: groups, partitions: partitions, maxSeries: maxSeries,
		members:   description("members", "Members of the group."),
		offset:    description("current_offset", "Offset that the group has committed.", "topic", "partition"),
		offsetSum: description("current_offset_sum", "Sum of the offsets over the topic's partitions.", "topic"),
		lag:       description("lag", "Offsets between the committed one and the high watermark.", "topic", "partition"),
		lagSum:    description("lag_sum", "Sum of the lag over the topic's partitions.", "topic"),
		seconds: description("lag_seconds", "Age, by its own timestamp, of the first record that the group has to read.",
			"topic", "partition"),
		maxSeconds: description("lag_seconds_max", "Largest age over the topic's partitions.", "topic"),
	}
}

// Describe implements prometheus.Collector.
func (c *lagCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{
		c.members, c.offset, c.offsetSum, c.lag, c.lagSum, c.seconds, c.maxSeconds,
	} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c *lagCollector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	members := map[string]int{}
	if err := c.groups.EachGroup(func(group string, count int) { members[group] = count }); err == nil &&
		len(members) <= c.maxSeries {
		for group, count := range members {
			gauge(c.members, float64(count), group)
		}
	}
	lags := c.measure(time.Now())
	sums := map[groupTopic]topicLag{}
	for at, lag := range lags {
		key := groupTopic{at.group, at.Topic}
		sums[key] = sums[key].plus(lag)
	}
	if len(sums) <= c.maxSeries {
		for key, sum := range sums {
			gauge(c.offsetSum, float64(sum.offset), key.group, key.topic)
			gauge(c.lagSum, float64(sum.lag), key.group, key.topic)
			if sum.aged {
				gauge(c.maxSeconds, sum.age.Seconds(), key.group, key.topic)
			}
		}
	}
	if len(lags) > c.maxSeries {
		return
	}
	for at, lag := range lags {
		partition := strconv.Itoa(int(at.Partition))
		gauge(c.offset, float64(lag.offset), at.group, at.Topic, partition)
		gauge(c.lag, float64(lag.lag), at.group, at.Topic, partition)
		if lag.aged {
			gauge(c.seconds, lag.age.Seconds(), at.group, at.Topic, partition)
		}
	}
}

type groupTopic struct{ group, topic string }

// topicLag is the lag in a partition, or what the partitions of a topic make together.
type topicLag struct {
	offset, lag int64
	age         time.Duration // of the first record to read; 0 when there is none
	aged        bool          // the age is known
}

func (t topicLag) plus(other topicLag) topicLag {
	return topicLag{offset: t.offset + other.offset, lag: t.lag + other.lag, age: max(t.age, other.age),
		aged: t.aged || other.aged}
}

// measure computes the lag wherever a group has committed an offset. Offsets come before the ends, which only grow, so
// that a consumer that is fast is not seen ahead of the log (MX-01).
func (c *lagCollector) measure(now time.Time) map[groupPartition]topicLag {
	committed := map[groupPartition]int64{}
	err := c.groups.EachOffset(func(one group.Committed) {
		committed[groupPartition{one.Group, one.TopicPartition}] = one.Offset
	})
	if err != nil {
		return nil // the coordinator has just changed: nothing is better than a part
	}
	lags := make(map[groupPartition]topicLag, len(committed))
	unread := make(map[groupPartition]unreadSince)
	for at, offset := range committed {
		start, highWatermark, ok := c.partitions.Borders(at.TopicPartition)
		if !ok {
			continue // the topic is going, or somebody else leads the partition
		}
		// What retention has removed is not to be read any more (MX-04).
		first := max(offset, start)
		lag := topicLag{offset: offset, lag: max(highWatermark-first, 0), aged: true}
		if lag.lag > 0 {
			var since unreadSince
			if since, lag.aged = c.unreadSince(at, first); lag.aged {
				unread[at] = since
				lag.age = max(now.Sub(time.UnixMilli(since.timestamp)), 0)
			}
		}
		lags[at] = lag
	}
	c.unread = unread
	return lags
}

// unreadSince finds the timestamp at an offset. c.mu is held.
func (c *lagCollector) unreadSince(at groupPartition, offset int64) (since unreadSince, ok bool) {
	if known, ok := c.unread[at]; ok && known.offset == offset {
		return known, true
	}
	timestamp, ok := c.partitions.Timestamp(at.TopicPartition, offset)
	return unreadSince{offset, timestamp}, ok && timestamp >= 0
}

// ledPartitions are the partitions of this broker.
type ledPartitions struct{ *replica.Manager }

var _ partitionReader = ledPartitions{}

func (l ledPartitions) log(tp kafka.TopicPartition) (*storage.Log, bool) {
	p, err := l.Partition(tp)
	if err != nil {
		return nil, false
	}
	log, err := p.Log()
	return log, err == nil
}

// Borders implements partitionReader.
func (l ledPartitions) Borders(tp kafka.TopicPartition) (start, highWatermark int64, ok bool) {
	log, ok := l.log(tp)
	if !ok {
		return 0, 0, false
	}
	return log.LogStartOffset(), log.HighWatermark(), true
}

// Timestamp implements partitionReader. It reads no more than a batch's header.
func (l ledPartitions) Timestamp(tp kafka.TopicPartition, offset int64) (timestamp int64, ok bool) {
	log, ok := l.log(tp)
	if !ok {
		return 0, false
	}
	found, err := log.Read(storage.ReadRequest{Offset: max(offset, log.LocalLogStartOffset()), AtLeastOne: true,
		UpTo: log.HighWatermark()})
	if err != nil {
		return 0, false
	}
	defer found.Region.Release()
	var header [record.HeaderSize]byte
	if n, err := found.Region.ReadAt(header[:], 0); err != nil || n < len(header) {
		return 0, false
	}
	return record.Batch(header[:]).BaseTimestamp(), true
}
