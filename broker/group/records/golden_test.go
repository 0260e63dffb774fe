package records

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// value is a value that both ways are tested of.
type value interface {
	Append(dst []byte) []byte
	Parse(encoded []byte) error
}

// kmsgValue makes a value of kmsg's one of ours.
type kmsgValue struct{ kmsgCoder }

type kmsgCoder interface {
	AppendTo(dst []byte) []byte
	ReadFrom(src []byte) error
}

func (v kmsgValue) Append(dst []byte) []byte   { return v.AppendTo(dst) }
func (v kmsgValue) Parse(encoded []byte) error { return v.ReadFrom(encoded) }

func text(s string) *string { return &s }

const at = 1700000000000

var (
	firstTopic  = kafka.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	secondTopic = kafka.TopicID{7: 5, 15: 6}

	offsetKey = Key{Kind: OffsetCommit, Group: "group", Topic: "topic", Partition: 3}
	memberKey = Key{Kind: ConsumerMember, Group: "group", Member: "member"}
)

// goldens are the records whose bytes Kafka 4.4 wrote into testdata, by name.
var goldens = map[string]struct {
	key   Key
	value value
	empty func() value
}{
	"offset": {offsetKey, kmsgValue{&kmsg.OffsetCommitValue{
		Version: 4, Offset: 42, LeaderEpoch: 7, Metadata: "meta", CommitTimestamp: at, TopicID: firstTopic,
	}}, newOffset},
	"offset-without-topic-id": {offsetKey, kmsgValue{&kmsg.OffsetCommitValue{
		Version: 4, Offset: 42, LeaderEpoch: -1, CommitTimestamp: at,
	}}, newOffset},
	"offset-v3": {offsetKey, kmsgValue{&kmsg.OffsetCommitValue{
		Version: 3, Offset: 42, LeaderEpoch: 7, Metadata: "meta", CommitTimestamp: at,
	}}, newOffset},
	"offset-v1": {offsetKey, kmsgValue{&kmsg.OffsetCommitValue{
		Version: 1, Offset: 42, Metadata: "meta", CommitTimestamp: at, ExpireTimestamp: at + 60_000,
	}}, newOffset},
	"group": {Key{Kind: GroupMetadata, Group: "group"}, kmsgValue{&kmsg.GroupMetadataValue{
		Version: 3, ProtocolType: "consumer", Generation: 5, Protocol: text("range"), Leader: text("member"),
		CurrentStateTimestamp: at, Members: []kmsg.GroupMetadataValueMember{{
			MemberID: "member", InstanceID: text("instance"), ClientID: "client", ClientHost: "/127.0.0.1",
			RebalanceTimeoutMillis: 300_000, SessionTimeoutMillis: 45_000,
			Subscription: []byte{1, 2, 3}, Assignment: []byte{4, 5},
		}},
	}}, func() value { return kmsgValue{&kmsg.GroupMetadataValue{}} }},
	"consumer-metadata": {
		Key{Kind: ConsumerMetadata, Group: "group"},
		&ConsumerMetadataValue{Epoch: 9, MetadataHash: 0x1122334455667788},
		func() value { return &ConsumerMetadataValue{} },
	},
	"consumer-metadata-without-hash": {
		Key{Kind: ConsumerMetadata, Group: "group"}, &ConsumerMetadataValue{Epoch: 9},
		func() value { return &ConsumerMetadataValue{MetadataHash: 1} },
	},
	"consumer-member": {memberKey, &ConsumerMemberValue{
		InstanceID: text("instance"), RackID: text("rack"), ClientID: "client", ClientHost: "/127.0.0.1",
		Topics: []string{"a", "b"}, Regex: text("t.*"), RebalanceTimeoutMs: 300_000, ServerAssignor: text("uniform"),
	}, newMember},
	"consumer-member-classic": {memberKey, &ConsumerMemberValue{
		ClientID: "client", ClientHost: "/127.0.0.1", Topics: []string{"a"}, RebalanceTimeoutMs: 300_000,
		Classic: &ClassicMember{
			SessionTimeoutMs: 45_000, Protocols: []ClassicProtocol{{Name: "range", Metadata: []byte{1, 2, 3}}},
		},
	}, newMember},
	"consumer-target": {
		Key{Kind: ConsumerTarget, Group: "group"}, &ConsumerTargetValue{Epoch: 9, TimestampMs: at},
		func() value { return &ConsumerTargetValue{} },
	},
	"consumer-target-without-time": {
		Key{Kind: ConsumerTarget, Group: "group"}, &ConsumerTargetValue{Epoch: 9},
		func() value { return &ConsumerTargetValue{TimestampMs: 1} },
	},
	"consumer-target-member": {
		Key{Kind: ConsumerTargetMember, Group: "group", Member: "member"},
		&ConsumerTargetMemberValue{Assigned: []TopicPartitions{
			{TopicID: firstTopic, Partitions: []int32{0, 2}}, {TopicID: secondTopic, Partitions: []int32{1}},
		}},
		func() value { return &ConsumerTargetMemberValue{} },
	},
	"consumer-current-member": {
		Key{Kind: ConsumerCurrentMember, Group: "group", Member: "member"},
		&ConsumerCurrentMemberValue{
			Epoch: 9, PreviousEpoch: 8, State: 1,
			Assigned: []TopicPartitions{
				{TopicID: firstTopic, Partitions: []int32{0, 2}, Epochs: []int32{7, 9}},
			},
			PendingRevocation: []TopicPartitions{{TopicID: secondTopic, Partitions: []int32{1}}},
		},
		func() value { return &ConsumerCurrentMemberValue{} },
	},
	"consumer-regular-expression": {
		Key{Kind: ConsumerRegularExpression, Group: "group", Regex: "t.*"},
		&ConsumerRegularExpressionValue{Topics: []string{"t1", "t2"}, Version: 12, TimestampMs: at},
		func() value { return &ConsumerRegularExpressionValue{} },
	},
}

