package objectstore

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
)

// Bucket is a flat, ordered map from keys to byte strings. These six methods are all that firn asks of
// an object store; objectstoretest holds every implementation to the promises below. Keys obey CheckKey. Errors are
// *Error (except those of List's visit), and tell by errors.Is whether ErrNotFound or ErrUnavailable is the case.
type Bucket interface {
	// Put stores an object of exactly size bytes, replacing one that exists. It is atomic: readers see the old object
	// or the new one. When it returns nil the object is durable; when it fails, the outcome is unknown. size is never
	// 0. body is read at most a few times, from several goroutines, and never after Put has returned.
	Put(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error
	// PutIfAbsent stores a small object unless the key exists, and tells whether it did. Of any number of racing calls
	// one wins. data should name its writer: that is how a retry recognises its own earlier success.
	PutIfAbsent(ctx context.Context, key string, data []byte) (created bool, err error)
	// Get fills dst from the given offset of the object. It returns fewer bytes only with an error, which is
	// io.ErrUnexpectedEOF where the object ends inside the range; the bytes counted are good in any case. An empty dst
	// succeeds without asking the store.
	Get(ctx context.Context, key string, offset int64, dst []byte) (int, error)
	// Stat describes an object.
	Stat(ctx context.Context, key string) (ObjectInfo, error)
	// List visits the objects whose key begins with prefix (which may end inside a path component) and is greater than
	// startAfter, in the byte order of whole keys. An error from visit ends the listing and is returned as it is,
	// except fs.SkipAll, which ends it with success. visit may call the bucket.
	List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error
	// Delete removes objects for good. Keys that do not exist are no error.
	Delete(ctx context.Context, keys ...string) error
}

// ObjectInfo describes one object.
type ObjectInfo struct {
	Key  string
	Size int64 // in bytes
}

// PutOptions says what the caller knows about the bytes it puts.
type PutOptions struct {
	// CRC32C is the checksum (Castagnoli) of the whole object, valid if HasCRC32C. An object that turns out to have
	// another one is refused with ErrChecksum and not stored.
	CRC32C    uint32
	HasCRC32C bool
	// Sent is told, from several goroutines, how many more bytes have gone to the store, those of parts that are sent
	// again included. Nil tells nobody. It must not block.
	Sent func(bytes int64)
}

// Operation names a request to a store in errors, metrics and faults.
type Operation string

// The operations of a Bucket, and those that only a store itself performs.
const (
	OpPut          Operation = "put"
	OpPutIfAbsent  Operation = "put-if-absent"
	OpGet          Operation = "get"
	OpStat         Operation = "stat"
	OpList         Operation = "list"
	OpDelete       Operation = "delete"
	OpCreateBucket Operation = "create-bucket"
	OpAbortUploads Operation = "abort-uploads"
)

// castagnoli makes CRC32C, which processors compute and every store accepts.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// copyBufferBytes is the unit in which bodies are read for checksums and copies: large enough that system calls do not
// count, small enough to stay in a processor's cache.
const copyBufferBytes = 256 << 10

// checksum reads a range of body and returns its CRC32C.
func checksum(ctx context.Context, body io.ReaderAt, offset, size int64) (uint32, error) {
	crc := uint32(0)
	err := forEachBlock(ctx, body, offset, size, func(block []byte) error {
		crc = crc32.Update(crc, castagnoli, block)
		return nil
	})
	return crc, err
}

// forEachBlock reads a range of body piece by piece. The piece is valid until visit returns.
func forEachBlock(ctx context.Context, body io.ReaderAt, offset, size int64, visit func([]byte) error) error {
	buffer := make([]byte, min(size, copyBufferBytes))
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := buffer[:min(size, int64(len(buffer)))]
		if n, err := body.ReadAt(block, offset); n < len(block) {
			if err == nil || err == io.EOF {
				err = fmt.Errorf("the body ends at byte %d, %d short of its size", offset+int64(n), size-int64(n))
			}
			return err
		}
		if err := visit(block); err != nil {
			return err
		}
		offset, size = offset+int64(len(block)), size-int64(len(block))
	}
	return nil
}
