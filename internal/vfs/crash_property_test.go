package vfs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// modelFile is what a crash may leave of a file, byte by byte: the synced values, and all that was written since.
type modelFile struct {
	id      byte
	data    []byte
	durable []byte
	written []map[byte]bool // by position, since the last sync; zero is always possible above a cut or old end
	sizes   []int           // lengths since the last sync
}

func (f *modelFile) sync() {
	f.durable = slices.Clone(f.data)
	f.written = nil
	f.sizes = []int{len(f.data)}
}

func (f *modelFile) write(off int, p []byte) {
	f.resize(max(len(f.data), off+len(p)))
	copy(f.data[off:], p)
	for len(f.written) < off+len(p) {
		f.written = append(f.written, map[byte]bool{})
	}
	for i, b := range p {
		f.written[off+i][b] = true
	}
}

func (f *modelFile) resize(size int) {
	if size < len(f.data) {
		f.data = f.data[:size:size]
	}
	f.data = append(f.data, make([]byte, size-len(f.data))...)
	f.sizes = append(f.sizes, size)
}

func (f *modelFile) allows(got []byte) error {
	if len(got) < slices.Min(f.sizes) || len(got) > slices.Max(f.sizes) {
		return fmt.Errorf("length %d, but lengths were %v", len(got), f.sizes)
	}
	lowest := slices.Min(f.sizes)
	for i, b := range got {
		wasDurable := i < len(f.durable) && b == f.durable[i]
		wasZero := i >= lowest && b == 0
		if !wasDurable && !wasZero && !(i < len(f.written) && f.written[i][b]) {
			return fmt.Errorf("byte %d is %d", i, b)
		}
	}
	return nil
}

// modelFolder is the entries after each change since the last SyncDir, the durable ones first.
type modelFolder struct{ states []map[string]*modelFile }

func (d *modelFolder) now() map[string]*modelFile { return d.states[len(d.states)-1] }

func (d *modelFolder) change(edit func(entries map[string]*modelFile)) {
	next := maps.Clone(d.now())
	edit(next)
	d.states = append(d.states, next)
}

func (d *modelFolder) sync() { d.states = d.states[len(d.states)-1:] }

type crashMachine struct {
	mem     *Mem
	folders map[string]*modelFolder
	nextID  byte
}

var (
	anyFolder = rapid.SampledFrom([]string{"/a", "/b"})
	anyName   = rapid.SampledFrom([]string{"x", "y", "z"})
)

func newCrashMachine(t *rapid.T) *crashMachine {
	c := &crashMachine{mem: NewMem(), folders: map[string]*modelFolder{}}
	for _, dir := range []string{"/a", "/b"} {
		if err := MkdirAllDurable(c.mem, dir); err != nil {
			t.Fatal(err)
		}
		c.folders[dir] = &modelFolder{states: []map[string]*modelFile{{}}}
	}
	return c
}

