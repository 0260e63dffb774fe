//go:build integration

package differential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func cases() []testCase {
	return slices.Concat(clusterCases(), topicCases(), produceCases(), fetchCases(), settingCases(),
		groupSettingCases(), classicGroupCases(), consumerGroupCases(), offsetCases(), transactionLogCases(), transactionCases(), malformedCases())
}

// TestAnswersAreThoseOfApacheKafka plays the script with both brokers and holds what differs against the table.
func TestAnswersAreThoseOfApacheKafka(t *testing.T) {
	kafkaPeer, firnPeer := startKafka(t), startFirn(t)
	seen := observations{}
	covered := map[string]bool{}
	script := script{start: time.Now().UnixMilli()}
	for number, c := range cases() {
		api, ok := wire.LookupAPI(c.key)
		if !ok {
			t.Fatalf("case %q is of key %d, which is not served", c.name, c.key)
		}
		last := cmp.Or(c.to, api.Max)
		for version := max(c.from, api.Min); version <= last; version++ {
			covered[fmt.Sprintf("%s v%d", api.Name, version)] = true
			name := fmt.Sprintf("%s/%s", api.Name, c.name)
			t.Run(fmt.Sprintf("%s/v%d", name, version), func(t *testing.T) {
				prefix := fmt.Sprintf("c%d-v%d-", number, version)
				seen.add(t, name, version, both(t, &c, kafkaPeer, firnPeer, version, prefix, script.start))
			})
		}
	}
	kafkaPeer.close()
	firnPeer.close()
	for _, api := range wire.APIs() {
		for version := api.Min; version <= api.Max; version++ {
			if name := fmt.Sprintf("%s v%d", api.Name, version); !covered[name] {
				t.Errorf("nothing is asked of %s", name)
			}
		}
	}
	seen.judge(t)
}

// compared is one request that both brokers were asked.
type compared struct {
	step  string
	found []found
}

// both plays a case with both brokers at once and compares the answers.
func both(t *testing.T, c *testCase, kafkaPeer, firnPeer *peer, version int16, prefix string, start int64) []compared {
	t.Helper()
	peers := []*peer{kafkaPeer, firnPeer}
	steps, errs := make([][]step, len(peers)), make([]error, len(peers))
	var group sync.WaitGroup
	for i, p := range peers {
		if p.topics == nil {
			p.topics, p.shared = map[string]kafka.TopicID{}, map[string]bool{}
		}
		group.Go(func() { steps[i], errs[i] = play(c, p, version, prefix, start) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	var all []compared
	for i := range min(len(steps[0]), len(steps[1])) {
		all = append(all, compared{steps[0][i].name, compare(kafkaPeer, firnPeer, steps[0][i].outcome, steps[1][i].outcome)})
	}
	return all
}

// observation is a difference as it was seen; that it is seen at several versions makes no other one.
type observation struct{ request, field, kafka, firn string }

type observations map[observation][]int16

func (o observations) add(t *testing.T, name string, version int16, all []compared) {
	t.Helper()
	for _, one := range all {
		for _, f := range one.found {
			seen := observation{name + "/" + one.step, f.path, f.kafka, f.firn}
			o[seen] = append(o[seen], version)
			if testing.Verbose() {
				t.Logf("%s: %s: kafka %s, firn %s", one.step, f.path, f.kafka, f.firn)
			}
		}
	}
}

// judge reports what is not in the table, and what is in it for nothing.
func (o observations) judge(t *testing.T) {
	t.Helper()
	table := differences()
	used := make([]bool, len(table))
	keys := slices.SortedFunc(maps.Keys(o), func(a, b observation) int {
		return cmp.Or(strings.Compare(a.request, b.request), strings.Compare(a.field, b.field))
	})
	for _, seen := range keys {
		known := false
		for i := range table {
			if table[i].matches(seen.request, seen.field, seen.kafka, seen.firn) {
				used[i], known = true, true
			}
		}
		if !known {
			t.Errorf("%s %v: %s: kafka %s, firn %s", seen.request, o[seen], seen.field, seen.kafka, seen.firn)
		}
	}
	for i, d := range table {
		if !used[i] {
			t.Errorf("the table lists a difference that does not occur: %s: %s: kafka %s, firn %s",
				d.request, d.field, d.kafka, d.firn)
		}
	}
}
