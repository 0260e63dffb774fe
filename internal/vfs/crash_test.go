package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// outcomes crashes mem with many seeds and returns each state that see describes, sorted.
func outcomes(mem *Mem, see func(*Mem) string) []string {
	seen := map[string]bool{}
	for seed := range uint64(400) {
		seen[see(mem.CrashClone(seeded(seed)))] = true
	}
	states := []string{}
	for state := range seen {
		states = append(states, state)
	}
	slices.Sort(states)
	return states
}

func wantOutcomes(t *testing.T, mem *Mem, see func(*Mem) string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := outcomes(mem, see); !slices.Equal(got, want) {
		t.Errorf("a crash leaves\n%q, want\n%q", got, want)
	}
}

// tree prints every file as name=content, and every folder as name/.
func tree(mem *Mem) string {
	var lines []string
	var visit func(dir string)
	visit = func(dir string) {
		names, err := mem.List(dir)
		if err != nil {
			panic(err)
		}
		for _, name := range names {
			name = path.Join(dir, name)
			info, err := mem.Stat(name)
			if err != nil {
				panic(err)
			}
			if info.IsDir() {
				lines = append(lines, name+"/")
				visit(name)
				continue
			}
			data, err := ReadFile(mem, name)
			if err != nil {
				panic(err)
			}
			lines = append(lines, fmt.Sprintf("%s=%s", name, data))
		}
	}
	visit("/")
	return strings.Join(lines, " ")
}

// runs prints bytes as their runs: 512×a 3584×b.
func runs(data []byte) string {
	var text strings.Builder
	for len(data) > 0 {
		n := len(data) - len(bytes.TrimLeft(data, string(data[:1])))
		fmt.Fprintf(&text, "%d×%q ", n, data[0])
		data = data[n:]
	}
	return strings.TrimSpace(text.String())
}

func putSynced(t *testing.T, mem *Mem, name, text string) {
	t.Helper()
	file := create(t, mem, name)
	write(t, file, text, 0)
	must(t, file.Sync())
	must(t, mem.SyncDir(path.Dir(name)))
	must(t, file.Close())
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	mem := NewMem()
	must(t, MkdirAllDurable(mem, "/a/b"))
	putSynced(t, mem, "/a/b/file", "content")
	put(t, mem, "/a/gone", "")
	must(t, mem.Remove("/a/gone"))
	must(t, mem.SyncDir("/a"))
	wantOutcomes(t, mem, tree, "/a/ /a/b/ /a/b/file=content")
	if got := tree(mem.CrashCloneStrict()); got != tree(mem) {
		t.Errorf("the strict clone holds %q", got)
	}
}

