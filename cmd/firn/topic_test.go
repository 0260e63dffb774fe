package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestCL03OnlyTheNamedSettingsChange: the request holds one operation for each setting named and none for others.
func TestCL03OnlyTheNamedSettingsChange(t *testing.T) {
	request := alterRequest{settings: []string{"retention.ms=5", "cleanup.policy=compact,delete", "a=b=c"},
		deletes: []string{"segment.ms", "segment.ms", "flush.ms"}}
	changes, err := request.changes()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, change := range changes {
		text := fmt.Sprintf("delete %s", change.Name)
		if change.Op == kadm.SetConfig {
			text = fmt.Sprintf("set %s=%s", change.Name, *change.Value)
		}
		got = append(got, text)
	}
	want := []string{"set a=b=c", "set cleanup.policy=compact,delete", "set retention.ms=5",
		"delete flush.ms", "delete segment.ms"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOutcomesOfSeveralTopics(t *testing.T) {
	names := []string{"new", "old", "lost"}
	responses := kadm.CreateTopicResponses{
		"new": {Topic: "new", NumPartitions: 4, ReplicationFactor: 1},
		"old": {Topic: "old", Err: kerr.TopicAlreadyExists, ErrMessage: "it is there",
			NumPartitions: -1, ReplicationFactor: -1},
	}
	created, err := createRequest{}.outcome(names, responses)
	if status := exitStatus(err); status != exitPartial || !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("status %d, error %v, want %d", status, err, exitPartial)
	}
	var out bytes.Buffer
	if err := created.writeText(&out); err != nil {
		t.Fatal(err)
	}
	want := "TOPIC  STATUS                                    PARTITIONS  REPLICAS\n" +
		"new    created                                   4           1\n" +
		"old    failed: TOPIC_ALREADY_EXISTS: it is there  -           -\n" +
		"lost   failed: the broker says nothing about it  -           -\n"
	if got := squeeze(out.String()); got != squeeze(want) {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}

	_, err = createRequest{ifNotExists: true}.outcome(names[:2], responses)
	if err != nil {
		t.Errorf("--if-not-exists: %v", err)
	}
	_, err = deleteOutcome([]string{"a", "b"}, kadm.DeleteTopicResponses{"a": {Err: kerr.UnknownTopicOrPartition},
		"b": {Err: kerr.UnknownTopicOrPartition}})
	if status := exitStatus(err); status != exitFailed || !strings.HasPrefix(err.Error(), "all 2 topics failed") {
		t.Errorf("status %d, error %v, want %d", status, err, exitFailed)
	}
}

// squeeze makes the width of columns not matter.
func squeeze(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

func TestADescribedTopic(t *testing.T) {
	detail := kadm.TopicDetail{Topic: "flights", ID: kadm.TopicID{1}, Partitions: kadm.PartitionDetails{
		0: {Topic: "flights", Partition: 0, Leader: 1, LeaderEpoch: 3, Replicas: []int32{1, 2}, ISR: []int32{1}},
		1: {Topic: "flights", Partition: 1, Leader: -1, Replicas: []int32{1, 2}, Err: errors.New("no leader")},
	}}
	listed := func(offset int64) listedOffsets {
		return listedOffsets{"flights": {0: {Offset: offset}, 1: {Err: kerr.LeaderNotAvailable}}}
	}
	offsets := topicOffsets{start: listed(0), end: listed(100), localStart: listed(90), lastTiered: listed(94)}
	topic := describeTopic(detail, offsets)
	topic.Configs = describeConfigs([]kadm.Config{
		{Key: "retention.ms", Value: kadm.StringPtr("-1"), Source: 1},
		{Key: "cleanup.policy", Value: kadm.StringPtr("compact,delete"), Source: 4},
		{Key: "flush.ms", Value: kadm.StringPtr("9"), Source: 5},
		{Key: "secret", Sensitive: true, Source: 1},
	})
	if !topic.compacted() {
		t.Error("compact,delete is not taken for compacted")
	}
	var out bytes.Buffer
	if err := (&topicDescriptions{Topics: []topicDescription{topic}}).writeText(&out); err != nil {
		t.Fatal(err)
	}
	want := `topic flights, id AQAAAAAAAAAAAAAAAAAAAA: 2 partitions of 2 replicas each

SETTING VALUE SOURCE
cleanup.policy compact,delete broker
retention.ms -1 topic
secret (hidden) topic
(1 setting at the default: --all shows them)

PARTITION LEADER EPOCH REPLICAS ISR START LOCAL START TIERED END END ERROR
0 1 3 1,2 1 0 90 95 100
1 none 0 1,2 - - - - no leader
`
	if got := squeeze(out.String()); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

func TestTheNextStepOfAnError(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("two\r\n  lines\n"), "two; lines"},
		{fmt.Errorf("topic x: %w", kafkaError(kerr.InvalidConfig, "retention.ms must be a number")),
			"topic x: INVALID_CONFIG: retention.ms must be a number"},
		{kafkaError(kerr.MessageTooLarge, "too large."), "MESSAGE_TOO_LARGE: too large; " +
			"raise the topic's max.message.bytes with `firn topic alter`, or send smaller records"},
	} {
		if got := errorLine(t.Context(), test.err); got != test.want {
			t.Errorf("%v is printed as %q, want %q", test.err, got, test.want)
		}
	}
}

func TestByteSizes(t *testing.T) {
	for size, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5099931: "4.9 MiB",
		1 << 40: "1.0 TiB", 1<<63 - 1: "8.0 EiB"} {
		if got := byteSize(size); got != want {
			t.Errorf("%d bytes are %s, want %s", size, got, want)
		}
	}
}
