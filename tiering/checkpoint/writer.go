package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"time"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// Writer writes the checkpoints of a cluster, while this broker is its controller: one per interval if anything has
// changed, and one at once when an upload waits for it.
type Writer struct {
	options Options
	metrics metrics
	tracker *tracker

	// The fields below are Run's alone.

	loaded  bool    // what the bucket has is known
	roots   []*Root // those that the bucket has, oldest first
	orphans []string
	force   bool // the last checkpoint may not be recorded in the metadata
}

// NewWriter makes a writer. Nothing happens before Run.
func NewWriter(options Options) *Writer {
	return &Writer{options: options, metrics: newMetrics(options.Registerer), tracker: newTracker()}
}

// Apply takes over a change of the cluster's metadata; Store.Watch calls it. It returns at once.
func (w *Writer) Apply(img *image.Image, delta image.Delta) { w.tracker.apply(img, delta) }

// Await returns once a checkpoint has the topic as it is now: until then no segment of it may become part of the log,
// since a restore would not know to whom it belongs. ErrSuperseded says that none ever may.
func (w *Writer) Await(ctx context.Context, topic kafka.TopicID) error {
	return w.tracker.await(ctx, topic)
}

// Flush returns once there is a checkpoint of everything as it was when Flush was called, or later.
func (w *Writer) Flush(ctx context.Context) error { return w.tracker.flush(ctx) }

const (
	// retryMin is the first wait after a failure; it doubles up to the interval.
	retryMin = time.Second
	// proposeTimeout ends the wait for the metastore. To record a checkpoint twice does no harm.
	proposeTimeout = 30 * time.Second
)

// Run writes checkpoints until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	retry := retryMin
	for {
		err := w.round(ctx)
		wait, wake := w.options.Interval, w.tracker.wake
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrSuperseded):
			w.supersede(err)
		case err != nil:
			w.metrics.errors.Inc()
			w.options.Logger.Warn("a checkpoint has failed and will be tried again", "err", err)
			wait, wake = min(retry, w.options.Interval), nil
			retry = min(2*retry, w.options.Interval)
		default:
			w.metrics.superseded.Set(0)
			retry = retryMin
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-wake:
			timer.Stop()
		}
	}
}

// supersede lets everybody know that the bucket is another cluster's. The claims are looked at again later: who put
// them there may take them away.
func (w *Writer) supersede(err error) {
	w.metrics.superseded.Set(1)
	w.options.Logger.Error("nothing is copied to the object store any more: stop this cluster, or restore the other one "+
		"again", "err", err)
	w.tracker.stop(err)
}

// round writes a checkpoint if there is anything to say.
func (w *Writer) round(ctx context.Context) (err error) {
	if w.options.Metadata.Image().Controller != w.options.BrokerID {
		w.loaded = false // another one writes
		return nil
	}
	if err := w.options.Claim.Check(ctx); err != nil {
		return err
	}
	if err := w.load(ctx); err != nil {
		return err
	}
	img, dirty, asked := w.tracker.take()
	defer func() {
		if err != nil {
			w.tracker.put(dirty)
		}
	}()
	next, changed, err := w.writeShards(ctx, img, dirty)
	if err != nil {
		return err
	}
	if !changed {
		if changed, err = w.isDue(next); err != nil {
			return err
		}
	}
	if changed {
		if err := w.writeRoot(ctx, next); err != nil {
			return err
		}
	}
	w.tracker.cover(img.Index, asked)
	w.metrics.lastTime.SetToCurrentTime()
	return w.clean(ctx)
}

func (w *Writer) newest() *Root {
	if len(w.roots) == 0 {
		return &Root{}
	}
	return w.roots[len(w.roots)-1]
}

