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
