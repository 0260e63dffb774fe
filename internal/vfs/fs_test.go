package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"testing"
)

// TestFileSystems holds what both file systems must do alike.
func TestFileSystems(t *testing.T) {
	systems := map[string]func(t *testing.T) (FS, string){
		"the real one": func(t *testing.T) (FS, string) { return OS(), t.TempDir() },
		"memory": func(t *testing.T) (FS, string) {
			mem := NewMem()
			must(t, mem.MkdirAll("/some/where"))
			return mem, "/some/where"
		},
		"faulty without faults": func(t *testing.T) (FS, string) {
			return NewFaulty(OS(), func(Op) error { return nil }), t.TempDir()
		},
		"logging": func(t *testing.T) (FS, string) {
			mem := NewMem()
			must(t, mem.MkdirAll("some"))
			return NewLogging(mem, func(string) {}), "some"
		},
	}
	cases := map[string]func(t *testing.T, fsys FS, dir string){
		"a file holds what was written at each offset, with zeros between": fileContent,
		"truncating cuts and extends, and what was cut never comes back":   fileTruncate,
		"create empties a file that exists, also for those who have it":    createTruncates,
		"an open file survives its removal and its renaming":               openOutlivesName,
		"errors match those of io/fs":                                      errorKinds,
		"rename replaces a file and moves a folder with its content":       renames,
		"removing spares folders with content, removing all does not":      removals,
		"a folder lists its names in order":                                listing,
		"a lock has one holder and can be taken again after it":            locking,
		"a folder can be synced and its free space asked for":              folders,
		"a file is a map of its bytes, which its closing does not touch":   mapping,
		"a file written atomically can be read and leaves nothing behind":  atomicFile,
		"a file opened for reading cannot be written":                      readOnly,
		"reading past the end is io.EOF with what there was":               readPastEnd,
		"a durable folder can be made where its parents do not exist":      durableFolder,
		"many may read and write at offsets of their own at the same time": concurrentOffsets,
		"removing all of what is not there is no error":                    removeAllOfNothing,
	}
	for system, start := range systems {
		for name, run := range cases {
			t.Run(system+"/"+name, func(t *testing.T) {
				fsys, dir := start(t)
				run(t, fsys, dir)
			})
		}
	}
}

func fileContent(t *testing.T, fsys FS, dir string) {
	file := create(t, fsys, path.Join(dir, "a"))
	write(t, file, "world", 10)
	write(t, file, "hello", 0)
	wantContent(t, file, "hello\x00\x00\x00\x00\x00world")
	must(t, file.Sync())
	must(t, file.SyncData())
	must(t, file.Close())
	data, err := ReadFile(fsys, path.Join(dir, "a"))
	must(t, err)
	if want := "hello\x00\x00\x00\x00\x00world"; string(data) != want {
		t.Fatalf("read %q, want %q", data, want)
	}
	info, err := fsys.Stat(path.Join(dir, "a"))
	must(t, err)
	if info.Size() != 15 || info.IsDir() || info.Name() != "a" || info.ModTime().IsZero() {
		t.Fatalf("stat says %v, %v, %v, %v", info.Size(), info.IsDir(), info.Name(), info.ModTime())
	}
}

func fileTruncate(t *testing.T, fsys FS, dir string) {
	file := create(t, fsys, path.Join(dir, "a"))
	defer file.Close()
	write(t, file, "0123456789", 0)
	must(t, file.Truncate(4))
	wantContent(t, file, "0123")
	must(t, file.Truncate(6))
	wantContent(t, file, "0123\x00\x00")
	must(t, file.Truncate(2))
	write(t, file, "x", 8)
	wantContent(t, file, "01\x00\x00\x00\x00\x00\x00x")
}

func createTruncates(t *testing.T, fsys FS, dir string) {
	first := create(t, fsys, path.Join(dir, "a"))
	defer first.Close()
	write(t, first, "old content", 0)
	second := create(t, fsys, path.Join(dir, "a"))
	defer second.Close()
	wantContent(t, first, "")
	write(t, second, "new", 0)
	wantContent(t, first, "new")
}

