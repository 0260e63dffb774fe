package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn"
)

// An offset that a client wants to be kept for a time of its own is kept for that time, whatever happens meanwhile, and
// one whose time is over does not come back.
func TestOffsetsExpireAfterARestoreAsBefore(t *testing.T) {
	run(t, 88, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		s.createTopic("other", 1, tiered(nil))
		s.produceTimed("events", 0, 1000)
		s.sink("events")
		old := s.client(kgo.MaxVersions(pinned(kmsg.OffsetCommit.Int16(), 3)))
		for group, kept := range map[string]time.Duration{"minutes": 20 * time.Minute, "hours": 5 * time.Hour} {
			request := offsetCommit(group, "events", 0, 100, -1)
			request.RetentionTimeMillis = kept.Milliseconds()
			s.commitOffset(old, request)
		}
		old.Close()
		s.commitAt("as ever", "events", 200)
		s.commitAt("hours", "other", 0)
		s.checkpointed()
		s.loseDisks()
		s.sleep(30 * time.Minute)
		report := s.restore(firn.RestoreOptions{})
		if len(report.NotCommitted) > 0 || report.Offsets != 3 {
			t.Errorf("%d offsets come back, not committed are %v", report.Offsets, report.NotCommitted)
		}
		expect := func(minutes, hours, asEver int64) {
			t.Helper()
			got := []int64{s.committedAt("minutes", "events"), s.committedAt("hours", "events"),
				s.committedAt("as ever", "events")}
			if want := []int64{minutes, hours, asEver}; !slices.Equal(got, want) {
				t.Errorf("committed are %d, want %d", got, want)
			}
		}
		expect(-1, 100, 200)
		s.sleep(4 * time.Hour)
		expect(-1, 100, 200)
		s.checkpointed() // the time goes through another restore
		s.loseDisks()
		s.restore(firn.RestoreOptions{})
		expect(-1, 100, 200)
		s.sleep(45 * time.Minute)
		expect(-1, -1, 200)
	})
}

// Settings of a single broker act again once there is a broker with its id.
func TestSettingsOfSingleBrokersComeBack(t *testing.T) {
	run(t, 89, fewJournals, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		value := "4444444"
		metadata := try(s.admin().BrokerMetadata(s.context())).orFail(t)
		responses := try(s.admin().AlterBrokerConfigs(s.context(),
			[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.retention.bytes", Value: &value}},
			metadata.Controller)).orFail(t)
		must(t, responses[0].Err)
		s.expectSetting("events", "retention.bytes", value)
		s.checkpointed()
		s.loseDisks()
		s.restore(firn.RestoreOptions{})
		s.expectSetting("events", "retention.bytes", value)
	})
}
