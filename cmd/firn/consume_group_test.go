package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestOnlyWhatWasPrintedIsToBeCommitted: records that are filtered out are done with, those behind the limit are not,
// and what lies behind the end belongs to a later reading.
func TestOnlyWhatWasPrintedIsToBeCommitted(t *testing.T) {
	marker := fetched(2, 4)
	marker.Records[0].Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Control: true})
	for _, test := range []struct {
		name    string
		limit   int64
		filter  string
		answers []*kgo.FetchPartition
		want    map[int32]kgo.EpochOffset
	}{
		{name: "up to the last record", answers: []*kgo.FetchPartition{fetched(0, 2, 3), fetched(1, 0)},
			want: map[int32]kgo.EpochOffset{0: {Offset: 4}, 1: {Offset: 1}}},
		{name: "not beyond the limit", limit: 1, answers: []*kgo.FetchPartition{fetched(0, 2, 3), fetched(1, 0)},
			want: map[int32]kgo.EpochOffset{0: {Offset: 3}}},
		{name: "past what is filtered out", filter: "^c", answers: []*kgo.FetchPartition{fetched(0, 2, 3, 4)},
			want: map[int32]kgo.EpochOffset{0: {Offset: 5}}},
		{name: "not beyond the end", answers: []*kgo.FetchPartition{fetched(1, 0, 1, 2, 7)},
			want: map[int32]kgo.EpochOffset{1: {Offset: 2}}},
		{name: "past a commit marker", answers: []*kgo.FetchPartition{marker},
			want: map[int32]kgo.EpochOffset{2: {Offset: 5}}},
		{name: "nothing of a partition that was taken away", answers: []*kgo.FetchPartition{fetched(3, 0)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := readingOf(t, topicSpans{"t": {0: {start: 2, end: 9}, 1: {end: 2}, 2: {end: 9}, 3: {end: 9}}}, test.limit)
			r.forget("t", 3)
			r.forget("t", 17)
			r.printed = make(map[string]map[int32]kgo.EpochOffset)
			var err error
			if r.filter, err = newRecordFilter("", test.filter, nil); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			r.mustTake(t, &out, test.answers...)
			if diff := cmp.Diff(test.want, r.printed["t"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOnlySomeFailuresOfAGroupEndAReading: kgo recovers from the others by joining again.
func TestOnlySomeFailuresOfAGroupEndAReading(t *testing.T) {
	m := &membership{request: &consumeRequest{membershipFlags: membershipFlags{group: "g"}}}
	records := kgo.Fetch{Topics: []kgo.FetchTopic{{Topic: "t", Partitions: []kgo.FetchPartition{*fetched(0, 1)}}}}
	for err, fatal := range map[error]bool{
		kerr.FencedInstanceID: true, kerr.InconsistentGroupProtocol: true, kerr.GroupAuthorizationFailed: true,
		kerr.UnknownMemberID: false, kerr.CoordinatorNotAvailable: false, kerr.RebalanceInProgress: false,
	} {
		fetches := append(kgo.NewErrFetch(&kgo.ErrGroupSession{Err: err}), records)
		kept, got := m.withoutPassing(fetches)
		if fatal != errors.Is(got, err) || !fatal && (got != nil || kept.NumRecords() != 1 || kept.Err() != nil) {
			t.Errorf("%v: error %v, kept %v", err, got, kept)
		}
	}
	failed := kgo.NewErrFetch(kerr.OffsetOutOfRange)
	if kept, err := m.withoutPassing(failed); err != nil || !errors.Is(kept.Err(), kerr.OffsetOutOfRange) {
		t.Errorf("an error of a partition: kept %v, error %v", kept, err)
	}
}