func openOutlivesName(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "a")
	file := create(t, fsys, name)
	defer file.Close()
	write(t, file, "one", 0)
	must(t, fsys.Rename(name, path.Join(dir, "b")))
	write(t, file, "two", 3)
	must(t, fsys.Remove(path.Join(dir, "b")))
	write(t, file, "three", 6)
	wantContent(t, file, "onetwothree")
	must(t, file.Sync())
	if file.Name() != name {
		t.Fatalf("the file calls itself %q", file.Name())
	}
	other := create(t, fsys, name)
	defer other.Close()
	wantContent(t, other, "")
}

func errorKinds(t *testing.T, fsys FS, dir string) {
	file := create(t, fsys, path.Join(dir, "file"))
	must(t, file.Close())
	nothing := path.Join(dir, "nothing")
	_, openErr := fsys.Open(nothing)
	_, writeErr := fsys.OpenReadWrite(nothing)
	_, createErr := fsys.Create(path.Join(nothing, "a"))
	_, statErr := fsys.Stat(nothing)
	_, listErr := fsys.List(nothing)
	_, freeErr := fsys.Space(nothing)
	_, lockErr := fsys.Lock(path.Join(nothing, "a"))
	_, size := file.Size()
	_, read := file.ReadAt(make([]byte, 1), 0)
	_, wrote := file.WriteAt([]byte("a"), 0)
	_, below := fsys.Open(path.Join(dir, "file", "a"))
	_, onFolder := fsys.OpenReadWrite(dir)
	for what, test := range map[string]struct{ err, want error }{
		"open":             {openErr, fs.ErrNotExist},
		"open read write":  {writeErr, fs.ErrNotExist},
		"create":           {createErr, fs.ErrNotExist},
		"stat":             {statErr, fs.ErrNotExist},
		"list":             {listErr, fs.ErrNotExist},
		"free bytes":       {freeErr, fs.ErrNotExist},
		"lock":             {lockErr, fs.ErrNotExist},
		"sync dir":         {fsys.SyncDir(nothing), fs.ErrNotExist},
		"remove":           {fsys.Remove(nothing), fs.ErrNotExist},
		"rename":           {fsys.Rename(nothing, path.Join(dir, "b")), fs.ErrNotExist},
		"rename into":      {fsys.Rename(path.Join(dir, "file"), path.Join(nothing, "b")), fs.ErrNotExist},
		"rename to folder": {fsys.Rename(path.Join(dir, "file"), dir), fs.ErrExist},
		"below a file":     {below, syscall.ENOTDIR},
		"mkdir on a file":  {fsys.MkdirAll(path.Join(dir, "file")), syscall.ENOTDIR},
		"write a folder":   {onFolder, syscall.EISDIR},
		"closed size":      {size, fs.ErrClosed},
		"closed read":      {read, fs.ErrClosed},
		"closed write":     {wrote, fs.ErrClosed},
		"closed sync":      {file.Sync(), fs.ErrClosed},
		"closed truncate":  {file.Truncate(1), fs.ErrClosed},
		"closed close":     {file.Close(), fs.ErrClosed},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: error %v, want %v", what, test.err, test.want)
		}
	}
}

func renames(t *testing.T, fsys FS, dir string) {
	put(t, fsys, path.Join(dir, "a"), "a")
	put(t, fsys, path.Join(dir, "b"), "b")
	must(t, fsys.Rename(path.Join(dir, "a"), path.Join(dir, "b")))
	wantFile(t, fsys, path.Join(dir, "b"), "a")
	wantNames(t, fsys, dir, "b")
	must(t, fsys.Rename(path.Join(dir, "b"), path.Join(dir, "b")))
	must(t, fsys.MkdirAll(path.Join(dir, "one", "two")))
	put(t, fsys, path.Join(dir, "one", "two", "c"), "c")
	must(t, fsys.Rename(path.Join(dir, "one"), path.Join(dir, "three")))
	wantFile(t, fsys, path.Join(dir, "three", "two", "c"), "c")
	if err := fsys.Rename(path.Join(dir, "three"), path.Join(dir, "three", "two", "x")); err == nil {
		t.Error("a folder was moved into itself")
	}
	if err := fsys.Rename(path.Join(dir, "three"), path.Join(dir, "b")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a folder over a file: %v", err)
	}
	wantNames(t, fsys, dir, "b", "three")
}

