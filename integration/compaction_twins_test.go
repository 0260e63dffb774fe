package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/tiering/objectstore"
)

// Two copies of one random history of keys, with tombstones, transactions, leader epochs and a deleted prefix, of which
// one is compacted in the bucket: whoever reads one knows what whoever reads the other knows, and gets on from anywhere.
func TestALogCompactedInTheBucketSaysWhatALocalOneSays(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, 720+seed, fewJournals, func(s *scenario) {
				w := &twins{scenario: s, ids: map[string]kadm.TopicID{}, keys: 12}
				settings := map[string]string{
					"internal.segment.bytes": "3000", "delete.retention.ms": "120000",
					"cleanup.policy": "compact,delete", "retention.ms": "-1", // else nobody may delete a prefix
				}
				s.createTopic("local", 1, compacted(settings))
				settings["remote.storage.enable"], settings["local.retention.ms"] = "true", "1"
				s.createTopic("tiered", 1, compacted(settings))
				for _, topic := range twinTopics {
					w.ids[topic] = s.topicID(topic)
				}
				w.raw, w.client = s.raw("payments"), s.client()
				defer func() { w.client.Close() }()
				for range 3 {
					w.live()
					w.sleep(5 * time.Minute) // until both are cleaned, some tombstones go, and old objects do
					w.compareValues()
				}
				for _, topic := range twinTopics {
					s.deleteRecords(topic, w.next/2)
				}
				w.compareValues()
				if local := s.offsetAt("tiered", earliestLocal); local < w.next*3/4 {
					t.Errorf("the local log begins at %d of %d: little was read from the bucket", local, w.next)
				}
			})
		})
	}
}

// live writes a part of the history.
func (w *twins) live() {
	w.t.Helper()
	for range 20 {
		switch w.random.IntN(6) {
		case 0, 1:
			w.transact()
		case 2:
			if w.random.IntN(3) == 0 {
				w.crash(loseNothing)
			}
		default:
			w.append(record.PlainProducer(), nil)
		}
		w.sleep(10 * time.Second)
	}
}

// compareValues compares the last values of keys for those who read what is committed, and the records at offsets that
// both still have.
func (w *twins) compareValues() {
	w.t.Helper()
	committed := kgo.FetchIsolationLevel(kgo.ReadCommitted())
	var known [2]map[string]string
	at := map[int64]string{}
	var records [2]int
	for i, topic := range twinTopics {
		start := w.offsetAt(topic, earliest)
		read := w.everything(topic, start, committed)
		last, _ := values(read)
		for key, value := range last {
			if value == "" { // one may have its tombstone still, the other not
				delete(last, key)
			}
		}
		known[i], records[i] = last, len(read)
		for _, one := range read {
			content := fmt.Sprintf("%v %s %s", one.Timestamp.UnixMilli(), one.Key, one.Value)
			if other, both := at[one.Offset]; both && other != content && !one.Attrs.IsControl() {
				w.t.Errorf("offset %d is %q here and %q there", one.Offset, content, other)
			}
			at[one.Offset] = content
		}
		for from := start; from < w.next; from++ { // whoever gets on from each offset reaches the end
			answer := w.fetch(topic, from, 1, int8(from&1))
			batch, _, err := record.Next(answer.RecordBatches)
			if err != nil || batch.NextOffset() <= from {
				w.t.Fatalf("%s: a fetch from %d of %d is answered with %+v", topic, from, w.next, answer)
			}
		}
	}
	if diff := cmp.Diff(known[0], known[1]); diff != "" {
		w.t.Errorf("the last values of keys (-local +tiered):\n%s", diff)
	}
	if most := int(w.next) / 2; records[1] > most && w.next > 100 {
		w.t.Errorf("%d records are left in the bucket, and %d in the local one, of %d", records[1], records[0], w.next)
	}
}

// A pass that meets a store which does not take anything is broken off and tried again: nobody has to see to it.
func TestCompactionGoesOnAfterTheBucketIsBack(t *testing.T) {
	run(t, 730, nil, func(s *scenario) {
		s.createTopic("t", 1, compacted(map[string]string{
			"remote.storage.enable": "true", "local.retention.ms": "1", "min.cleanable.dirty.ratio": "1",
		}))
		client := s.client()
		for i := range 200 {
			s.put(client, "t", fmt.Sprint("key ", i%10), strings.Repeat(fmt.Sprint(i), 20))
		}
		client.Close()
		s.sink("t")
		s.bucket.SetRules(objectstore.Rule{When: objectstore.On(objectstore.OpPut), Then: objectstore.Refuse()})
		s.alterTopic("t", "min.cleanable.dirty.ratio=0.01")
		s.sleep(10 * time.Minute)
		if _, page := s.ask("GET", "/metrics"); !strings.Contains(page, `firn_compaction_passes_total{result="failed"}`) ||
			strings.Contains(page, `firn_compaction_passes_total{result="failed"} 0`) {
			t.Error("no pass has met the store")
		}
		if left := len(s.everything("t", 0)); left != 200 {
			t.Errorf("%d records are left", left)
		}
		s.bucket.SetRules()
		s.sleep(10 * time.Minute)
		records := s.everything("t", 0)
		last, _ := values(records)
		if len(records) > 40 || len(last) != 10 || last["key 9"] != strings.Repeat("199", 20) {
			t.Errorf("%d records are left, of %d keys", len(records), len(last))
		}
	})
}
