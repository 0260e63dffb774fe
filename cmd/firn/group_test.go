package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// committedAt are committed offsets in topic t, by partition.
func committedAt(offsets map[int32]int64) kadm.OffsetResponses {
	var committed kadm.OffsetResponses
	for partition, offset := range offsets {
		committed.Add(kadm.OffsetResponse{Offset: kadm.Offset{Topic: "t", Partition: partition, At: offset, LeaderEpoch: -1}})
	}
	return committed
}

// listedAt are answers to ListOffsets in topic t, by partition.
func listedAt(offsets ...int64) kadm.ListedOffsets {
	listed := kadm.ListedOffsets{"t": {}}
	for partition, offset := range offsets {
		listed["t"][int32(partition)] = kadm.ListedOffset{Topic: "t", Partition: int32(partition), Offset: offset}
	}
	return listed
}

// TestCL15TheLagOfAGroup: the end is the next offset, so who has committed it lags by nothing; without a commit there is
// no lag (MX-02); what retention took does not count (MX-04), and no lag is below zero (MX-01).
func TestCL15TheLagOfAGroup(t *testing.T) {
	committed := committedAt(map[int32]int64{0: 10, 1: 4, 3: 100, 4: 12, 5: 1})
	owners := map[string]map[int32]string{"t": {0: "m", 2: "m"}}
	offsets := topicOffsets{start: listedOffsets(listedAt(0, 0, 0, 1000, 0)), end: listedOffsets(listedAt(10, 10, 10, 1000, 10))}
	var got groupDescription
	got.Partitions = groupPartitions(committed, owners, offsets)
	var text bytes.Buffer
	if err := got.writePartitions(&text); err != nil {
		t.Fatal(err)
	}
	want := "TOPIC  PARTITION  COMMITTED  START  END   LAG  MEMBER\n" +
		"t      0          10         0      10    0    m\n" +
		"t      1          4          0      10    6    -\n" +
		"t      2          -          0      10    -    m\n" +
		"t      3          100        1000   1000  0    -\n" +
		"t      4          12         0      10    0    -\n" +
		"t      5          1          -      -     -    -\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}

func seekOf(t *testing.T, flag, value string, args ...string) *seekRequest {
	t.Helper()
	s := &seekRequest{}
	switch flag {
	case "to":
		s.to = value
	case "to-group":
		s.toGroup = value
	case "shift":
		s.shift = map[string]int64{"3": 3, "-3": -3, "far": 1 << 62, "back": -1 << 62}[value]
	}
	if err := s.check(append([]string{"g"}, args...), func(name string) bool { return name == flag }); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCL06ASeek: beyond the newest record's time there is the end, not −1, and the lag from there is 0.
func TestCL06ASeek(t *testing.T) {
	committed := committedAt(map[int32]int64{0: 4, 1: 4})
	borders := listedBorders{logStart: listedAt(0, 3), end: listedAt(10, 8), fromTime: listedAt(10, 8)}
	for _, test := range []struct{ flag, value, want string }{
		{"to", "start", "0 lag 10, 3 lag 5"}, {"to", "end", "10 lag 0, 8 lag 0"}, {"to", "5", "5 lag 5, 5 lag 3"},
		{"to", "+1", "1 lag 9, 4 lag 4"}, {"to", "-2", "8 lag 2, 6 lag 2"}, {"to", "@2300-01-01", "10 lag 0, 8 lag 0"},
		{"to", "9", "9 lag 1, 8 lag 0: offset 9 is not there yet: the log ends at 8"},
		{"shift", "3", "7 lag 3, 7 lag 1"}, {"shift", "-3", "1 lag 9, 3 lag 5: offset 1 is no longer there: reading from " +
			"the log start offset 3"},
		{"shift", "back", "0 lag 10, 3 lag 5: offset 0 is no longer there: reading from the log start offset 3"},
		{"shift", "far", "10 lag 0: offset 4611686018427387908 is not there yet: the log ends at 10, " +
			"8 lag 0: offset 4611686018427387908 is not there yet: the log ends at 8"},
		{"to-group", "other", "4 lag 6, 4 lag 4"},
	} {
		s := seekOf(t, test.flag, test.value)
		plan, err := s.plan(map[string][]int32{"t": {1, 0}}, nil, committed, borders)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, move := range plan.Partitions {
			part := decimal(move.Offset) + " lag " + decimal(move.Lag)
			if move.Note != "" {
				part += ": " + move.Note
			}
			parts = append(parts, part)
		}
		if got := strings.Join(parts, ", "); got != test.want {
			t.Errorf("--%s %s: %s, want %s", test.flag, test.value, got, test.want)
		}
	}
	_, err := seekOf(t, "shift", "3").plan(map[string][]int32{"t": {2}}, nil, committed,
		listedBorders{logStart: listedAt(0, 0, 0), end: listedAt(1, 1, 1)})
	if err == nil || !strings.Contains(err.Error(), "no committed offset in t partition 2") {
		t.Errorf("a shift from nowhere: error %v", err)
	}
}

// TestCL05ASeekThatWorksInPart: each partition says what became of it, a line each (CL-12), and the status is not 0.
func TestCL05ASeekThatWorksInPart(t *testing.T) {
	borders := listedBorders{logStart: listedAt(0, 0, 0), end: listedAt(9, 9, 9)}
	targets := map[string][]int32{"t": {0, 1, 2}}
	plan, err := seekOf(t, "to", "start").plan(targets, committedAt(map[int32]int64{1: 5}), nil, borders)
	if err != nil {
		t.Fatal(err)
	}
	plan.Executed = true
	answers := committedAt(map[int32]int64{0: 0})
	answers.Add(kadm.OffsetResponse{Offset: kadm.Offset{Topic: "t", Partition: 1}, Err: kerr.UnknownMemberID})
	err = plan.settle(answers)
	if exitStatus(err) != exitPartial || !strings.Contains(err.Error(), "2 of 3 partitions failed") {
		t.Errorf("error %v", err)
	}
	var text bytes.Buffer
	if err := plan.writeText(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	for i, want := range []string{"TOPIC PARTITION COMMITTED TO LAG STATUS", "t 0 - 0 9 moved",
		"t 1 5 0 9 failed: the group has members now, stop them first: UNKNOWN_MEMBER_ID", "t 2 - 0 9 failed: the broker says"} {
		if got := squeeze(lines[i]); !strings.HasPrefix(got, want) {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}

func TestPartitionsOnTheCommandLine(t *testing.T) {
	choice, err := parsePartitionChoice([]string{"a", "b:0,7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		topic     string
		partition int32
		want      bool
	}{{"a", 5, true}, {"b", 0, true}, {"b", 7, true}, {"b", 1, false}, {"c", 0, false}} {
		if got := choice.has(test.topic, test.partition); got != test.want {
			t.Errorf("%s %d is chosen: %v", test.topic, test.partition, got)
		}
	}
	if !(partitionChoice{}).has("any", 3) {
		t.Error("no choice leaves something out")
	}
	for _, wrong := range []string{"t:", "t:-1", "t:1,", ":1", "t:4294967296"} {
		if _, err := parsePartitionChoice([]string{wrong}); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestAPlanSaysThatNothingWasChanged(t *testing.T) {
	plan := &seekPlan{Group: "g", Partitions: []seekPartition{}}
	var text bytes.Buffer
	if err := plan.writeText(&text); err != nil || !strings.Contains(text.String(), "--execute moves the group") {
		t.Errorf("error %v, printed %q", err, text.String())
	}
}
