package firn

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/internal/vfs"
)

// memoryNode is a node in fake time whose disks and network are in memory, with a client.
type memoryNode struct {
	*Node
	t      *testing.T
	files  *roomyFS
	pebble *pebblevfs.MemFS
	client *kgo.Client
	admin  *kadm.Client
}

// roomyFS has disks of its own for the log and the metadata directory.
type roomyFS struct {
	vfs.FS
	log, metadata atomic.Int64 // free bytes
}

func (f *roomyFS) Space(dir string) (vfs.Space, error) {
	free := f.log.Load()
	if dir == "data/metadata" {
		free = f.metadata.Load()
	}
	return vfs.Space{TotalBytes: plenty, FreeBytes: free}, nil
}

const (
	reserve = 8 << 20
	plenty  = 1 << 40
)

// withMemoryNode runs body with a node; the injector decides which of its metadata's writes fail.
func withMemoryNode(t *testing.T, injector func(mem *pebblevfs.MemFS, op errorfs.Op) error, body func(n *memoryNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := LoadConfig(Sources{Set: []string{
			"listeners=PLAINTEXT://broker:9092", "firn.http.listener=broker:9644", "firn.data.dir=data",
			"firn.log.dirs.reserve.bytes=8388608",
		}})
		if err != nil {
			t.Fatal(err)
		}
		n := &memoryNode{t: t, files: &roomyFS{FS: vfs.NewMem()}, pebble: pebblevfs.NewMem()}
		n.files.log.Store(plenty)
		n.files.metadata.Store(plenty)
		hosts := network.NewMemory()
		databases := errorfs.Wrap(n.pebble, errorfs.InjectorFunc(func(op errorfs.Op) error { return injector(n.pebble, op) }))
		n.Node, err = Start(t.Context(), cfg, Dependencies{
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			FS:     n.files, PebbleFS: databases, Network: hosts.Host("broker"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if n.client != nil {
				n.client.Close()
			}
			if err := n.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		client := hosts.Host("client")
		n.client, err = kgo.NewClient(kgo.SeedBrokers("broker:9092"), kgo.RecordRetries(0), kgo.ConsumeTopics("t"),
			kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return client.Dial(ctx, address) }),
			kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err != nil {
			t.Fatal(err)
		}
		n.admin = kadm.NewClient(n.client)
		body(n)
	})
}

func neverFails(*pebblevfs.MemFS, errorfs.Op) error { return nil }

func (n *memoryNode) createTopic(name string) {
	n.t.Helper()
	if _, err := n.admin.CreateTopic(n.t.Context(), 1, 1, nil, name); err != nil {
		n.t.Fatal(err)
	}
}

func (n *memoryNode) produce(value string) error {
	return n.client.ProduceSync(n.t.Context(), &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr()
}

func TestCR08AndCR09ProduceIsRefusedBeforeTheDiskIsFull(t *testing.T) {
	for name, disk := range map[string]func(*roomyFS) *atomic.Int64{
		"of the logs":     func(f *roomyFS) *atomic.Int64 { return &f.log },
		"of the metadata": func(f *roomyFS) *atomic.Int64 { return &f.metadata },
	} {
		t.Run("the disk "+name, func(t *testing.T) {
			withMemoryNode(t, neverFails, func(n *memoryNode) {
				t := n.t
				n.createTopic("t")
				if err := n.produce("while there is room"); err != nil {
					t.Fatal(err)
				}
				disk(n.files).Store(reserve)
				time.Sleep(2 * time.Second) // the room is asked for again each second
				if err := n.produce("when there is none"); !errors.Is(err, kerr.KafkaStorageError) {
					t.Fatalf("produced into the reserve: %v", err)
				}
				fetches := n.client.PollFetches(t.Context())
				if got := fetches.Records(); len(got) != 1 || string(got[0].Value) != "while there is room" {
					t.Errorf("consumed %v, error %v", got, fetches.Err())
				}
				n.createTopic("made-meanwhile")
				if _, err := n.admin.DeleteTopic(t.Context(), "made-meanwhile"); err != nil {
					t.Error(err)
				}
				disk(n.files).Store(plenty)
				time.Sleep(2 * time.Second)
				if err := n.produce("when there is room again"); err != nil {
					t.Error(err)
				}
				if err := n.Ready(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestCR08AWriteThatFindsTheMetadataDiskFullTakesTheBallast(t *testing.T) {
	full := atomic.Bool{}
	withMemoryNode(t, func(mem *pebblevfs.MemFS, op errorfs.Op) error {
		if !full.Load() || op.Kind != errorfs.OpFileWrite && op.Kind != errorfs.OpCreate {
			return nil
		}
		if _, err := mem.Stat("data/metadata/ballast"); errors.Is(err, fs.ErrNotExist) && op.Path != "data/metadata/ballast" {
			return nil
		}
		return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
	}, func(n *memoryNode) {
		t := n.t
		n.createTopic("t")
		if err := n.produce("before"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the ballast is made when the node has been running for a while
		if info, err := n.pebble.Stat("data/metadata/ballast"); err != nil || info.Size() != reserve/8 {
			t.Fatalf("the ballast is %v, %v", info, err)
		}
		full.Store(true)
		n.createTopic("made-on-a-full-disk")
		if err := n.produce("meanwhile"); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("produced while the metadata's disk is full: %v", err)
		}
		full.Store(false)
		time.Sleep(11 * time.Second)
		if err := n.produce("after"); err != nil {
			t.Error(err)
		}
		if err := n.Ready(); err != nil {
			t.Error(err)
		}
	})
}
