package tiering_test

import (
	"math"
	"testing"
	"time"

	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/upload"
)

// However little is produced, no record waits longer than firn.tier.roll.ms until its segment is sealed and copied.
func TestTheUploadLagIsBoundedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		s.config.Uploads.RollAfter = 10 * time.Second
		b := start(t, newDisks(t), s)
		expect := func(segments int, lag float64, when string) {
			t.Helper()
			if got := b.tierState(); got.Segments != int64(segments) {
				t.Errorf("%d segments are remote %s, want %d", got.Segments, when, segments)
			}
			if got := b.metric("firn_tier_upload_lag_seconds"); math.Abs(got-lag) > 0.1 {
				t.Errorf("the lag is %v s %s, want %v", got, when, lag)
			}
		}
		b.sleep(13 * time.Second)
		expect(0, 0, "without a record")
		b.produce(1, 0)
		b.sleep(9 * time.Second)
		expect(0, 9, "before the time")
		oldest := b.metric("firn_tier_oldest_pending_timestamp_seconds")
		if want := float64(time.Now().Unix() - 9); math.Abs(oldest-want) > 1 || b.metric("firn_tier_pending_bytes") == 0 {
			t.Errorf("the oldest record is of %v, want %v", oldest, want)
		}
		b.produce(1, 0) // the oldest record counts
		b.sleep(2 * time.Second)
		expect(1, 0, "after the time")
		b.sleep(time.Hour)
		if got := len(b.log().Segments()); got != 2 {
			t.Errorf("%d segments are local: empty ones were sealed", got)
		}
		b.propose(pause("true"))
		b.produce(1, 0)
		b.sleep(time.Minute)
		if got := len(b.log().Segments()); got != 2 {
			t.Errorf("%d segments: one was sealed that is not to be copied", got)
		}
		b.tier.SetUploadLimits(upload.Limits{Concurrency: 10}) // first: what may be copied is looked at right after the pause
		b.propose(pause("false"))
		b.sleep(time.Hour)
		expect(1, 3660, "without a limit")
		b.close()
	})
}

// While the bucket is away nothing is sealed: many small segments would be what is left of an outage.
func TestAnOutageMakesNoSmallSegments(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := usual()
		s.config.Uploads.RollAfter = 10 * time.Second
		b := start(t, newDisks(t), s)
		b.bucket.SetRules(objectstore.Rule{When: objectstore.Always(), Then: objectstore.Refuse()})
		for range 60 {
			b.produce(1, 0)
			b.sleep(time.Minute)
		}
		if got := len(b.log().Segments()); got != 2 {
			t.Errorf("%d segments after an hour", got)
		}
		if got := b.metric("firn_tier_upload_lag_seconds"); got < 3599 || got > 3601 {
			t.Errorf("the lag is %v s", got)
		}
		b.bucket.SetRules()
		b.sleep(time.Minute)
		if got := b.tierState(); got.Segments != 2 || b.metric("firn_tier_upload_lag_seconds") != 0 {
			t.Errorf("%+v, lag %v s", got, b.metric("firn_tier_upload_lag_seconds"))
		}
		b.close()
	})
}

func TestUploadsKeepToTheRateThatIsSet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := start(t, newDisks(t), usual())
		sealed(b, 40)
		var bytes int64
		for _, segment := range b.log().Segments() {
			bytes += segment.Size
		}
		b.tier.SetUploadLimits(upload.Limits{Concurrency: 10, BytesPerSecond: bytes / 100})
		b.propose(pause("false"))
		b.sleep(50 * time.Second)
		if got := b.tierState().Segments; got < 19 || got > 21 {
			t.Errorf("%d of 40 segments are remote after half the time", got)
		}
		b.sleep(52 * time.Second)
		if got := b.tierState().Segments; got != 40 {
			t.Errorf("%d of 40 segments are remote", got)
		}
		if got := b.metric("firn_tier_upload_throttled_seconds_total"); got < 90 {
			t.Errorf("uploads were throttled for %v s", got)
		}
		b.close()
	})
}
