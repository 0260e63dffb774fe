package integration

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/bulk"
)

// pinned asks for a pin.
func (s *scenario) pinned(request view.PinRequest) (pin view.Pin) {
	s.t.Helper()
	body := try(json.Marshal(request)).orFail(s.t)
	status, answer := s.send(http.MethodPost, view.PathPins, string(body))
	if status != http.StatusOK {
		s.t.Fatalf("pin %+v: %d %s", request, status, answer)
	}
	must(s.t, json.Unmarshal([]byte(answer), &pin))
	return pin
}

func (s *scenario) pins() []view.PinStatus {
	s.t.Helper()
	var pins view.Pins
	_, answer := s.get(view.PathPins)
	must(s.t, json.Unmarshal([]byte(answer), &pins))
	return pins.Pins
}

// snapshotOf is what a pin says.
func (s *scenario) snapshotOf(pin view.Pin) *bulk.Snapshot {
	s.t.Helper()
	id := func(digits string) kafka.UUID { return kafka.UUID(try(hex.DecodeString(digits)).orFail(s.t)) }
	snapshot := &bulk.Snapshot{
		ClusterID: id(pin.ClusterID), Topic: pin.Topic, Pin: id(pin.ID),
		TopicID: try(kafka.ParseUUID(pin.TopicID)).orFail(s.t),
	}
	for _, origin := range pin.Origins {
		snapshot.Origins = append(snapshot.Origins, id(origin))
	}
	for _, p := range pin.Partitions {
		snapshot.Partitions = append(snapshot.Partitions, bulk.Partition{
			Partition: p.Partition, Start: p.Start, End: p.End, Items: try(command.ParseItems(p.Items)).orFail(s.t),
		})
	}
	return snapshot
}

// printed is a record in a form to compare.
func printed(partition int32, offset, timestamp int64, key, value []byte) string {
	return fmt.Sprintf("%d %d %d %q %q", partition, offset, timestamp, key, value)
}

func printedRecords(records []*kgo.Record) (all []string) {
	for _, r := range records {
		if !r.Attrs.IsControl() {
			all = append(all, printed(r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value))
		}
	}
	return all
}

// bulkRead reads a snapshot straight from the bucket.
func (s *scenario) bulkRead(snapshot *bulk.Snapshot, committed bool) (all []string, err error) {
	s.t.Helper()
	reader := bulk.NewReader(bulk.Options{Bucket: s.disks.bucket, Snapshot: snapshot, ReadCommitted: committed})
	err = bulk.Read(context.Background(), reader, snapshot.Ranges(), func(chunk *bulk.Chunk) (found []string, err error) {
		var it record.Iterator
		for _, batch := range chunk.Batches {
			if err := it.Reset(batch); err != nil {
				return nil, err
			}
			for it.Next() {
				if r := it.Record(); chunk.Wants(it.Offset()) {
					found = append(found, printed(chunk.Split.Partition, it.Offset(), it.Timestamp(), r.Key, r.Value))
				}
			}
			if it.Err() != nil {
				return nil, it.Err()
			}
		}
		return found, nil
	}, func(_ bulk.Delivered, found []string) error {
		all = append(all, found...)
		return nil
	})
	return all, err
}

// keepsAnHour are the settings of a topic whose history is gone after an hour.
func keepsAnHour() map[string]string {
	return tiered(map[string]string{"retention.ms": "3600000"})
}

