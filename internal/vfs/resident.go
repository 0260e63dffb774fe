package vfs

import (
	"errors"
	"io"
)

// ErrNotResident says that the bytes are on the disk only: reading them takes as long as the disk does.
var ErrNotResident = errors.New("not in memory")

// residency is what files can that know which of their bytes are in memory.
type residency interface {
	// ReadResident is ReadAt that ends with ErrNotResident where it would have to wait for the disk.
	ReadResident(p []byte, off int64) (int, error)
	// Resident tells whether a range is in memory, as far as a look at some of its pages can tell.
	Resident(position, size int64) bool
}

// ReadResident reads as File.ReadAt does, but never waits for the disk: it gives what is in memory, and ErrNotResident
// if that is not all. A file that does not know is read.
func ReadResident(file File, p []byte, off int64) (int, error) {
	if known, ok := file.(residency); ok {
		return known.ReadResident(p, off)
	}
	return file.ReadAt(p, off)
}

const (
	// residentStep is how far the pages lie apart that are looked at: the system reads ahead at least as much at once.
	residentStep = 128 << 10
	// loadStep is how much Load reads at once.
	loadStep = 256 << 10
)

// Resident tells whether sending the region would find its bytes in memory, as far as a look at some of its pages can
// tell. Of a file that does not know it is true.
func (r Region) Resident() bool {
	known, ok := r.file.(residency)
	return !ok || r.size == 0 || known.Resident(r.position, r.size)
}

// Load brings the region's bytes into memory, where the system keeps them for as long as it likes. It waits for the
// disk, and reads nothing of a file that does not know what is in memory.
func (r Region) Load() error {
	known, ok := r.file.(residency)
	if !ok {
		return nil
	}
	var buffer []byte
	for at := int64(0); at < r.size; at += loadStep {
		size := min(r.size-at, loadStep)
		if known.Resident(r.position+at, size) {
			continue
		}
		if buffer == nil {
			buffer = make([]byte, min(r.size, loadStep))
		}
		if n, err := r.file.ReadAt(buffer[:size], r.position+at); n < int(size) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