func TestCrashMayLoseAnEntry(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(t *testing.T, mem *Mem)
		want []string
	}{
		"a file's own sync does not make its entry durable": {
			func(t *testing.T, mem *Mem) {
				file := create(t, mem, "/d/new")
				write(t, file, "x", 0)
				must(t, file.Sync())
			},
			[]string{"/d/ /d/old=old", "/d/ /d/new=x /d/old=old"},
		},
		"an entry's sync does not make its content durable": {
			func(t *testing.T, mem *Mem) {
				put(t, mem, "/d/new", "x")
				must(t, mem.SyncDir("/d"))
			},
			[]string{"/d/ /d/new= /d/old=old", "/d/ /d/new=\x00 /d/old=old", "/d/ /d/new=x /d/old=old"},
		},
		"a removed file may come back": {
			func(t *testing.T, mem *Mem) { must(t, mem.Remove("/d/old")) },
			[]string{"/d/", "/d/ /d/old=old"},
		},
		"a renamed file has one of its names": {
			func(t *testing.T, mem *Mem) { must(t, mem.Rename("/d/old", "/d/new")) },
			[]string{"/d/ /d/old=old", "/d/ /d/new=old"},
		},
		"changes of one folder are lost from the end": {
			func(t *testing.T, mem *Mem) {
				must(t, mem.Rename("/d/old", "/d/one"))
				must(t, mem.Rename("/d/one", "/d/two"))
			},
			[]string{"/d/ /d/old=old", "/d/ /d/one=old", "/d/ /d/two=old"},
		},
		"a folder and what was synced in it go together": {
			func(t *testing.T, mem *Mem) {
				must(t, mem.MkdirAll("/e"))
				putSynced(t, mem, "/e/file", "x")
			},
			[]string{"/d/ /d/old=old", "/d/ /d/old=old /e/ /e/file=x"},
		},
		"a rename between folders happens in both or in neither": {
			func(t *testing.T, mem *Mem) {
				must(t, MkdirAllDurable(mem, "/e"))
				must(t, mem.Rename("/d/old", "/e/new"))
			},
			[]string{"/d/ /d/old=old /e/", "/d/ /e/ /e/new=old"},
		},
		"a rename between folders with only the new one synced may leave both names": {
			func(t *testing.T, mem *Mem) {
				must(t, MkdirAllDurable(mem, "/e"))
				must(t, mem.Rename("/d/old", "/e/new"))
				must(t, mem.SyncDir("/e"))
			},
			[]string{"/d/ /d/old=old /e/ /e/new=old", "/d/ /e/ /e/new=old"},
		},
		"a rename between folders with only the old one synced may lose the file": {
			func(t *testing.T, mem *Mem) {
				must(t, MkdirAllDurable(mem, "/e"))
				must(t, mem.Rename("/d/old", "/e/new"))
				must(t, mem.SyncDir("/d"))
			},
			[]string{"/d/ /e/", "/d/ /e/ /e/new=old"},
		},
		"removing all may stop anywhere": {
			func(t *testing.T, mem *Mem) {
				putSynced(t, mem, "/d/more", "more")
				must(t, mem.RemoveAll("/d"))
			},
			[]string{"", "/d/", "/d/ /d/old=old", "/d/ /d/more=more /d/old=old"},
		},
		"a file that replaces another has the old or the new content": {
			func(t *testing.T, mem *Mem) {
				file := create(t, mem, "/d/new")
				write(t, file, "new", 0)
				must(t, file.Sync())
				must(t, mem.Rename("/d/new", "/d/old"))
			},
			[]string{"/d/ /d/old=old", "/d/ /d/new=new /d/old=old", "/d/ /d/old=new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := NewMem()
			must(t, MkdirAllDurable(mem, "/d"))
			putSynced(t, mem, "/d/old", "old")
			test.do(t, mem)
			wantOutcomes(t, mem, tree, test.want...)
		})
	}
}

