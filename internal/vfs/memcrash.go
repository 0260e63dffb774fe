package vfs

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
)

// sectorSize is what a disk writes whole even when the power goes: a torn block is a mix of old and new sectors.
const sectorSize = 512

// CrashClone returns what a power cut at this instant could leave, as a file system of its own without open files and
// locks; m goes on and is not changed. What was synced is kept. Of everything else rng decides:
//
//   - each block written since the file's last sync is kept, lost, or torn (some of its sectors kept);
//   - a file that grew has its old length, its new one, or one between; a file that was cut has been cut or not;
//   - the entries changed since the folder's last SyncDir are kept up to some change of that folder and lost from there
//     on. A rename between two folders happens in both or in neither, unless one of them was synced since.
//
// The same history and seed give the same clone. How much is lost varies between clones from nearly nothing to all.
func (m *Mem) CrashClone(rng *rand.Rand) *Mem {
	chances := []float64{0, 0.1, 0.5, 0.9, 1}
	return m.clone(&dice{
		rng:       rng,
		keepData:  chances[rng.IntN(len(chances))],
		keepEntry: chances[rng.IntN(len(chances))],
	})
}

// CrashCloneStrict is the crash clone that has lost everything not synced.
func (m *Mem) CrashCloneStrict() *Mem { return m.clone(&dice{}) }

// KillClone returns what is left when the process dies and the machine goes on: everything but open files and locks.
// All of it counts as synced.
func (m *Mem) KillClone() *Mem { return m.clone(&dice{keepData: 1, keepEntry: 1}) }

// dice decides what is kept. Without rng the chances are 0 or 1, and nothing is torn.
type dice struct {
	rng                 *rand.Rand
	keepData, keepEntry float64
}

// keepsCache tells whether the machine goes on: its page cache still shows what no sync will write any more.
func (d *dice) keepsCache() bool { return d.rng == nil && d.keepData == 1 }

type fate int

const (
	kept fate = iota
	lost
	torn
)

func (d *dice) forData() fate {
	if d.rng != nil && d.rng.IntN(8) == 0 {
		return torn
	}
	return d.decide(d.keepData)
}

func (d *dice) forEntry() fate { return d.decide(d.keepEntry) }

func (d *dice) decide(keep float64) fate {
	if keep == 1 || keep > 0 && d.rng.Float64() < keep {
		return kept
	}
	return lost
}

func (m *Mem) clone(d *dice) *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := &cloner{
		dice:  d,
		keeps: decideEntries(pendingBelow(m.root), d),
		nodes: map[*inode]*inode{},
		into:  &Mem{capacity: m.capacity},
	}
	c.into.root = c.folder(m.root)
	return c.into
}

// pendingBelow collects the undurable changes in all folders that may be there after a crash, in the order in which
// they were made.
func pendingBelow(root *folder) []*entryOp {
	ops := map[*entryOp]bool{}
	seen := map[*folder]bool{}
	var visit func(f *folder)
	visit = func(f *folder) {
		if f == nil || seen[f] {
			return
		}
		seen[f] = true
		for _, node := range f.durable {
			visit(node.folder)
		}
		for _, op := range f.pending {
			ops[op] = true
			visit(op.node.folder)
		}
	}
	visit(root)
	byNumber := func(a, b *entryOp) int { return cmp.Compare(a.number, b.number) }
	return slices.SortedFunc(maps.Keys(ops), byNumber)
}

// decideEntries picks the changes that survive. Once a folder has lost one, it has lost all later ones too.
func decideEntries(ops []*entryOp, d *dice) map[*entryOp]bool {
	keeps := map[*entryOp]bool{}
	ended := map[*folder]bool{}
	for _, op := range ops {
		folders := op.undecided()
		if !slices.ContainsFunc(folders, func(f *folder) bool { return ended[f] }) && d.forEntry() == kept {
			keeps[op] = true
			continue
		}
		for _, f := range folders {
			ended[f] = true
		}
	}
	return keeps
}

// cloner copies the tree that survives. It goes through it by name, so that the dice fall alike each time.
type cloner struct {
	dice  *dice
	keeps map[*entryOp]bool
	nodes map[*inode]*inode // a node that two names lead to is copied once
	into  *Mem
}

func (c *cloner) folder(f *folder) *folder {
	survivors := maps.Clone(f.durable)
	for _, op := range f.pending {
		if c.keeps[op] {
			op.applyTo(f, survivors)
		}
	}
	out := newFolder()
	for _, name := range slices.Sorted(maps.Keys(survivors)) {
		out.entries[name] = c.node(survivors[name])
	}
	out.durable = maps.Clone(out.entries)
	return out
}

func (c *cloner) node(node *inode) *inode {
	if out := c.nodes[node]; out != nil {
		return out
	}
	out := &inode{}
	c.nodes[node] = out
	if node.folder != nil {
		out.folder = c.folder(node.folder)
		return out
	}
	out.content = &content{data: node.content.afterCrash(c.dice), modified: node.content.modified}
	if c.dice.keepsCache() {
		out.content.lost = maps.Clone(node.content.lost)
	}
	out.content.sync()
	c.into.used += out.content.durableSize
	return out
}

// afterCrash is what is left of the bytes.
func (c *content) afterCrash(d *dice) []byte {
	wasCut := c.lowestSize < c.durableSize
	cutKept := wasCut && d.forData() != lost
	data := make([]byte, c.sizeAfterCrash(d, wasCut, cutKept))
	copy(data, c.data)
	for _, block := range slices.Sorted(maps.Keys(c.saved)) {
		position := block * blockSize
		var before, after [blockSize]byte
		copy(before[:], c.saved[block])
		if position < int64(len(c.data)) {
			copy(after[:], c.data[position:])
		}
		// What lay above a cut shares the cut's fate: with it, old bytes are gone for good; without it, nothing that
		// was written there later is in the file.
		if above := max(0, c.lowestSize-position); wasCut && above < blockSize {
			if cutKept {
				clear(before[above:])
			} else {
				copy(after[above:], before[above:])
			}
		}
		mixed := d.mix(&before, &after)
		if position < int64(len(data)) {
			copy(data[position:], mixed[:])
		}
	}
	if d.keepsCache() {
		return data
	}
	for block, before := range c.lost {
		var whole [blockSize]byte
		copy(whole[:], before)
		if position := block * blockSize; position < int64(len(data)) {
			copy(data[position:], whole[:])
		}
	}
	return data
}

func (c *content) sizeAfterCrash(d *dice, wasCut, cutKept bool) int64 {
	if wasCut && !cutKept {
		return c.durableSize // what came after the cut depends on it
	}
	least, most := c.lowestSize, int64(len(c.data))
	if least == most {
		return most
	}
	switch d.forData() {
	case kept:
		return most
	case torn:
		return least + d.rng.Int64N(most-least)
	default:
		return least
	}
}

// mix is one block after the crash.
func (d *dice) mix(before, after *[blockSize]byte) *[blockSize]byte {
	switch d.forData() {
	case kept:
		return after
	case torn:
		mixed := *before
		for sector := 0; sector < blockSize; sector += sectorSize {
			if d.rng.IntN(2) == 0 {
				copy(mixed[sector:sector+sectorSize], after[sector:])
			}
		}
		return &mixed
	default:
		return before
	}
}
