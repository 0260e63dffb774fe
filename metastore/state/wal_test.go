package state

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newestLog finds the write-ahead log that is being written.
func newestLog(t *testing.T, fs vfs.FS) (path string, number uint32) {
	t.Helper()
	names, err := fs.List("state")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if n, isLog := logNumber(name); isLog && n >= number {
			path, number = fs.PathJoin("state", name), n
		}
	}
	return path, number
}

func overwrite(t *testing.T, fs vfs.FS, path string, data []byte) {
	t.Helper()
	file, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(bytes.Clone(data))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// writeLog fills a database's log with synced records of all sizes, over several blocks, and gives what a power cut
// leaves of it.
func writeLog(t *testing.T, rng *rand.Rand, size int) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	db := openDB(t, fs)
	defer closeDB(t, db)
	for written := 0; written < size; {
		batch := db.NewBatch()
		value := make([]byte, rng.IntN(1<<rng.IntN(17)+1))
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		batch.Set(SpaceStorage, fmt.Appendf(nil, "%d", written), value)
		written += batch.Bytes()
		if err := batch.Commit(Durability(rng.IntN(2))); err != nil {
			t.Fatal(err)
		}
		batch.Close()
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	return fs.CrashClone(vfs.CrashCloneCfg{})
}

func TestAWholeLogIsNotTakenForADamagedOne(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fs := writeLog(t, rng, 300<<10)
		path, number := newestLog(t, fs)
		data, err := readFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		if end := endOfChunks(data, number); end != len(data) {
			t.Errorf("seed %d: the log of %d bytes ends at %d", seed, len(data), end)
		}
		for range 20 {
			torn := data[:rng.IntN(len(data))]
			if position, damaged := findDamage(torn, number); damaged {
				t.Errorf("seed %d: torn after %d bytes, damage is found at %d", seed, len(torn), position)
			}
		}
		closeDB(t, openDB(t, fs))
	}
}

func TestALogDamagedBelowWhatWasSyncedIsRefused(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 4))
		fs := writeLog(t, rng, 200<<10)
		path, _ := newestLog(t, fs)
		data, err := readFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		// The last records are not followed by one that was written after they had been synced.
		position := rng.IntN(len(data) / 4)
		data[position] ^= 1 << rng.IntN(8)
		overwrite(t, fs, path, data)
		db, err := Open(Options{FS: fs, Dir: "state", Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			t.Errorf("seed %d: byte %d of %d is wrong, and nobody says so", seed, position, len(data))
			closeDB(t, db)
		}
	}
}

func FuzzFindDamage(f *testing.F) {
	chunk := []byte{0, 0, 0, 0, 2, 0, 9, 6, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 'h', 'i'}
	sum := maskedChecksum(chunk[6:])
	copy(chunk, []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
	f.Add(chunk, uint32(6))
	f.Add(append([]byte{1, 2, 3}, chunk...), uint32(6))
	f.Fuzz(func(t *testing.T, data []byte, number uint32) {
		position, damaged := findDamage(data, number)
		if damaged && (position < 0 || position >= len(data)) {
			t.Fatalf("damage at %d of %d bytes", position, len(data))
		}
	})
}
