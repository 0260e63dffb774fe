package upload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// maxAhead is how many segments of one partition are copied at a time. Small segments over a slow store wait for round
// trips, not for bandwidth; more than a few would only take the slots from other partitions.
const maxAhead = 4

var (
	// errMoved: the remote end is not where the upload begins.
	errMoved = errors.New("the remote end has moved")
	// errLapsed: the upload took so long to be committed that its id is no longer reserved.
	errLapsed = errors.New("the upload's reservation has lapsed")
)

// flight is one segment on its way into the bucket.
type flight struct {
	job   Job
	done  chan struct{} // closed when the fields below are set
	entry command.SegmentEntry
	err   error
}

// copySegments copies what there is to copy: several segments at a time, committed strictly in order.
func (t *Task) copySegments(ctx context.Context, log *storage.Log, tier image.TierState) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	launch := func(job Job, waiting int) *flight {
		f := &flight{job: job, done: make(chan struct{})}
		random := rand.New(rand.NewPCG(t.random.Uint64(), t.random.Uint64()))
		running.Go(func() {
			defer close(f.done)
			f.entry, f.err = t.upload(ctx, log, job, waiting, newBackoff(random))
		})
		return f
	}
	var flights []*flight
	for {
		var err error
		if tier, err = t.sealDue(ctx, log, tier); err != nil {
			return err
		}
		end := tier.End
		if len(flights) > 0 {
			end = flights[len(flights)-1].job.EndOffset
		}
		jobs, err := t.plan(log, end)
		if err != nil && len(flights) == 0 {
			return err
		}
		for i := 0; i < len(jobs) && len(flights) < maxAhead; i++ {
			flights = append(flights, launch(jobs[i], len(jobs)-i))
		}
		if len(flights) == 0 {
			return nil
		}
		first := flights[0]
		if err := first.wait(ctx); err != nil {
			return err
		}
		tier, err = t.commit(ctx, log, tier, first.entry)
		switch {
		case errors.Is(err, errLapsed):
			t.failed(first.job.BaseOffset, err)
			flights[0] = launch(first.job, len(flights))
			continue
		case err != nil:
			return err
		}
		t.committed(first.entry)
		flights = flights[1:]
	}
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// plan lists what may be copied from an offset on, and remembers what waits for the high watermark.
func (t *Task) plan(log *storage.Log, from int64) ([]Job, error) {
	settings := t.settings.Load()
	if settings.Paused {
		return nil, nil
	}
	view := View{Segments: log.Segments(), RemoteEnd: from, Now: time.Now().UnixMilli()}
	t.awaited.Store(firstSealed(view.Segments, from))
	// The bound is read after awaited is set: what moves from here on wakes the task.
	view.Bound = min(log.HighWatermark(), log.LastStableOffset())
	if awaited := t.awaited.Load(); awaited <= view.Bound {
		t.awaited.Store(0)
	}
	return Plan(view, settings.Hold)
}

// firstSealed is the end of the first sealed segment that ends above an offset, or 0.
func firstSealed(segments []storage.SegmentInfo, from int64) int64 {
	for _, segment := range segments {
		if segment.Sealed && segment.EndOffset > from {
			return segment.EndOffset
		}
	}
	return 0
}

// upload puts a segment into the bucket, however often it has to be tried, each time under an id of its own.
func (t *Task) upload(ctx context.Context, log *storage.Log, job Job, waiting int, retry *backoff) (
	command.SegmentEntry, error,
) {
	for {
		begun := time.Now()
		entry, err := t.uploadOnce(ctx, log, job, waiting)
		switch {
		case err == nil:
			t.uploader.metrics.seconds.Observe(time.Since(begun).Seconds())
			if t.options.Events.Uploaded != nil {
				t.options.Events.Uploaded(t.partition.Name, entry)
			}
			return entry, nil
		case ctx.Err() != nil || errors.Is(err, errFenced) || isLasting(err):
			return entry, fmt.Errorf("copy segment %d: %w", job.SegmentBase, err)
		}
		wait := retry.next()
		if errors.Is(err, errNotSaved) {
			wait = notSavedWait
		} else {
			t.failed(job.BaseOffset, fmt.Errorf("copy segment %d: %w", job.SegmentBase, err))
		}
		if !sleep(ctx, wait, nil) {
			return entry, ctx.Err()
		}
	}
}

