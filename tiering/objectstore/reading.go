package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// OpenForReading makes the store that a URL names for somebody who only reads, and may do no more. Nothing is made,
// written or removed, not even to probe; what would do so fails with ErrDenied. The store is asked for a listing, so
// that a wrong URL, missing rights or a store that is away are told here: unlike Open it does not wait for one.
func OpenForReading(ctx context.Context, text string, deps Dependencies) (*Store, error) {
	store, err := open(ctx, text, deps, ReadDirectory)
	if err != nil {
		return nil, err
	}
	store.rights = "list the bucket and read in it"
	store.Bucket = readOnly{store.Bucket, store.place}
	err = store.noteSkew(store.List(ctx, "", "", func(ObjectInfo) error { return fs.SkipAll }))
	if err != nil {
		err = fmt.Errorf("read the object store %s: %w%s", store.place, err, store.advice(err))
		return nil, errors.Join(err, store.Close())
	}
	store.probed.Store(true)
	return store, nil
}

// readOnly is a bucket without what changes it.
type readOnly struct {
	Bucket
	place string
}

var _ Bucket = readOnly{}

// Put implements Bucket.
func (r readOnly) Put(_ context.Context, key string, _ io.ReaderAt, _ int64, _ PutOptions) error {
	return r.refuse(OpPut, key)
}

// PutIfAbsent implements Bucket.
func (r readOnly) PutIfAbsent(_ context.Context, key string, _ []byte) (bool, error) {
	return false, r.refuse(OpPutIfAbsent, key)
}

// Delete implements Bucket.
func (r readOnly) Delete(_ context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	return r.refuse(OpDelete, keys[0])
}

func (r readOnly) refuse(operation Operation, key string) error {
	return localFailure(operation, r.place, key, ErrDenied, errReadOnly)
}

// errReadOnly is why a store that was opened for reading changes nothing.
var errReadOnly = errors.New("the store was opened for reading only")
