package objectstore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// maxSinglePutBytes is the largest object put with one request, which is what most segments of modest size cost.
	// Above it, what has to be sent again after a failure would be too much.
	maxSinglePutBytes = 64 << 20
	// partBytes is the part of a larger object: what servers take in one chunk, and past which nothing gets faster.
	partBytes = 16 << 20
	// partsInFlight fills a local network; more costs memory only.
	partsInFlight = 4
	// maxParts is S3's own bound; larger objects get larger parts.
	maxParts = 10_000
	// abortTimeout is how long giving up an upload may take. What it leaves is aborted later, as stale.
	abortTimeout = 10 * time.Second
)

// Put implements Bucket.
func (s *S3) Put(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error {
	if err := checkPut(OpPut, s.name(), key, size); err != nil {
		return err
	}
	if size > s.maxSinglePutBytes {
		return s.putMultipart(ctx, key, body, size, options)
	}
	if options.HasCRC32C {
		crc, err := checksum(ctx, body, 0, size)
		if err != nil {
			return s.failure(ctx, OpPut, key, &bodyError{err})
		}
		if crc != options.CRC32C {
			return s.failure(ctx, OpPut, key, fmt.Errorf("%w: %w", ErrChecksum, checksumMismatch(options.CRC32C, crc)))
		}
	}
	if err := s.putObject(ctx, key, body, size, putOnly{sent: options.Sent}); err != nil {
		return s.failure(ctx, OpPut, key, err)
	}
	return nil
}

// upload is one multipart upload.
type upload struct {
	s    *S3
	key  string
	id   string
	body io.ReaderAt
	size int64
	sent func(bytes int64)
}

// putMultipart puts an object in parts. The object appears, whole, when the upload is completed.
func (s *S3) putMultipart(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error {
	u := &upload{s: s, key: key, body: body, size: size, sent: options.Sent}
	if err := u.create(ctx); err != nil {
		return err
	}
	parts, crc, err := u.sendParts(ctx)
	if err == nil && options.HasCRC32C && crc != options.CRC32C {
		err = s.failure(ctx, OpPut, key, fmt.Errorf("%w: %w", ErrChecksum, checksumMismatch(options.CRC32C, crc)))
	}
	if err == nil {
		err = u.complete(ctx, parts)
	}
	if err != nil {
		u.abort(ctx)
	}
	var failure *Error
	if errors.As(err, &failure) && failure.Kind == errUploadGone {
		again := *failure
		again.Kind, again.Attempts = ErrUnavailable, 0
		return &again
	}
	return err
}

func (u *upload) create(ctx context.Context) error {
	what := attemptOf{operation: OpPut, key: u.key}
	return u.s.retrier.do(ctx, what, func(ctx context.Context) (err error) {
		if u.id, err = u.s.sdk.createUpload(ctx, u.key, u.s.checksums.Load()); err != nil {
			return u.s.failure(ctx, OpPut, u.key, err)
		}
		return nil
	})
}

// sendParts reads the body once in order for the checksums, while up to partsInFlight earlier parts are being sent.
func (u *upload) sendParts(ctx context.Context) ([]uploadedPart, uint32, error) {
	size := max(u.s.partBytes, (u.size+maxParts-1)/maxParts)
	parts := make([]uploadedPart, (u.size+size-1)/size)
	whole := uint32(0)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(partsInFlight)
	for i := range parts {
		position := int64(i) * size
		length := min(size, u.size-position)
		part := uint32(0)
		err := forEachBlock(groupCtx, u.body, position, length, func(block []byte) error {
			part, whole = crc32.Update(part, castagnoli, block), crc32.Update(whole, castagnoli, block)
			return nil
		})
		if err != nil {
			// If a part failed, its error comes first and is the cause.
			if partErr := group.Wait(); partErr != nil {
				return nil, 0, partErr
			}
			return nil, 0, u.s.failure(ctx, OpPut, u.key, &bodyError{err})
		}
		group.Go(func() (err error) {
			parts[i], err = u.sendPart(groupCtx, i+1, position, length, part)
			return err
		})
	}
	return parts, whole, group.Wait()
}

func (u *upload) sendPart(ctx context.Context, number int, position, length int64, crc uint32) (uploadedPart, error) {
	part := uploadedPart{checksum: u.s.declare(crc)}
	err := u.s.retrier.do(ctx, attemptOf{operation: OpPut, key: u.key, bytes: length}, func(ctx context.Context) error {
		ctx, watch := watchProgress(ctx, u.s.config.IdleTimeout)
		defer watch.stop()
		reader := newBodyReader(u.body, position, length, watch, u.sent)
		defer reader.close()
		etag, err := u.s.sdk.putPart(ctx, u.key, u.id, number, reader, payload{size: length, checksum: part.checksum})
		if err = reader.explain(ctx, err); err != nil {
			return u.s.failure(ctx, OpPut, u.key, err)
		}
		part.etag = etag
		return nil
	})
	return part, err
}

func (u *upload) complete(ctx context.Context, parts []uploadedPart) error {
	// The store may have to copy the parts together, at the rate at which they could be sent.
	what := attemptOf{operation: OpPut, key: u.key, bytes: u.size}
	return u.s.retrier.do(ctx, what, func(ctx context.Context) error {
		if err := u.s.sdk.completeUpload(ctx, u.key, u.id, parts); err != nil {
			return u.s.failure(ctx, OpPut, u.key, err)
		}
		return nil
	})
}

// abort gives an upload up, so that its parts cost nothing. It happens after a failure, the caller's cancellation
// included; if it fails too, the upload is left to be aborted as stale.
func (u *upload) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if err := u.s.abortUpload(ctx, u.key, u.id); err != nil {
		u.s.retrier.logger.Warn("cannot abort a failed upload; it is aborted as stale later", "error", err)
	}
}

func (s *S3) abortUpload(ctx context.Context, key, id string) error {
	if err := s.sdk.abortUpload(ctx, key, id); err != nil && s.statusOf(err) != http.StatusNotFound {
		return s.failure(ctx, OpAbortUploads, key, err)
	}
	return nil
}

// AbortStaleUploads gives up the multipart uploads below a folder that began before a time, and counts them. Whoever
// began them must have stopped: every upload has a deadline.
func (s *S3) AbortStaleUploads(ctx context.Context, folder string, before time.Time) (aborted int, err error) {
	var cursor uploadCursor
	for {
		page, err := s.sdk.listUploads(ctx, below(folder), cursor)
		if err != nil {
			return aborted, s.failure(ctx, OpAbortUploads, folder, err)
		}
		for _, upload := range page.uploads {
			if upload.began.IsZero() || !upload.began.Before(before) {
				continue
			}
			if err := s.abortUpload(ctx, upload.key, upload.id); err != nil {
				return aborted, err
			}
			aborted++
		}
		if !page.more || page.cursor == (uploadCursor{}) {
			return aborted, nil
		}
		cursor = page.cursor
	}
}

// below is the prefix of the keys in a folder; the empty folder is the whole bucket.
func below(folder string) string {
	if folder == "" {
		return ""
	}
	return folder + "/"
}

// bodyError is a failure to read what is to be put: not the store's.
type bodyError struct{ err error }

// Error implements error.
func (e *bodyError) Error() string { return "reading the body: " + e.err.Error() }

// Unwrap implements errors.Unwrap.
func (e *bodyError) Unwrap() error { return e.err }

// isBodyError tells whether the caller's bytes, not the store, failed. A caller's cancellation is neither.
func isBodyError(err error) bool {
	var body *bodyError
	return errors.As(err, &body) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