func (c *crashMachine) check(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// Create makes a new file whose first byte tells it from all others, synced; it replaces the file of that name.
func (c *crashMachine) Create(t *rapid.T) {
	dir, name := anyFolder.Draw(t, "dir"), anyName.Draw(t, "name")
	if c.folders[dir].now()[name] != nil {
		c.check(t, c.mem.Remove(path.Join(dir, name)))
		c.folders[dir].change(func(entries map[string]*modelFile) { delete(entries, name) })
	}
	if c.nextID++; c.nextID == 0 {
		t.Skip("out of ids")
	}
	model := &modelFile{id: c.nextID, data: []byte{c.nextID}}
	model.sync()
	file, err := c.mem.Create(path.Join(dir, name))
	c.check(t, err)
	_, err = file.WriteAt(model.data, 0)
	c.check(t, err)
	c.check(t, file.Sync())
	c.check(t, file.Close())
	c.folders[dir].change(func(entries map[string]*modelFile) { entries[name] = model })
}

// existing picks a file that is there and opens it.
func (c *crashMachine) existing(t *rapid.T) (File, *modelFile) {
	dir, name := anyFolder.Draw(t, "dir"), anyName.Draw(t, "name")
	model := c.folders[dir].now()[name]
	if model == nil {
		t.Skip("no such file")
	}
	file, err := c.mem.OpenReadWrite(path.Join(dir, name))
	c.check(t, err)
	return file, model
}

func (c *crashMachine) Write(t *rapid.T) {
	file, model := c.existing(t)
	off := rapid.IntRange(1, 3*blockSize).Draw(t, "off")
	p := slices.Repeat([]byte{rapid.Byte().Draw(t, "value")}, rapid.IntRange(1, 2*blockSize).Draw(t, "size"))
	_, err := file.WriteAt(p, int64(off))
	c.check(t, err)
	model.write(off, p)
	c.check(t, file.Close())
}

func (c *crashMachine) Truncate(t *rapid.T) {
	file, model := c.existing(t)
	size := rapid.IntRange(1, 3*blockSize).Draw(t, "size")
	c.check(t, file.Truncate(int64(size)))
	model.resize(size)
	c.check(t, file.Close())
}

func (c *crashMachine) Sync(t *rapid.T) {
	file, model := c.existing(t)
	c.check(t, file.Sync())
	model.sync()
	c.check(t, file.Close())
}

func (c *crashMachine) Rename(t *rapid.T) {
	dir := anyFolder.Draw(t, "dir")
	from, to := anyName.Draw(t, "from"), anyName.Draw(t, "to")
	model := c.folders[dir].now()[from]
	if model == nil || from == to {
		t.Skip("nothing to rename")
	}
	c.check(t, c.mem.Rename(path.Join(dir, from), path.Join(dir, to)))
	c.folders[dir].change(func(entries map[string]*modelFile) {
		delete(entries, from)
		entries[to] = model
	})
}

func (c *crashMachine) SyncDir(t *rapid.T) {
	dir := anyFolder.Draw(t, "dir")
	c.check(t, c.mem.SyncDir(dir))
	c.folders[dir].sync()
}

// Crash compares clones with what the model allows.
func (c *crashMachine) Crash(t *rapid.T) {
	clone := c.mem.CrashClone(seeded(rapid.Uint64().Draw(t, "seed")))
	strict := c.mem.CrashCloneStrict()
	killed := c.mem.KillClone()
	for dir, folder := range c.folders {
		c.wantEntries(t, clone, dir, folder.states, (*modelFile).allows)
		c.wantEntries(t, strict, dir, folder.states[:1], func(f *modelFile, got []byte) error {
			return same(got, f.durable)
		})
		c.wantEntries(t, killed, dir, folder.states[len(folder.states)-1:], func(f *modelFile, got []byte) error {
			return same(got, f.data)
		})
	}
}

func same(got, want []byte) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s, want %s", runs(got), runs(want))
	}
	return nil
}

// wantEntries looks for the state of a folder that the clone shows; files are told apart by their first byte.
func (c *crashMachine) wantEntries(t *rapid.T, clone *Mem, dir string, states []map[string]*modelFile,
	allows func(*modelFile, []byte) error,
) {
	contents := map[string][]byte{}
	names, err := clone.List(dir)
	c.check(t, err)
	for _, name := range names {
		data, err := ReadFile(clone, path.Join(dir, name))
		c.check(t, err)
		contents[name] = data
	}
	for _, state := range slices.Backward(states) {
		if !maps.EqualFunc(state, contents, func(f *modelFile, got []byte) bool { return f.id == got[0] }) {
			continue
		}
		for name, model := range state {
			if err := allows(model, contents[name]); err != nil {
				t.Fatalf("%s/%s: %v", dir, name, err)
			}
		}
		return
	}
	t.Fatalf("%s holds %q, which it never did", dir, names)
}

func TestCrashProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCrashMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"create": c.Create, "write": c.Write, "truncate": c.Truncate, "sync": c.Sync,
			"rename": c.Rename, "sync dir": c.SyncDir, "crash": c.Crash,
		})
	})
}
