package cache

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/firnlog/firn/internal/vfs"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Open opens the file and, the first time since the start, compares its content with its checksum: what a stop left may
// be anything. A file that is no good is forgotten, and the caller goes to the bucket.
func (h *Handle) Open() error {
	c := h.cache
	file, err := c.options.FS.Open(c.file(h.entry.number))
	if err == nil {
		h.file = file
		err = h.verify()
	}
	if err != nil {
		c.metrics.corrupt.Inc()
		c.drop(h.entry)
		return fmt.Errorf("file %d of the cache: %w", h.entry.number, err)
	}
	return nil
}

// File is the file, from Open to Release.
func (h *Handle) File() vfs.File { return h.file }

func (h *Handle) verify() error {
	c := h.cache
	c.mu.Lock()
	verified := h.entry.verified
	c.mu.Unlock()
	if verified {
		return nil
	}
	size, err := h.file.Size()
	if err != nil {
		return err
	}
	if size != h.entry.size {
		return fmt.Errorf("it has %d bytes instead of %d", size, h.entry.size)
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(h.file, 0, size)); err != nil {
		return err
	}
	if sum.Sum32() != h.entry.sum {
		return fmt.Errorf("it has checksum %08x instead of %08x", sum.Sum32(), h.entry.sum)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.entry.verified = true
	return nil
}
