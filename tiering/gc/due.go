package gc

import (
	"cmp"
	"math"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// never is later than any elapsed time.
const never = math.MaxInt64

// rule decides what may be deleted now.
type rule struct {
	nowMs            int64 // elapsed
	graceMs          int64
	uploadDeadlineMs int64
	// settled is the index of the metadata log that enough durable checkpoints have reached: what was removed there or
	// before is in none of them, so that a restore does not look for it.
	settled uint64
	pins    []command.Pin
}

// settledAt is the index that needed checkpoints have reached; 0 if there are not so many.
func settledAt(checkpoints []command.Checkpoint, needed int) uint64 {
	if needed <= 0 {
		return math.MaxUint64
	}
	if len(checkpoints) < needed {
		return 0
	}
	newest := slices.SortedFunc(slices.Values(checkpoints), func(a, b command.Checkpoint) int {
		return cmp.Compare(b.Index, a.Index)
	})
	return newest[needed-1].Index
}

// pinned tells whether somebody reads a range of a partition.
func (r *rule) pinned(tp kafka.TopicIDPartition, from, to int64) bool {
	return slices.ContainsFunc(r.pins, func(pin command.Pin) bool {
		return pin.TopicID == tp.ID && slices.ContainsFunc(pin.Ranges, func(part command.PartitionRange) bool {
			return part.Partition == tp.Partition && part.From < to && from < part.To
		})
	})
}

func (r *rule) topicPinned(id kafka.TopicID) bool {
	return slices.ContainsFunc(r.pins, func(pin command.Pin) bool { return pin.TopicID == id })
}

// Waits says why garbage is still in the bucket: how many pieces wait for each condition, in the order in which they
// are looked at. A piece counts once.
type Waits struct {
	Grace       int // readers may hold it still; or a put may land late
	Checkpoints int // a restore from one of the newest checkpoints would look for it
	Pins        int // a bulk read has pinned it
	Due         int // nothing: the next round deletes it
}

// workload is what is due of the garbage.
type workload struct {
	removed []command.Garbage // whose keys follow from what is known of them
	expired []command.Garbage // parts of manifests
	lapsed  map[kafka.TopicIDPartition]*lapsedUploads
	nextMs  int64 // when the next piece is due, as far as time decides
	waits   Waits
}

// lapsedUploads are those of one partition. Their objects, if there are any, are found by listings.
type lapsedUploads struct {
	uploads  map[kafka.UUID]bool // true: no put can land any more, so that this look is the last one
	from     int64               // the lowest offset that any of them may begin at
	rewrites bool                // some may be parts of the manifest, too
}

// sortOut decides what is due now. What was part of the log waits for its readers, for the checkpoints that name it and
// for pins. A lapsed upload has none of them: it is looked for at once, and once more when no put can land any more.
func sortOut(garbage []command.Garbage, r rule) workload {
	work := workload{lapsed: map[kafka.TopicIDPartition]*lapsedUploads{}, nextMs: never}
	for _, piece := range garbage {
		lapsed := isLapsed(piece)
		wait := r.graceMs
		if lapsed {
			wait = r.uploadDeadlineMs
		}
		due := piece.ElapsedMs + wait
		if due > r.nowMs {
			work.nextMs = min(work.nextMs, due)
			work.waits.Grace++
			if lapsed {
				work.add(piece, false)
			}
			continue
		}
		from, to := rangeOf(piece)
		switch {
		case lapsed:
			work.add(piece, true)
		case piece.Index > r.settled:
			work.waits.Checkpoints++
			continue
		case r.pinned(piece.Partition, from, to):
			work.waits.Pins++
			continue
		case piece.Kind == command.ExpiredTree:
			work.expired = append(work.expired, piece)
		default:
			work.removed = append(work.removed, piece)
		}
		work.waits.Due++
	}
	return work
}

func isLapsed(piece command.Garbage) bool {
	return piece.Kind == command.LapsedUpload || piece.Kind == command.LapsedRewrite
}

// rangeOf is what of the log the objects of a piece answer for.
func rangeOf(piece command.Garbage) (from, to int64) {
	switch {
	case piece.Kind == command.ExpiredTree && !piece.Whole:
		return piece.From, piece.To
	case piece.Kind == command.ExpiredTree, piece.Kind == command.ReplacedManifest:
		return piece.Tree.BaseOffset, piece.Tree.EndOffset
	}
	return piece.BaseOffset, piece.EndOffset
}

func (w *workload) add(piece command.Garbage, last bool) {
	lapsed := w.lapsed[piece.Partition]
	if lapsed == nil {
		lapsed = &lapsedUploads{uploads: map[kafka.UUID]bool{}, from: piece.BaseOffset}
		w.lapsed[piece.Partition] = lapsed
	}
	lapsed.uploads[piece.UploadID] = last
	lapsed.from = min(lapsed.from, piece.BaseOffset)
	lapsed.rewrites = lapsed.rewrites || piece.Kind == command.LapsedRewrite
}