func TestCrashMayLoseContent(t *testing.T) {
	for name, test := range map[string]struct {
		before string
		do     func(t *testing.T, f File)
		check  func(state string) bool
		see    []string // states that must be among the outcomes, as runs of bytes
	}{
		"a written block is kept, lost or torn": {
			strings.Repeat("a", 3*blockSize),
			func(t *testing.T, f File) { write(t, f, strings.Repeat("b", blockSize), blockSize) },
			func(s string) bool {
				return len(s) == 3*blockSize && onlyIn(s[:blockSize]+s[2*blockSize:], "a") && onlyIn(s, "ab")
			},
			[]string{"12288×'a'", "4096×'a' 4096×'b' 4096×'a'"},
		},
		"each block has a fate of its own": {
			strings.Repeat("a", 2*blockSize),
			func(t *testing.T, f File) { write(t, f, strings.Repeat("b", 2*blockSize), 0) },
			func(s string) bool { return len(s) == 2*blockSize && onlyIn(s, "ab") },
			[]string{"8192×'a'", "8192×'b'", "4096×'a' 4096×'b'", "4096×'b' 4096×'a'"},
		},
		"a file that grew has a length between, with zeros where a block was lost": {
			strings.Repeat("a", 10),
			func(t *testing.T, f File) { write(t, f, strings.Repeat("b", 2*blockSize), 10) },
			func(s string) bool {
				return len(s) >= 10 && len(s) <= 10+2*blockSize && s[:10] == "aaaaaaaaaa" && onlyIn(s[10:], "b\x00")
			},
			[]string{"10×'a'", "10×'a' 8192×'b'", "10×'a' 8192×'\\x00'", "10×'a' 4086×'\\x00' 4106×'b'"},
		},
		"a cut file is cut or not, whatever its blocks": {
			strings.Repeat("a", 2*blockSize),
			func(t *testing.T, f File) { must(t, f.Truncate(100)) },
			func(s string) bool { return onlyIn(s, "a") },
			[]string{"100×'a'", "8192×'a'"},
		},
		"a file cut and written again does not show the old bytes beside the new ones": {
			strings.Repeat("a", 2*blockSize),
			func(t *testing.T, f File) {
				must(t, f.Truncate(0))
				write(t, f, strings.Repeat("b", 3*blockSize), 0)
			},
			func(s string) bool { return s == strings.Repeat("a", 2*blockSize) || onlyIn(s, "b\x00") },
			[]string{"8192×'a'", "", "12288×'b'", "12288×'\\x00'"},
		},
		"what was synced after a cut stays": {
			strings.Repeat("a", 2*blockSize),
			func(t *testing.T, f File) {
				must(t, f.Truncate(1))
				write(t, f, "b", 1)
				must(t, f.SyncData())
			},
			func(s string) bool { return s == "ab" },
			[]string{"1×'a' 1×'b'"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := NewMem()
			putSynced(t, mem, "f", test.before)
			f, err := mem.OpenReadWrite("f")
			must(t, err)
			test.do(t, f)
			var states []string
			for _, state := range outcomes(mem, func(m *Mem) string { return strings.TrimPrefix(tree(m), "/f=") }) {
				states = append(states, runs([]byte(state)))
				if !test.check(state) {
					t.Fatalf("impossible: %s", runs([]byte(state)))
				}
			}
			for _, state := range test.see {
				if !slices.Contains(states, state) {
					t.Errorf("never saw %q among %d states", state, len(states))
				}
			}
			wantContent(t, f, strings.TrimPrefix(tree(mem.KillClone()), "/f="))
		})
	}
}

func onlyIn(text, letters string) bool { return strings.Trim(text, letters) == "" }

func TestCrashTearsBlocksAtSectors(t *testing.T) {
	mem := NewMem()
	putSynced(t, mem, "f", strings.Repeat("a", blockSize))
	f, err := mem.OpenReadWrite("f")
	must(t, err)
	write(t, f, strings.Repeat("b", blockSize), 0)
	tornBlocks := 0
	for seed := range uint64(200) {
		data, err := ReadFile(mem.CrashClone(seeded(seed)), "f")
		must(t, err)
		for sector := range slices.Chunk(data, sectorSize) {
			if !onlyIn(string(sector), "a") && !onlyIn(string(sector), "b") {
				t.Fatalf("seed %d: a sector is torn: %s", seed, runs(data))
			}
		}
		if strings.Contains(string(data), "ab") || strings.Contains(string(data), "ba") {
			tornBlocks++
		}
	}
	if tornBlocks < 10 {
		t.Errorf("%d of 200 blocks torn", tornBlocks)
	}
}

func TestCrashClonesAreIndependentAndRepeatable(t *testing.T) {
	mem := NewMem()
	for i := range 20 {
		put(t, mem, fmt.Sprintf("f%d", i), strings.Repeat("x", 3000*i))
	}
	held, err := mem.Lock("lock")
	must(t, err)
	defer held.Close()
	for seed := range uint64(20) {
		first, second := mem.CrashClone(seeded(seed)), mem.CrashClone(seeded(seed))
		before := tree(first)
		if before != tree(second) {
			t.Fatalf("seed %d gives two states", seed)
		}
		put(t, mem, "f1", "changed")
		put(t, second, "f2", "changed")
		if tree(first) != before {
			t.Fatal("a clone changed with its original or its sibling")
		}
		lock, err := first.Lock("lock")
		must(t, err)
		must(t, lock.Close())
	}
}

