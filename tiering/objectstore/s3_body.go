package objectstore

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// errStalled is why a transfer on which no byte moved was ended.
var errStalled = errors.New("no byte has moved for too long")

// progress ends a context when nothing has happened for a while.
type progress struct {
	idle   time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func watchProgress(ctx context.Context, idle time.Duration) (context.Context, *progress) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &progress{idle: idle, cancel: cancel, timer: time.AfterFunc(idle, func() { cancel(errStalled) })}
}

// touch says that something has happened.
func (p *progress) touch() { p.timer.Reset(p.idle) }

// pause stops watching until the next touch.
func (p *progress) pause() { p.timer.Stop() }

func (p *progress) stop() {
	p.timer.Stop()
	p.cancel(nil)
}

// bodyReader is a request's body: a part of what is put, read where it lies. An HTTP transport may go on reading after
// it has answered, so the reader is closed before the memory or file behind it is given up.
type bodyReader struct {
	watch *progress
	sent  func(bytes int64) // told of what is read; may be nil

	mu      sync.Mutex // guards the fields below; held while reading, so that close waits for a read under way
	section *io.SectionReader
	closed  bool
	err     error // of the section
}

var _ io.ReadSeeker = (*bodyReader)(nil)

func newBodyReader(body io.ReaderAt, position, size int64, watch *progress, sent func(int64)) *bodyReader {
	return &bodyReader{watch: watch, sent: sent, section: io.NewSectionReader(body, position, size)}
}

// Read implements io.Reader. Once all is read, the store's answer is waited for under the attempt's deadline alone.
func (r *bodyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, errors.New("the request is over")
	}
	n, err := r.section.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	r.watch.touch()
	if r.sent != nil {
		r.sent(int64(n))
	}
	if position, seekErr := r.section.Seek(0, io.SeekCurrent); seekErr == nil && position == r.section.Size() {
		r.watch.pause()
	}
	return n, err
}

// Seek implements io.Seeker.
func (r *bodyReader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.section.Seek(offset, whence)
}

func (r *bodyReader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// explain finds the true reason of a request's failure, if it is reading the body or that nothing moved.
func (r *bodyReader) explain(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errStalled):
		return errStalled
	case r.err != nil && ctx.Err() == nil:
		return &bodyError{r.err}
	}
	return err
}
