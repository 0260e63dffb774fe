package firn

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// roomyFS has disks of its own for the log and the metadata directory.
type roomyFS struct {
	vfs.FS
	log, metadata atomic.Int64 // free bytes
}

func newRoomyFS() *roomyFS {
	f := &roomyFS{FS: vfs.NewMem()}
	f.log.Store(plenty)
	f.metadata.Store(plenty)
	return f
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

func TestCR08AndCR09ProduceIsRefusedBeforeTheDiskIsFull(t *testing.T) {
	for name, disk := range map[string]func(*roomyFS) *atomic.Int64{
		"of the logs":     func(f *roomyFS) *atomic.Int64 { return &f.log },
		"of the metadata": func(f *roomyFS) *atomic.Int64 { return &f.metadata },
	} {
		t.Run("the disk "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files := newRoomyFS()
				n := startMemoryNode(t, files, pebblevfs.NewMem())
				n.createTopic("t", 1)
				if err := n.produce("t", 0, "while there is room"); err != nil {
					t.Fatal(err)
				}
				disk(files).Store(reserve)
				time.Sleep(2 * time.Second) // the room is asked for again each second
				if err := n.produce("t", 0, "when there is none"); !errors.Is(err, kerr.KafkaStorageError) {
					t.Fatalf("produced into the reserve: %v", err)
				}
				n.expectThrottled("t", time.Second)
				if got, err := n.consume("t", 0); got != "while there is room" {
					t.Errorf("consumed %q, error %v", got, err)
				}
				n.createTopic("made-meanwhile", 1)
				if _, err := n.admin.DeleteTopic(t.Context(), "made-meanwhile"); err != nil {
					t.Error(err)
				}
				disk(files).Store(reserve / 5)
				if _, err := n.admin.CreateTopic(t.Context(), 1, 1, nil, "too-late"); !errors.Is(err, kerr.KafkaStorageError) {
					t.Errorf("creating a topic when next to nothing is left: %v", err)
				}
				disk(files).Store(plenty)
				time.Sleep(2 * time.Second)
				n.createTopic("too-late", 1)
				if err := n.produce("too-late", 0, "in time"); err != nil {
					t.Error(err)
				}
				if err := n.produce("t", 0, "when there is room again"); err != nil {
					t.Error(err)
				}
				if err := n.Ready(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// expectThrottled checks that a refused producer is told to wait before it sends its megabytes again, and has to.
func (n *memoryNode) expectThrottled(topic string, wait time.Duration) {
	n.t.Helper()
	builder := record.NewBuilder(record.PlainProducer())
	builder.Append(time.Now().UnixMilli(), nil, []byte("when there is none"))
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = builder.Build()
	into := kmsg.NewProduceRequestTopic()
	into.Topic, into.Partitions = topic, append(into.Partitions, partition)
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.Topics = 1, 1000, append(request.Topics, into)
	request.SetVersion(9)

	conn, err := n.hosts.Host("raw").Dial(n.t.Context(), "broker:9092")
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	for i := range 2 {
		frame := kmsg.NewRequestFormatter().AppendRequest(nil, request, int32(i))
		length := make([]byte, 4)
		if _, err := conn.Write(frame); err != nil {
			n.t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, length); err != nil {
			n.t.Fatal(err)
		}
		answer := make([]byte, binary.BigEndian.Uint32(length))
		if _, err := io.ReadFull(conn, answer); err != nil {
			n.t.Fatal(err)
		}
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		if err := response.ReadFrom(answer[5:]); err != nil { // behind correlation id and tags
			n.t.Fatal(err)
		}
		if got := time.Duration(response.ThrottleMillis) * time.Millisecond; got != wait {
			n.t.Errorf("told to wait for %v", got)
		}
	}
	if waited := time.Since(began); waited < wait {
		n.t.Errorf("whoever does not wait is answered after %v", waited)
	}
}

func TestCR08AWriteThatFindsTheMetadataDiskFullTakesTheBallast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, full := pebblevfs.NewMem(), atomic.Bool{}
		n := startMemoryNode(t, newRoomyFS(), errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if !full.Load() || op.Kind != errorfs.OpFileWrite && op.Kind != errorfs.OpCreate {
				return nil
			}
			if _, err := mem.Stat(ballastFile); errors.Is(err, fs.ErrNotExist) && op.Path != ballastFile {
				return nil // what it took up is room now
			}
			return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		})))
		n.createTopic("t", 1)
		if err := n.produce("t", 0, "before"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the ballast is made when the node has been running for a while
		if info, err := mem.Stat(ballastFile); err != nil || info.Size() != reserve/8 {
			t.Fatalf("the ballast is %v, %v", info, err)
		}
		full.Store(true)
		n.createTopic("made-on-a-full-disk", 1)
		if err := n.produce("t", 0, "meanwhile"); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("produced while the metadata's disk is full: %v", err)
		}
		full.Store(false)
		time.Sleep(11 * time.Second)
		if err := n.produce("t", 0, "after"); err != nil {
			t.Error(err)
		}
		if err := n.Ready(); err != nil {
			t.Error(err)
		}
	})
}

const ballastFile = "data/metadata/ballast"
