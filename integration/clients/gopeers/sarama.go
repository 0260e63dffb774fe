package main

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// saramaClient is IBM/sarama.
type saramaClient struct{ brokers []string }

// config is that of both sides. MaxVersion makes it use the newest requests that it knows.
func (s saramaClient) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.MaxMessageBytes = maxMessageBytes
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1 // as its idempotent producer asks for
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Flush.Frequency = linger
	config.Consumer.Fetch.Default = maxMessageBytes
	config.Consumer.MaxWaitTime = fetchWait
	config.Consumer.Return.Errors = true
	return config
}

func (s saramaClient) produce(_ context.Context, topic, codec string, records []record) error {
	config := s.config()
	if err := config.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer(s.brokers, config)
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, len(records))
	for i, r := range records {
		messages[i] = &sarama.ProducerMessage{
			Topic: topic, Key: encoder(r.Key), Value: encoder(r.Value), Timestamp: time.UnixMilli(r.Timestamp),
		}
		for _, h := range r.Headers {
			messages[i].Headers = append(messages[i].Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
	}
	err = producer.SendMessages(messages)
	if closing := producer.Close(); err == nil {
		err = closing
	}
	return err
}

// encoder is what sarama takes for bytes: an encoder that is nil is null.
func encoder(data []byte) sarama.Encoder {
	if data == nil {
		return nil
	}
	return sarama.ByteEncoder(data)
}

func (s saramaClient) consume(ctx context.Context, from start) ([]record, error) {
	client, err := sarama.NewClient(s.brokers, s.config())
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	end, err := client.GetOffset(from.topic, 0, sarama.OffsetNewest)
	if err != nil {
		return nil, err
	}
	first := from.at
	if from.isTime {
		if first, err = client.GetOffset(from.topic, 0, from.at); err != nil {
			return nil, err
		}
	}
	if first < 0 || first >= end { // no record is as young
		return nil, nil
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer func() { _ = consumer.Close() }()
	partition, err := consumer.ConsumePartition(from.topic, 0, first)
	if err != nil {
		return nil, err
	}
	defer func() { _ = partition.Close() }()
	var records []record
	for {
		select {
		case m := <-partition.Messages():
			records = append(records, saramaRecord(m))
			if m.Offset+1 >= end {
				return records, nil
			}
		case err := <-partition.Errors():
			return nil, err
		case <-ctx.Done():
			return nil, fmt.Errorf("the end of %s at offset %d does not come: %w", from.topic, end, ctx.Err())
		}
	}
}

func saramaRecord(m *sarama.ConsumerMessage) record {
	r := record{Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, header{string(h.Key), h.Value})
	}
	return r
}

// saramaMember is a member of a group; it is called with what it has for as long as the group stays as it is.
type saramaMember struct{ hear func(int32, int64, []byte) }

func (saramaMember) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.hear(message.Partition, message.Offset, message.Value)
		session.MarkMessage(message, "")
	}
	return nil
}

func (s saramaClient) member(ctx context.Context, j join, hear func(int32, int64, []byte)) error {
	config := s.config()
	config.ClientID = j.member
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Group.Session.Timeout = sessionTimeout
	config.Consumer.Group.Heartbeat.Interval = heartbeatInterval
	strategy := sarama.NewBalanceStrategySticky()
	if j.protocol == "range" {
		strategy = sarama.NewBalanceStrategyRange()
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	config.Consumer.Return.Errors = false // Consume returns those that end it
	group, err := sarama.NewConsumerGroup(s.brokers, j.group, config)
	if err != nil {
		return err
	}
	for ctx.Err() == nil && err == nil {
		err = group.Consume(ctx, []string{j.topic}, saramaMember{hear})
	}
	if closing := group.Close(); err == nil {
		err = closing
	}
	return err
}

func (s saramaClient) transact(t transactions) error {
	config := s.config()
	config.Producer.Transaction.ID = t.ID
	producer, err := sarama.NewSyncProducer(s.brokers, config)
	if err != nil {
		return err
	}
	send := func(value string) error {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: t.Topic, Partition: t.Partition, Value: sarama.StringEncoder(value),
		})
		return err
	}
	for i, value := range t.Values {
		err := send("aborted")
		if err == nil {
			err = producer.AbortTxn()
		}
		if err == nil {
			err = send(value)
		}
		if err == nil {
			err = producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{
				t.Source: {{Partition: 0, Offset: int64(i + 1)}},
			}, t.Group)
		}
		if err == nil {
			err = producer.CommitTxn()
		}
		if err != nil {
			return err
		}
	}
	return producer.Close()
}
