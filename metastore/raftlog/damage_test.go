package raftlog

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/firnlog/firn/metastore/state"
)

// walFile finds the newest write-ahead log of the database.
func walFile(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.List("raft")
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			found = max(found, fs.PathJoin("raft", name))
		}
	}
	if found == "" {
		t.Fatal("no write-ahead log")
	}
	return found
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	file, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	// The file system in memory changes what it was given when it looks for races.
	if _, err := file.Write(bytes.Clone(data)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestCR04ATornTailOfTheMetadataLogDoesNotStopTheStart(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openDB(t, fs)
	log := openLog(t, db)
	store(t, log, 1, 5)
	before := len(readFile(t, fs, walFile(t, fs)))
	store(t, log, 6, 6)
	stopped := fs.CrashClone(vfs.CrashCloneCfg{})
	closeDB(t, db)
	data := readFile(t, stopped, walFile(t, stopped))
	for size := before; size < len(data); size++ {
		torn := stopped.CrashClone(vfs.CrashCloneCfg{})
		writeFile(t, torn, walFile(t, torn), data[:size])
		db := openDB(t, torn)
		expectLog(t, openLog(t, db), 1, 5)
		closeDB(t, db)
	}
}

func TestCR04DamageInTheMiddleOfTheMetadataLogIsNotPassedOver(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openDB(t, fs)
	log := openLog(t, db)
	store(t, log, 1, 1)
	position := len(readFile(t, fs, walFile(t, fs)))
	store(t, log, 2, 2)
	end := len(readFile(t, fs, walFile(t, fs)))
	for index := uint64(3); index <= 20; index++ {
		store(t, log, index, index)
	}
	stopped := fs.CrashClone(vfs.CrashCloneCfg{})
	closeDB(t, db)
	data := readFile(t, stopped, walFile(t, stopped))
	for ; position < end; position++ {
		damaged := stopped.CrashClone(vfs.CrashCloneCfg{})
		flipped := bytes.Clone(data)
		flipped[position] ^= 0xff
		writeFile(t, damaged, walFile(t, damaged), flipped)
		db, err := state.Open(state.Options{FS: damaged, Dir: "raft", Logger: quiet()})
		if err == nil {
			last, _ := openLog(t, db).LastIndex()
			t.Errorf("byte %d is wrong, and the log ends silently at %d", position, last)
			closeDB(t, db)
		}
	}
}
