package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestVersionsTableAgreesWithKmsg(t *testing.T) {
	for _, api := range APIs() {
		t.Run(api.Name, func(t *testing.T) {
			// kmsg spells some names in Go's way; for this one it has a word of its own.
			name := strings.Replace(kmsg.NameForKey(api.Key), "AlterPartitionAssignments", "AlterPartitionReassignments", 1)
			if !strings.EqualFold(name, api.Name) {
				t.Errorf("kmsg calls key %d %s", api.Key, name)
			}
			request := kmsg.RequestForKey(api.Key)
			if request.MaxVersion() < api.Max {
				t.Errorf("kmsg knows versions up to %d, the table has %d", request.MaxVersion(), api.Max)
			}
			for version := api.Min; version <= api.Max; version++ {
				request.SetVersion(version)
				if got := api.Flexible(version); got != request.IsFlexible() {
					t.Errorf("version %d: flexible is %v, kmsg says %v", version, got, request.IsFlexible())
				}
				response := request.ResponseKind()
				response.SetVersion(version)
				if got := api.Flexible(version); got != response.IsFlexible() {
					t.Errorf("version %d: the response's flexibility differs in kmsg", version)
				}
			}
			if _, ok := layouts[api.Key]; !ok && api.Key != KeyProduce {
				t.Error("has no layout, so its requests could not be decoded")
			}
		})
	}
}

func TestVersionsTableIsThatOfKafka42(t *testing.T) {
	want := map[int16][2]int16{ // advertised minimum and maximum
		0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 10: {0, 6}, 18: {0, 4}, 19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 5},
		23: {2, 4}, 32: {1, 4}, 37: {0, 3}, 44: {0, 1}, 60: {0, 2}, 17: {0, 1}, 33: {0, 2}, 34: {1, 2}, 35: {1, 4}, 43: {0, 2}, 45: {0, 1},
		46: {0, 0}, 55: {0, 2}, 61: {0, 0}, 64: {0, 0}, 74: {0, 1}, 75: {0, 0},
		27: {1, 2},
		24: {0, 5}, 25: {0, 4}, 26: {0, 5}, 28: {0, 5}, 65: {0, 0}, 66: {0, 2},
		8: {2, 10}, 9: {1, 10}, 11: {0, 9}, 12: {0, 4}, 13: {0, 5}, 14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 42: {0, 2}, 47: {0, 0}, 68: {0, 1}, 69: {0, 1},
	}
	apis := APIs()
	if len(apis) != len(want) {
		t.Errorf("%d APIs are served, want %d", len(apis), len(want))
	}
	if !slices.IsSortedFunc(apis, func(a, b API) int { return int(a.Key) - int(b.Key) }) {
		t.Error("the table is not sorted by key")
	}
	for _, api := range apis {
		if got := [2]int16{api.Min, api.Max}; got != want[api.Key] {
			t.Errorf("%s is advertised as %v, want %v", api.Name, got, want[api.Key])
		}
		if api.Key != KeyProduce && api.ServedFrom != api.Min {
			t.Errorf("%s advertises version %d and serves from %d", api.Name, api.Min, api.ServedFrom)
		}
	}
}

// PR-07: librdkafka looks at the low end of Produce to decide whether it may compress.
func TestPR07ProduceIsAdvertisedFromZeroAndServedFromThree(t *testing.T) {
	api, _ := LookupAPI(KeyProduce)
	if api.Min != 0 || api.ServedFrom != 3 {
		t.Fatalf("Produce is advertised from %d and served from %d", api.Min, api.ServedFrom)
	}
	for version := int16(0); version < 3; version++ {
		if api.Serves(version) {
			t.Errorf("Produce version %d must not be served", version)
		}
		if _, err := ParseProduce(version, nil); err == nil {
			t.Errorf("Produce version %d was parsed", version)
		}
	}
}
