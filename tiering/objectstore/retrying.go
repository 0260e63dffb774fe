package objectstore

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// Retrying tries each operation again while it fails with ErrUnavailable. A read that was cut goes on where it was cut,
// a listing after the last key it gave, and put-if-absent recognises its own earlier success.
type Retrying struct {
	bucket  Bucket
	retrier *Retrier
}

var _ Bucket = (*Retrying)(nil)

// NewRetrying wraps bucket.
func NewRetrying(bucket Bucket, retrier *Retrier) *Retrying {
	return &Retrying{bucket: bucket, retrier: retrier}
}

// Put implements Bucket.
func (r *Retrying) Put(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error {
	return r.retrier.do(ctx, attemptOf{operation: OpPut, key: key, bytes: size}, func(ctx context.Context) error {
		return r.bucket.Put(ctx, key, body, size, options)
	})
}

// PutIfAbsent implements Bucket. If an attempt failed, which may mean that only its answer was lost, and a later one
// finds the key taken, what it holds tells whether it was this call that took it.
func (r *Retrying) PutIfAbsent(ctx context.Context, key string, data []byte) (created bool, err error) {
	attempts := 0
	what := attemptOf{operation: OpPutIfAbsent, key: key, bytes: int64(len(data))}
	err = r.retrier.do(ctx, what, func(ctx context.Context) error {
		attempts++
		var err error
		if created, err = r.bucket.PutIfAbsent(ctx, key, data); err != nil || created || attempts == 1 {
			return err
		}
		created, err = holds(ctx, r.bucket, key, data)
		return err
	})
	return created && err == nil, err
}

// holds tells whether an object exists and has exactly the given content.
func holds(ctx context.Context, bucket Bucket, key string, data []byte) (bool, error) {
	info, err := bucket.Stat(ctx, key)
	if errors.Is(err, ErrNotFound) || err == nil && info.Size != int64(len(data)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	found := make([]byte, len(data))
	if _, err := bucket.Get(ctx, key, 0, found); err != nil {
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	return bytes.Equal(found, data), nil
}

// Get implements Bucket.
func (r *Retrying) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	done := 0
	what := attemptOf{operation: OpGet, key: key, bytes: int64(len(dst))}
	err := r.retrier.do(ctx, what, func(ctx context.Context) error {
		n, err := r.bucket.Get(ctx, key, offset+int64(done), dst[done:])
		done += n
		return err
	})
	return done, err
}

// Stat implements Bucket.
func (r *Retrying) Stat(ctx context.Context, key string) (info ObjectInfo, err error) {
	err = r.retrier.do(ctx, attemptOf{operation: OpStat, key: key}, func(ctx context.Context) error {
		info, err = r.bucket.Stat(ctx, key)
		return err
	})
	return info, err
}

// List implements Bucket. It has no deadline of its own, since visit may take its time: the store's pages have theirs.
func (r *Retrying) List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error {
	var visitErr error
	what := attemptOf{operation: OpList, key: prefix, untimed: true}
	err := r.retrier.do(ctx, what, func(ctx context.Context) error {
		err := r.bucket.List(ctx, prefix, startAfter, func(info ObjectInfo) error {
			startAfter = info.Key
			visitErr = visit(info)
			return visitErr
		})
		if visitErr != nil {
			return nil
		}
		return err
	})
	if visitErr != nil {
		return ignoreSkipAll(visitErr)
	}
	return err
}

// Delete implements Bucket. The store's requests, of which it may make many, have deadlines of their own.
func (r *Retrying) Delete(ctx context.Context, keys ...string) error {
	return r.retrier.do(ctx, attemptOf{operation: OpDelete, untimed: true}, func(ctx context.Context) error {
		return r.bucket.Delete(ctx, keys...)
	})
}
