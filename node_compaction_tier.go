package firn

import (
	"path"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/compaction"
	"github.com/firnlog/firn/tiering/compact"
)

// newRewriter makes what shows the cleaner the bucket.
func (n *Node) newRewriter() (*compact.Rewriter, error) {
	tier := n.config.Tier
	rewriter := compact.New(compact.Options{
		Logger: n.logger, ClusterID: n.meta.Image().ClusterID, Bucket: n.bucket, Metadata: n.meta,
		Manifests: n.tier.Manifests(), FS: n.deps.FS, Dir: path.Join(n.config.DataDir, "compaction"),
		LeaveBytes: 2 * n.config.Log.ReserveBytes, Deadline: tier.UploadDeadline, Reservation: tier.Reservation,
	})
	return rewriter, rewriter.Prepare()
}

// compactedTier shows the cleaner what is in the bucket of a partition. The local copies of it stay as they are until
// they go: they are younger than local retention.
type compactedTier struct {
	*compact.Log
	local     *storage.Log
	partition *replica.Partition
}

var _ compaction.Log = (*compactedTier)(nil)

// View implements compaction.Log. What is not in the bucket yet counts as the active segment.
func (l *compactedTier) View() (compaction.View, error) {
	entries, err := l.Segments()
	if err != nil {
		return compaction.View{}, err
	}
	view := compaction.View{CleanedUntil: l.local.CleanedOffset(), Settings: cleanedBy(l.partition.Config())}
	for _, entry := range entries {
		first, last := entry.MinTimestamp, entry.MaxTimestamp
		if last < 0 {
			last = entry.LastAppendedAt
		}
		view.Segments = append(view.Segments, compaction.Segment{
			BaseOffset: entry.BaseOffset, EndOffset: entry.EndOffset, Size: entry.DataBytes,
			IndexBytes: int64(entry.TailBytes), FirstTimestamp: first, LastTimestamp: last,
		})
		view.LastStable = entry.EndOffset
	}
	view.Segments = append(view.Segments, compaction.Segment{
		BaseOffset: view.LastStable, EndOffset: l.local.EndOffset(), FirstTimestamp: -1, LastTimestamp: -1,
	})
	return view, nil
}

// Open implements compaction.Log.
func (l *compactedTier) Open(base int64) (compaction.Source, error) {
	source, err := l.Log.Open(base)
	if err != nil {
		return nil, err // a nil *compact.Source would be a Source
	}
	return source, nil
}

// Replace implements compaction.Log.
func (l *compactedTier) Replace(firstBase, endBase int64) (compaction.Sink, error) {
	sink, err := l.Log.Replace(firstBase, endBase)
	if err != nil {
		return nil, err
	}
	return sink, nil
}

// SetCleaned implements compaction.Log. It is noted with the local log: a node that has lost it cleans once more.
func (l *compactedTier) SetCleaned(offset int64) error { return l.local.SetCleanedOffset(offset) }

// LastRecordsOfProducers implements compaction.Log.
func (l *compactedTier) LastRecordsOfProducers() map[int64]storage.LastRecord {
	return l.local.LastRecordsOfProducers()
}
