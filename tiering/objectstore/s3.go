package objectstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// S3Config says where a bucket is and how its store is to be spoken to.
type S3Config struct {
	Scheme    string // of the URL: s3 or minio
	Bucket    string
	Endpoint  string // https://HOST[:PORT]; empty: Amazon's for the region
	Region    string
	PathStyle bool // the bucket's name in the path, not in front of the host's
	Checksums bool // declare the CRC32C of what is put; a few stores refuse that
	// IdleTimeout ends a transfer on which no byte moves for so long. Default 15 s.
	IdleTimeout time.Duration
	// Transport carries the requests.
	Transport http.RoundTripper
}

// S3 is a bucket in a store that speaks Amazon's protocol. Every request is made once: repeating is Retrying's, except
// for the requests that one operation consists of (parts of an upload, pages of a listing), which are tried again here
// so that the others need not be.
//
// Stores without conditional writes exist. If the store says that it does not know If-None-Match, or Store.Probe finds
// that it ignores it, PutIfAbsent falls back to looking first and reading back afterwards, which several writers at the
// very same time can defeat.
type S3 struct {
	sdk         sdk
	credentials *credentialCache
	config      S3Config
	retrier     *Retrier
	checksums   atomic.Bool // declare them
	conditional atomic.Bool // If-None-Match works

	// How objects are cut; the constants of the same names.
	maxSinglePutBytes int64
	partBytes         int64
}

var _ Bucket = (*S3)(nil)

// newS3 makes a bucket whose requests a library makes. It does no I/O.
func newS3(library sdk, credentials *credentialCache, config S3Config, retrier *Retrier) *S3 {
	s := &S3{sdk: library, credentials: credentials, config: config, retrier: retrier,
		maxSinglePutBytes: maxSinglePutBytes, partBytes: partBytes}
	s.checksums.Store(config.Checksums)
	s.conditional.Store(true)
	return s
}

// statusOf is the HTTP status of the answer an error came from, 0 if there was none.
func (s *S3) statusOf(err error) int {
	if err == nil {
		return 0
	}
	return s.sdk.answer(err).status
}

// Get implements Bucket.
func (s *S3) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	if err := checkGet(OpGet, s.name(), key, offset); err != nil {
		return 0, err
	}
	if len(dst) == 0 {
		return 0, nil
	}
	ctx, watch := watchProgress(ctx, s.config.IdleTimeout)
	defer watch.stop()
	n, err := s.get(ctx, watch, key, offset, dst)
	var end *endOfObject
	if errors.As(err, &end) {
		return n, pastEnd(s.name(), key, offset+int64(len(dst)), end.size)
	}
	if err != nil {
		return n, s.failure(ctx, OpGet, key, err)
	}
	return n, nil
}

// endOfObject is how get says that the object has size bytes, which are fewer than were asked for.
type endOfObject struct{ size int64 }

// Error implements error.
func (e *endOfObject) Error() string { return fmt.Sprintf("the object has %d bytes", e.size) }

func (s *S3) get(ctx context.Context, watch *progress, key string, offset int64, dst []byte) (int, error) {
	body, err := s.sdk.getObject(ctx, key, offset, offset+int64(len(dst))-1)
	if s.statusOf(err) == http.StatusRequestedRangeNotSatisfiable {
		return 0, &endOfObject{size: offset} // or less
	}
	if err != nil {
		return 0, err
	}
	defer body.Close()
	coming := body.size
	if !body.ranged && (offset > 0 || coming > int64(len(dst))) {
		return 0, s.misbehaves(OpGet, key, "it ignores ranges and sends the whole object")
	}
	n := 0
	for n < len(dst) && err == nil {
		var more int
		more, err = body.Read(dst[n:])
		n += more
		watch.touch()
	}
	switch {
	case n == len(dst):
		return n, nil
	case err == io.EOF && int64(n) == coming:
		return n, &endOfObject{size: offset + coming}
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return n, errCut(int64(n), coming)
	}
	return n, err
}

// errCut describes a body that ended before its announced length. It does not wrap io.ErrUnexpectedEOF, which would
// mean that the object ends here.
func errCut(got, announced int64) error {
	return fmt.Errorf("the body was cut after %d of %d bytes", got, announced)
}

// Stat implements Bucket.
func (s *S3) Stat(ctx context.Context, key string) (ObjectInfo, error) {
	if err := checkGet(OpStat, s.name(), key, 0); err != nil {
		return ObjectInfo{}, err
	}
	size, err := s.sdk.headObject(ctx, key)
	if err != nil {
		return ObjectInfo{}, s.failure(ctx, OpStat, key, err)
	}
	return ObjectInfo{Key: key, Size: size}, nil
}

