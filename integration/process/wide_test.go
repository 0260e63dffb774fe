//go:build integration

package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// open is how many descriptors the node has open once it is ready and nobody is connected.
func (n *Node) open() int {
	n.t.Helper()
	found, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.running.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	return len(found)
}

// files counts what is in the log directory, segments apart.
func (n *Node) files() (segments, all int) {
	n.t.Helper()
	err := filepath.WalkDir(filepath.Join(n.Dir, "log"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all++
			if filepath.Ext(path) == ".log" {
				segments++
			}
		}
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return segments, all
}

func TestPF07RestartsLeaveNeitherDescriptorsNorFiles(t *testing.T) {
	const partitions, restarts = 1000, 10
	node := Serve(t, Options{})
	node.CreateTopic("wide", partitions)
	records := make([]*kgo.Record, partitions)
	for i := range records {
		records[i] = &kgo.Record{Topic: "wide", Partition: int32(i), Value: []byte("x")}
	}
	client := node.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	client.Close()
	var firstOpen, firstSegments, firstAll int
	for i := range restarts {
		if i%2 == 0 {
			node.Stop()
		} else {
			node.Kill()
		}
		node = Serve(t, Options{Dir: node.Dir})
		segments, all := node.files()
		open := node.open()
		if i < 2 { // both ways of stopping have been seen
			firstOpen, firstSegments, firstAll = max(firstOpen, open), max(firstSegments, segments), max(firstAll, all)
			continue
		}
		if open > firstOpen+20 || segments != firstSegments || all > firstAll+20 {
			t.Errorf("start %d: %d descriptors, %d segments, %d files; after the first ones %d, %d and %d",
				i, open, segments, all, firstOpen, firstSegments, firstAll)
		}
	}
	t.Logf("%d partitions: %d descriptors, %d segments, %d files", partitions, firstOpen, firstSegments, firstAll)
	if firstSegments != partitions {
		t.Errorf("%d segments of %d partitions", firstSegments, partitions)
	}
	node.Stop()
}

func TestPF05AVeryWideTopicDoesNotStarveOthers(t *testing.T) {
	node := Serve(t, Options{})
	node.CreateTopic("beside", 1)
	var took time.Duration
	latencies := node.steady(20*time.Millisecond, func() {
		began := time.Now()
		node.CreateTopic("wide", 10_000)
		took = time.Since(began)
	})
	p99 := percentile(latencies, 99)
	t.Logf("10 000 partitions created in %v; %d requests beside it, p50 %v, p99 %v", took, len(latencies),
		percentile(latencies, 50), p99)
	if p99 > 2*time.Second {
		t.Errorf("others wait for %v", p99)
	}
	node.Stop()
}
