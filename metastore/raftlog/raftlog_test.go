package raftlog

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/metastore/state"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; released bytes must never change")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openDB(t *testing.T, fs vfs.FS) *state.DB {
	t.Helper()
	db, err := state.Open(state.Options{FS: fs, Dir: "raft", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeDB(t *testing.T, db *state.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func openLog(t *testing.T, db *state.DB) *Log {
	t.Helper()
	log, err := NewLog(db)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// entry is a log entry whose content tells which one it is.
func entry(index uint64) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Data: fmt.Appendf(nil, "entry %d", index)}
}

func store(t *testing.T, log *Log, from, to uint64) {
	t.Helper()
	var entries []*raft.Log
	for index := from; index <= to; index++ {
		entries = append(entries, entry(index))
	}
	if err := log.StoreLogs(entries); err != nil {
		t.Fatal(err)
	}
}

// expectLog checks that the log has exactly the entries from first to last, and says so in its ends.
func expectLog(t *testing.T, log *Log, first, last uint64) {
	t.Helper()
	gotFirst, _ := log.FirstIndex()
	gotLast, _ := log.LastIndex()
	if gotFirst != first || gotLast != last {
		t.Fatalf("the log is [%d, %d], not [%d, %d]", gotFirst, gotLast, first, last)
	}
	var got raft.Log
	for index := first; index <= last && last > 0; index++ {
		if err := log.GetLog(index, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(entry(index), &got); diff != "" {
			t.Fatalf("entry %d is another one: %s", index, diff)
		}
	}
	for _, absent := range []uint64{first - 1, last + 1} {
		if err := log.GetLog(absent, &got); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d: %v", absent, err)
		}
	}
}

func TestTheLogKnowsItsEndsAlsoAfterARestart(t *testing.T) {
	fs := vfs.NewMem()
	db := openDB(t, fs)
	log := openLog(t, db)
	expectLog(t, log, 0, 0)
	store(t, log, 1, 300)
	steps := []struct {
		name        string
		min, max    uint64
		first, last uint64
	}{
		{"an old beginning goes", 1, 100, 101, 300},
		{"a replaced end goes", 251, 300, 101, 250},
		{"everything goes", 101, 250, 0, 0},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			if err := log.DeleteRange(step.min, step.max); err != nil {
				t.Fatal(err)
			}
			expectLog(t, log, step.first, step.last)
			closeDB(t, db)
			db = openDB(t, fs)
			log = openLog(t, db)
			expectLog(t, log, step.first, step.last)
		})
	}
	store(t, log, 1000, 1001)
	expectLog(t, log, 1000, 1001)
	closeDB(t, db)
}

func TestWhatStoreLogsReturnedForSurvivesAPowerCut(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 2))
		fs := vfs.NewCrashableMem()
		db := openDB(t, fs)
		log := openLog(t, db)
		last := uint64(0)
		for range 5 {
			next := last + 1 + rng.Uint64N(20)
			store(t, log, last+1, next)
			last = next
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		closeDB(t, db)
		db = openDB(t, crashed)
		expectLog(t, openLog(t, db), 1, last)
		closeDB(t, db)
	}
}

func TestStableValues(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openDB(t, fs)
	stable := NewStable(db)
	if value, err := stable.Get([]byte("vote")); len(value) != 0 || err != nil {
		t.Errorf("an absent value is %q, %v", value, err)
	}
	if value, err := stable.GetUint64([]byte("term")); value != 0 || err != nil {
		t.Errorf("an absent number is %d, %v", value, err)
	}
	if err := errors.Join(stable.Set([]byte("vote"), []byte("1")), stable.SetUint64([]byte("term"), 7)); err != nil {
		t.Fatal(err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	closeDB(t, db)
	db = openDB(t, crashed)
	defer closeDB(t, db)
	stable = NewStable(db)
	vote, _ := stable.Get([]byte("vote"))
	term, _ := stable.GetUint64([]byte("term"))
	if string(vote) != "1" || term != 7 {
		t.Errorf("after a power cut: vote %q, term %d", vote, term)
	}
	if _, err := stable.GetUint64([]byte("vote")); err == nil {
		t.Error("a value of one byte is read as a number")
	}
}

func sampleEntries() []*raft.Log {
	return []*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("configuration")},
		{Index: 2, Term: 2, Type: raft.LogNoop, AppendedAt: time.Unix(1_700_000_000, 123)},
		{Index: 300, Term: 70_000, Type: raft.LogCommand, Data: []byte{1, 2, 3}, Extensions: []byte{4, 5}},
	}
}