// writeShards makes the root that comes next, of new shards where they have changed and else of the last one's.
func (w *Writer) writeShards(ctx context.Context, img *image.Image, dirty map[shardID]struct{}) (
	next *Root, changed bool, err error,
) {
	last := w.newest()
	refs := map[shardID]shardRef{}
	for _, ref := range last.shards {
		refs[ref.shardID] = ref
	}
	put := func(s *shard) error {
		before, existed := refs[s.shardID]
		if s.empty() {
			delete(refs, s.shardID)
			changed = changed || existed
			return nil
		}
		contents := s.append(nil, w.options.ClusterID)
		digest := digestOf(contents)
		if existed && before.digest == digest {
			return nil
		}
		ref, err := w.putShard(ctx, s.shardID, contents, digest)
		refs[s.shardID], changed = ref, true
		return err
	}
	if err := w.eachShard(img, dirty, put); err != nil {
		return nil, false, err
	}
	next = &Root{
		ClusterID: w.options.ClusterID, Index: max(img.Index, last.Index), WrittenAt: time.Now().UnixMilli(),
		NextProducerID: w.options.Metadata.Image().NextProducerID, BrokerConfigs: img.BrokerConfig(""),
		ID: nextID(last.ID, w.options.NewID()), SingleBrokerConfigs: singleBrokers(img),
	}
	for _, ref := range refs {
		next.shards = append(next.shards, ref)
	}
	sortRefs(next.shards)
	return next, changed, nil
}

// eachShard visits the contents of the shards of topics that may have changed, and of all shards of groups.
func (w *Writer) eachShard(img *image.Image, dirty map[shardID]struct{}, visit func(*shard) error) error {
	gathered := w.gatherTopics(img, dirty)
	for id := range dirty {
		s := gathered[id]
		if s == nil {
			s = &shard{shardID: id}
		}
		if err := w.fill(s); err != nil {
			return err
		}
		if err := visit(s); err != nil {
			return err
		}
	}
	return w.eachGroupShard(visit)
}

func (w *Writer) putShard(ctx context.Context, id shardID, contents []byte, digest [digestSize]byte) (shardRef, error) {
	if len(contents) > segment.MaxTailBytes {
		return shardRef{}, fmt.Errorf("shard %d would have %d bytes, more than the %d that a reader accepts", id.number,
			len(contents), segment.MaxTailBytes)
	}
	object := seal(segment.KindShard, contents)
	ref := shardRef{
		shardID: id, id: w.options.NewID(), bytes: int64(len(object)), checksum: crc32.Checksum(object, castagnoli),
		digest: digest,
	}
	if err := putObject(ctx, w.options.Bucket, ref.key(w.options.ClusterID), object); err != nil {
		return ref, fmt.Errorf("write a part of a checkpoint: %w", err)
	}
	w.metrics.bytes.Add(float64(len(object)))
	return ref, nil
}

func putObject(ctx context.Context, bucket objectstore.Bucket, key string, object []byte) error {
	return bucket.Put(ctx, key, bytes.NewReader(object), int64(len(object)),
		objectstore.PutOptions{CRC32C: crc32.Checksum(object, castagnoli), HasCRC32C: true})
}

// isDue tells whether a checkpoint is to be written although no shard has changed.
func (w *Writer) isDue(next *Root) (bool, error) {
	last := w.newest()
	if len(w.roots) == 0 || w.force || last.NextProducerID != next.NextProducerID ||
		!maps.Equal(last.BrokerConfigs, next.BrokerConfigs) ||
		!maps.EqualFunc(last.SingleBrokerConfigs, next.SingleBrokerConfigs, maps.Equal[map[string]string]) {
		return true, nil
	}
	if w.options.Uncollected == nil {
		return false, nil
	}
	index, err := w.options.Uncollected()
	if err != nil || index == 0 || index > next.Index {
		return false, err
	}
	without := 0
	for _, root := range w.roots {
		if root.Index >= index {
			without++
		}
	}
	return without < needed, nil
}

// writeRoot makes the checkpoint: what it names is there.
func (w *Writer) writeRoot(ctx context.Context, root *Root) error {
	object := seal(segment.KindCheckpoint, root.append(nil))
	if err := putObject(ctx, w.options.Bucket, root.Key(), object); err != nil {
		return fmt.Errorf("write a checkpoint: %w", err)
	}
	w.roots, w.force = append(w.roots, root), true
	w.metrics.written.Inc()
	w.metrics.bytes.Add(float64(len(object)))
	w.metrics.index.Set(float64(root.Index))
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	_, err := w.options.Metadata.Propose(ctx, command.CheckpointWritten{
		Checkpoint: command.Checkpoint{Index: root.Index, ID: root.ID}, ElapsedMs: w.options.Metadata.ElapsedMs(),
	})
	if err != nil {
		return fmt.Errorf("record a checkpoint: %w", err)
	}
	w.force = false
	return nil
}
