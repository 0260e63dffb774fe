package checkpoint

import (
	"context"
	"io"

	"github.com/firnlog/firn/tiering/objectstore"
)

func (b *tracedBucket) Put(ctx context.Context, key string, body io.ReaderAt, size int64,
	options objectstore.PutOptions,
) error {
	if b.fails(objectstore.OpPut, key) {
		return errBroken
	}
	b.world.puts = append(b.world.puts, key)
	return b.Bucket.Put(ctx, key, body, size, options)
}

func (b *tracedBucket) Delete(ctx context.Context, keys ...string) error {
	if b.fails(objectstore.OpDelete, keys[0]) {
		return errBroken
	}
	return b.Bucket.Delete(ctx, keys...)
}

func (b *tracedBucket) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	if b.fails(objectstore.OpGet, key) {
		return 0, errBroken
	}
	return b.Bucket.Get(ctx, key, offset, dst)
}

func (b *tracedBucket) List(ctx context.Context, prefix, after string, visit func(objectstore.ObjectInfo) error) error {
	if b.fails(objectstore.OpList, prefix) {
		return errBroken
	}
	return b.Bucket.List(ctx, prefix, after, visit)
}
