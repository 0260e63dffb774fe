package vfs

import (
	"errors"
	"testing"
)

// TestAFailedSyncIsNotMadeGoodByAnother is what Linux does: the pages are taken for clean, readers see them, and they
// are never written. Only what is written anew is.
func TestAFailedSyncIsNotMadeGoodByAnother(t *testing.T) {
	mem := NewMem()
	failing := false
	fsys := NewFaulty(mem, func(op Op) error {
		if failing && op.Kind == OpSyncData {
			return ErrInjected
		}
		return nil
	})
	file, err := fsys.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string, off int64) {
		t.Helper()
		if _, err := file.WriteAt([]byte(text), off); err != nil {
			t.Fatal(err)
		}
	}
	write("old", 0)
	if err := errors.Join(file.SyncData(), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	write("new", 0)
	write("far", 2*blockSize)
	failing = true
	if err := file.SyncData(); !errors.Is(err, ErrInjected) {
		t.Fatal(err)
	}
	failing = false
	write("one", blockSize) // another block is written as ever
	if err := file.SyncData(); err != nil {
		t.Fatal(err)
	}
	content := func(m *Mem, off int64) string {
		t.Helper()
		data, err := ReadFile(m, "f")
		if err != nil || len(data) != 2*blockSize+3 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		return string(data[off : off+3])
	}
	expect := func(what string, m *Mem, want [3]string) {
		t.Helper()
		for block, text := range want {
			if got := content(m, int64(block)*blockSize); got != text {
				t.Errorf("%s: block %d is %q, want %q", what, block, got, text)
			}
		}
	}
	lost := [3]string{"old", "one", "\x00\x00\x00"}
	expect("as readers see it", mem, [3]string{"new", "one", "far"})
	expect("after a power cut", mem.CrashCloneStrict(), lost)
	killed := mem.KillClone()
	expect("after a kill", killed, [3]string{"new", "one", "far"})
	expect("after a kill and a power cut", killed.CrashCloneStrict(), lost)

	write("new", 0)
	if err := file.SyncData(); err != nil {
		t.Fatal(err)
	}
	lost[0] = "new"
	expect("after it was written and synced again", mem.CrashCloneStrict(), lost)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
