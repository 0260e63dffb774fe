package tiering_test

import (
	"context"
	"io"

	"github.com/firnlog/firn/metastore"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
)

// perform does something with its steps.
func (s *setup) perform(name string, deed func() error) error {
	if s.step == nil {
		return deed()
	}
	if err := s.step(name); err != nil {
		return err
	}
	err := deed()
	if lost := s.step(name + " done"); lost != nil {
		return lost
	}
	return err
}

// steppedMetadata is the metastore, step by step.
type steppedMetadata struct {
	*metastore.Store
	perform func(name string, deed func() error) error
}

func (m *steppedMetadata) Propose(ctx context.Context, cmd command.Command) (result any, err error) {
	err = m.perform(cmd.Type().String(), func() error {
		result, err = m.Store.Propose(ctx, cmd)
		return err
	})
	return result, err
}

// steppedBucket is a bucket, step by step.
type steppedBucket struct {
	objectstore.Bucket
	perform func(name string, deed func() error) error
}

func (b *steppedBucket) Put(ctx context.Context, key string, body io.ReaderAt, size int64,
	options objectstore.PutOptions,
) error {
	return b.perform("put", func() error { return b.Bucket.Put(ctx, key, body, size, options) })
}

func (b *steppedBucket) List(ctx context.Context, prefix, after string,
	visit func(objectstore.ObjectInfo) error,
) error {
	return b.perform("list", func() error { return b.Bucket.List(ctx, prefix, after, visit) })
}

func (b *steppedBucket) Delete(ctx context.Context, keys ...string) error {
	return b.perform("delete", func() error { return b.Bucket.Delete(ctx, keys...) })
}
