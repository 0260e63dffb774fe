package restore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/restore"
)

// roundTrip is what a request to a store costs, wherever it is.
const roundTrip = 10 * time.Millisecond

// BenchmarkPlan tells what a restore does with the bucket, by partitions and by segments of each: nearly all its time,
// since what follows writes metadata of the same size to the local disk. A partition takes one listing and one read of
// a tail, however many segments it has.
func BenchmarkPlan(b *testing.B) {
	for _, size := range []struct{ partitions, segments int }{
		{1, 100}, {1, 10_000}, {1, 1_000_000}, {100, 100}, {1000, 100},
	} {
		b.Run(fmt.Sprintf("partitions=%d/segments=%d", size.partitions, size.segments), func(b *testing.B) {
			c := newCluster(b)
			topic := c.topic("events", size.partitions, true)
			for i := range size.partitions {
				c.fill(topic, int32(i), int64(size.segments))
			}
			c.checkpoint()
			bucket := &slowBucket{Bucket: c.bucket}
			for b.Loop() {
				if _, err := restore.MakePlan(b.Context(), restore.Options{Bucket: bucket}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(bucket.requests)/float64(b.N), "requests/op")
		})
	}
}

// fill gives a partition as many segments, in the shape that sealing leaves. Only the last is there: nobody reads others.
func (c *cluster) fill(topic *image.Topic, partition int32, segments int64) {
	last, _ := c.upload(topic, partition, 10*(segments-1), 10*segments, nil)
	var items, leaves []command.Item
	for i := range segments - 1 {
		entry := last
		entry.BaseOffset, entry.EndOffset, entry.UploadID = 10*i, 10*i+10, newID()
		if items = append(items, entry); len(items) == 128 {
			leaves = append(leaves, c.seal(topic, partition, items[:64]...))
			items = append([]command.Item(nil), items[64:]...)
		}
		if len(leaves) == 256 {
			c.commit(topic, partition, c.seal(topic, partition, leaves...))
			leaves = nil
		}
	}
	c.commit(topic, partition, append(append(leaves, items...), last)...)
}

// slowBucket takes its time for each request, and counts them.
type slowBucket struct {
	objectstore.Bucket
	requests int64
}

func (s *slowBucket) wait(ctx context.Context) error {
	atomic.AddInt64(&s.requests, 1)
	timer := time.NewTimer(roundTrip)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowBucket) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	return s.Bucket.Get(ctx, key, offset, dst)
}

func (s *slowBucket) List(ctx context.Context, prefix, after string, visit func(objectstore.ObjectInfo) error) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Bucket.List(ctx, prefix, after, visit)
}
