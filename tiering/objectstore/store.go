package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// probeInterval is how often a store that was away at the start is probed again.
	probeInterval = 30 * time.Second
	// staleInterval is how often stale uploads are looked for.
	staleInterval = time.Hour
	// staleAge is how old an upload is that nobody works on any more: far above any upload's deadline, and above any
	// difference between clocks with which a store still accepts signatures (15 minutes).
	staleAge = 6 * time.Hour
)

// Store is a bucket as a node uses it: below the folder its URL names, instrumented, and retrying. The bucket's own
// upkeep comes with it.
type Store struct {
	Bucket
	place   string // for messages: where the store is, without secrets
	label   string // of metrics
	logger  *slog.Logger
	retrier *Retrier
	folder  string
	rights  string      // what whoever uses it needs to be allowed to do, for messages
	s3      *S3         // nil if the bucket is another kind
	traffic *traffic    // nil likewise
	closer  io.Closer   // nil if there is nothing to close
	probed  atomic.Bool // the store has shown that it does what is asked of it
}

// String says where the store is.
func (s *Store) String() string { return s.place }

// Run keeps the store in order: it probes a store that could not be reached at the start until it can, and aborts
// uploads that nobody works on any more, at once and every hour. It returns when ctx ends.
func (s *Store) Run(ctx context.Context) error {
	for !s.probed.Load() {
		if !sleep(ctx, probeInterval) {
			return nil
		}
		if err := s.Probe(ctx); err != nil && ctx.Err() == nil {
			s.logger.Error("the object store is not usable", "error", err)
		}
	}
	for {
		aborted, err := s.AbortStaleUploads(ctx, staleAge)
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("cannot abort stale uploads", "error", err)
		}
		if aborted > 0 {
			s.logger.Info("aborted stale uploads", "bucket", s.place, "uploads", aborted)
		}
		if !sleep(ctx, staleInterval) {
			return nil
		}
	}
}

// AbortStaleUploads gives up multipart uploads that began longer ago than age, and counts them.
func (s *Store) AbortStaleUploads(ctx context.Context, age time.Duration) (int, error) {
	if s.s3 == nil {
		return 0, nil
	}
	return s.s3.AbortStaleUploads(ctx, s.folder, time.Now().Add(-age))
}

// Close releases what the store holds open. It must not be used any more.
func (s *Store) Close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}

// Probe makes the store do once what it is going to be asked for: put, ranged get, list, put-if-absent, delete. It
// finds out what the store does not support and how to do without, and makes a missing bucket, except in Amazon's
// store. Its error says what is wrong and where, so that it can be put right. What is not wrong yet is logged: clocks
// that differ, and what the bucket does with objects by itself.
func (s *Store) Probe(ctx context.Context) error {
	err := s.noteSkew(s.probe(ctx))
	if err != nil {
		return fmt.Errorf("probe the object store %s: %w%s", s.place, err, s.advice(err))
	}
	if s.s3 != nil {
		s.s3.noteRules(ctx, s.folder, s.logger)
	}
	s.probed.Store(true)
	return nil
}

func (s *Store) probe(ctx context.Context) error {
	if s.s3 != nil {
		if err := s.s3.ensureBucket(ctx, s.folder, s.logger); err != nil {
			return err
		}
	}
	key, content := fmt.Sprintf("probe/%016x", s.retrier.random()), []byte("firn was here")
	if err := s.probePut(ctx, key, content); err != nil {
		return err
	}
	if err := s.probeRead(ctx, key, content); err != nil {
		return err
	}
	created, err := s.Bucket.PutIfAbsent(ctx, key, []byte("firn was here again"))
	if err != nil {
		return err
	}
	if created && s.s3 != nil {
		s.s3.conditional.Store(false)
		s.logger.Warn("the object store ignores If-None-Match: claims are not safe against writers at the same instant",
			"bucket", s.place)
	}
	if err := s.Bucket.Delete(ctx, key); err != nil {
		return err
	}
	if _, err := s.Bucket.Stat(ctx, key); !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%s is still there after its deletion: %w", key, errors.Join(errMisbehaves, err))
	}
	return nil
}

// errMisbehaves is the reason to refuse a store that answers, but not as a store should.
var errMisbehaves = errors.New("the store does not do what it says")

// probePut tries without checksums what a store refuses with them.
func (s *Store) probePut(ctx context.Context, key string, content []byte) error {
	put := func() error {
		return s.Bucket.Put(ctx, key, readerAt(content), int64(len(content)), PutOptions{})
	}
	err := put()
	var failure *Error
	if s.s3 == nil || !errors.As(err, &failure) || failure.Kind != nil || ctx.Err() != nil || !s.s3.checksums.Load() {
		return err
	}
	s.s3.checksums.Store(false)
	if put() != nil {
		s.s3.checksums.Store(true)
		return err // the first error is the one to look into
	}
	s.logger.Warn("the object store refuses CRC32C checksums, so they are not sent; checksum=off in the URL says so too",
		"bucket", s.place, "status", failure.Status)
	return nil
}

func (s *Store) probeRead(ctx context.Context, key string, content []byte) error {
	part := make([]byte, 4)
	if _, err := s.Bucket.Get(ctx, key, 5, part); err != nil {
		return err
	}
	if string(part) != string(content[5:9]) {
		return fmt.Errorf("a range of %s reads %q instead of %q: %w", key, part, content[5:9], errMisbehaves)
	}
	found := false
	err := s.Bucket.List(ctx, "probe/", "", func(info ObjectInfo) error {
		found = found || info.Key == key && info.Size == int64(len(content))
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s is not listed after it was put: %w", key, errMisbehaves)
	}
	return err
}
