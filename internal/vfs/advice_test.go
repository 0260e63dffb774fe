package vfs

import (
	"path/filepath"
	"testing"
)

// Advice changes nothing that can be read, and is taken for files that are none of the system's, too.
func TestAdviceLeavesFilesAlone(t *testing.T) {
	for name, fsys := range map[string]FS{filepath.Join(t.TempDir(), "f"): OS(), "f": NewMem()} {
		file, err := fsys.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte("content"), 0); err != nil {
			t.Fatal(err)
		}
		for _, length := range []int64{0, 3, 1 << 40} {
			WriteBehind(file, 2, length)
			ReadAhead(file, 2, length)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		WriteBehind(file, 0, 7) // of a closed file it is advice to nobody
		if data, err := ReadFile(fsys, name); err != nil || string(data) != "content" {
			t.Errorf("%q, %v", data, err)
		}
	}
}
