package main

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fetched is a partition's answer with records at the given offsets.
func fetched(partition int32, offsets ...int64) *kgo.FetchPartition {
	answer := &kgo.FetchPartition{Partition: partition}
	for _, offset := range offsets {
		answer.Records = append(answer.Records, &kgo.Record{Topic: "t", Partition: partition, Offset: offset,
			Value: []byte{byte('a' + offset)}})
	}
	return answer
}

func readingOf(t *testing.T, spans topicSpans, limit int64) *reading {
	t.Helper()
	output, err := newRecordOutput(`%p%v `, outputForm{})
	if err != nil {
		t.Fatal(err)
	}
	r := newReading(spans, limit)
	r.output = output
	return r
}

func (r *reading) mustTake(t *testing.T, out *bytes.Buffer, answers ...*kgo.FetchPartition) {
	t.Helper()
	for _, answer := range answers {
		if err := r.take(out, answer, "t"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCL11AReadingEndsWhereItsPartitionsEndedWhenItBegan: what producers add meanwhile is not printed.
func TestCL11AReadingEndsWhereItsPartitionsEndedWhenItBegan(t *testing.T) {
	r := readingOf(t, topicSpans{"t": {0: {start: 2, end: 4}, 1: {start: 0, end: 2}}}, 0)
	var out bytes.Buffer
	r.mustTake(t, &out, fetched(0, 1, 2))
	r.mustTake(t, &out, fetched(1, 0, 1, 2, 3))
	if r.finished() {
		t.Fatal("finished with partition 0 at offset 3 of 4")
	}
	r.mustTake(t, &out, fetched(0, 3, 4, 5), fetched(1, 4), fetched(0, 6))
	if want := "0c 1a 1b 0d "; out.String() != want || !r.finished() {
		t.Errorf("printed %q, finished %v, want %q", out.String(), r.finished(), want)
	}
}

// TestCL14EmptyPartitionsAreNotWaitedFor: of three partitions one is empty, and all that have records are read.
func TestCL14EmptyPartitionsAreNotWaitedFor(t *testing.T) {
	r := readingOf(t, topicSpans{"t": {0: {start: 0, end: 1}, 1: {start: 0, end: 0}, 2: {start: 5, end: 6}}}, 0)
	if begins := r.begins(); len(begins["t"]) != 2 {
		t.Fatalf("reads %v, want partitions 0 and 2", begins)
	}
	var out bytes.Buffer
	r.mustTake(t, &out, fetched(2, 5), fetched(0, 0))
	if want := "2f 0a "; out.String() != want || !r.finished() {
		t.Errorf("printed %q, finished %v, want %q", out.String(), r.finished(), want)
	}
	if r := readingOf(t, topicSpans{"t": {0: {start: 7, end: 7}}}, 0); !r.finished() {
		t.Error("a topic without records is waited for")
	}
}

func TestALimitCountsPrintedRecords(t *testing.T) {
	r := readingOf(t, topicSpans{"t": {0: {start: 0, end: 9}, 1: {start: 0, end: 9}}}, 3)
	var out bytes.Buffer
	r.mustTake(t, &out, fetched(0, 0, 1), fetched(1, 0, 1, 2), fetched(0, 2))
	if want := "0a 0b 1a "; out.String() != want || !r.finished() {
		t.Errorf("printed %q, finished %v, want %q", out.String(), r.finished(), want)
	}
}

func TestOffsetsWithoutARecordAreStillPassed(t *testing.T) {
	t.Run("a hole at the end, seen from what lies beyond", func(t *testing.T) {
		r := readingOf(t, topicSpans{"t": {0: {start: 0, end: 3}}}, 0)
		var out bytes.Buffer
		r.mustTake(t, &out, fetched(0, 0, 5))
		if out.String() != "0a " || !r.finished() {
			t.Errorf("printed %q, finished %v", out.String(), r.finished())
		}
	})
	t.Run("a commit marker at the end is passed and not printed", func(t *testing.T) {
		r := readingOf(t, topicSpans{"t": {0: {start: 0, end: 2}}}, 0)
		var out bytes.Buffer
		answer := fetched(0, 0, 1)
		answer.Records[1].Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Control: true})
		r.mustTake(t, &out, answer)
		if out.String() != "0a " || !r.finished() {
			t.Errorf("printed %q, finished %v", out.String(), r.finished())
		}
	})
	t.Run("following has no end", func(t *testing.T) {
		r := readingOf(t, topicSpans{"t": {0: {start: 0, end: math.MaxInt64}}}, 0)
		r.mustTake(t, &bytes.Buffer{}, fetched(0, 0, 1, 2))
		if r.finished() {
			t.Error("finished")
		}
	})
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAFailedWriteEndsTheReading(t *testing.T) {
	r := readingOf(t, topicSpans{"t": {0: {start: 0, end: 2}}}, 0)
	if err := r.take(fullDisk{}, fetched(0, 0), "t"); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
}

func TestAPartitionThatDoesNotAnswerIsAnError(t *testing.T) {
	good := kadm.ListedOffsets{"t": {0: {Offset: 1}}}
	for _, test := range []struct {
		name string
		end  kadm.ListedOffsets
		want error
	}{
		{"an error", kadm.ListedOffsets{"t": {0: {Err: kerr.NotLeaderForPartition}}}, kerr.NotLeaderForPartition},
		{"silence", kadm.ListedOffsets{"t": {}}, errNoAnswer},
		{"no offset", kadm.ListedOffsets{"t": {0: {Offset: -1}}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := (listedBorders{logStart: good, end: test.end}).of("t", 0)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
	if borders, err := (listedBorders{logStart: good, end: good, toTime: good}).of("t", 0); err != nil ||
		borders != (partitionBorders{logStart: 1, end: 1, toTime: 1}) {
		t.Errorf("%+v, error %v", borders, err)
	}
}
