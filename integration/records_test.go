package integration

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// read consumes a partition from an offset to its end, as one that has just come would: it stops at the high watermark
// that it finds.
func (s *scenario) read(topic string, partition int32, from int64, options ...kgo.Opt) []*kgo.Record {
	s.t.Helper()
	ends := try(s.admin().ListEndOffsets(s.context(), topic)).orFail(s.t)
	end, ok := ends.Lookup(topic, partition)
	if !ok || end.Err != nil {
		s.t.Fatalf("no end of %s-%d: %v", topic, partition, end.Err)
	}
	return s.readTo(topic, partition, from, end.Offset, options...)
}

// readTo consumes the offsets [from, end) of a partition and checks that they come in order and without a gap.
func (s *scenario) readTo(topic string, partition int32, from, end int64, options ...kgo.Opt) []*kgo.Record {
	s.t.Helper()
	if from >= end {
		return nil
	}
	client := s.client(append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	}, options...)...)
	defer client.Close()
	var records []*kgo.Record
	ctx := s.context()
	for next := from; next < end; {
		fetches := client.PollFetches(ctx)
		must(s.t, fetches.Err())
		for _, record := range fetches.Records() {
			if record.Offset != next {
				s.t.Fatalf("%s-%d: offset %d was followed by %d", topic, partition, next-1, record.Offset)
			}
			records = append(records, record)
			next++
		}
	}
	return records[:end-from]
}

// produce sends records and waits until all of them are acknowledged. It fails the test if one is not.
func (s *scenario) produce(client *kgo.Client, records ...*kgo.Record) {
	s.t.Helper()
	must(s.t, client.ProduceSync(s.context(), records...).FirstErr())
}

// numbered makes records with values that tell them apart, of about size bytes.
func numbered(topic string, partition int32, first, count, size int) []*kgo.Record {
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = &kgo.Record{
			Topic: topic, Partition: partition,
			Key:   fmt.Appendf(nil, "key %d", first+i),
			Value: fmt.Appendf(bytes.Repeat([]byte{'.'}, size), " %s-%d record %d", topic, partition, first+i),
		}
	}
	return records
}

// expectSame compares what was read with what was sent, including offsets and times.
func expectSame(t *testing.T, got, want []*kgo.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if difference := differ(got[i], want[i]); difference != "" {
			t.Fatalf("record %d: %s", i, difference)
		}
	}
}

func differ(got, want *kgo.Record) string {
	switch {
	case got.Offset != want.Offset:
		return fmt.Sprintf("offset %d, want %d", got.Offset, want.Offset)
	case !sameBytes(got.Key, want.Key):
		return fmt.Sprintf("key %q, want %q", shorten(got.Key), shorten(want.Key))
	case !sameBytes(got.Value, want.Value):
		return fmt.Sprintf("value %q, want %q", shorten(got.Value), shorten(want.Value))
	case got.Timestamp.UnixMilli() != want.Timestamp.UnixMilli():
		return fmt.Sprintf("timestamp %v, want %v", got.Timestamp, want.Timestamp)
	case len(got.Headers) != len(want.Headers):
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(want.Headers))
	}
	for i, header := range want.Headers {
		if got.Headers[i].Key != header.Key || !sameBytes(got.Headers[i].Value, header.Value) {
			return fmt.Sprintf("header %d is %v, want %v", i, got.Headers[i], header)
		}
	}
	return ""
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func shorten(text []byte) []byte {
	const most = 80
	if len(text) <= most {
		return text
	}
	return append(text[:most/2:most/2], text[len(text)-most/2:]...)
}

// expectOnceInOrder checks that records with the values sent are there, each exactly once and in the order of sending.
func expectOnceInOrder(t testing.TB, records, sent []*kgo.Record) {
	t.Helper()
	if len(records) != len(sent) {
		t.Errorf("%d records, want %d", len(records), len(sent))
	}
	for i := range min(len(records), len(sent)) {
		if !sameBytes(records[i].Value, sent[i].Value) {
			t.Fatalf("offset %d is %q, want %q", i, shorten(records[i].Value), shorten(sent[i].Value))
		}
	}
}
