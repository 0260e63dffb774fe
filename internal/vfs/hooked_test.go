package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// Each operation of WriteFileAtomic fails in turn: before it has an effect, after it, or in the middle of a write. The
// file then holds its old or its new content, the caller learns of it, and no temporary file stays.
func TestFaultInEachOperationOfAnAtomicWrite(t *testing.T) {
	kinds := map[string]func(Op) error{
		"not performed":       func(Op) error { return ErrInjected },
		"performed":           func(Op) error { return Afterwards(ErrInjected) },
		"performed in part":   func(op Op) error { return ShortWrite(op.Size/2, ErrInjected) },
		"with its own reason": func(Op) error { return fs.ErrPermission },
	}
	for name, fault := range kinds {
		t.Run(name, func(t *testing.T) {
			failures := int64(0)
			for number := int64(1); ; number++ {
				mem := NewMem()
				putSynced(t, mem, "f", "old")
				var failed *Op
				faulty := NewFaulty(mem, func(op Op) error {
					if op.Number != number {
						return nil
					}
					failed = &op
					return fault(op)
				})
				err := WriteFileAtomic(faulty, "f", []byte("new content"))
				if failed == nil {
					must(t, err)
					break
				}
				failures++
				if !errors.Is(err, ErrInjected) && !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%v failed: %v", failed, err)
				}
				if data, err := ReadFile(mem, "f"); err != nil || string(data) != "old" && string(data) != "new content" {
					t.Errorf("%v failed: file holds %q, %v", failed, data, err)
				}
				wantNames(t, mem, "/", "f")
			}
			if failures < 6 {
				t.Errorf("%d operations failed", failures)
			}
		})
	}
}

func TestFaultsAreSeenAndInjected(t *testing.T) {
	mem := NewMem()
	var ops []string
	var fault error
	faulty := NewFaulty(mem, func(op Op) error {
		ops = append(ops, op.String())
		return fault
	})
	f := create(t, faulty, "f")
	if f.OSFile() != nil {
		t.Error("reading could go past the predicate")
	}
	fault = ShortWrite(3, ErrInjected)
	if n, err := f.WriteAt([]byte("12345"), 7); n != 3 || !errors.Is(err, ErrInjected) {
		t.Errorf("short write: %d, %v", n, err)
	}
	fault = ErrInjected
	if n, err := f.WriteAt([]byte("12345"), 0); n != 0 || !errors.Is(err, ErrInjected) {
		t.Errorf("write: %d, %v", n, err)
	}
	if n, err := f.ReadAt(make([]byte, 3), 0); n != 0 || !errors.Is(err, ErrInjected) {
		t.Errorf("read: %d, %v", n, err)
	}
	if _, err := faulty.Lock("lock"); !errors.Is(err, ErrInjected) {
		t.Errorf("lock: %v", err)
	}
	fault = Afterwards(ErrInjected)
	if _, err := faulty.Open("f"); !errors.Is(err, ErrInjected) {
		t.Errorf("open: %v", err)
	}
	if _, err := faulty.Lock("lock"); !errors.Is(err, ErrInjected) {
		t.Errorf("lock: %v", err)
	}
	if err := faulty.MkdirAll("dir"); !errors.Is(err, ErrInjected) {
		t.Errorf("mkdir: %v", err)
	}
	fault = nil
	wantContent(t, f, strings.Repeat("\x00", 7)+"123")
	wantNames(t, mem, "/", "dir", "f", "lock")
	lock, err := faulty.Lock("lock") // a failed Lock holds nothing
	must(t, err)
	must(t, lock.Close())
	fault = ErrInjected
	if err := f.Close(); !errors.Is(err, ErrInjected) {
		t.Errorf("close: %v", err)
	}
	fault = nil
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("close again: %v", err)
	}
	if !slices.Contains(ops, "write f [7, 12)") || !slices.Contains(ops, "mkdir-all dir") {
		t.Errorf("the predicate saw %q", ops)
	}
}

func TestFailNumber(t *testing.T) {
	faulty := NewFaulty(NewMem(), FailNumber(2))
	for i, want := range []error{nil, ErrInjected, nil} {
		if err := faulty.MkdirAll("a"); !errors.Is(err, want) {
			t.Errorf("operation %d: %v", i+1, err)
		}
	}
}

func TestLogging(t *testing.T) {
	var lines []string
	logged := NewLogging(NewMem(), func(line string) { lines = append(lines, line) })
	must(t, logged.MkdirAll("d"))
	must(t, WriteFileAtomic(logged, "d/f", []byte("content")))
	_, err := ReadFile(logged, "d/g")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	f, err := logged.OpenReadWrite("d/f")
	must(t, err)
	must(t, f.Truncate(3))
	if _, err := f.ReadAt(make([]byte, 10), 1); err != io.EOF {
		t.Fatal(err)
	}
	must(t, f.SyncData())
	must(t, f.Close())
	if err := logged.Rename("d/x", "d/y"); err == nil {
		t.Fatal("renamed nothing")
	}
	want := `mkdir-all d
create d/f.tmp
write d/f.tmp [0, 7)
sync d/f.tmp
close d/f.tmp
rename d/f.tmp d/f
sync-dir d
open d/g: file does not exist
open d/f
truncate d/f 3
read d/f [1, 11): EOF
sync-data d/f
close d/f
rename d/x d/y: file does not exist`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("logged\n%s\nwant\n%s", got, want)
	}
}
