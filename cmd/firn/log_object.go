package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/firnlog/firn/tiering/bulk"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// The suffixes of objects: of segments, and of what tells where they are.
const (
	segmentSuffix    = ".seg"
	leafSuffix       = ".leaf"
	nodeSuffix       = ".node"
	checkpointSuffix = ".ckpt"
	shardSuffix      = ".shard"
)

const objectURLHelp = "URL is that of a bucket, as in firn.object.store, with the key of an object behind the\n" +
	"folder, or with the beginning of keys that ends in a slash: each object below it is taken, in order. It is\n" +
	"read by ranges. Credentials come from the environment, as those of a broker do."

// bucketObject is an object in a bucket, or a copy of one in a file.
type bucketObject struct {
	io.ReaderAt
	name string // as a person would call it
	key  string // in the bucket; "" where that is unknown
	size int64
}

func isObjectName(name string) bool {
	return slices.Contains([]string{segmentSuffix, leafSuffix, nodeSuffix, checkpointSuffix, shardSuffix}, path.Ext(name))
}

func (o bucketObject) isSegment() bool { return path.Ext(o.name) == segmentSuffix }

// isURL tells a URL from a path.
func isURL(place string) bool { return strings.Contains(place, "://") }

// eachObject visits the objects that a path or URL names, and counts them. A path that names none is no error: it may
// hold something else.
func eachObject(ctx context.Context, place string, visit func(bucketObject) error) (found int, err error) {
	counting := func(object bucketObject) error {
		found++
		return visit(object)
	}
	if !isURL(place) {
		return found, eachLocalObject(place, counting)
	}
	location, err := url.Parse(place)
	if err == nil && location.Scheme == "file" && location.Host == "" {
		err = eachLocalObject(location.Path, counting)
	} else {
		err = eachRemoteObject(ctx, place, counting)
	}
	if err == nil && found == 0 {
		err = fmt.Errorf("%s names no object: a folder ends in a slash", withoutParameters(place))
	}
	return found, err
}

// eachLocalObject visits one file, or those in a folder and below it.
func eachLocalObject(name string, visit func(bucketObject) error) error {
	return filepath.WalkDir(name, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isObjectName(name) {
			return err
		}
		return visitFile(name, visit)
	})
}

func visitFile(name string, visit func(bucketObject) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return visit(bucketObject{ReaderAt: file, name: name, size: info.Size()})
}