func removals(t *testing.T, fsys FS, dir string) {
	must(t, fsys.MkdirAll(path.Join(dir, "one", "two")))
	put(t, fsys, path.Join(dir, "one", "two", "c"), "c")
	if err := fsys.Remove(path.Join(dir, "one", "two")); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("removing a folder with a file in it: %v", err)
	}
	must(t, fsys.Remove(path.Join(dir, "one", "two", "c")))
	must(t, fsys.Remove(path.Join(dir, "one", "two")))
	wantNames(t, fsys, path.Join(dir, "one"))
	put(t, fsys, path.Join(dir, "one", "d"), "d")
	must(t, fsys.RemoveAll(path.Join(dir, "one")))
	wantNames(t, fsys, dir)
}

func removeAllOfNothing(t *testing.T, fsys FS, dir string) {
	must(t, fsys.RemoveAll(path.Join(dir, "nothing")))
	must(t, fsys.RemoveAll(path.Join(dir, "nothing", "at", "all")))
}

func listing(t *testing.T, fsys FS, dir string) {
	for _, name := range []string{"b", "10", "a", "9"} {
		put(t, fsys, path.Join(dir, name), "")
	}
	must(t, fsys.MkdirAll(path.Join(dir, "aa")))
	wantNames(t, fsys, dir, "10", "9", "a", "aa", "b")
	if _, err := fsys.List(path.Join(dir, "a")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("listing a file: %v", err)
	}
}

func locking(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, ".lock")
	held, err := fsys.Lock(name)
	must(t, err)
	if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	must(t, held.Close())
	again, err := fsys.Lock(name)
	must(t, err)
	must(t, again.Close())
}

func folders(t *testing.T, fsys FS, dir string) {
	must(t, fsys.MkdirAll(path.Join(dir, "a", "b")))
	must(t, fsys.MkdirAll(path.Join(dir, "a", "b")))
	must(t, fsys.SyncDir(path.Join(dir, "a")))
	space, err := fsys.Space(dir)
	must(t, err)
	if space.FreeBytes <= 0 || space.TotalBytes < space.FreeBytes {
		t.Fatalf("%+v", space)
	}
	info, err := fsys.Stat(path.Join(dir, "a"))
	must(t, err)
	if !info.IsDir() || !info.Mode().IsDir() {
		t.Fatal("a folder does not say it is one")
	}
}

func durableFolder(t *testing.T, fsys FS, dir string) {
	must(t, MkdirAllDurable(fsys, path.Join(dir, "a", "b", "c")))
	must(t, MkdirAllDurable(fsys, path.Join(dir, "a", "b", "c")))
	wantNames(t, fsys, path.Join(dir, "a", "b"), "c")
	put(t, fsys, path.Join(dir, "file"), "")
	if err := MkdirAllDurable(fsys, path.Join(dir, "file", "a")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a folder below a file: %v", err)
	}
}

func mapping(t *testing.T, fsys FS, dir string) {
	file := create(t, fsys, path.Join(dir, "a"))
	write(t, file, "0123456789", 0)
	whole, err := Map(file, 10)
	must(t, err)
	part, err := Map(file, 4)
	must(t, err)
	empty, err := Map(file, 0)
	must(t, err)
	if _, err := Map(file, 11); err == nil {
		t.Error("a map longer than the file")
	}
	must(t, file.Close())
	if string(whole.Bytes()) != "0123456789" || string(part.Bytes()) != "0123" || len(empty.Bytes()) != 0 {
		t.Fatalf("maps hold %q, %q and %q", whole.Bytes(), part.Bytes(), empty.Bytes())
	}
	for _, m := range []*Mapping{whole, part, empty, whole} {
		must(t, m.Close())
	}
}

