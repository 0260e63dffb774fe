//go:build linux

package replay

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// The versions that are spoken: the last ones that name topics, which both brokers serve.
const (
	produceVersion = 9
	fetchVersion   = 12
)

// Acks is who must have a record before it is acknowledged.
type Acks int16

// What the protocol knows, but for 0: nobody would tell when such a run is over.
const (
	AcksAll    Acks = -1
	AcksLeader Acks = 1
)

func (a Acks) String() string {
	if a == AcksAll {
		return "all"
	}
	return "1"
}

// What stands around the topic's name in the answer to a Produce request for one partition, up to the error code: size,
// correlation id, no tags, one topic, the name's length; then one partition, its index.
const (
	beforeProducedName = 4 + 4 + 1 + 1 + 1
	behindProducedName = 1 + 4
)

// produceFrame is a Produce request with one batch, as it goes over the wire.
func produceFrame(topic string, partition int32, acks Acks, batch []byte) []byte {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(produceVersion)
	request.Acks, request.TimeoutMillis = int16(acks), 30_000
	into := kmsg.NewProduceRequestTopic()
	into.Topic = topic
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, batch
	into.Partitions = append(into.Partitions, part)
	request.Topics = append(request.Topics, into)
	return encode(request)
}

// fetchFrame asks for one partition. fetchOffsetAt tells where its offset stands.
func fetchFrame(topic string, partition, maxBytes int32, minBytes int32) []byte {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(fetchVersion)
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = 500, minBytes, maxBytes
	request.SessionEpoch = -1
	from := kmsg.NewFetchRequestTopic()
	from.Topic = topic
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.PartitionMaxBytes, part.FetchOffset = partition, maxBytes, offsetMark
	from.Partitions = append(from.Partitions, part)
	request.Topics = append(request.Topics, from)
	return encode(request)
}

// offsetMark is an offset that stands nowhere else in a request, for patchOffset to find it.
const offsetMark = 0x7a5a3c1b0f2e4d69

func encode(request kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("replay")).AppendRequest(nil, request, 1)
}

// Ask sends a request and waits for its answer, whatever it is.
func Ask(conn net.Conn, request kmsg.Request) error {
	_, err := exchange(conn, request)
	return err
}

// exchange sends a request and reads its answer, without the size and the correlation id at its begin.
func exchange(conn net.Conn, request kmsg.Request) ([]byte, error) {
	if _, err := conn.Write(encode(request)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	const largest = 64 << 20
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > largest {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return nil, err
	}
	return frame[4:], nil
}

// dial connects, and closes the connection when the context ends, which ends what waits for it.
func dial(ctx context.Context, address string) (conn *net.TCPConn, release func(), err error) {
	opened, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	conn, ok := opened.(*net.TCPConn)
	if !ok {
		opened.Close()
		return nil, nil, fmt.Errorf("%s is no TCP address", address)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, func() {
		stop()
		_ = conn.Close()
	}, nil
}

// ProduceAll sends a batch to each of several topics' partitions, numbered from 0, in one request and returns the first
// error that any of them has. It is how to learn that a broker that has just been started takes records everywhere.
func ProduceAll(ctx context.Context, address string, topics []string, partitions int, batch []byte) error {
	conn, release, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer release()
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(produceVersion - 1) // the last with a plain header
	request.Acks, request.TimeoutMillis = int16(AcksLeader), 30_000
	for _, topic := range topics {
		into := kmsg.NewProduceRequestTopic()
		into.Topic = topic
		for partition := range int32(partitions) {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition, part.Records = partition, batch
			into.Partitions = append(into.Partitions, part)
		}
		request.Topics = append(request.Topics, into)
	}
	frame, err := exchange(conn, request)
	if err != nil {
		return err
	}
	answer := kmsg.NewPtrProduceResponse()
	answer.SetVersion(request.GetVersion())
	if err := answer.ReadFrom(frame); err != nil {
		return fmt.Errorf("answer to Produce: %w", err)
	}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if code := kafka.Errno(partition.ErrorCode); code != 0 {
				return fmt.Errorf("produce to %s-%d: %w", topic.Topic, partition.Partition, code)
			}
		}
	}
	return nil
}
