package manifest

import "github.com/firnlog/firn/metastore/command"

// Shape is how wide a manifest grows before parts of it are sealed.
type Shape struct {
	Head int // so many segments are listed one by one before the oldest are sealed
	Leaf int // segments in a leaf
	Node int // leaves in a node
}

// DefaultShape keeps a head of 64 to 127 segments. A leaf has 6.5 KiB and a node 28: small enough to be loaded whole,
// large enough that a million segments are 61 nodes, some leaves and the head.
func DefaultShape() Shape { return Shape{Head: 128, Leaf: 64, Node: 256} }

// Due is the run of items that is to be sealed next: the oldest segments once there are too many, else the oldest
// leaves that make a node. Nothing is due where it is nil. Replacements may have left references between segments: a
// run never reaches over one, and one of a single item is not worth an object.
func (s Shape) Due(items []command.Item) []command.Item {
	var counts [command.LevelNode + 1]int
	for _, item := range items {
		counts[item.Summary().Level]++
	}
	if counts[0] >= s.Head {
		if run := oldest(items, 0, s.Leaf); run != nil {
			return run
		}
	}
	if counts[command.LevelLeaf] >= s.Node {
		return oldest(items, command.LevelLeaf, s.Node)
	}
	return nil
}

// oldest is the first run of at most limit items of a level, of those with two or more.
func oldest(items []command.Item, level, limit int) []command.Item {
	for first := 0; first < len(items); first++ {
		end := first
		for end < len(items) && end-first < limit && items[end].Summary().Level == level {
			end++
		}
		if end-first > 1 {
			return items[first:end]
		}
	}
	return nil
}
