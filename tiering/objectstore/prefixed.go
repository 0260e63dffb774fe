package objectstore

import (
	"context"
	"io"
)

// Prefixed is the part of a bucket below a folder: every key gets the folder in front, and loses it in listings. Errors
// name whole keys, since that is what an operator looks for in the store.
type Prefixed struct {
	bucket Bucket
	folder string // with the slash that ends it
}

var _ Bucket = (*Prefixed)(nil)

// NewPrefixed makes the part of bucket below folder, which is a sound key itself. The empty folder is the whole bucket.
func NewPrefixed(bucket Bucket, folder string) *Prefixed {
	if folder != "" {
		folder += "/"
	}
	return &Prefixed{bucket: bucket, folder: folder}
}

// Put implements Bucket.
func (p *Prefixed) Put(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error {
	return p.bucket.Put(ctx, p.folder+key, body, size, options)
}

// PutIfAbsent implements Bucket.
func (p *Prefixed) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	return p.bucket.PutIfAbsent(ctx, p.folder+key, data)
}

// Get implements Bucket.
func (p *Prefixed) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	return p.bucket.Get(ctx, p.folder+key, offset, dst)
}

// Stat implements Bucket.
func (p *Prefixed) Stat(ctx context.Context, key string) (ObjectInfo, error) {
	info, err := p.bucket.Stat(ctx, p.folder+key)
	if err != nil {
		return ObjectInfo{}, err
	}
	return ObjectInfo{Key: key, Size: info.Size}, nil
}

// List implements Bucket.
func (p *Prefixed) List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error {
	if startAfter != "" {
		startAfter = p.folder + startAfter
	}
	return p.bucket.List(ctx, p.folder+prefix, startAfter, func(info ObjectInfo) error {
		return visit(ObjectInfo{Key: info.Key[len(p.folder):], Size: info.Size})
	})
}

// Delete implements Bucket.
func (p *Prefixed) Delete(ctx context.Context, keys ...string) error {
	whole := make([]string, len(keys))
	for i, key := range keys {
		whole[i] = p.folder + key
	}
	return p.bucket.Delete(ctx, whole...)
}