// eachRemoteObject visits the object that a URL names, or those in a folder and below it.
func eachRemoteObject(ctx context.Context, place string, visit func(bucketObject) error) error {
	store, key, err := splitObjectURL(place)
	if err != nil {
		return err
	}
	bucket, err := bulk.Open(ctx, store, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	err = bucket.List(ctx, key, "", func(info objectstore.ObjectInfo) error {
		if !isObjectName(info.Key) || info.Key != key && key != "" && !strings.HasSuffix(key, "/") {
			return nil
		}
		blocks := &blockReader{size: info.Size, get: func(position int64, dst []byte) error {
			_, err := bucket.Get(ctx, info.Key, position, dst)
			return err
		}}
		return visit(bucketObject{ReaderAt: blocks, name: withoutParameters(store) + "/" + info.Key, key: info.Key,
			size: info.Size})
	})
	return errors.Join(err, bucket.Close())
}

// splitObjectURL splits a URL into that of the store and the key behind its folder. All keys begin with the id of a
// cluster; without one the whole path is the folder.
func splitObjectURL(text string) (store, key string, err error) {
	location, err := url.Parse(text)
	if err != nil {
		return "", "", fmt.Errorf("the URL cannot be read: it is one of %s", objectstore.Accepted)
	}
	parts := strings.Split(location.Path, "/")
	begin := slices.IndexFunc(parts, isClusterID)
	if begin < 0 {
		begin = len(parts)
		if !strings.HasSuffix(location.Path, "/") && isObjectName(location.Path) {
			return "", "", fmt.Errorf("%s has no key: that of an object begins with the id of a cluster, 32 hexadecimal digits",
				location.Redacted())
		}
	}
	folder := *location
	folder.Path, folder.RawPath = strings.Join(parts[:begin], "/"), ""
	return folder.String(), strings.Join(parts[begin:], "/"), nil
}

func isClusterID(component string) bool {
	id, err := checkpoint.ParseClusterID(component)
	return err == nil && id.Hex() == component
}

// withoutParameters is a URL as it begins the names of objects.
func withoutParameters(location string) string {
	location, _, _ = strings.Cut(location, "?")
	return strings.TrimSuffix(location, "/")
}

// parse reads what is not a segment: it is small.
func (o bucketObject) parse() (any, error) {
	if o.size > segment.MaxTailBytes {
		return nil, &segment.CorruptError{Err: fmt.Errorf("%d bytes are too many for such an object", o.size)}
	}
	data := make([]byte, o.size)
	if n, err := o.ReadAt(data, 0); n < len(data) {
		return nil, fmt.Errorf("read %s: %w", o.name, err)
	}
	var parsed any
	var err error
	switch path.Ext(o.name) {
	case leafSuffix, nodeSuffix:
		parsed, err = manifest.Parse(data)
	default:
		parsed, err = checkpoint.ParseObject(data)
	}
	if err != nil {
		return nil, &segment.CorruptError{Err: err}
	}
	return parsed, nil
}

// tail reads the end of a segment.
func (o bucketObject) tail() (*segment.Tail, error) {
	end := make([]byte, min(o.size, segment.TrailerSize))
	if err := o.readFull(end, o.size-int64(len(end))); err != nil {
		return nil, err
	}
	trailer, err := segment.ParseTrailer(end)
	if err != nil {
		return nil, err
	}
	if trailer.ObjectBytes() != o.size {
		return nil, fmt.Errorf("the trailer describes an object of %d bytes, not of %d", trailer.ObjectBytes(), o.size)
	}
	encoded := make([]byte, o.size-trailer.DataBytes)
	if err := o.readFull(encoded, trailer.DataBytes); err != nil {
		return nil, err
	}
	return segment.ParseTail(encoded)
}

func (o bucketObject) readFull(dst []byte, position int64) error {
	n, err := o.ReadAt(dst, position)
	if n == len(dst) {
		return nil
	}
	return err
}

// blockBytes is what is read of an object at once: one request for thousands of batches.
const blockBytes = 4 << 20

// blockReader reads an object in blocks, and keeps the last two: what walks over batches looks at the header of the
// next one before it reads this one. It is for one goroutine.
type blockReader struct {
	get    func(position int64, dst []byte) error
	size   int64
	blocks [2]block // the newest first
}

type block struct {
	position int64
	data     []byte
}

var _ io.ReaderAt = (*blockReader)(nil)

// ReadAt implements io.ReaderAt.
func (r *blockReader) ReadAt(p []byte, position int64) (n int, err error) {
	for n < len(p) {
		if position >= r.size {
			return n, io.EOF
		}
		data, err := r.block(position - position%blockBytes)
		if err != nil {
			return n, err
		}
		copied := copy(p[n:], data[position%blockBytes:])
		n, position = n+copied, position+int64(copied)
	}
	return n, nil
}

func (r *blockReader) block(position int64) ([]byte, error) {
	for i, held := range r.blocks {
		if held.data != nil && held.position == position {
			r.blocks[0], r.blocks[i] = held, r.blocks[0]
			return held.data, nil
		}
	}
	size := min(blockBytes, r.size-position)
	data := slices.Grow(r.blocks[1].data[:0], int(size))[:size]
	if err := r.get(position, data); err != nil {
		r.blocks[1] = block{}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("it has become shorter: %w", err)
		}
		return nil, err
	}
	r.blocks[1] = r.blocks[0]
	r.blocks[0] = block{position, data}
	return data, nil
}
