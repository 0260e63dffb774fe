//go:build integration

package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// smallDisk is the node's own: logs, metadata and bucket lie on a file system of this size, which ends with the node.
const (
	smallDisk   = 64 << 20
	diskReserve = 16 << 20
	fillBytes   = 400 << 10 // of one record
)

// onSmallDisk is the start of a command line whose program sees a file system in memory at dir, and nobody else does.
func onSmallDisk(t *testing.T, dir string) []string {
	t.Helper()
	mount := fmt.Sprintf(`mount -t tmpfs -o size=%d tmpfs "$0" && exec "$@"`, smallDisk)
	prefix := []string{"unshare", "-Urm", "sh", "-c", mount, dir}
	if output, err := exec.Command(prefix[0], append(prefix[1:], "true")...).CombinedOutput(); err != nil {
		Missing(t, "a mount in a namespace of its own (unshare -Urm)", fmt.Errorf("%w: %s", err, output))
	}
	return prefix
}

// filler produces records that do not compress, a batch at a time.
type filler struct {
	t      *testing.T
	client *kgo.Client
	random *rand.Rand
	topic  string
	stored int // records that were acknowledged
}

func (f *filler) produce() error {
	f.t.Helper()
	value := make([]byte, fillBytes)
	for i := range value {
		value[i] = byte(f.random.Uint32())
	}
	err := f.client.ProduceSync(f.t.Context(), &kgo.Record{Topic: f.topic, Value: value}).FirstErr()
	if err == nil {
		f.stored++
	}
	return err
}

// untilRefused fills the disk, and expects to be told that it is full.
func (f *filler) untilRefused() {
	f.t.Helper()
	for range 2 * smallDisk / fillBytes {
		if err := f.produce(); err != nil {
			if !errors.Is(err, kerr.KafkaStorageError) {
				f.t.Fatalf("a full disk is answered with %v", err)
			}
			return
		}
	}
	f.t.Fatal("more was stored than the disk can hold")
}

// untilStored tries until there is room again.
func (f *filler) untilStored() {
	f.t.Helper()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for end := time.Now().Add(patience); f.produce() != nil; <-retry.C {
		if time.Now().After(end) {
			f.t.Fatal("there is room again, and nothing is stored")
		}
	}
}

func (f *filler) expectAllReadable(node *Node) {
	f.t.Helper()
	consumer := node.Client(kgo.ConsumeTopics(f.topic), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for read := 0; read < f.stored; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			f.t.Fatalf("after %d of %d records: %v", read, f.stored, err)
		}
		read += fetches.NumRecords()
	}
}

// TestCR08CR09AFullDisk fills a real file system that holds logs and metadata, by what is produced and then by what
// somebody else puts there. Producers are told; everything else goes on; what is deleted makes room without a restart.
func TestCR08CR09AFullDisk(t *testing.T) {
	dir := t.TempDir()
	node := Serve(t, Options{Dir: dir, Prefix: onSmallDisk(t, dir), Set: []string{
		fmt.Sprintf("firn.log.dirs.reserve.bytes=%d", diskReserve), "log.retention.check.interval.ms=200",
	}})
	admin := kadm.NewClient(node.Client())
	f := &filler{
		t: t, topic: "fills", random: rand.New(rand.NewPCG(1, 1)),
		client: node.Client(kgo.RecordRetries(0), kgo.ProducerLinger(0), kgo.MetadataMinAge(10*time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })),
	}
	settings := []string{"internal.segment.bytes=1000000", "file.delete.delay.ms=0"}
	node.CreateTopic("fills", 1, settings...)
	f.untilRefused()
	if least := (smallDisk - diskReserve) / 2 / fillBytes; f.stored < least {
		t.Errorf("refused after %d records, with room for %d", f.stored, least)
	}
	for range 4 { // insisting does not help
		if err := f.produce(); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("insisting on a full disk: %v", err)
		}
	}
	inside := filepath.Join("/proc", fmt.Sprint(node.running.cmd.Process.Pid), "root", dir)
	if free := freeBytes(t, inside); free < diskReserve/3 { // the databases may have used some of it
		t.Errorf("%d bytes are left of a reserve of %d", free, diskReserve)
	}
	f.expectAllReadable(node)
	node.CreateTopic("meanwhile", 1, settings...) // takes next to nothing, and the reserve is for such things

	// Deleted records make room.
	if _, err := admin.DeleteRecords(t.Context(), kadm.Offsets{"fills": {0: {
		Topic: "fills", At: int64(f.stored), LeaderEpoch: -1,
	}}}); err != nil {
		t.Fatal(err)
	}
	f.stored = 0
	f.untilStored()
	f.expectAllReadable(node)
	f.untilRefused()

	// Somebody else takes the reserve, too.
	foreign := filepath.Join(inside, "foreign")
	took, err := os.Create(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 1<<16); err == nil; _, err = took.Write(block) {
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_ = took.Close()
	_, err = admin.CreateTopic(t.Context(), 1, 1, nil, "when-nothing-is-left")
	if refusal := (*kadm.ErrAndMessage)(nil); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("creating a topic when nothing is left: %v", err)
	} else if errors.As(err, &refusal) && !strings.Contains(refusal.ErrMessage, "firn.log.dirs.reserve.bytes") {
		t.Errorf("the refusal says only %q", refusal.ErrMessage)
	}
	if err := f.produce(); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("produced when nothing is left: %v", err)
	}
	f.expectAllReadable(node)
	if status, body := node.Get("/readyz"); status != http.StatusOK {
		t.Errorf("a full disk stops the node: %s", body)
	}
	if _, body := node.Get("/metrics"); !strings.Contains(body, "firn_storage_reserve_refusals_total") {
		t.Error("no metric tells of the refusals")
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}

	// So does a deleted topic.
	if _, err := admin.DeleteTopic(t.Context(), "fills"); err != nil {
		t.Fatal(err)
	}
	f.topic, f.stored = "meanwhile", 0
	f.untilStored()
	f.expectAllReadable(node)
	node.CreateTopic("when-nothing-is-left", 1, settings...)
	f.topic, f.stored = "when-nothing-is-left", 0
	f.untilStored()
	f.expectAllReadable(node)
	node.Stop()
}

func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		t.Fatal(err)
	}
	return int64(stat.Bavail) * stat.Bsize
}
