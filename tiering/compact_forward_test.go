package tiering_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/segment"
)

// Whatever checkpoint a restore begins with, and wherever a pass is by then: what is found beyond it goes on to the end,
// and has the last value of each key. Segments that a pass has written anew lie beside those it has left, and those it
// has not got to, of earlier leader epochs.
func TestARestoreGoesOnThroughWhatWasCompacted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := startRewritten(t, nil)
		want := map[string]written{}
		for _, one := range r.history {
			want[one.key] = one
		}
		entries := 0
		check := func(name string) error {
			if !strings.HasSuffix(name, "done") {
				return nil
			}
			for _, edge := range []int64{0, 3, 6, 9, 12} {
				forward, err := checkpoint.RollForward(t.Context(), r.disks.bucket, checkpoint.Edge{
					ClusterID: testCluster, Partition: eventsID, End: edge, LeaderEpoch: kafka.NoLeaderEpoch,
				})
				must(t, err)
				if forward.Last == nil || forward.Last.EndOffset != r.tierState().End {
					return fmt.Errorf("after %q, what lies beyond offset %d ends at %v", name, edge, forward.Last)
				}
				last := map[string]written{}
				for _, entry := range forward.Entries {
					data := make([]byte, entry.DataBytes)
					_, err := r.disks.bucket.Get(t.Context(), segment.KeyOf(testCluster, eventsID, entry).String(), 0, data)
					must(t, err)
					for _, one := range r.recordsIn(data) {
						last[one.key] = one
					}
				}
				for key, one := range want {
					if one.offset >= edge && last[key] != one {
						return fmt.Errorf("after %q, beyond offset %d there is %v instead of %v", name, edge, last[key], one)
					}
				}
				entries += len(forward.Entries)
			}
			return nil
		}
		for range 3 { // the first pass comes after an epoch has begun, the next ones after further values, too
			r.propose(bump)
			r.settle()
			if status := r.clean(cleanBy(150, time.Hour), check); status.Failure != nil || status.BrokenOff != nil {
				t.Fatal(status.Failure, status.BrokenOff)
			}
			r.write("key 1", "key 2")
			for _, one := range r.history[len(r.history)-2:] {
				want[one.key] = one
			}
			r.broker.seal()
		}
		if entries < 100 {
			t.Errorf("only %d segments were looked at", entries)
		}
		r.close()
	})
}
