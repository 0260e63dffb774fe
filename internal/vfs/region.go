package vfs

import (
	"fmt"
	"io"
)

// Holder is one reference on what keeps a region's file open, such as a log segment.
type Holder interface {
	// Release gives the reference back. It is called once for each reference.
	Release()
}

// Region is a range of a file that somebody else keeps open: bytes that can be sent or read without having been
// loaded. It is a value and costs no allocation. All copies and slices of a region share its one reference, and
// exactly one of them is released, once; after that none of them may be used.
type Region struct {
	file     File
	position int64
	size     int64
	hold     Holder
}

// NewRegion describes size bytes of file from position on. It takes over one reference of hold, which may be nil for a
// file that outlives the region anyway.
func NewRegion(file File, position, size int64, hold Holder) Region {
	return Region{file: file, position: position, size: size, hold: hold}
}

// Size is the number of bytes.
func (r Region) Size() int64 { return r.size }

// Position is where the region begins in its file.
func (r Region) Position() int64 { return r.position }

// File is the file the region lies in; nil in the zero Region.
func (r Region) File() File { return r.file }

// ReadAt reads from an offset relative to the region and, as io.ReaderAt asks, returns io.EOF with a short count at the
// region's end. A file that ends before the region does is io.ErrUnexpectedEOF.
func (r Region) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read region at %d: negative offset", off)
	}
	if off >= r.size {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	want := int(min(int64(len(p)), r.size-off))
	n, err := r.file.ReadAt(p[:want], r.position+off)
	if n < want {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	if want < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Slice is the part [offset, offset+size) of the region. It adds no reference: whoever releases the region or one of
// its slices does so for all of them. Like slicing a []byte, it panics outside the bounds.
func (r Region) Slice(offset, size int64) Region {
	if offset < 0 || size < 0 || offset > r.size-size {
		panic(fmt.Sprintf("vfs: slice [%d, %d) of a region of %d bytes", offset, offset+size, r.size))
	}
	return Region{file: r.file, position: r.position + offset, size: size, hold: r.hold}
}

// Unheld is the region without its reference, for somebody who keeps that apart.
func (r Region) Unheld() Region {
	r.hold = nil
	return r
}

// Release gives back the reference that the region and all its copies and slices share.
func (r Region) Release() {
	if r.hold != nil {
		r.hold.Release()
	}
}
