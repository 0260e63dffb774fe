//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/launch"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/latency"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/bulk"
	"github.com/firnlog/firn/tiering/objectstore"
)

// rawCommand is the argument by which this program, started on the broker's processor, uses an object store as
// firn would, without a broker: what a replay and an upload are compared with.
const rawCommand = "raw"

// rawWork is what it is told as JSON.
type rawWork struct {
	Store    string
	Workers  int
	Bytes    int64
	PutBytes int64  // size of the objects to put; 0 reads those that are there
	GetBytes int64  // size of the ranges; 0 is rangeBytes
	Bulk     string // a topic to read in bulk, instead of ranges of whatever there is
}

// rawDone is what it answers.
type rawDone struct {
	Bytes    int64
	Seconds  float64
	P50, P99 float64 // ms, of a GET
}

// rangeBytes is what a GET asks for, as the broker's do.
const rangeBytes = 4 << 20

// raw runs this program once more, on the broker's processor.
func (b *bench) raw(ctx context.Context, work rawWork) (int64, report.Values, error) {
	program, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	input, err := json.Marshal(work)
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, "taskset", "--cpu-list", strconv.Itoa(b.options.brokerCPU), program, rawCommand)
	cmd.Stdin, cmd.Env = bytes.NewReader(input), append(os.Environ(), launch.S3Environment()...)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	output, err := cmd.Output()
	if err != nil {
		return 0, nil, fmt.Errorf("use the object store without a broker: %w: %s", err, messages.String())
	}
	var done rawDone
	if err := json.Unmarshal(output, &done); err != nil {
		return 0, nil, err
	}
	return done.Bytes, report.Values{
		report.Rate: float64(done.Bytes) / 1e6 / done.Seconds, report.P50: done.P50, report.P99: done.P99,
	}, nil
}

// runRaw is the other side of raw.
func runRaw(ctx context.Context, input io.Reader, output io.Writer) (err error) {
	var work rawWork
	if err := json.NewDecoder(input).Decode(&work); err != nil {
		return err
	}
	store, err := objectstore.Open(ctx, work.Store, objectstore.Dependencies{
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), FS: vfs.OS(),
		Rand: rand.New(rand.NewPCG(1, 1)),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if work.Bulk != "" {
		return readBulk(ctx, store, work, output)
	}
	gets := &getTimes{times: latency.NewHistogram()}
	one := getter(ctx, store, cmp.Or(work.GetBytes, rangeBytes), gets)
	if work.PutBytes > 0 {
		one = putter(store, work.PutBytes)
	}
	var total atomic.Int64
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for worker := range work.Workers {
		group.Go(func() error {
			for i := 0; total.Load() < work.Bytes; i++ {
				n, err := one(ctx, i*work.Workers+worker)
				if err != nil {
					return err
				}
				total.Add(n)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(output).Encode(rawDone{
		Bytes: total.Load(), Seconds: time.Since(began).Seconds(),
		P50: milliseconds(gets.times.Quantile(0.5)), P99: milliseconds(gets.times.Quantile(0.99)),
	})
}

// getTimes is how long each GET took.
type getTimes struct {
	mu    sync.Mutex // guards the field below
	times *latency.Histogram
}

func (g *getTimes) record(took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.times.Record(took)
}

// getter reads object i of all that are there, range by range.
func getter(
	ctx context.Context, store *objectstore.Store, size int64, gets *getTimes,
) func(context.Context, int) (int64, error) {
	var objects []objectstore.ObjectInfo
	listed := store.List(ctx, "", "", func(info objectstore.ObjectInfo) error {
		if info.Size >= size {
			objects = append(objects, info)
		}
		return nil
	})
	return func(ctx context.Context, i int) (int64, error) {
		if listed != nil || len(objects) == 0 {
			return 0, errors.Join(errors.New("there are no objects to read"), listed)
		}
		object, buffer := objects[i%len(objects)], make([]byte, size)
		for offset := int64(0); offset < object.Size; offset += size {
			part := buffer[:min(size, object.Size-offset)]
			began := time.Now()
			if _, err := store.Get(ctx, object.Key, offset, part); err != nil {
				return 0, err
			}
			gets.record(time.Since(began))
		}
		return object.Size, nil
	}
}

// readBulk reads a topic in bulk, again and again. Whoever takes the batches counts their bytes.
func readBulk(ctx context.Context, store *objectstore.Store, work rawWork, output io.Writer) error {
	snapshot, err := bulk.FromBucket(ctx, store, kafka.UUID{}, work.Bulk)
	if err != nil {
		return err
	}
	reader := bulk.NewReader(bulk.Options{Bucket: store, Snapshot: snapshot, Concurrency: work.Workers})
	done, began := rawDone{}, time.Now()
	for done.Bytes < work.Bytes {
		before := done.Bytes
		err := bulk.Read(ctx, reader, snapshot.Ranges(), func(chunk *bulk.Chunk) (size int64, err error) {
			for _, batch := range chunk.Batches {
				size += int64(len(batch))
			}
			return size, nil
		}, func(_ bulk.Delivered, size int64) error {
			done.Bytes += size
			return nil
		})
		if err != nil {
			return err
		}
		if done.Bytes == before {
			return fmt.Errorf("there is nothing of topic %s in the bucket", work.Bulk)
		}
	}
	done.Seconds = time.Since(began).Seconds()
	return json.NewEncoder(output).Encode(done)
}

// putter puts an object of a size; worker for worker over the same keys.
func putter(store *objectstore.Store, size int64) func(context.Context, int) (int64, error) {
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data) // it never fails
	return func(ctx context.Context, i int) (int64, error) {
		const keys = 16
		key := "bench/" + strconv.Itoa(i%keys)
		return size, store.Put(ctx, key, bytes.NewReader(data), size, objectstore.PutOptions{})
	}
}
