package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkaGo is segmentio/kafka-go. It knows no idempotent producer.
type kafkaGo struct{ brokers []string }

func (s kafkaGo) produce(ctx context.Context, topic, codec string, records []record) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(s.brokers...), Topic: topic, RequiredAcks: kafka.RequireAll,
		BatchBytes: maxMessageBytes, BatchTimeout: linger, WriteTimeout: patience,
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
	}
	if codec != "none" {
		if err := writer.Compression.UnmarshalText([]byte(codec)); err != nil {
			return err
		}
	}
	messages := make([]kafka.Message, len(records))
	for i, r := range records {
		messages[i] = kafka.Message{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			messages[i].Headers = append(messages[i].Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
	}
	err := writer.WriteMessages(ctx, messages...)
	if closing := writer.Close(); err == nil {
		err = closing
	}
	return err
}

func (s kafkaGo) consume(ctx context.Context, from start) ([]record, error) {
	first, end, err := s.bounds(ctx, from)
	if err != nil || first < 0 || first >= end { // no record is as young
		return nil, err
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: s.brokers, Topic: from.topic, MinBytes: 1, MaxBytes: maxMessageBytes, MaxWait: fetchWait,
	})
	defer func() { _ = reader.Close() }()
	if err := reader.SetOffset(first); err != nil {
		return nil, err
	}
	var records []record
	for {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return nil, err
		}
		r := record{Offset: m.Offset, Timestamp: m.Time.UnixMilli(), Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, header{h.Key, h.Value})
		}
		records = append(records, r)
		if m.Offset+1 >= end {
			return records, nil
		}
	}
}

func (s kafkaGo) member(ctx context.Context, j join, hear func(int32, int64, []byte)) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: s.brokers, GroupID: j.group, Topic: j.topic, MinBytes: 1, MaxBytes: maxMessageBytes, MaxWait: fetchWait,
		Dialer:         &kafka.Dialer{ClientID: j.member, Timeout: sessionTimeout},
		GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}, // it has no other that is sticky or usual
		SessionTimeout: sessionTimeout, HeartbeatInterval: heartbeatInterval,
		StartOffset: kafka.FirstOffset, IsolationLevel: kafka.ReadCommitted,
	})
	for {
		m, err := reader.ReadMessage(ctx) // commits
		if ctx.Err() != nil {
			return reader.Close()
		}
		if err != nil {
			return err
		}
		hear(int32(m.Partition), m.Offset, m.Value)
	}
}

func (kafkaGo) transact(transactions) error {
	return errors.New("segmentio/kafka-go has no transactional producer")
}

// bounds are the offsets [first, end) to read.
func (s kafkaGo) bounds(ctx context.Context, from start) (first, end int64, err error) {
	connection, err := kafka.DialLeader(ctx, "tcp", s.brokers[0], from.topic, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = connection.Close() }()
	if end, err = connection.ReadLastOffset(); err != nil || !from.isTime {
		return from.at, end, err
	}
	first, err = connection.ReadOffset(time.UnixMilli(from.at))
	return first, end, err
}