// uploadOnce makes one attempt. The object is made anew each time, as it names its upload.
func (t *Task) uploadOnce(ctx context.Context, log *storage.Log, job Job, waiting int) (command.SegmentEntry, error) {
	free, err := t.uploader.acquire(ctx, job)
	if err != nil {
		return command.SegmentEntry{}, err
	}
	id, err := t.reserved.take(ctx, waiting)
	if err != nil {
		free()
		return command.SegmentEntry{}, err
	}
	// The deadline counts from here on, because the id's time does.
	ctx, cancel := context.WithTimeout(ctx, t.options.Deadline)
	defer cancel()
	built, err := t.build(ctx, log, job, id)
	if err != nil {
		free()
		return command.SegmentEntry{}, err
	}
	built.free = free
	entry := built.object.Tail.Entry().WithOrigin(t.origin())
	t.uploader.metrics.requests.WithLabelValues(t.partition.Name.Topic).Inc()
	return entry, t.uploader.put(ctx, built)
}

// commit makes an uploaded segment part of the log. Whatever keeps it from knowing what has become of the proposal, it
// asks the metastore and looks for the own upload id; it never takes silence for a failure.
func (t *Task) commit(ctx context.Context, log *storage.Log, tier image.TierState, entry command.SegmentEntry) (
	image.TierState, error,
) {
	if t.options.Checkpointed != nil {
		if err := t.options.Checkpointed(ctx, t.partition.ID.ID); err != nil {
			return tier, fmt.Errorf("segment [%d, %d): %w", entry.BaseOffset, entry.EndOffset, err)
		}
	}
	retry := newBackoff(t.random)
	for {
		state, err := t.propose(ctx, command.CommitSegment{
			Partition: t.partition.ID, LeaderEpoch: t.partition.Epoch, Version: tier.Version, Entry: entry,
		})
		if err == nil || errors.Is(err, errFenced) {
			return state, err
		}
		lapsed := errors.Is(err, command.ErrUploadNotReserved)
		if tier, err = t.settle(ctx, log); err != nil {
			return tier, err
		}
		found, err := t.isCommitted(entry.UploadID)
		switch {
		case err != nil || found:
			return tier, err
		case tier.End != entry.BaseOffset:
			return tier, fmt.Errorf("segment [%d, %d): %w to %d", entry.BaseOffset, entry.EndOffset, errMoved, tier.End)
		case lapsed:
			return tier, fmt.Errorf("segment [%d, %d): %w", entry.BaseOffset, entry.EndOffset, errLapsed)
		}
		if !sleep(ctx, retry.next(), nil) {
			return tier, ctx.Err()
		}
	}
}

// settle reads the tier state until the metastore answers.
func (t *Task) settle(ctx context.Context, log *storage.Log) (image.TierState, error) {
	retry := newBackoff(t.random)
	for {
		tier, err := t.readTier(ctx, log)
		if err == nil || errors.Is(err, errFenced) {
			return tier, err
		}
		t.failed(-1, err)
		if !sleep(ctx, retry.next(), nil) {
			return tier, ctx.Err()
		}
	}
}

// origin is that of what this cluster writes.
func (t *Task) origin() int {
	topic, found := t.options.Metadata.Image().TopicByID(t.partition.ID.ID)
	if !found {
		return 0 // and no commit will find it
	}
	return topic.Origin()
}

func (t *Task) isCommitted(upload kafka.UUID) (bool, error) {
	_, items, err := t.options.Metadata.Items(t.partition.ID)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(items, func(item command.Item) bool { return item.Summary().UploadID == upload }), nil
}

func (t *Task) committed(entry command.SegmentEntry) {
	t.uploader.metrics.bytes.WithLabelValues(t.partition.Name.Topic).Add(float64(entry.ObjectBytes))
	t.uploader.metrics.lastCommit.SetToCurrentTime()
	t.logger().Info("a segment is in the bucket", "base", entry.BaseOffset, "end", entry.EndOffset,
		"bytes", entry.ObjectBytes, "upload", entry.UploadID.Hex())
	if t.options.Events.Committed != nil {
		t.options.Events.Committed(t.partition.Name, entry)
	}
}