// The pinned history is read from the bucket while the broker lives on: retention and collection leave it alone until
// the pin is ended. Without a pin it is gone, and that is said.
func TestAPinKeepsHistoryForABulkRead(t *testing.T) {
	run(t, 90, nil, func(s *scenario) {
		s.createTopic("events", 1, keepsAnHour())
		client := s.client(kgo.DefaultProduceTopic("events"))
		for i := range 60 {
			s.produce(client, numbered("events", 0, 10*i, 10, 200)...)
		}
		client.Close()
		s.eventually("it is uploaded", func() bool {
			return s.pinned(view.PinRequest{Topic: "events"}).Partitions[0].End > 500
		})
		for _, pin := range s.pins() {
			s.end(pin.ID)
		}
		whole := s.everything("events", 0)
		pin := s.pinned(view.PinRequest{Topic: "events", Partitions: []view.PinRange{{Partition: 0, From: 55}}})
		part := pin.Partitions[0]
		if part.Start != 55 || part.LogStart != 0 || part.HighWatermark != 600 || part.LastStableOffset != 600 ||
			part.End <= 500 || pin.LeaseMs != 6*3_600_000 || pin.Store != "" {
			t.Errorf("%+v", pin)
		}
		snapshot := s.snapshotOf(pin)
		unpinned := try(bulk.FromBucket(s.context(), s.disks.bucket, kafka.UUID{}, "events")).orFail(t)
		s.sleep(3 * time.Hour)
		if start := s.offsetAt("events", earliest); start < part.End {
			t.Fatalf("the log still begins at offset %d", start)
		}
		if waits := s.garbage(http.MethodPost); waits.Pins == 0 {
			t.Errorf("nothing waits for the pin: %+v", waits)
		}
		got := try(s.bulkRead(snapshot, false)).orFail(t)
		if diff := cmp.Diff(printedRecords(whole[55:part.End]), got); diff != "" {
			t.Errorf("(-consumed +read from the bucket):\n%s", diff)
		}
		shown := s.pins()
		if len(shown) != 1 || shown[0].Topic != "events" || shown[0].LeaseMs > 3*3_600_000 || shown[0].ID != pin.ID ||
			!cmp.Equal(shown[0].Partitions, []view.PinRange{{Partition: 0, From: 55, To: part.End}}) {
			t.Errorf("the pins are %+v", shown)
		}
		s.end(pin.ID)
		s.sleep(time.Minute)
		var gone *bulk.GoneError
		if _, err := s.bulkRead(snapshot, false); !errors.As(err, &gone) || gone.Next != 55 {
			t.Errorf("after the end of the pin: %v", err)
		}
		if got, err := s.bulkRead(unpinned, false); !errors.As(err, &gone) || gone.Next != 0 || len(got) > 0 {
			t.Errorf("without a pin: %d records, %v", len(got), err)
		}
	})
}

// end ends a pin.
func (s *scenario) end(id string) {
	s.t.Helper()
	if status, answer := s.ask(http.MethodDelete, view.PathPins+"/"+id); status != http.StatusOK {
		s.t.Fatalf("end of pin %s: %d %s", id, status, answer)
	}
}

// A lease ends by itself, can be extended, and survives a restart. It keeps a deleted topic, too.
func TestAPinLastsAsLongAsItsLease(t *testing.T) {
	run(t, 91, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		s.produceTimed("events", 0, 600)
		s.sink("events")
		short := s.pinned(view.PinRequest{Topic: "events", LeaseMs: 600_000})
		pin := s.pinned(view.PinRequest{Topic: "events", LeaseMs: 3_600_000})
		want := try(s.bulkRead(s.snapshotOf(pin), true)).orFail(t)
		must(t, s.deleteTopics("events"))
		s.crash(loseAllUnsynced)
		s.revive()
		s.sleep(50 * time.Minute)
		if pins := s.pins(); len(pins) != 1 || pins[0].ID != pin.ID || pins[0].Topic != "" {
			t.Errorf("the pins are %+v, %s has lapsed", pins, short.ID)
		}
		status, answer := s.ask(http.MethodPost, view.PathPins+"/"+pin.ID+"?lease.ms=7200000")
		if status != http.StatusOK || !strings.Contains(answer, pin.ID) {
			t.Errorf("extended: %d %s", status, answer)
		}
		s.sleep(110 * time.Minute)
		got := try(s.bulkRead(s.snapshotOf(pin), true)).orFail(t)
		if len(want) == 0 || !cmp.Equal(got, want) {
			t.Errorf("%d records instead of %d", len(got), len(want))
		}
		s.sleep(30 * time.Minute)
		var gone *bulk.GoneError
		if _, err := s.bulkRead(s.snapshotOf(pin), true); !errors.As(err, &gone) {
			t.Errorf("after the lease: %v", err)
		}
		if status, answer := s.ask(http.MethodPost, view.PathPins+"/"+pin.ID); status != http.StatusNotFound {
			t.Errorf("a pin that has lapsed is extended: %d %s", status, answer)
		}
	})
}