// List implements Bucket. Objects whose keys firn would not use are somebody else's and left out.
func (s *S3) List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error {
	if checkPrintable(prefix) != nil || checkPrintable(startAfter) != nil {
		return s.failure(ctx, OpList, prefix, ErrInvalidKey)
	}
	previous, cursor := startAfter, ""
	for {
		page, err := s.page(ctx, prefix, startAfter, cursor)
		if err != nil {
			return err
		}
		for _, object := range page.objects {
			if object.Key <= previous && previous != "" {
				return s.misbehaves(OpList, prefix, "it lists %s after %s, which is not the order of keys", object.Key,
					previous)
			}
			previous = object.Key
			if CheckKey(object.Key) != nil || object.Size == 0 {
				continue
			}
			if err := visit(object); err != nil {
				return ignoreSkipAll(err)
			}
		}
		if !page.more {
			return nil
		}
		if page.cursor == "" {
			return s.misbehaves(OpList, prefix, "it says that the listing goes on, but not where")
		}
		cursor = page.cursor
	}
}

func (s *S3) page(ctx context.Context, prefix, after, cursor string) (page objectPage, err error) {
	err = s.retrier.do(ctx, attemptOf{operation: OpList, key: prefix}, func(ctx context.Context) error {
		var err error
		if page, err = s.sdk.listObjects(ctx, prefix, after, cursor); err != nil {
			return s.failure(ctx, OpList, prefix, err)
		}
		return nil
	})
	return page, err
}

// maxKeysPerDelete is S3's own bound.
const maxKeysPerDelete = 1000

// Delete implements Bucket.
func (s *S3) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := checkGet(OpDelete, s.name(), key, 0); err != nil {
			return err
		}
	}
	batch := maxKeysPerDelete
	if !s.checksums.Load() {
		batch = 1 // a request with several keys needs a checksum, which is what the store refuses
	}
	for len(keys) > 0 {
		some := keys[:min(batch, len(keys))]
		keys = keys[len(some):]
		err := s.retrier.do(ctx, attemptOf{operation: OpDelete, key: some[0]}, func(ctx context.Context) error {
			return s.deleteSome(ctx, some)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *S3) deleteSome(ctx context.Context, keys []string) error {
	if len(keys) == 1 {
		if err := s.sdk.deleteObject(ctx, keys[0]); err != nil && !s.isMissingKey(err) {
			return s.failure(ctx, OpDelete, keys[0], err)
		}
		return nil
	}
	failed, err := s.sdk.deleteObjects(ctx, keys)
	if err != nil {
		return s.failure(ctx, OpDelete, keys[0], err)
	}
	for _, one := range failed {
		if one.code == codeNoSuchKey {
			continue
		}
		return &Error{Operation: OpDelete, Bucket: s.name(), Key: one.key, Status: one.code, Kind: kindOfCode(one.code),
			Err: errors.New(one.message)}
	}
	return nil
}

// PutIfAbsent implements Bucket.
func (s *S3) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	if err := checkPut(OpPutIfAbsent, s.name(), key, int64(len(data))); err != nil {
		return false, err
	}
	if !s.conditional.Load() {
		return s.putIfUnseen(ctx, key, data)
	}
	err := s.putObject(ctx, key, bytes.NewReader(data), int64(len(data)), putOnly{ifAbsent: true})
	switch s.statusOf(err) {
	case http.StatusPreconditionFailed:
		return false, nil
	case http.StatusNotImplemented:
		s.conditional.Store(false)
		return s.putIfUnseen(ctx, key, data)
	}
	if err != nil {
		return false, s.failure(ctx, OpPutIfAbsent, key, err)
	}
	return true, nil
}

// putIfUnseen is what PutIfAbsent can do without the store's help. See S3.
func (s *S3) putIfUnseen(ctx context.Context, key string, data []byte) (bool, error) {
	if _, err := s.Stat(ctx, key); err == nil || !errors.Is(err, ErrNotFound) {
		return false, err
	}
	if err := s.putObject(ctx, key, bytes.NewReader(data), int64(len(data)), putOnly{}); err != nil {
		return false, s.failure(ctx, OpPutIfAbsent, key, err)
	}
	return holds(ctx, s, key, data)
}

// putOnly is what one PUT request is made under.
type putOnly struct {
	ifAbsent bool
	sent     func(bytes int64) // see PutOptions
}

// putObject is one PUT request.
func (s *S3) putObject(ctx context.Context, key string, body io.ReaderAt, size int64, only putOnly) error {
	ctx, watch := watchProgress(ctx, s.config.IdleTimeout)
	defer watch.stop()
	crc, err := checksum(ctx, body, 0, size)
	if err != nil {
		return &bodyError{err}
	}
	reader := newBodyReader(body, 0, size, watch, only.sent)
	defer reader.close()
	err = s.sdk.putObject(ctx, key, reader, payload{size: size, checksum: s.declare(crc), ifAbsent: only.ifAbsent})
	return reader.explain(ctx, err)
}

// declare is a checksum as a header has it, or nothing if the store is not to be told.
func (s *S3) declare(crc uint32) string {
	if !s.checksums.Load() {
		return ""
	}
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc))
}

// misbehaves is the failure of a store that breaks the protocol: no use in asking again.
func (s *S3) misbehaves(operation Operation, key, format string, args ...any) error {
	return &Error{Operation: operation, Bucket: s.name(), Key: key, Status: "misbehaving store",
		Err: fmt.Errorf(format, args...)}
}

func (s *S3) name() string { return s.config.Scheme + "://" + s.config.Bucket }
