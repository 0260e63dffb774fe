package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/internal/kafka"
)

// fakeCleaner looks after the partitions of topic cold; what it is asked for it notes.
type fakeCleaner struct {
	asked   []int32
	missing int32 // partition that it does not look after, −1 if it does after all
	refuses error // of Compact
}

func (f *fakeCleaner) Compact(tp kafka.TopicPartition) error {
	f.asked = append(f.asked, tp.Partition)
	return f.refuses
}

func (f *fakeCleaner) Status(tp kafka.TopicPartition) (view.PartitionCompaction, error) {
	if tp.Topic != "cold" || tp.Partition == f.missing {
		return view.PartitionCompaction{}, errors.New("set cleanup.policy=compact")
	}
	return view.PartitionCompaction{Partition: tp.Partition, Waiting: slices.Contains(f.asked, tp.Partition), Passes: 7}, nil
}

func TestCompactionIsAskedForByTopicAndPartition(t *testing.T) {
	switchedOff := errors.New("the log cleaner is switched off; set log.cleaner.enable=true")
	for name, c := range map[string]struct {
		method, path string
		cleaner      fakeCleaner
		status       int
		says         string  // of a failure
		asked, shown []int32 // partitions
	}{
		"where a topic stands":   {http.MethodGet, "/cold", fakeCleaner{missing: -1}, 200, "", nil, []int32{0, 1}},
		"where a partition is":   {http.MethodGet, "/cold?partition=1", fakeCleaner{missing: -1}, 200, "", nil, []int32{1}},
		"a pass over all":        {http.MethodPost, "/cold", fakeCleaner{missing: -1}, 200, "", []int32{0, 1}, []int32{0, 1}},
		"a pass over one":        {http.MethodPost, "/cold?partition=1", fakeCleaner{missing: -1}, 200, "", []int32{1}, []int32{1}},
		"no such topic":          {http.MethodPost, "/nope", fakeCleaner{missing: -1}, 404, "nope", nil, nil},
		"no such partition":      {http.MethodPost, "/cold?partition=2", fakeCleaner{missing: -1}, 400, "partition", nil, nil},
		"no number":              {http.MethodPost, "/cold?partition=x", fakeCleaner{missing: -1}, 400, "partition", nil, nil},
		"a negative partition":   {http.MethodGet, "/cold?partition=-1", fakeCleaner{missing: -1}, 400, "partition", nil, nil},
		"one good and one not":   {http.MethodPost, "/cold?partition=0&partition=9", fakeCleaner{missing: -1}, 400, "9", nil, nil},
		"not compacted":          {http.MethodPost, "/hot", fakeCleaner{missing: -1}, 409, "cleanup.policy", nil, nil},
		"status of the same":     {http.MethodGet, "/hot", fakeCleaner{missing: -1}, 409, "cleanup.policy", nil, nil},
		"one is not here":        {http.MethodPost, "/cold", fakeCleaner{missing: 1}, 409, "cleanup.policy", nil, nil},
		"the cleaner refuses":    {http.MethodPost, "/cold", fakeCleaner{missing: -1, refuses: switchedOff}, 409, "switched off", []int32{0}, nil},
		"another method":         {http.MethodDelete, "/cold", fakeCleaner{missing: -1}, 404, "", nil, nil},
		"without a topic's name": {http.MethodPost, "/", fakeCleaner{missing: -1}, 404, "", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cleaner := c.cleaner
			s := newServer(&fakeMetadata{}, nil, false)
			s.options.Compaction = &cleaner
			recorder := httptest.NewRecorder()
			s.routes().ServeHTTP(recorder, httptest.NewRequest(c.method, view.PathCompaction+c.path, http.NoBody))
			body := recorder.Body.String()
			if recorder.Code != c.status || !slices.Equal(cleaner.asked, c.asked) {
				t.Fatalf("status %d, asked for %v: %s", recorder.Code, cleaner.asked, body)
			}
			if c.status != http.StatusOK {
				var failure view.Error
				if c.says != "" && (json.Unmarshal([]byte(body), &failure) != nil || !strings.Contains(failure.Error, c.says)) {
					t.Errorf("it says %s", body)
				}
				return
			}
			var answer view.TopicCompaction
			if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Topic != "cold" {
				t.Fatalf("%s, %v", body, err)
			}
			var shown []int32
			for _, p := range answer.Partitions {
				shown = append(shown, p.Partition)
				if p.Waiting != (c.method == http.MethodPost) || p.Passes != 7 {
					t.Errorf("partition %+v", p)
				}
			}
			if !slices.Equal(shown, c.shown) {
				t.Errorf("it shows %v", shown)
			}
		})
	}
}
