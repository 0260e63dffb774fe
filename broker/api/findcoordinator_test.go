package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

func TestFindCoordinatorSaysThatThereIsNone(t *testing.T) {
	n := newTestNode(t, nil)
	for _, c := range []struct {
		name string
		kind int8
		old  kafka.Errno // in versions below 3
		new  kafka.Errno
	}{
		{"a group", 0, kafka.CoordinatorNotAvailable, kafka.UnsupportedVersion},
		{"a transactional id", 1, kafka.UnsupportedVersion, kafka.UnsupportedVersion},
		{"a share group", 2, kafka.UnsupportedVersion, kafka.UnsupportedVersion},
		{"something else", 3, kafka.InvalidRequest, kafka.InvalidRequest},
	} {
		for version := range int16(7) {
			if version == 0 && c.kind != 0 {
				continue // it knows groups only
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = "a", c.kind, []string{"a", "b"}
			resp := ask[*kmsg.FindCoordinatorResponse](n, req, version)
			want := c.new
			if version < 3 {
				want = c.old
			}
			if version < 4 {
				if kafka.Errno(resp.ErrorCode) != want || resp.NodeID != -1 || (resp.ErrorMessage == nil) != (version == 0) {
					t.Errorf("%s, v%d: %+v, want %v", c.name, version, resp, want)
				}
				continue
			}
			if len(resp.Coordinators) != 2 || resp.Coordinators[1].Key != "b" {
				t.Fatalf("%s, v%d: %+v", c.name, version, resp)
			}
			for _, coordinator := range resp.Coordinators {
				if kafka.Errno(coordinator.ErrorCode) != want || coordinator.NodeID != -1 || coordinator.ErrorMessage == nil {
					t.Errorf("%s, v%d: %+v, want %v", c.name, version, coordinator, want)
				}
			}
		}
	}
}
