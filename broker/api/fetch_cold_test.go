package api

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// coldDisk is a file system whose files of some partitions are not in memory, and a disk that answers when it is told
// to.
type coldDisk struct {
	vfs.FS

	mu    sync.Mutex // guards the fields below
	cold  string     // a part of the names of files that are not in memory; empty: all are
	spun  chan struct{}
	reads int
}

func (d *coldDisk) Open(name string) (vfs.File, error) { return d.wrap(d.FS.Open(name)) }

func (d *coldDisk) OpenReadWrite(name string) (vfs.File, error) {
	return d.wrap(d.FS.OpenReadWrite(name))
}

func (d *coldDisk) Create(name string) (vfs.File, error) { return d.wrap(d.FS.Create(name)) }

func (d *coldDisk) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &coldFile{file, d}, nil
}

// chill takes a partition's records out of memory. The disk gives them back once spin is called.
func (d *coldDisk) chill(partition string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cold, d.spun = partition, make(chan struct{})
}

func (d *coldDisk) spin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.spun)
}

type coldFile struct {
	vfs.File
	disk *coldDisk
}

// isCold tells what to wait for; nil: nothing.
func (f *coldFile) isCold() chan struct{} {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.cold == "" || !strings.Contains(f.Name(), f.disk.cold) || !strings.HasSuffix(f.Name(), ".log") {
		return nil
	}
	return f.disk.spun
}

func (f *coldFile) ReadAt(p []byte, off int64) (int, error) {
	if spun := f.isCold(); spun != nil {
		<-spun
		f.disk.mu.Lock()
		f.disk.cold = "" // what was read is in memory
		f.disk.reads++
		f.disk.mu.Unlock()
	}
	return f.File.ReadAt(p, off)
}

func (f *coldFile) ReadResident(p []byte, off int64) (int, error) {
	if f.isCold() != nil {
		return 0, vfs.ErrNotResident
	}
	return f.File.ReadAt(p, off)
}

func (f *coldFile) Resident(int64, int64) bool { return f.isCold() == nil }

// newColdNode has a topic with two partitions that have a record each.
func newColdNode(t *testing.T) (*testNode, *coldDisk) {
	t.Helper()
	disk := &coldDisk{FS: vfs.NewMem()}
	n := newTestNodeOn(t, disk, nil, storage.FlushGroup)
	n.createTopic("a", 2)
	n.produce("a", 0, "hot")
	n.produce("a", 1, "cold")
	synctest.Wait()
	return n, disk
}

// batchesOf waits for a reply and tells how many batches each partition has got.
func (n *testNode) batchesOf(req *kmsg.FetchRequest) (batches []int, took time.Duration) {
	n.t.Helper()
	begun := time.Now()
	resp := ask[*kmsg.FetchResponse](n, req, 12)
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			n.t.Errorf("partition %d: %v", p.Partition, kafka.Errno(p.ErrorCode))
		}
		batches = append(batches, len(fetched{p}.batches(n.t)))
	}
	return batches, time.Since(begun)
}

// A partition whose records are in memory never waits for one whose records are on the disk.
func TestFetchOfWhatIsInMemoryDoesNotWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, disk := newColdNode(t)
		disk.chill("/a-1/")
		both := fetchRequest("a", kafka.TopicID{}, 0, 0)
		both.MaxWaitMillis = 5000
		for range 3 { // as often as the client likes
			if got, took := n.batchesOf(both); got[0] != 1 || got[1] != 0 || took > 0 {
				t.Errorf("%v batches after %v", got, took)
			}
		}
		disk.spin()
		synctest.Wait()
		if got, _ := n.batchesOf(both); got[0] != 1 || got[1] != 1 {
			t.Errorf("%v batches once the disk has answered", got)
		}
		if disk.reads != 1 {
			t.Errorf("the disk was read %d times", disk.reads)
		}
	})
}

// Who wants nothing else waits for the disk, however short its own wait is, and so do others who want the same.
func TestFetchOfWhatIsOnTheDiskWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, disk := newColdNode(t)
		disk.chill("/a-1/")
		time.AfterFunc(200*time.Millisecond, disk.spin)
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				cold := fetchRequest("a", kafka.TopicID{}, 0)
				cold.Topics[0].Partitions[0].Partition = 1
				cold.IsolationLevel = 1
				if got, took := n.batchesOf(cold); got[0] != 1 || took != 200*time.Millisecond {
					t.Errorf("%v batches after %v", got, took)
				}
			})
		}
		readers.Wait()
		if disk.reads != 1 {
			t.Errorf("the disk was read %d times", disk.reads)
		}
	})
}

// A disk that does not answer keeps a reader no longer than the object store would.
func TestFetchDoesNotWaitForTheDiskForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, disk := newColdNode(t)
		disk.chill("/a-1/")
		cold := fetchRequest("a", kafka.TopicID{}, 0)
		cold.Topics[0].Partitions[0].Partition = 1
		if got, took := n.batchesOf(cold); got[0] != 0 || took != time.Second {
			t.Errorf("%v batches after %v", got, took)
		}
		reply := n.send(cold, 12)
		reply.Cancel() // a client that leaves
		disk.spin()
		synctest.Wait()
		if got, took := n.batchesOf(cold); got[0] != 1 || took > 0 {
			t.Errorf("%v batches after %v", got, took)
		}
	})
}
