package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync/atomic"
)

// ErrInjected is the error to inject where it does not matter which one it is.
var ErrInjected = errors.New("injected fault")

// NewFaulty returns a file system whose operations fail when fail, which sees each of them first, returns an error. The
// operation is then not performed at all; ShortWrite and Afterwards make errors for which it is, in part or in whole.
// Op.Number counts all operations, so a loop can let the first fail, then the second, and so on. A Close that fails
// closes nonetheless, as on Linux; a sync that fails leaves what it should have written to be lost, and a second one
// that succeeds does not bring it back (on a Mem, which can tell). fail is called by whoever does the operation, maybe
// by several at once.
func NewFaulty(fsys FS, fail func(op Op) error) FS {
	var count atomic.Int64
	return &hookedFS{inner: fsys, around: func(op Op, perform func(limit int64) error) error {
		op.Number = count.Add(1)
		injected := fail(op)
		if injected == nil {
			return perform(math.MaxInt64)
		}
		var partly *partlyDone
		switch {
		case errors.As(injected, &partly):
			if err := perform(partly.limit); err != nil {
				return err
			}
			injected = partly.err
		case op.Kind == OpClose:
			if err := perform(math.MaxInt64); err != nil {
				return err
			}
		}
		return &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: injected}
	}}
}

// FailNumber fails only the operation of a number, with ErrInjected.
func FailNumber(number int64) func(op Op) error {
	return func(op Op) error {
		if op.Number == number {
			return ErrInjected
		}
		return nil
	}
}

// ShortWrite makes the write that fails with it write so many bytes first. For other operations it is Afterwards.
func ShortWrite(bytes int64, err error) error { return &partlyDone{limit: bytes, err: err} }

// Afterwards makes the operation that fails with it take place nonetheless: an outcome that the caller cannot know.
func Afterwards(err error) error { return &partlyDone{limit: math.MaxInt64, err: err} }

type partlyDone struct {
	limit int64
	err   error
}

func (p *partlyDone) Error() string { return fmt.Sprintf("performed in part: %v", p.err) }

func (p *partlyDone) Unwrap() error { return p.err }