func sampleDescription() description {
	return description{
		version: 1, index: 8192, term: 3, configurationIndex: 1, chunks: 2, size: chunkBytes + 10,
		checksum: 0xcafebabe, configuration: []byte("configuration"),
	}
}

func TestStoredValuesKeepTheirEncoding(t *testing.T) {
	var text strings.Builder
	for _, entry := range sampleEntries() {
		fmt.Fprintf(&text, "entry %d %x %x\n", entry.Index, entryKey(entry.Index), appendEntry(nil, entry))
	}
	fmt.Fprintf(&text, "description %x %x\n", descriptionKey(5), sampleDescription().append(nil))
	fmt.Fprintf(&text, "chunk %x\n", chunkKey(5, 1))
	path := filepath.Join("testdata", "stored.golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), text.String()); diff != "" {
		t.Errorf("the encoding has changed (-golden +now):\n%s", diff)
	}
	lines := strings.Split(string(golden), "\n")
	for i, want := range sampleEntries() {
		fields := strings.Fields(lines[i])
		var got raft.Log
		if err := parseEntry(want.Index, unhex(t, fields[3]), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, &got); diff != "" {
			t.Errorf("entry %d reads back differently: %s", want.Index, diff)
		}
	}
	got, err := parseDescription(5, unhex(t, strings.Fields(lines[3])[2]))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleDescription(), got, cmp.AllowUnexported(description{})); diff != "" {
		t.Errorf("the description reads back differently: %s", diff)
	}
}

func unhex(t *testing.T, digits string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestDamagedValuesAreErrors(t *testing.T) {
	for _, entry := range sampleEntries() {
		value := appendEntry(nil, entry)
		var got raft.Log
		for size := range value {
			if err := parseEntry(entry.Index, value[:size], &got); err == nil {
				t.Errorf("entry %d is read from %d of %d bytes", entry.Index, size, len(value))
			}
		}
		if err := parseEntry(entry.Index, append(value, 0), &got); err == nil {
			t.Errorf("entry %d is read with a byte too many", entry.Index)
		}
		value[0]++
		if err := parseEntry(entry.Index, value, &got); err == nil {
			t.Errorf("entry %d of another version is read", entry.Index)
		}
	}
	value := sampleDescription().append(nil)
	for size := range value {
		if _, err := parseDescription(1, value[:size]); err == nil {
			t.Errorf("a description is read from %d of %d bytes", size, len(value))
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, entry := range sampleEntries() {
		f.Add(appendEntry(nil, entry))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var first, second raft.Log
		if parseEntry(1, value, &first) != nil {
			return
		}
		if err := parseEntry(1, appendEntry(nil, &first), &second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParseDescription(f *testing.F) {
	f.Add(sampleDescription().append(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		first, err := parseDescription(1, value)
		if err != nil {
			return
		}
		if _, err := parseDescription(1, first.append(nil)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAClosedLogIsReadByNobody(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	log := openLog(t, db)
	store(t, log, 1, 3)
	if err := log.GetLog(2, &raft.Log{}); err != nil {
		t.Fatal(err)
	}
	log.Close()
	closeDB(t, db)
	// Pebble would panic here.
	if err := log.GetLog(2, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("got %v, want %v", err, raft.ErrLogNotFound)
	}
}