func atomicFile(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "a")
	must(t, WriteFileAtomic(fsys, name, []byte("first")))
	must(t, WriteFileAtomic(fsys, name, []byte("2nd")))
	wantFile(t, fsys, name, "2nd")
	wantNames(t, fsys, dir, "a")
	if err := WriteFileAtomic(fsys, path.Join(dir, "b", "c"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
}

func readOnly(t *testing.T, fsys FS, dir string) {
	put(t, fsys, path.Join(dir, "a"), "abc")
	file, err := fsys.Open(path.Join(dir, "a"))
	must(t, err)
	defer file.Close()
	if _, err := file.WriteAt([]byte("x"), 0); err == nil {
		t.Error("written")
	}
	if err := file.Truncate(1); err == nil {
		t.Error("truncated")
	}
	wantContent(t, file, "abc")
}

func readPastEnd(t *testing.T, fsys FS, dir string) {
	file := create(t, fsys, path.Join(dir, "a"))
	defer file.Close()
	write(t, file, "abc", 0)
	buffer := make([]byte, 5)
	for _, test := range []struct {
		off  int64
		n    int
		want error
	}{{0, 3, io.EOF}, {2, 1, io.EOF}, {3, 0, io.EOF}, {100, 0, io.EOF}} {
		if n, err := file.ReadAt(buffer, test.off); n != test.n || err != test.want {
			t.Errorf("read at %d: %d, %v", test.off, n, err)
		}
	}
	if n, err := file.ReadAt(nil, 100); n != 0 || err != nil {
		t.Errorf("read of nothing: %d, %v", n, err)
	}
	if _, err := file.ReadAt(buffer, -1); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read before the start: %v", err)
	}
}

func concurrentOffsets(t *testing.T, fsys FS, dir string) {
	file := create(t, fsys, path.Join(dir, "a"))
	defer file.Close()
	const writers, size = 8, 3000
	results := make(chan error, writers)
	for i := range writers {
		go func() {
			mine := bytes.Repeat([]byte{byte('a' + i)}, size)
			_, err := file.WriteAt(mine, int64(i*size))
			back := make([]byte, size)
			_, readErr := file.ReadAt(back, int64(i*size))
			if !bytes.Equal(mine, back) {
				err = errors.New("read something else")
			}
			if readErr == io.EOF {
				readErr = nil
			}
			results <- errors.Join(err, readErr)
		}()
	}
	for range writers {
		must(t, <-results)
	}
	if size, _ := file.Size(); size != writers*3000 {
		t.Fatalf("size %d", size)
	}
}

// Helpers.

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, fsys FS, name string) File {
	t.Helper()
	file, err := fsys.Create(name)
	must(t, err)
	return file
}

func write(t testing.TB, file File, text string, off int64) {
	t.Helper()
	n, err := file.WriteAt([]byte(text), off)
	must(t, err)
	if n != len(text) {
		t.Fatalf("wrote %d of %d", n, len(text))
	}
}

// put writes a file and syncs neither it nor its folder.
func put(t testing.TB, fsys FS, name, text string) {
	t.Helper()
	file := create(t, fsys, name)
	write(t, file, text, 0)
	must(t, file.Close())
}

func wantContent(t testing.TB, file File, want string) {
	t.Helper()
	got, err := readAll(file)
	must(t, err)
	if string(got) != want {
		t.Fatalf("%s holds %q, want %q", file.Name(), got, want)
	}
}

func wantFile(t testing.TB, fsys FS, name, want string) {
	t.Helper()
	got, err := ReadFile(fsys, name)
	must(t, err)
	if string(got) != want {
		t.Fatalf("%s holds %q, want %q", name, got, want)
	}
}

func wantNames(t testing.TB, fsys FS, dir string, want ...string) {
	t.Helper()
	got, err := fsys.List(dir)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Fatalf("%s holds %q, want %q", dir, got, want)
	}
}
