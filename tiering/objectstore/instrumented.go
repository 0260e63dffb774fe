package objectstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// Instrumented counts what passes: requests, bytes, errors by status, and how long requests take.
type Instrumented struct {
	bucket  Bucket
	name    string // the label
	metrics *Metrics
}

var _ Bucket = (*Instrumented)(nil)

// NewInstrumented wraps bucket, whose numbers appear under the given name.
func NewInstrumented(bucket Bucket, name string, metrics *Metrics) *Instrumented {
	return &Instrumented{bucket: bucket, name: name, metrics: metrics}
}

// observe notes one finished request. The end of an object, a missing one and a caller's cancellation are answers, not
// failures of the store.
func (i *Instrumented) observe(operation Operation, started time.Time, carried int64, err error) {
	name := string(operation)
	i.metrics.requests.WithLabelValues(i.name, name).Inc()
	i.metrics.bytes.WithLabelValues(i.name, name).Add(float64(carried))
	i.metrics.duration.WithLabelValues(i.name, name).Observe(time.Since(started).Seconds())
	var failure *Error
	if errors.As(err, &failure) && !errors.Is(err, ErrNotFound) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!errors.Is(err, context.Canceled) {
		i.metrics.errors.WithLabelValues(i.name, name, StatusOf(err)).Inc()
	}
}

// Put implements Bucket.
func (i *Instrumented) Put(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error {
	started := time.Now()
	err := i.bucket.Put(ctx, key, body, size, options)
	carried := size
	if err != nil {
		carried = 0 // how far it came is not known
	}
	i.observe(OpPut, started, carried, err)
	return err
}

// PutIfAbsent implements Bucket.
func (i *Instrumented) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	started := time.Now()
	created, err := i.bucket.PutIfAbsent(ctx, key, data)
	i.observe(OpPutIfAbsent, started, int64(len(data)), err)
	return created, err
}

// Get implements Bucket.
func (i *Instrumented) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	started := time.Now()
	n, err := i.bucket.Get(ctx, key, offset, dst)
	i.observe(OpGet, started, int64(n), err)
	return n, err
}

// Stat implements Bucket.
func (i *Instrumented) Stat(ctx context.Context, key string) (ObjectInfo, error) {
	started := time.Now()
	info, err := i.bucket.Stat(ctx, key)
	i.observe(OpStat, started, 0, err)
	return info, err
}

// List implements Bucket. The duration is that of the whole listing, visits included.
func (i *Instrumented) List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error {
	started := time.Now()
	err := i.bucket.List(ctx, prefix, startAfter, visit)
	i.observe(OpList, started, 0, err)
	return err
}

// Delete implements Bucket.
func (i *Instrumented) Delete(ctx context.Context, keys ...string) error {
	started := time.Now()
	err := i.bucket.Delete(ctx, keys...)
	i.observe(OpDelete, started, 0, err)
	return err
}