func newOffset() value { return kmsgValue{&kmsg.OffsetCommitValue{}} }
func newMember() value { return &ConsumerMemberValue{} }

// What Kafka wrote is read as what it is, and written to the byte.
func TestRecordsAreThoseOfKafka(t *testing.T) {
	seen := 0
	for name, encoded := range kafkaRecords(t) {
		golden, ok := goldens[name]
		if !ok {
			t.Errorf("%s is in testdata and not here", name)
			continue
		}
		seen++
		if got := golden.key.Encode(); !bytes.Equal(got, encoded[0]) {
			t.Errorf("%s: the key is %x, want %x", name, got, encoded[0])
		}
		if got, err := ParseKey(encoded[0]); err != nil || got != golden.key {
			t.Errorf("%s: the key is read as %+v, %v", name, got, err)
		}
		if got := golden.value.Append(nil); !bytes.Equal(got, encoded[1]) {
			t.Errorf("%s: the value is\n%x, want\n%x", name, got, encoded[1])
		}
		into := golden.empty()
		if err := into.Parse(encoded[1]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(golden.value, into) {
			t.Errorf("%s: the value is read as %+v", name, into)
		}
	}
	if seen != len(goldens) {
		t.Errorf("%d of %d records are in testdata", seen, len(goldens))
	}
}

// kafkaRecords reads testdata: lines of a name, a key and a value.
func kafkaRecords(t *testing.T) map[string][2][]byte {
	t.Helper()
	content, err := os.ReadFile("testdata/kafka-4.4.golden")
	if err != nil {
		t.Fatal(err)
	}
	records := map[string][2][]byte{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		var encoded [2][]byte
		for i := range encoded {
			if encoded[i], err = hex.DecodeString(fields[1+i]); err != nil {
				t.Fatal(err)
			}
		}
		records[fields[0]] = encoded
	}
	return records
}

// Each beginning of a value is either refused or, of one that has nothing but tags to lose, read.
func TestDamagedRecordsAreRefused(t *testing.T) {
	for name, encoded := range kafkaRecords(t) {
		for end := range encoded[0] {
			if key, err := ParseKey(encoded[0][:end]); err == nil {
				t.Errorf("%s: %d bytes of the key are read as %+v", name, end, key)
			}
		}
		for end := range encoded[1] {
			if err := goldens[name].empty().Parse(encoded[1][:end]); err == nil {
				t.Errorf("%s: %d of %d bytes of the value are read", name, end, len(encoded[1]))
			}
		}
	}
}

func TestKeysOfOtherKindsAreToldApart(t *testing.T) {
	for _, kind := range []Kind{9, 15, 17, 300, -1} {
		if got, err := ParseKey(Key{Kind: kind, Group: "g"}.Encode()); err != nil || got != (Key{Kind: kind}) {
			t.Errorf("kind %d is read as %+v, %v", kind, got, err)
		}
	}
	if _, err := ParseKey([]byte{0}); err == nil {
		t.Error("a key of one byte was read")
	}
}

func TestValuesOfANewerVersionAreRefused(t *testing.T) {
	if err := (&ConsumerTargetValue{}).Parse([]byte{0, 1, 0, 0, 0, 9, 0}); err == nil {
		t.Error("a value of version 1 was read")
	}
}

func FuzzParse(f *testing.F) {
	for _, golden := range goldens {
		f.Add(golden.key.Encode())
		f.Add(golden.value.Append(nil))
	}
	f.Fuzz(func(_ *testing.T, encoded []byte) {
		_, _ = ParseKey(encoded)
		for _, golden := range goldens {
			_ = golden.empty().Parse(encoded)
		}
	})
}
