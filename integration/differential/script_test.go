//go:build integration

package differential

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// testCase is one part of the script: requests of one API that belong together, sent at each of its versions.
type testCase struct {
	key  int16
	name string
	// from and to bound the versions where the case makes sense; to 0 is up to the highest.
	from, to int16
	run      func(s *script)
	// appendTimes says that the broker's clock stamps the records: their times differ.
	appendTimes bool
}

// script is one case at one version against one broker. It is run once for each broker, and does the same for both.
type script struct {
	peer    *peer
	version int16
	prefix  string // of the names of this script's own topics
	start   int64  // ms since 1970: of the records of all scripts
	steps   []step
}

// step is one request whose answer is compared.
type step struct {
	name    string
	outcome outcome
}

func newStep(name string, answer outcome) step { return step{name, answer} }

// failure ends a script whose own preparations failed.
type failure struct{ err error }

func (s *script) check(err error) {
	if err != nil {
		panic(failure{fmt.Errorf("%s: %w", s.peer.name, err)})
	}
}

// play runs a case against one broker.
func play(c *testCase, p *peer, version int16, prefix string, start int64) (steps []step, err error) {
	s := &script{peer: p, version: version, prefix: prefix, start: start}
	p.prefix, p.start, p.appendTimes = prefix, start, c.appendTimes
	defer func() {
		if caught := recover(); caught != nil {
			failed, ok := caught.(failure)
			if !ok {
				panic(caught)
			}
			steps, err = s.steps, failed.err
		}
	}()
	c.run(s)
	return s.steps, nil
}

// ask sends a request at the version of the script and keeps the answer for the comparison; nil if there was none.
func (s *script) ask(name string, req kmsg.Request) kmsg.Response {
	req.SetVersion(s.version)
	return s.askAsIs(name, req)
}

// askAsIs sends a request at the version that it has.
func (s *script) askAsIs(name string, req kmsg.Request) kmsg.Response {
	answer, err := s.peer.ask(req)
	s.check(err)
	s.steps = append(s.steps, step{name, answer})
	return answer.response
}

// askBriefly is ask for a request to which one of the brokers gives no answer.
func (s *script) askBriefly(name string, req kmsg.Request) {
	s.peer.timeout = briefTimeout
	s.ask(name, req)
	s.peer.timeout = 0
}

// silent sends a request that gets no answer when it is well, and asks something else on the same connection: that is
// answered unless the broker closed the connection.
func (s *script) silent(name string, req kmsg.Request) {
	req.SetVersion(s.version)
	s.check(s.peer.send(req, func(frame []byte) []byte { return frame }))
	probe := kmsg.NewPtrApiVersionsRequest()
	answer, err := s.peer.ask(probe)
	s.check(err)
	if answer.ended == "" {
		answer = outcome{response: kmsg.NewPtrApiVersionsResponse()} // that it came is what counts
	}
	s.steps = append(s.steps, step{name, answer})
}

// quiet sends a request that only prepares something, at a version both brokers have.
func quiet[R kmsg.Response](s *script, req kmsg.Request, version int16) R {
	req.SetVersion(version)
	answer, err := s.peer.ask(req)
	s.check(err)
	if answer.ended != "" {
		s.check(fmt.Errorf("preparation ended with: %s", answer.ended))
	}
	return answer.response.(R)
}

// topic is the full name of a topic of this script.
func (s *script) topic(name string) string { return s.prefix + name }

// create makes a topic of this script with one partition, and settings as name, value, name, value, … It returns the
// full name when the topic serves.
func (s *script) create(name string, settings ...string) string {
	return s.createWith(name, 1, settings...)
}

func (s *script) createWith(name string, partitions int32, settings ...string) string {
	full := s.topic(name)
	s.peer.make(s, full, partitions, settings)
	return full
}

// sharedTopic makes a topic that many scripts read, once.
func (s *script) sharedTopic(name string, fill func(topic string), settings ...string) string {
	if !s.peer.shared[name] {
		s.peer.shared[name] = true
		s.peer.make(s, name, 1, settings)
		fill(name)
	}
	return name
}

