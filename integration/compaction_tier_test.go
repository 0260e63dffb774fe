package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A topic that is compacted and tiered is compacted in the bucket, too: every reader finds the last value of each key,
// wherever it begins, and what is superseded leaves the bucket.
func TestACompactedTopicIsCompactedInTheBucket(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("t", 1, compacted(map[string]string{
			"remote.storage.enable": "true", "local.retention.ms": "60000", "delete.retention.ms": "60000",
		}))
		random := rand.New(rand.NewPCG(8, 8))
		want := map[string]string{}
		for round := range 12 {
			client := s.client()
			for i := range 60 {
				key, value := fmt.Sprintf("key %d", random.IntN(15)), fmt.Sprintf("%d of %d %s", i, round, strings.Repeat("x", 40))
				if random.IntN(5) == 0 {
					value = ""
				}
				s.put(client, "t", key, value)
				want[key] = value
			}
			client.Close()
			s.sleep(10 * time.Minute)
			if round%4 == 3 {
				s.crash(loseAllUnsynced)
				s.revive()
			}
		}
		s.sleep(time.Hour) // the grace time is over, too
		end := s.offsetAt("t", latest)
		if local := s.offsetAt("t", earliestLocal); local < end/2 {
			t.Errorf("the local log begins at %d of %d: nothing was read from the bucket", local, end)
		}
		records := s.everything("t", 0)
		last, met := values(records)
		for key, value := range want {
			if last[key] != value {
				t.Errorf("%s has %q instead of %q", key, last[key], value)
			}
			if met[key] > 6 { // what is not sealed, or not dirty enough, comes on top
				t.Errorf("%s is there %d times", key, met[key])
			}
		}
		if objects := len(s.objects()); objects > 40 || len(records) > int(end)/3 {
			t.Errorf("%d objects and %d records are left of %d", objects, len(records), end)
		}
		for from := int64(0); from < end; from += 7 { // progress from everywhere
			if tail := s.everything("t", from); len(tail) == 0 || tail[len(tail)-1].Offset != end-1 {
				t.Fatalf("from %d on the end is not reached", from)
			}
		}
	})
}

// What transactions have aborted is gone, and what they have committed is there, after a log was compacted in the bucket.
func TestTransactionsSurviveCompactionInTheBucket(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("t", 1, compacted(map[string]string{"remote.storage.enable": "true", "local.retention.ms": "60000"}))
		want := map[string]string{}
		for round := range 20 {
			client := s.client(kgo.TransactionalID(fmt.Sprint("id ", round%3)))
			must(t, client.BeginTransaction())
			for i := range 10 {
				key, value := fmt.Sprintf("key %d", (round+i)%12), fmt.Sprintf("%d of %d %s", i, round, strings.Repeat("y", 60))
				s.put(client, "t", key, value)
				if round%3 != 1 {
					want[key] = value
				}
			}
			must(t, client.EndTransaction(s.context(), kgo.TransactionEndTry(round%3 != 1)))
			client.Close()
			s.sleep(3 * time.Minute)
		}
		s.sleep(time.Hour)
		committed := kgo.FetchIsolationLevel(kgo.ReadCommitted())
		last, _ := values(s.everything("t", 0, committed))
		for key, value := range want {
			if last[key] != value {
				t.Errorf("%s has %q instead of %q", key, last[key], value)
			}
		}
		if len(last) != len(want) {
			t.Errorf("%d keys instead of %d", len(last), len(want))
		}
	})
}
