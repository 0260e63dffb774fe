package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync/atomic"
)

// NewLogging returns a file system that gives log one line of text for each operation once it has been performed, such
// as "write a.log [0, 61)" or "open a.log: file does not exist". Its files have no OSFile, so that no reading by map or
// sendfile goes unseen.
func NewLogging(fsys FS, log func(line string)) FS {
	var count atomic.Int64
	return &hookedFS{inner: fsys, around: func(op Op, perform func(limit int64) error) error {
		op.Number = count.Add(1)
		err := perform(math.MaxInt64)
		if err != nil {
			log(fmt.Sprintf("%v: %v", op, cause(err)))
		} else {
			log(op.String())
		}
		return err
	}}
}

// cause is the error without the operation and names that the line has already.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
