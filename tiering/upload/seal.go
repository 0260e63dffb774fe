package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// sealing is what a task remembers of sealing the oldest part of its manifest. It is Run's alone.
type sealing struct {
	checked int64     // version of a tier state in which nothing is due
	again   time.Time // not before
	retry   *backoff
}

// sealDue seals the oldest part of the manifest if there is enough of it, and gives the tier state after that. What
// fails is tried again later: a long head costs memory, and nothing else, so it must not keep segments from being
// copied. An error is one that ends the task.
func (t *Task) sealDue(ctx context.Context, log *storage.Log, tier image.TierState) (image.TierState, error) {
	if tier.Version == t.sealing.checked || time.Now().Before(t.sealing.again) {
		return tier, nil
	}
	for {
		_, items, err := t.options.Metadata.Items(t.partition.ID)
		if err == nil {
			run := t.options.Shape.Due(items)
			if run == nil {
				t.sealing.checked = tier.Version
				return tier, nil
			}
			tier, err = t.seal(ctx, log, tier, run)
		}
		switch {
		case err == nil:
			t.sealing.retry.reset()
		case ctx.Err() != nil || errors.Is(err, errFenced):
			return tier, err
		default:
			t.failed(-1, fmt.Errorf("seal a part of the manifest: %w", err))
			t.sealing.again = time.Now().Add(t.sealing.retry.next())
			return tier, nil
		}
	}
}

// seal puts a sealed object of a run of items into the bucket and has a reference take their place. Each attempt has an
// upload id of its own; one that is not used in the end lapses, and its object is collected.
func (t *Task) seal(ctx context.Context, log *storage.Log, tier image.TierState, run []command.Item) (
	image.TierState, error,
) {
	upload, err := t.reserveRewrite(ctx, run[0].Summary().BaseOffset)
	if err != nil {
		return tier, err
	}
	data, reference := manifest.Seal(segment.Key{
		ClusterID: t.options.ClusterID, Partition: t.partition.ID, LeaderEpoch: t.partition.Epoch, UploadID: upload,
	}, t.partition.Name.Topic, t.origin(), run)
	key := segment.KeyOfItem(t.options.ClusterID, t.partition.ID, reference).String()
	if err := t.uploader.putSealed(ctx, key, data, reference.Checksum); err != nil {
		return tier, err
	}
	cmd := command.Seal{
		Partition: t.partition.ID, LeaderEpoch: t.partition.Epoch, Version: tier.Version, Reference: reference,
	}
	for _, item := range run {
		cmd.Removed = append(cmd.Removed, item.Summary().UploadID)
	}
	next, err := t.propose(ctx, cmd)
	if err != nil && !errors.Is(err, errFenced) {
		next, err = t.whatBecameOf(ctx, log, reference, err)
	}
	if err != nil {
		return next, err
	}
	t.uploader.metrics.sealed.Inc()
	t.logger().Info("a part of the manifest is sealed", "base", reference.BaseOffset, "end", reference.EndOffset,
		"level", reference.Level, "segments", reference.Segments, "upload", upload.Hex())
	return next, nil
}

// whatBecameOf finds out whether a seal has happened although its answer was an error.
func (t *Task) whatBecameOf(ctx context.Context, log *storage.Log, reference command.Reference, cause error) (
	image.TierState, error,
) {
	tier, err := t.settle(ctx, log)
	if err != nil {
		return tier, err
	}
	_, items, err := t.options.Metadata.Items(t.partition.ID)
	if err != nil {
		return tier, err
	}
	if slices.Contains(items, command.Item(reference)) {
		return tier, nil
	}
	return tier, cause
}

// reserveRewrite reserves an id for an object that begins below the remote end.
func (t *Task) reserveRewrite(ctx context.Context, from int64) (kafka.UUID, error) {
	id := t.options.NewUploadID()
	now := t.options.Metadata.ElapsedMs()
	_, err := t.propose(ctx, command.ReserveUploads{
		Partition: t.partition.ID, LeaderEpoch: t.partition.Epoch, UploadIDs: []kafka.UUID{id},
		ElapsedMs: now, DeadlineMs: now + t.options.Reservation.Milliseconds(), Rewrite: true, From: from,
	})
	return id, err
}

// putSealed stores a sealed object. It waits for no slot: it is a few KiB, once in 64 segments. Like put it returns
// soon after its deadline whatever the store does.
func (u *Uploader) putSealed(ctx context.Context, key string, data []byte, checksum uint32) error {
	ctx, cancel := context.WithTimeout(ctx, u.options.Deadline)
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with the put, which ctx ends
		done <- u.options.Bucket.Put(ctx, key, bytes.NewReader(data), int64(len(data)),
			objectstore.PutOptions{CRC32C: checksum, HasCRC32C: true})
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(stuckAfter)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		u.metrics.stuck.Inc()
		return fmt.Errorf("put %s: %w", key, errStuck)
	}
}
