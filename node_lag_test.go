package firn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/internal/kafka"
)

// fixedGroups are groups as a test wants them.
type fixedGroups struct {
	members map[string]int
	offsets map[groupPartition]int64
	asked   func() // called when all offsets have been visited
}

func (g *fixedGroups) EachGroup(visit func(group string, members int)) error {
	for group, members := range g.members {
		visit(group, members)
	}
	return nil
}

func (g *fixedGroups) EachOffset(visit func(group.Committed)) error {
	for at, offset := range g.offsets {
		visit(group.Committed{Group: at.group, TopicPartition: at.TopicPartition, Offset: offset})
	}
	if g.asked != nil {
		g.asked()
	}
	return nil
}

// fixedPartitions are partitions as a test wants them: [start, end), and the timestamps that are known.
type fixedPartitions struct {
	borders    map[kafka.TopicPartition][2]int64
	timestamps map[int64]int64
	reads      int
}

func (p *fixedPartitions) Borders(tp kafka.TopicPartition) (start, highWatermark int64, ok bool) {
	borders, ok := p.borders[tp]
	return borders[0], borders[1], ok
}

func (p *fixedPartitions) Timestamp(_ kafka.TopicPartition, offset int64) (timestamp int64, ok bool) {
	p.reads++
	timestamp, ok = p.timestamps[offset]
	return timestamp, ok
}

// scrape lists the series of a collector, sorted.
func scrape(t *testing.T, collector prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	return lagSeries(t, registry)
}

func lagSeries(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var series []string
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), "kafka_consumergroup_")
		if !ours {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			series = append(series, fmt.Sprintf("%s %s %v", name, strings.Join(labels, "/"), metric.GetGauge().GetValue()))
		}
	}
	slices.Sort(series)
	return series
}

func at(group string, partition int32) groupPartition {
	return groupPartition{group, kafka.TopicPartition{Topic: "t", Partition: partition}}
}

