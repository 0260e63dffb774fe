package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn"
	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/objectstore"
)

func TestOfTwoRestoresOneSucceedsAndTheOldClusterStops(t *testing.T) {
	run(t, 85, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		s.produceTimed("events", 0, 500)
		s.sink("events")
		s.checkpointed()
		s.stop()
		old, bucket := s.disks, s.disks.bucket
		var racing sync.WaitGroup
		reports, errs := make([]*firn.RestoreReport, 3), make([]error, 3)
		for i := range reports {
			rival := s.rival(i, bucket)
			racing.Go(func() { reports[i], errs[i] = rival.tryRestore(firn.RestoreOptions{}, bucket) })
		}
		racing.Wait()
		won := 0
		for i, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, checkpoint.ErrSuperseded) && !strings.Contains(err.Error(), "no cluster in this store"):
				t.Errorf("restore %d: %v", i, err)
			}
		}
		if won != 1 {
			t.Fatalf("%d restores have succeeded", won)
		}
		s.disks = old
		s.start() // nobody has told the old cluster
		end := s.offsetAt("events", latestTiered)
		s.produceTimed("events", 500, 500)
		s.sleep(10 * time.Minute)
		if got := s.offsetAt("events", latestTiered); got != end {
			t.Errorf("the old cluster has committed segments up to %d", got)
		}
	})
}

// Whoever has taken a cluster over and was lost itself, before anybody knew of it, is put out of its place by name.
func TestARestoreThatNeverCameToLifeIsReplaced(t *testing.T) {
	run(t, 91, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		s.produceTimed("events", 0, 300)
		s.sink("events")
		s.checkpointed()
		end, lost := s.offsetAt("events", latestTiered)+1, s.clusterID()
		s.loseDisks()
		stillborn := try(s.rival(1, s.disks.bucket).tryRestore(firn.RestoreOptions{}, s.disks.bucket)).orFail(t)
		_, err := s.tryRestore(firn.RestoreOptions{Cluster: lost}, s.disks.bucket)
		if !errors.Is(err, checkpoint.ErrSuperseded) || !strings.Contains(err.Error(), "--take-over "+stillborn.Cluster) {
			t.Errorf("a second restore: %v", err)
		}
		s.disks = func() *disks { fresh := newDisks(); fresh.bucket = s.disks.bucket; return fresh }()
		report := s.restore(firn.RestoreOptions{
			Cluster: lost, TakeOver: try(firn.ParseClusterID(stillborn.Cluster)).orFail(t),
		})
		if got := endOf(t, report, "events").End; got != end {
			t.Errorf("it ends at %d, want %d", got, end)
		}
		owner, err := checkpoint.Owner(s.context(), s.disks.bucket, lost)
		if err != nil || owner != s.clusterID() {
			t.Errorf("the owner is %s, %v", owner.Hex(), err)
		}
	})
}

// rival is another machine that has the bucket.
func (s *scenario) rival(number int, bucket *objectstore.Memory) *scenario {
	rival := &scenario{
		t: s.t, random: s.random, network: network.NewMemory(), disks: newDisks(), host: fmt.Sprint("rival", number),
		settings: s.settings,
	}
	rival.disks.bucket = bucket
	return rival
}

func TestARestoredClusterIsRestoredAgain(t *testing.T) {
	run(t, 86, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		var sent []*kgo.Record
		for range 3 {
			sent = append(sent, s.produceTimed("events", len(sent), 500)...)
			s.sink("events")
			s.checkpointed()
			end := s.offsetAt("events", latestTiered) + 1
			s.loseDisks()
			s.restore(firn.RestoreOptions{})
			sent = sent[:end]
			expectSame(t, s.read("events", 0, 0), sent)
		}
		s.deleteRecords("events", int64(len(sent))) // of all three clusters
		s.eventually("what the old clusters have written is collected", func() bool { return len(s.objects()) == 0 })
		s.restart()
		if got := s.offsetAt("events", earliest); got != int64(len(sent)) {
			t.Errorf("the log starts at %d", got)
		}
	})
}
