package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/firnlog/firn/broker/admin/view"
)

// verified asks for a verification and waits for its end.
func (s *scenario) verified(query string) (answer view.Verification) {
	s.t.Helper()
	if status, body := s.ask(http.MethodPost, view.PathVerify+"?"+query); status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", query, status, body)
	}
	s.eventually("it is verified", func() bool {
		answer = s.verification()
		return !answer.Running
	})
	return answer
}

func (s *scenario) verification() (answer view.Verification) {
	s.t.Helper()
	_, body := s.get(view.PathVerify)
	must(s.t, json.Unmarshal([]byte(body), &answer))
	return answer
}

func (s *scenario) garbage(method string) (answer view.Garbage) {
	s.t.Helper()
	_, body := s.ask(method, view.PathGarbage)
	must(s.t, json.Unmarshal([]byte(body), &answer))
	return answer
}

// The bucket is held against the manifests when somebody asks, and once in a while by itself; what is wrong is told.
func TestTheBucketIsVerified(t *testing.T) {
	run(t, 61, []string{"firn.tier.scrub.interval.ms=3600000"}, func(s *scenario) {
		s.createTopic("events", 2, tiered(nil))
		s.produceTimed("events", 0, 400)
		s.sink("events")
		all := len(s.objects())
		if whole := s.verified("depth=data"); len(whole.Findings) > 0 || int(whole.Objects) < 2 || whole.Bytes == 0 {
			t.Errorf("%+v of %d objects", whole, all)
		}
		for query, want := range map[string]string{
			"depth=deep": "it is one of", "depth=tails&topic=nothing": "not tiered here",
		} {
			if status, body := s.ask(http.MethodPost, view.PathVerify+"?"+query); status != http.StatusConflict ||
				!strings.Contains(body, want) {
				t.Errorf("%s: %d %s", query, status, body)
			}
		}
		s.sleep(time.Hour + time.Minute)
		if scrub := s.verification(); !scrub.Scrub || len(scrub.Findings) > 0 {
			t.Errorf("after its time: %+v", scrub)
		}
		var lost string
		for _, key := range s.objects() {
			if strings.Contains(key, "/seg/") {
				lost = key
			}
		}
		must(t, s.bucket.Delete(s.context(), lost))
		found := s.verified("depth=listing&topic=events")
		if found.Found["missing"] != 1 || len(found.Findings) != 1 || found.Findings[0].Key != lost {
			t.Errorf("%+v, lost %s", found, lost)
		}
		if _, metrics := s.get("/metrics"); !strings.Contains(metrics, `firn_tier_verify_findings{kind="missing"} 1`) {
			t.Error("the metric does not tell")
		}
		s.restart()
		if again := s.verification(); again.EndedAt != found.EndedAt || len(again.Findings) != 1 {
			t.Errorf("after a restart: %+v", again)
		}
	})
}

// What waits to be deleted says for what: the grace time first, then two checkpoints without it.
func TestGarbageTellsWhatItWaitsFor(t *testing.T) {
	run(t, 62, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(map[string]string{"retention.ms": "3600000"}))
		s.produceTimed("events", 0, 600)
		s.sink("events")
		before := len(s.objects())
		s.eventually("it has expired", func() bool { return s.garbage(http.MethodGet).Grace > 0 })
		if now := s.garbage(http.MethodPost); now.Due > 0 || now.Pins > 0 {
			t.Errorf("%+v", now)
		}
		s.sleep(time.Hour)
		if now := s.garbage(http.MethodPost); now.Grace+now.Checkpoints+now.Pins+now.Due > 0 || now.At == 0 || now.Error != "" {
			t.Errorf("%+v", now)
		}
		if left := len(s.objects()); left >= before {
			t.Errorf("%d objects of %d are left", left, before)
		}
	})
}
