package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/firnlog/firn"
)

// TestRemoteStorageIsSwitchedOffAndOnAgain: what is remote goes, the log begins where the local one does, and nothing
// of that is missing later, with power cuts in between.
func TestRemoteStorageIsSwitchedOffAndOnAgain(t *testing.T) {
	run(t, 46, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(map[string]string{"local.retention.ms": "-2", "local.retention.bytes": "60000"}))
		sent := s.produceTimed("events", 0, 2000)
		s.eventually("old records are only in the bucket", func() bool {
			return s.offsetAt("events", earliestLocal) > 500 && s.offsetAt("events", latestTiered) > 1900
		})
		before := len(s.objects())
		expectSame(t, s.read("events", 0, 0), sent)

		s.alterTopic("events", "remote.storage.enable=false", "remote.log.delete.on.disable=true")
		s.eventually("the log begins where the local one does", func() bool {
			return s.offsetAt("events", earliest) > 500
		})
		start := s.offsetAt("events", earliest)
		if local := s.offsetAt("events", earliestLocal); local != start || start > 1900 {
			t.Errorf("the log begins at %d, the local one at %d", start, local)
		}
		expectSame(t, s.read("events", 0, start), sent[start:])
		s.crash(loseAllUnsynced)
		expectSame(t, s.read("events", 0, start), sent[start:])
		sent = append(sent, s.produceTimed("events", 2000, 500)...)
		s.sleep(time.Minute)
		if again := s.offsetAt("events", earliest); again != start {
			t.Errorf("the log begins at %d, and no longer at %d", again, start)
		}
		if after := len(s.objects()); after > before {
			t.Errorf("%d objects, %d when it was switched off", after, before)
		}
		s.eventually("nothing is left in the bucket", func() bool { return len(s.objects()) == 0 })

		s.alterTopic("events", "remote.storage.enable=true", "local.retention.ms=1", "local.retention.bytes=-2")
		s.sink("events")
		expectSame(t, s.read("events", 0, start), sent[start:])
		sent = append(sent, s.produceTimed("events", 2500, 500)...)
		s.sink("events")
		s.crash(loseAllUnsynced)
		if again := s.offsetAt("events", earliest); again != start {
			t.Errorf("the log begins at %d, and no longer at %d", again, start)
		}
		expectSame(t, s.read("events", 0, start), sent[start:])
	})
}

// TestPausedCopiesGoOnWithoutAHole: with remote.log.copy.disable nothing more is copied and all of it is served.
func TestPausedCopiesGoOnWithoutAHole(t *testing.T) {
	run(t, 47, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 1000)
		s.sink("events")
		s.alterTopic("events", "remote.log.copy.disable=true", "local.retention.ms=-2")
		before := len(s.objects())
		sent = append(sent, s.produceTimed("events", 1000, 1000)...)
		s.sleep(time.Hour)
		if after := len(s.objects()); after != before {
			t.Errorf("%d objects, %d when copies were paused", after, before)
		}
		expectSame(t, s.read("events", 0, 0), sent)
		s.restart()
		expectSame(t, s.read("events", 0, 0), sent)
		s.alterTopic("events", "remote.log.copy.disable=false", "local.retention.ms=1")
		s.sink("events")
		expectSame(t, s.read("events", 0, 0), sent)
	})
}

// TestObjectsOfADeletedTopicMayStay: firn.remote.delete=false keeps them, whatever is collected.
func TestObjectsOfADeletedTopicMayStay(t *testing.T) {
	run(t, 48, nil, func(s *scenario) {
		for _, topic := range []string{"kept", "gone"} {
			s.createTopic(topic, 1, tiered(nil))
			s.produceTimed(topic, 0, 500)
			s.sink(topic)
			if topic == "kept" {
				s.alterTopic(topic, "firn.remote.delete=false")
				for _, answer := range try(s.admin().DeleteTopics(s.context(), topic)).orFail(t) {
					must(t, answer.Err)
				}
			}
		}
		kept := s.objects()
		s.sleep(time.Hour)
		for _, answer := range try(s.admin().DeleteTopics(s.context(), "gone")).orFail(t) {
			must(t, answer.Err)
		}
		s.eventually("objects go", func() bool { return len(s.objects()) < len(kept) })
		s.restart()
		s.sleep(time.Hour)
		left := s.objects()
		if len(left) < 3 || len(left) >= len(kept) {
			t.Errorf("%d of %d objects are left", len(left), len(kept))
		}
		for _, object := range left {
			if !slices.Contains(kept, object) {
				t.Errorf("%s has come", object)
			}
		}
	})
}

// TestWhatWasSwitchedOffDoesNotComeBack: a restore does not take objects that wait to be collected for newer ones.
func TestWhatWasSwitchedOffDoesNotComeBack(t *testing.T) {
	run(t, 49, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(map[string]string{"local.retention.ms": "-2", "local.retention.bytes": "60000"}))
		s.produceTimed("events", 0, 2000)
		s.eventually("old records are only in the bucket", func() bool {
			return s.offsetAt("events", earliestLocal) > 500 && s.offsetAt("events", latestTiered) > 1900
		})
		s.alterTopic("events", "remote.storage.enable=false", "remote.log.delete.on.disable=true")
		s.eventually("the log begins where the local one does", func() bool {
			return s.offsetAt("events", earliest) > 500
		})
		start := s.offsetAt("events", earliest)
		s.checkpointed()
		if len(s.objects()) < 10 {
			t.Fatal("the objects are gone too early to be mistaken")
		}
		s.loseDisks()
		s.restore(firn.RestoreOptions{})
		if first, end := s.offsetAt("events", earliest), s.offsetAt("events", latest); first != start || end != start {
			t.Errorf("the log is [%d, %d), and should be empty at %d", first, end, start)
		}
	})
}
