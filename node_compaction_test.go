package firn

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// folderWatch remembers the most that a folder has taken.
type folderWatch struct {
	files  *vfs.Mem
	folder string

	mu   sync.Mutex // guards the field below
	most int64
}

// size is what the folder takes now.
func (w *folderWatch) size() (bytes int64) {
	names, err := w.files.List(w.folder)
	if err != nil {
		return 0
	}
	for _, name := range names {
		if info, err := w.files.Stat(path.Join(w.folder, name)); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// see looks before each operation that changes something.
func (w *folderWatch) see(op vfs.Op) error {
	if op.Kind.Changes() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.most = max(w.most, w.size())
	}
	return nil
}

// A pass takes one segment more than the log, however long the log is: segments are replaced group by group.
func TestAPassNeedsTheRoomOfOneSegmentMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const segmentBytes = 20_000
		mem := vfs.NewMem()
		watch := &folderWatch{files: mem, folder: "data/log/t-0"}
		files := newRoomyFS()
		files.FS = vfs.NewFaulty(mem, watch.see)
		n := startMemoryNode(t, files, pebblevfs.NewMem(), "log.cleaner.backoff.ms=86400000")
		setting := func(value string) *string { return &value }
		_, err := kadm.NewClient(n.client).CreateTopic(t.Context(), 1, 1, map[string]*string{
			"cleanup.policy": setting("compact"), "internal.segment.bytes": setting(fmt.Sprint(segmentBytes)),
			"index.interval.bytes": setting("1000"),
		}, "t")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for i := range 400 {
				record := &kgo.Record{
					Topic: "t", Key: fmt.Appendf(nil, "key %d", i), Value: []byte(strings.Repeat("x", 1000)),
				}
				if err := n.client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := watch.size()
		watch.mu.Lock()
		watch.most = 0
		watch.mu.Unlock()
		tp := kafka.TopicPartition{Topic: "t"}
		if err := n.cleaner.Compact(tp); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		status, err := n.cleaner.Status(tp)
		if err != nil || status.Passes != 1 || status.Stats.RecordsKept != 400 {
			t.Fatalf("%+v, %v", status, err)
		}
		t.Logf("%d bytes before, %d at most, %d after", before, watch.most, watch.size())
		if extra := watch.most - before; extra > segmentBytes*3/2 || extra <= 0 {
			t.Errorf("the pass took %d bytes more than the log's %d, with segments of %d", extra, before, segmentBytes)
		}
		if after := watch.size(); after > before*6/10 {
			t.Errorf("%d of %d bytes are left", after, before)
		}
	})
}