// TestMX01MX02MX04TheLagOfGroups: without a commit there is no series, what retention took does not count, and no lag is
// below zero.
func TestMX01MX02MX04TheLagOfGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UnixMilli()
		groups := &fixedGroups{members: map[string]int{"g": 2, "idle": 0}, offsets: map[groupPartition]int64{
			at("g", 0): 4, at("g", 1): 100, at("g", 2): 12, at("g", 3): 10, at("g", 4): 1,
		}}
		partitions := &fixedPartitions{timestamps: map[int64]int64{4: now - 90_000}, borders: map[kafka.TopicPartition][2]int64{
			{Topic: "t", Partition: 0}: {0, 10}, {Topic: "t", Partition: 1}: {1000, 1000}, {Topic: "t", Partition: 2}: {0, 10},
			{Topic: "t", Partition: 3}: {0, 20}, {Topic: "t", Partition: 5}: {0, 10},
		}}
		got := scrape(t, newLagCollector(groups, partitions, 1000))
		want := []string{
			"current_offset g/0/t 4", "current_offset g/1/t 100", "current_offset g/2/t 12", "current_offset g/3/t 10",
			"current_offset_sum g/t 126",
			"lag g/0/t 6", "lag g/1/t 0", "lag g/2/t 0", "lag g/3/t 10",
			"lag_seconds g/0/t 90", "lag_seconds g/1/t 0", "lag_seconds g/2/t 0", "lag_seconds_max g/t 90", "lag_sum g/t 16",
			"members g 2", "members idle 0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestMX01TheEndIsReadAfterTheCommit: a consumer that reads while metrics are scraped is never ahead of the log, nor is
// what came meanwhile left out.
func TestMX01TheEndIsReadAfterTheCommit(t *testing.T) {
	partitions := &fixedPartitions{borders: map[kafka.TopicPartition][2]int64{}}
	groups := &fixedGroups{offsets: map[groupPartition]int64{at("g", 0): 10},
		asked: func() { partitions.borders[at("g", 0).TopicPartition] = [2]int64{0, 12} }}
	if got := scrape(t, newLagCollector(groups, partitions, 1000)); !slices.Contains(got, "lag g/0/t 2") {
		t.Errorf("series %v", got)
	}
}

// TestMX10SeriesOfGroupsAreBounded: each kind ends where it is too much, the detailed ones first.
func TestMX10SeriesOfGroupsAreBounded(t *testing.T) {
	groups := &fixedGroups{members: map[string]int{"a": 1, "b": 1}, offsets: map[groupPartition]int64{}}
	partitions := &fixedPartitions{borders: map[kafka.TopicPartition][2]int64{}}
	for i := range int32(3) {
		groups.offsets[at("a", i)] = 1
		partitions.borders[at("a", i).TopicPartition] = [2]int64{0, 1}
	}
	for bound, want := range map[int]map[string]int{
		3: {"current_offset": 3, "lag": 3, "lag_seconds": 3, "current_offset_sum": 1, "lag_sum": 1, "lag_seconds_max": 1,
			"members": 2},
		2: {"current_offset_sum": 1, "lag_sum": 1, "lag_seconds_max": 1, "members": 2},
		1: {"current_offset_sum": 1, "lag_sum": 1, "lag_seconds_max": 1},
		0: {},
	} {
		got := map[string]int{}
		for _, series := range scrape(t, newLagCollector(groups, partitions, bound)) {
			name, _, _ := strings.Cut(series, " ")
			got[name]++
		}
		if !maps.Equal(got, want) {
			t.Errorf("with a bound of %d: %v, want %v", bound, got, want)
		}
	}
}

func TestAGroupThatStandsStillCostsOneRead(t *testing.T) {
	tp := at("g", 0).TopicPartition
	groups := &fixedGroups{offsets: map[groupPartition]int64{at("g", 0): 1}}
	partitions := &fixedPartitions{borders: map[kafka.TopicPartition][2]int64{tp: {0, 9}}, timestamps: map[int64]int64{1: 5, 3: 6}}
	collector := newLagCollector(groups, partitions, 1000)
	for _, step := range []struct {
		offset int64
		reads  int
	}{{1, 1}, {1, 1}, {3, 2}, {9, 2}, {3, 3}} {
		groups.offsets[at("g", 0)] = step.offset
		scrape(t, collector)
		if partitions.reads != step.reads {
			t.Errorf("at offset %d: %d reads, want %d", step.offset, partitions.reads, step.reads)
		}
	}
}

// TestMX05LagOfANode: the lag that a node shows is that of its groups, and ends with the topic and the group.
func TestMX05LagOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startMemoryNode(t, newRoomyFS(), pebblevfs.NewMem())
		n.createTopic("t", 2)
		for range 3 {
			if err := n.produce("t", 0, "something"); err != nil {
				t.Fatal(err)
			}
		}
		admin := kadm.NewClient(n.client)
		for _, group := range []string{"a", "b"} {
			offsets := kadm.Offsets{}
			offsets.AddOffset("t", 0, 1, -1)
			if err := admin.CommitAllOffsets(t.Context(), group, offsets); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		expect := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, lagSeries(t, n.deps.Registry)); diff != "" {
				t.Errorf("%s:\n%s", when, diff)
			}
		}
		of := func(group string) []string {
			return []string{"current_offset " + group + "/0/t 1", "current_offset_sum " + group + "/t 1",
				"lag " + group + "/0/t 2", "lag_seconds " + group + "/0/t 60", "lag_seconds_max " + group + "/t 60",
				"lag_sum " + group + "/t 2", "members " + group + " 0"}
		}
		both := append(of("a"), of("b")...)
		slices.Sort(both)
		expect("two groups", both...)
		if _, err := admin.DeleteGroup(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		expect("one is deleted", of("a")...)
		if _, err := admin.DeleteTopic(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, series := range lagSeries(t, n.deps.Registry) {
			if !strings.HasPrefix(series, "members ") {
				t.Errorf("the topic is deleted: %s", series)
			}
		}
	})
}
