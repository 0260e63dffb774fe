package checkpoint

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// putSegment puts a sound segment object, of records [base, end) that were uploaded under an epoch while the log began
// at logStart. Uploads that are otherwise alike differ in their last argument.
func putSegment(t *testing.T, bucket objectstore.Bucket, base, end int64, epoch kafka.LeaderEpoch, logStart int64,
	upload byte,
) string {
	t.Helper()
	builder := record.NewBuilder(record.PlainProducer())
	for offset := base; offset < end; offset++ {
		builder.Append(offset, nil, []byte("v"))
	}
	data := builder.Build()
	data.SetBaseOffset(base)
	object, err := segment.New(t.Context(), bytes.NewReader(data), segment.Tail{
		ClusterID: ours, Partition: rolled, Topic: "events", BaseOffset: base, EndOffset: end, LeaderEpoch: epoch,
		UploadID: id(upload), LogStartOffset: logStart, IndexBaseOffset: base, FirstAppendedAt: 1, LastAppendedAt: 1,
		LeaderEpochs: []segment.EpochStart{{Epoch: epoch, StartOffset: base}},
		Contents:     segment.Contents{DataBytes: int64(len(data))},
	})
	must(t, err)
	key := object.Tail.Key().String()
	must(t, bucket.Put(t.Context(), key, object, object.Size(), objectstore.PutOptions{}))
	return key
}

var rolled = kafka.TopicIDPartition{ID: id(0x20), Partition: 2}

func TestWhatIsNewerThanACheckpointIsFound(t *testing.T) {
	type upload struct {
		base, end int64
		epoch     kafka.LeaderEpoch
		logStart  int64
		damage    bool
	}
	for _, c := range []struct {
		name    string
		uploads []upload
		want    string // entries as base-end-epoch, then the log start
	}{
		{"nothing", nil, " start -1"},
		{"one", []upload{{base: 100, end: 110, epoch: 3}}, "100-110-3 start 0"},
		{"several", []upload{{base: 100, end: 110, epoch: 3}, {base: 110, end: 120, epoch: 3}, {base: 120, end: 121, epoch: 5}},
			"100-110-3 110-120-3 120-121-5 start 0"},
		{"what the checkpoint has already", []upload{{base: 90, end: 100, epoch: 3}, {base: 100, end: 110, epoch: 3}},
			"100-110-3 start 0"},
		{"a gap", []upload{{base: 110, end: 120, epoch: 3}}, " start -1"},
		{"a gap later", []upload{{base: 100, end: 110, epoch: 3}, {base: 111, end: 120, epoch: 3}}, "100-110-3 start 0"},
		{"an overlap", []upload{{base: 100, end: 110, epoch: 3}, {base: 105, end: 120, epoch: 3}, {base: 110, end: 115, epoch: 3}},
			"100-110-3 110-115-3 start 0"},
		{"two leaders", []upload{{base: 100, end: 150, epoch: 3}, {base: 100, end: 110, epoch: 4}, {base: 110, end: 120, epoch: 4}},
			"100-110-4 110-120-4 start 0"},
		{"an epoch that falls", []upload{{base: 100, end: 110, epoch: 4}, {base: 110, end: 120, epoch: 3}}, "100-110-4 start 0"},
		{"an epoch below the checkpoint's", []upload{{base: 100, end: 110, epoch: 2}}, " start -1"},
		{"the same twice", []upload{{base: 100, end: 110, epoch: 3}, {base: 100, end: 110, epoch: 3}}, "100-110-3 start 0"},
		{"a damaged one", []upload{{base: 100, end: 110, epoch: 3, damage: true}}, " start -1 damaged 1"},
		{"a damaged one with another", []upload{{base: 100, end: 110, epoch: 4, damage: true}, {base: 100, end: 110, epoch: 3}},
			"100-110-3 start 0 damaged 1"},
		{"a log start that has moved", []upload{{base: 100, end: 110, epoch: 3, logStart: 50}, {base: 110, end: 120, epoch: 3, logStart: 70}},
			"100-110-3 110-120-3 start 70"},
		{"a log that began anew", []upload{{base: 100, end: 110, epoch: 3}, {base: 130, end: 140, epoch: 3, logStart: 130},
			{base: 140, end: 150, epoch: 3, logStart: 130}}, "130-140-3 140-150-3 start 130"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bucket := objectstore.NewMemory()
			for i, u := range c.uploads {
				key := putSegment(t, bucket, u.base, u.end, u.epoch, u.logStart, byte(i+1))
				if u.damage {
					data := object(t, bucket, key)
					data[len(data)-100] ^= 1
					put(t, bucket, key, data)
				}
			}
			put(t, bucket, segment.Prefix(ours, rolled)+"99999999999999999999.note", []byte("of a person"))
			forward, err := RollForward(t.Context(), bucket, Edge{
				ClusterID: ours, Partition: rolled, End: 100, LeaderEpoch: 3,
			})
			must(t, err)
			var got []string
			for _, e := range forward.Entries {
				got = append(got, fmt.Sprintf("%d-%d-%d", e.BaseOffset, e.EndOffset, e.LeaderEpoch))
			}
			text := fmt.Sprintf("%s start %d", strings.Join(got, " "), forward.Start)
			if len(forward.Damaged) > 0 {
				text += fmt.Sprint(" damaged ", len(forward.Damaged))
			}
			if text != c.want {
				t.Errorf("found %q, want %q", text, c.want)
			}
			if n := len(forward.Entries); n > 0 && forward.Last.EndOffset != forward.Entries[n-1].EndOffset {
				t.Errorf("the last tail ends at %d", forward.Last.EndOffset)
			}
		})
	}
}

func TestAStoreThatCannotAnswerIsNoEnd(t *testing.T) {
	bucket := objectstore.NewMemory()
	putSegment(t, bucket, 100, 110, 3, 0, 1)
	for _, operation := range []objectstore.Operation{objectstore.OpList, objectstore.OpGet} {
		faulty := objectstore.NewFaulty(bucket, nil)
		faulty.SetRules(objectstore.Rule{When: objectstore.On(operation), Then: objectstore.Refuse()})
		if _, err := RollForward(t.Context(), faulty, Edge{ClusterID: ours, Partition: rolled, End: 100}); err == nil {
			t.Errorf("%s fails, and nothing is said", operation)
		}
	}
}
