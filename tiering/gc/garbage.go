package gc

import (
	"context"
	"fmt"
	"math"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// maxBatch is how many objects S3 deletes at once; as many are then forgotten by one command.
const maxBatch = 1000

// never is later than any elapsed time.
const never = math.MaxInt64

// collectGarbage deletes what is due of the pieces that the metastore lists, and tells when the next is.
func (c *Collector) collectGarbage(ctx context.Context, now int64) (nextMs int64, err error) {
	garbage, err := c.options.Source.Garbage()
	if err != nil {
		return 0, err
	}
	c.metrics.pending.Set(float64(len(garbage)))
	work := sortOut(garbage, now, c.options.Grace.Milliseconds(), c.options.UploadDeadline.Milliseconds())
	if err := c.deleteRemoved(ctx, work.removed); err != nil {
		return 0, err
	}
	for tp, lapsed := range work.lapsed {
		if err := c.deleteLapsed(ctx, tp, lapsed); err != nil {
			return 0, err
		}
	}
	c.forgetListed(garbage)
	return work.nextMs, nil
}

// workload is what is due of the garbage.
type workload struct {
	removed []command.Garbage
	lapsed  map[kafka.TopicIDPartition]*lapsedUploads
	nextMs  int64 // when the next piece is due
}

// lapsedUploads are those of one partition. Their objects, if there are any, are found by one listing.
type lapsedUploads struct {
	uploads map[kafka.UUID]bool // true: no put can land any more, so that this look is the last one
	from    int64               // the lowest offset that any of them may begin at
}

// sortOut decides what is due now. A removed segment waits for its readers. A lapsed upload has none: it is looked for
// at once, and once more when no put can land any more.
func sortOut(garbage []command.Garbage, now, graceMs, uploadDeadlineMs int64) workload {
	work := workload{lapsed: map[kafka.TopicIDPartition]*lapsedUploads{}, nextMs: never}
	for _, piece := range garbage {
		wait := graceMs
		if piece.Kind == command.LapsedUpload {
			wait = uploadDeadlineMs
		}
		due := piece.ElapsedMs + wait
		if due > now {
			work.nextMs = min(work.nextMs, due)
		}
		switch {
		case piece.Kind == command.LapsedUpload:
			work.add(piece, due <= now)
		case due <= now:
			work.removed = append(work.removed, piece)
		}
	}
	return work
}

func (w *workload) add(piece command.Garbage, last bool) {
	lapsed := w.lapsed[piece.Partition]
	if lapsed == nil {
		lapsed = &lapsedUploads{uploads: map[kafka.UUID]bool{}, from: piece.BaseOffset}
		w.lapsed[piece.Partition] = lapsed
	}
	lapsed.uploads[piece.UploadID] = last
	lapsed.from = min(lapsed.from, piece.BaseOffset)
}

// deleteRemoved deletes objects whose keys follow from what is known of them.
func (c *Collector) deleteRemoved(ctx context.Context, removed []command.Garbage) error {
	for len(removed) > 0 {
		batch := removed[:min(len(removed), maxBatch)]
		removed = removed[len(batch):]
		keys := make([]string, len(batch))
		objects := make([]command.CollectedObject, len(batch))
		for i, piece := range batch {
			keys[i] = c.keyOf(piece)
			objects[i] = command.CollectedObject{Partition: piece.Partition, UploadID: piece.UploadID}
		}
		if err := c.delete(ctx, keys); err != nil {
			return err
		}
		if err := c.propose(ctx, command.Collected{Objects: objects}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Collector) keyOf(piece command.Garbage) string {
	return segment.Key{
		ClusterID: c.options.ClusterID, Partition: piece.Partition, BaseOffset: piece.BaseOffset, EndOffset: piece.EndOffset,
		LeaderEpoch: piece.LeaderEpoch, UploadID: piece.UploadID,
	}.String()
}

// deleteLapsed looks for objects of uploads that can never be committed any more, and deletes them.
func (c *Collector) deleteLapsed(ctx context.Context, tp kafka.TopicIDPartition, lapsed *lapsedUploads) error {
	var objects []command.CollectedObject
	news := false
	for upload, last := range lapsed.uploads {
		if last {
			objects = append(objects, command.CollectedObject{Partition: tp, UploadID: upload})
		}
		news = news || last || !c.listed[upload]
	}
	if !news { // all have been looked for once, and it is too early for the second time
		return nil
	}
	keys, err := c.find(ctx, tp, lapsed)
	if err != nil {
		return err
	}
	for len(keys) > 0 {
		batch := keys[:min(len(keys), maxBatch)]
		keys = keys[len(batch):]
		if err := c.delete(ctx, batch); err != nil {
			return err
		}
	}
	for upload := range lapsed.uploads {
		c.listed[upload] = true
	}
	for len(objects) > 0 {
		batch := objects[:min(len(objects), maxBatch)]
		objects = objects[len(batch):]
		if err := c.propose(ctx, command.Collected{Objects: batch}); err != nil {
			return err
		}
	}
	return nil
}

// find lists a partition from where the uploads were reserved and picks theirs, by upload id only.
func (c *Collector) find(ctx context.Context, tp kafka.TopicIDPartition, lapsed *lapsedUploads) (
	keys []string, err error,
) {
	prefix := segment.Prefix(c.options.ClusterID, tp)
	after := segment.StartAfter(c.options.ClusterID, tp, lapsed.from)
	err = c.options.Bucket.List(ctx, prefix, after, func(object objectstore.ObjectInfo) error {
		key, err := segment.ParseKey(object.Key)
		if err != nil {
			return nil // nothing of ours: whoever put it there may take it away
		}
		if _, wanted := lapsed.uploads[key.UploadID]; wanted {
			keys = append(keys, object.Key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for lapsed uploads of %s: %w", tp, err)
	}
	return keys, nil
}

// forgetListed keeps only what is still garbage.
func (c *Collector) forgetListed(garbage []command.Garbage) {
	kept := make(map[kafka.UUID]bool, len(c.listed))
	for _, piece := range garbage {
		if c.listed[piece.UploadID] {
			kept[piece.UploadID] = true
		}
	}
	c.listed = kept
}

// delete removes at most maxBatch objects for good.
func (c *Collector) delete(ctx context.Context, keys []string) error {
	c.metrics.requests.Inc()
	if err := c.options.Bucket.Delete(ctx, keys...); err != nil {
		return fmt.Errorf("delete %d objects: %w", len(keys), err)
	}
	c.metrics.deleted.Add(float64(len(keys)))
	for _, key := range keys {
		c.options.Logger.Debug("an object was deleted", "key", key)
		if c.options.ObjectDeleted != nil {
			c.options.ObjectDeleted(key)
		}
	}
	return nil
}
