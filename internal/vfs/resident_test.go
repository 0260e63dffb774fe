package vfs

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// evict takes a file out of the page cache.
func evict(t *testing.T, file File) {
	t.Helper()
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.OSFile().Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsOnTheDiskOnlyIsNotWaitedFor(t *testing.T) {
	file, err := OS().Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const size = 3<<20 + 77
	content := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
	if _, err := file.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	all := NewRegion(file, 0, size, nil)
	read := func(off int64) error {
		p := make([]byte, 100)
		n, err := ReadResident(file, p, off)
		if !bytes.Equal(p[:n], content[min(off, size):min(off+int64(n), size)]) {
			t.Errorf("at %d: %q", off, p[:n])
		}
		return err
	}
	if err := read(size / 2); err != nil || !all.Resident() {
		t.Errorf("what was written a moment ago: %v, %v", err, all.Resident())
	}
	if err := read(size - 20); err != io.EOF {
		t.Errorf("beyond the end: %v", err)
	}
	evict(t, file)
	err = read(size / 2)
	if err == nil {
		t.Skip("this file system keeps everything in memory, or cannot tell what it keeps")
	}
	if !errors.Is(err, ErrNotResident) {
		t.Errorf("what is on the disk: %v", err)
	}
	part := all.Slice(1<<20, 1<<20)
	if err := part.Load(); err != nil {
		t.Fatal(err)
	}
	if !part.Resident() || read(size/2) != nil {
		t.Error("what has been loaded is not in memory")
	}
	if all.Resident() {
		t.Error("all of it is, although only a part was loaded")
	}
	if err := NewRegion(file, size-10, 20, nil).Load(); err != nil && err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	allocs := testing.AllocsPerRun(100, func() {
		if !part.Resident() {
			t.Error("it is not in memory any more")
		}
	})
	if allocs > 0 {
		t.Errorf("a look allocates %v times", allocs)
	}
}
