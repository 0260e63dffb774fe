package vfs

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Mapping is the content of a file as memory that must not be written to: a read-only map where there is a file of
// the operating system, a copy where there is none. A map stays valid when its file is closed or removed. Reading it is
// a memory fault if the file was cut below the mapped size or the disk fails, so readers use debug.SetPanicOnFault.
type Mapping struct {
	bytes  []byte
	mapped bool
}

// Map maps the first size bytes of a file. The file must be at least that long.
func Map(file File, size int64) (*Mapping, error) {
	length, err := file.Size()
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", file.Name(), err)
	}
	if size < 0 || size > length {
		return nil, fmt.Errorf("map %d bytes of %s, which has %d: %w", size, file.Name(), length, io.ErrUnexpectedEOF)
	}
	if size == 0 { // the system refuses empty maps
		return &Mapping{}, nil
	}
	if osFile := file.OSFile(); osFile != nil {
		return mapOSFile(osFile, size)
	}
	bytes := make([]byte, size)
	if n, err := file.ReadAt(bytes, 0); n < len(bytes) {
		return nil, fmt.Errorf("map %s: %w", file.Name(), err)
	}
	return &Mapping{bytes: bytes}, nil
}

func mapOSFile(file *os.File, size int64) (*Mapping, error) {
	mapping := &Mapping{mapped: true}
	err := control(file, func(fd int) (err error) {
		mapping.bytes, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", file.Name(), err)
	}
	return mapping, nil
}

// Bytes is the content. It is valid until Close.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Close removes the map; closing again does nothing.
func (m *Mapping) Close() error {
	bytes := m.bytes
	m.bytes = nil
	if !m.mapped || bytes == nil {
		return nil
	}
	return unix.Munmap(bytes)
}