func TestPinsThatAreRefused(t *testing.T) {
	run(t, 92, nil, func(s *scenario) {
		s.createTopic("events", 2, tiered(nil))
		s.createTopic("local", 1, map[string]string{"remote.storage.enable": "false"})
		for _, test := range []struct {
			body   string
			status int
			want   string
		}{
			{`{"topic":"nothing"}`, http.StatusNotFound, "there is no topic"},
			{`{"topic":"local"}`, http.StatusConflict, "remote.storage.enable=true puts it there"},
			{`{"topic":"events","lease_ms":-1}`, http.StatusBadRequest, "seven days"},
			{`{"topic":"events","lease_ms":604800001}`, http.StatusBadRequest, "seven days"},
			{`{"topic":"events","partitions":[{"partition":2}]}`, http.StatusBadRequest, "no partition 2"},
			{`{"topic":"events","partitions":[{"from":7,"to":6}]}`, http.StatusBadRequest, "is no range"},
			{`{"topic":"events","partitions":[{"partition":1},{"partition":1}]}`, http.StatusBadRequest, "twice"},
			{`{"topic":"events","lease":1}`, http.StatusBadRequest, "unknown field"},
			{`events`, http.StatusBadRequest, "which is JSON as"},
		} {
			if status, answer := s.send(http.MethodPost, view.PathPins, test.body); status != test.status ||
				!strings.Contains(answer, test.want) {
				t.Errorf("%s: %d %s", test.body, status, answer)
			}
		}
		for _, test := range []struct {
			method, path string
			status       int
		}{
			{http.MethodDelete, "/0123", http.StatusBadRequest},
			{http.MethodDelete, "/" + strings.Repeat("0", 32), http.StatusNotFound},
			{http.MethodPost, "/" + strings.Repeat("0", 32), http.StatusNotFound},
			{http.MethodPost, "/" + strings.Repeat("0", 32) + "?lease.ms=soon", http.StatusBadRequest},
		} {
			if status, answer := s.ask(test.method, view.PathPins+test.path); status != test.status {
				t.Errorf("%s %s: %d %s", test.method, test.path, status, answer)
			}
		}
		if pins := s.pins(); len(pins) != 0 {
			t.Errorf("there are pins: %+v", pins)
		}
		// What is not in the bucket yet is no reason to refuse.
		pin := s.pinned(view.PinRequest{Topic: "events", Partitions: []view.PinRange{{Partition: 1, From: 50, To: 70}}})
		if part := pin.Partitions[0]; len(pin.Partitions) != 1 || part.Start != 50 || part.End != 50 {
			t.Errorf("%+v", pin)
		}
	})
}

// The broker is gone for good, and with it all it had: the bucket tells what there is, up to what was uploaded last.
func TestHistoryIsReadWithoutABroker(t *testing.T) {
	run(t, 93, fewJournals, func(s *scenario) {
		s.createTopic("events", 2, tiered(nil))
		s.checkpointed()
		client := s.transactional("payments", kgo.DefaultProduceTopic("events"),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for round := range 30 {
			must(t, client.BeginTransaction())
			for partition := range int32(2) {
				s.produce(client, numbered("events", partition, 40*round, 40, 100)...)
			}
			must(t, client.EndTransaction(s.context(), kgo.TransactionEndTry(round%3 != 0)))
		}
		client.Close()
		s.sink("events")
		s.sleep(time.Second) // newer than the checkpoint
		var whole [2][2][]*kgo.Record
		for partition := range int32(2) {
			for committed := range 2 {
				whole[committed][partition] = s.consumed("events", partition, committed == 1)
			}
		}
		s.loseDisks()
		snapshot := try(bulk.FromBucket(context.Background(), s.disks.bucket, kafka.UUID{}, "events")).orFail(t)
		if len(snapshot.Partitions) != 2 || snapshot.WrittenAt == 0 || len(snapshot.Damaged) > 0 {
			t.Fatalf("%+v", snapshot)
		}
		for committed := range 2 {
			var want []string
			for i, p := range snapshot.Partitions {
				if p.End < 400 {
					t.Errorf("only [%d, %d) of partition %d was uploaded", p.Start, p.End, i)
				}
				for _, r := range whole[committed][i] {
					if r.Offset < p.End {
						want = append(want, printedRecords([]*kgo.Record{r})...)
					}
				}
			}
			got := try(s.bulkRead(snapshot, committed == 1)).orFail(t)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("committed only: %d (-consumed +read from the bucket):\n%s", committed, diff)
			}
		}
		_, err := bulk.FromBucket(context.Background(), s.disks.bucket, kafka.UUID{}, "nothing")
		if !errors.Is(err, bulk.ErrNoTopic) {
			t.Errorf("a topic that there is not: %v", err)
		}
	})
}

// consumed is what a consumer reads of a partition until it has come to the end.
func (s *scenario) consumed(topic string, partition int32, committed bool) (records []*kgo.Record) {
	s.t.Helper()
	options := []kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}}),
		kgo.KeepControlRecords(),
	}
	if committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	ends := try(s.admin().ListEndOffsets(s.context(), topic)).orFail(s.t)
	end, _ := ends.Lookup(topic, partition)
	client := s.client(options...)
	defer client.Close()
	for next := int64(0); next < end.Offset; {
		fetches := client.PollFetches(s.context())
		must(s.t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { records, next = append(records, r), r.Offset+1 })
	}
	return records
}