// A clone is the state at one instant: a number synced to the second file after the first one is never ahead of it.
func TestCrashClonesAreOneInstant(t *testing.T) {
	mem := NewMem()
	putSynced(t, mem, "first", "0000")
	putSynced(t, mem, "second", "0000")
	first, err := mem.OpenReadWrite("first")
	must(t, err)
	second, err := mem.OpenReadWrite("second")
	must(t, err)
	stop := make(chan struct{})
	var writer sync.WaitGroup
	defer writer.Wait()
	defer close(stop)
	writer.Go(func() {
		for i := 1; ; i++ {
			for _, f := range []File{first, second} {
				_, err := f.WriteAt(fmt.Appendf(nil, "%04d", i%10000), 0)
				if err = errors.Join(err, f.Sync()); err != nil {
					t.Error(err)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range 200 {
		clone := mem.CrashCloneStrict()
		first, err := ReadFile(clone, "first")
		must(t, err)
		second, err := ReadFile(clone, "second")
		must(t, err)
		a, err := strconv.Atoi(string(first))
		must(t, err)
		b, err := strconv.Atoi(string(second))
		must(t, err)
		if ahead := (a - b + 10000) % 10000; ahead > 1 {
			t.Fatalf("first %d, second %d", a, b)
		}
	}
}

// Whatever operation WriteFileAtomic is at when the power goes, the file has its old or its new content, and the new
// one once it has returned.
func TestCrashOfAtomicWrite(t *testing.T) {
	long := strings.Repeat("new", 5000)
	for _, before := range []string{"missing", "old", strings.Repeat("old", 4000)} {
		t.Run(runs([]byte(before[:3])), func(t *testing.T) {
			mem := NewMem()
			must(t, MkdirAllDurable(mem, "/d"))
			if before != "missing" {
				putSynced(t, mem, "/d/f", before)
			}
			see := func(mem *Mem) string {
				data, err := ReadFile(mem, "/d/f")
				if errors.Is(err, fs.ErrNotExist) {
					return "missing"
				}
				must(t, err)
				return string(data)
			}
			steps := 0
			watched := NewFaulty(mem, func(op Op) error {
				steps++
				for _, state := range outcomes(mem, see) {
					if state != before && state != long {
						t.Errorf("before %v: %s", op, runs([]byte(state)))
					}
				}
				return nil
			})
			must(t, WriteFileAtomic(watched, "/d/f", []byte(long)))
			wantOutcomes(t, mem, see, long)
			if steps < 5 {
				t.Errorf("only %d operations seen", steps)
			}
		})
	}
}

func TestFullDisk(t *testing.T) {
	mem := NewMem()
	f := create(t, mem, "f")
	write(t, f, "12345", 0)
	mem.SetFreeBytes(10)
	n, err := f.WriteAt([]byte("0123456789abcdef"), 5)
	if n != 10 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("wrote %d: %v", n, err)
	}
	wantContent(t, f, "123450123456789")
	write(t, f, "in place", 0)
	if err := f.Truncate(16); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("extended: %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 100); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("written far out: %v", err)
	}
	wantFree := func(want int64) {
		t.Helper()
		if space, err := mem.Space("/"); err != nil || space.FreeBytes != want {
			t.Fatalf("%d bytes free (%v), want %d", space.FreeBytes, err, want)
		}
	}
	wantFree(0)
	must(t, f.Truncate(12))
	wantFree(3)
	must(t, mem.Remove("f"))
	wantFree(3) // somebody has it open
	must(t, f.Close())
	wantFree(15)
	put(t, mem, "a", "12345")
	put(t, mem, "b", "123")
	must(t, mem.Rename("a", "b"))
	wantFree(10)
	if space, _ := mem.CrashCloneStrict().Space("/"); space.FreeBytes != 15 {
		t.Fatalf("%d bytes free after the crash", space.FreeBytes)
	}
}