func (p *peer) make(s *script, name string, partitions int32, settings []string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := newTopic(name, partitions, 1)
	for i := 0; i+1 < len(settings); i += 2 {
		topic.Configs = append(topic.Configs, setting(settings[i], settings[i+1]))
	}
	req.Topics = append(req.Topics, topic)
	req.TimeoutMillis = 10_000
	resp := quiet[*kmsg.CreateTopicsResponse](s, req, 7)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		s.check(fmt.Errorf("create %s: %s", name, codeName(code)))
	}
	p.topics[name] = resp.Topics[0].TopicID
	s.await(name, partitions)
}

// id is the id of a topic by its full name.
func (s *script) id(name string) kafka.TopicID {
	id, ok := s.peer.topics[name]
	if !ok {
		s.check(fmt.Errorf("no topic %s", name))
	}
	return id
}

// learn notes the id of a topic that was created otherwise.
func (s *script) learn(name string) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	resp := quiet[*kmsg.MetadataResponse](s, req, 12)
	if resp.Topics[0].ErrorCode == 0 {
		s.peer.topics[name] = resp.Topics[0].TopicID
	}
}

const (
	awaitTimeout = 10 * time.Second
	// awaitPause is between two questions whether it has happened.
	awaitPause = 5 * time.Millisecond
)

// await waits until all partitions of a topic serve: Kafka names a leader a moment before that leader knows.
func (s *script) await(name string, partitions int32) {
	s.poll("topic "+name+" does not serve", func() bool {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		topic := kmsg.ListOffsetsRequestTopic{Topic: name}
		for i := range partitions {
			topic.Partitions = append(topic.Partitions, listPartition(i, -1))
		}
		req.Topics = append(req.Topics, topic)
		for _, partition := range quiet[*kmsg.ListOffsetsResponse](s, req, 7).Topics[0].Partitions {
			if partition.ErrorCode != 0 {
				return false
			}
		}
		return true
	})
}

// poll asks until something has happened that nobody tells.
func (s *script) poll(late string, happened func() bool) { s.pollFor(awaitTimeout, late, happened) }

func (s *script) pollFor(patience time.Duration, late string, happened func() bool) {
	for deadline := time.Now().Add(patience); !happened(); <-time.After(awaitPause) {
		if time.Now().After(deadline) {
			s.check(errors.New(late))
		}
	}
}

func newTopic(name string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, replicas
	return topic
}

func setting(name, value string) kmsg.CreateTopicsRequestTopicConfig {
	return kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value}
}

func listPartition(partition int32, timestamp int64) kmsg.ListOffsetsRequestTopicPartition {
	asked := kmsg.NewListOffsetsRequestTopicPartition()
	asked.Partition, asked.Timestamp, asked.CurrentLeaderEpoch = partition, timestamp, -1
	return asked
}

// produce appends batches to partition 0 of a topic, one request each, and demands that all succeed.
func (s *script) produce(topic string, batches ...[]byte) {
	for _, data := range batches {
		req := produceRequest(-1, 8, topic, s.id(topic), 0, data)
		resp := quiet[*kmsg.ProduceResponse](s, req, 8)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			s.check(fmt.Errorf("produce to %s: %s", topic, codeName(code)))
		}
	}
}

// produceRequest names the topic as the version wants it.
func produceRequest(acks, version int16, topic string, id kafka.TopicID, partition int32, data []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	one := kmsg.NewProduceRequestTopic()
	if version >= 13 {
		one.TopicID = id
	} else {
		one.Topic = topic
	}
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, data
	one.Partitions = append(one.Partitions, p)
	req.Topics = append(req.Topics, one)
	return req
}

// plain is a batch of records key0 → value0, …, a millisecond apart from the given time on.
func plain(at int64, count int) record.Batch { return build(record.PlainProducer(), at, count) }

func build(opts record.BuilderOptions, at int64, count int) record.Batch {
	builder := record.NewBuilder(opts)
	for i := range count {
		builder.Append(at+int64(i), fmt.Appendf(nil, "key%d", i), fmt.Appendf(nil, "value%d", i),
			record.Header{Key: "h", Value: []byte{byte(i)}}, record.Header{Key: "empty"})
	}
	return builder.Build()
}
