package gc

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// maxBatch is how many objects S3 deletes at once; as many are then forgotten by one command.
const maxBatch = 1000

// collectGarbage deletes what is due of the pieces that the metastore lists, and tells when the next is.
func (c *Collector) collectGarbage(ctx context.Context, r rule) (nextMs int64, err error) {
	garbage, err := c.options.Source.Garbage()
	if err != nil {
		return 0, err
	}
	c.metrics.pending.Set(float64(len(garbage)))
	work := sortOut(garbage, r)
	c.setWaits(work.waits)
	if err := c.deleteRemoved(ctx, work.removed); err != nil {
		return 0, err
	}
	for _, piece := range work.expired {
		if err := c.deleteExpired(ctx, piece); err != nil {
			return 0, err
		}
	}
	for tp, lapsed := range work.lapsed {
		if err := c.deleteLapsed(ctx, tp, lapsed); err != nil {
			return 0, err
		}
	}
	c.forgetListed(garbage)
	return work.nextMs, nil
}

// deleteRemoved deletes objects whose keys follow from what is known of them. What is left of a topic that is deleted
// by now goes with the topic.
func (c *Collector) deleteRemoved(ctx context.Context, removed []command.Garbage) error {
	for len(removed) > 0 {
		batch := removed[:min(len(removed), maxBatch)]
		removed = removed[len(batch):]
		var keys []string
		objects := make([]command.CollectedObject, len(batch))
		for i, piece := range batch {
			objects[i] = piece.Object()
			if key, known := c.keyOf(piece); known {
				keys = append(keys, key)
			}
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

func (c *Collector) keyOf(piece command.Garbage) (key string, known bool) {
	topic, known := c.options.Metadata.Image().TopicByID(piece.Partition.ID)
	if !known {
		return "", false
	}
	if piece.Kind == command.ReplacedManifest {
		cluster := topic.OriginID(c.options.ClusterID, piece.Tree.Origin())
		return segment.KeyOfItem(cluster, piece.Partition, piece.Tree).String(), true
	}
	return segment.Key{
		Kind: segment.KindSegment, ClusterID: topic.OriginID(c.options.ClusterID, piece.Origin), Partition: piece.Partition,
		BaseOffset: piece.BaseOffset, EndOffset: piece.EndOffset, LeaderEpoch: piece.LeaderEpoch, UploadID: piece.UploadID,
	}.String(), true
}

// deleteExpired deletes what a part of the manifest listed. It goes by listings, not by what the part says: everything
// below the log start is garbage, and a damaged part must not keep it for ever. Segments go before the leaves that list
// them, and these before nodes.
func (c *Collector) deleteExpired(ctx context.Context, piece command.Garbage) error {
	topic, found := c.options.Metadata.Image().TopicByID(piece.Partition.ID)
	if found { // else it goes with the topic
		kinds := []segment.Kind{segment.KindSegment}
		if piece.Whole {
			kinds = append(kinds, segment.KindLeaf, segment.KindNode)
		}
		clusters := topic.Origins
		if len(clusters) == 0 {
			clusters = []kafka.UUID{c.options.ClusterID}
		}
		for _, kind := range kinds {
			for _, cluster := range clusters {
				if err := c.deleteRange(ctx, segment.Folder(cluster, piece.Partition, kind), piece); err != nil {
					return err
				}
			}
		}
	}
	return c.propose(ctx, command.Collected{Objects: []command.CollectedObject{piece.Object()}})
}

// deleteRange deletes the objects of a folder whose ranges lie wholly in that of an expired piece. One that the log
// start once cut begins below the range of its piece: it goes with the whole part.
func (c *Collector) deleteRange(ctx context.Context, folder string, piece command.Garbage) error {
	from, to := rangeOf(piece)
	start := c.logStart(piece.Partition)
	var keys []string
	var above []segment.Key
	after := segment.StartAfterIn(folder, from)
	err := c.options.Bucket.List(ctx, folder, after, func(object objectstore.ObjectInfo) error {
		key, err := segment.ParseKey(object.Key)
		switch {
		case err != nil:
			return nil // nothing of ours: whoever put it there may take it away
		case key.BaseOffset >= to:
			return fs.SkipAll
		case key.EndOffset <= min(to, start):
			keys = append(keys, object.Key)
		case key.EndOffset <= to:
			above = append(above, key)
		}
		return nil
	})
	if err == nil {
		above, err = c.notOfTheLog(ctx, piece.Partition, above)
	}
	if err != nil {
		return fmt.Errorf("look for what has expired of %s: %w", piece.Partition, err)
	}
	for _, key := range above {
		keys = append(keys, key.String())
	}
	return c.deleteAll(ctx, keys)
}

// logStart is below everything that is part of a log; 0 if that is not known.
func (c *Collector) logStart(tp kafka.TopicIDPartition) int64 {
	partition, found := c.options.Metadata.Image().PartitionByID(tp)
	if !found || partition.Tier == nil {
		return 0
	}
	return partition.Tier.Start
}

// notOfTheLog leaves out what the log has, or is about to have: where remote storage was switched off and on again, the
// same range is copied anew. Reservations are read before the manifest, as that is the way an upload goes.
func (c *Collector) notOfTheLog(ctx context.Context, tp kafka.TopicIDPartition, keys []segment.Key) (
	garbage []segment.Key, err error,
) {
	if len(keys) == 0 {
		return nil, nil
	}
	reserved, err := c.options.Reserved(tp)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if slices.Contains(reserved, key.UploadID) {
			continue
		}
		has, err := c.options.Has(ctx, key)
		if err != nil {
			return nil, err
		}
		if !has {
			garbage = append(garbage, key)
		}
	}
	return garbage, nil
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
	if err := c.deleteAll(ctx, keys); err != nil {
		return err
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
	kinds := []segment.Kind{segment.KindSegment}
	if lapsed.rewrites {
		kinds = append(kinds, segment.KindLeaf, segment.KindNode)
	}
	for _, kind := range kinds {
		folder := segment.Folder(c.options.ClusterID, tp, kind)
		err = c.options.Bucket.List(ctx, folder, segment.StartAfterIn(folder, lapsed.from),
			func(object objectstore.ObjectInfo) error {
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

// deleteAll removes objects for good, as many at a time as a store takes.
func (c *Collector) deleteAll(ctx context.Context, keys []string) error {
	for len(keys) > 0 {
		batch := keys[:min(len(keys), maxBatch)]
		keys = keys[len(batch):]
		if err := c.delete(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// delete removes at most maxBatch objects for good, if this part of the bucket is still the cluster's own.
func (c *Collector) delete(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if err := c.checkClaim(ctx); err != nil {
		return err
	}
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
