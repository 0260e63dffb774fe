package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/objectstore"
)

// load finds out what the bucket has: checkpoints to go on from, and what a crash has left behind.
func (w *Writer) load(ctx context.Context) error {
	if w.loaded {
		return nil
	}
	keys, err := listRoots(ctx, w.options.Bucket, w.options.ClusterID)
	if err != nil {
		return err
	}
	w.roots, w.orphans, w.force = nil, nil, true // whether the newest one was recorded is not known
	used := map[kafka.UUID]bool{}
	for _, object := range keys {
		root, err := readRoot(ctx, w.options.Bucket, w.options.ClusterID, object)
		var corrupt *CorruptError
		switch {
		case errors.As(err, &corrupt):
			w.options.Logger.Error("a checkpoint in the bucket cannot be read; others take its place", "err", err)
			w.orphans = append(w.orphans, object.Key)
			continue
		case err != nil:
			return fmt.Errorf("read the checkpoints of this cluster: %w", err)
		}
		w.roots = append(w.roots, root)
		for _, ref := range root.shards {
			used[ref.id] = true
		}
	}
	if err := w.findOrphans(ctx, used); err != nil {
		return err
	}
	w.loaded = true
	return nil
}

// findOrphans lists the shards that no checkpoint names: one was never finished.
func (w *Writer) findOrphans(ctx context.Context, used map[kafka.UUID]bool) error {
	prefix := shardPrefix(w.options.ClusterID)
	err := w.options.Bucket.List(ctx, prefix, "", func(object objectstore.ObjectInfo) error {
		name := object.Key[len(prefix):]
		if len(name) != idDigits+len(shardSuffix) || name[idDigits:] != shardSuffix {
			return nil // nothing of ours
		}
		if id, err := parseHex(name[:idDigits]); err == nil && !used[id] {
			w.orphans = append(w.orphans, object.Key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the parts of checkpoints: %w", err)
	}
	return nil
}

// clean deletes all checkpoints but the newest ones, with the shards that none of those names. It comes after a new
// checkpoint is durable, and a failure leaves no more than a few small objects for the next start to find.
func (w *Writer) clean(ctx context.Context) error {
	keys := w.orphans
	surplus := max(len(w.roots)-kept, 0)
	used := map[kafka.UUID]bool{}
	for _, root := range w.roots[surplus:] {
		for _, ref := range root.shards {
			used[ref.id] = true
		}
	}
	for _, root := range w.roots[:surplus] {
		keys = append(keys, root.Key()) // before its shards: there is no moment at which it is there and they are not
		for _, ref := range root.shards {
			if !used[ref.id] {
				used[ref.id] = true
				keys = append(keys, ref.key(w.options.ClusterID))
			}
		}
	}
	const batch = 1000 // what S3 deletes at once
	for len(keys) > 0 {
		some := keys[:min(len(keys), batch)]
		if err := w.options.Bucket.Delete(ctx, some...); err != nil {
			return fmt.Errorf("delete old checkpoints: %w", err)
		}
		keys = keys[len(some):]
	}
	w.orphans, w.roots = nil, w.roots[surplus:]
	return nil
}
