package upload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// Partition is what a task works for. A new leader epoch needs a new task.
type Partition struct {
	ID    kafka.TopicIDPartition
	Name  kafka.TopicPartition
	Epoch kafka.LeaderEpoch
}

// Settings are what may change while a task runs.
type Settings struct {
	Hold   Hold
	Paused bool // remote.log.copy.disable: nothing more is copied, and local data stays
	Off    bool // remote.storage.enable is false: nothing is copied, and what is remote goes
}

// Task copies one partition's sealed segments, oldest first, for as long as this broker leads it in one epoch.
type Task struct {
	uploader  *Uploader
	options   *Options
	partition Partition
	random    *rand.Rand // Run's alone
	settings  atomic.Pointer[Settings]
	reserved  reservations
	sealing   sealing
	wake      chan struct{} // has room for one: there may be something to do
	// awaited is the end of the oldest sealed segment that has to wait for the high watermark; 0 if there is none.
	awaited atomic.Int64
}

// errFenced: another leader, or another topic, has taken the partition's place.
var errFenced = errors.New("no longer the leader")

// Partition is what the task works for.
func (t *Task) Partition() Partition { return t.partition }

// Change gives the task other settings.
func (t *Task) Change(settings Settings) {
	t.settings.Store(&settings)
	t.Wake()
}

// Wake has the task look for work now.
func (t *Task) Wake() {
	select {
	case t.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Advanced tells the task that the high watermark has moved. It costs next to nothing unless the task waits for that.
func (t *Task) Advanced() {
	if t.awaited.Load() != 0 {
		t.Wake()
	}
}

// Run copies until ctx ends or the partition has another leader.
func (t *Task) Run(ctx context.Context) {
	retry := newBackoff(t.random)
	for {
		wait, err := t.round(ctx)
		wake := t.wake
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errFenced):
			t.logger().Info("stops copying segments", "reason", err)
			return
		case err != nil:
			t.failed(-1, err)
			wait, wake = retry.next(), nil // what happens to the log must not hurry what has failed
		default:
			retry.reset()
		}
		if !sleep(ctx, wait, wake) {
			return
		}
	}
}

// sleep waits and tells whether to go on. A nil wake never comes.
func sleep(ctx context.Context, wait time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return true
}

func (t *Task) logger() *slog.Logger {
	return t.options.Logger.With("partition", t.partition.Name.String(), "epoch", int32(t.partition.Epoch))
}

// failed counts and reports what will be tried again.
func (t *Task) failed(baseOffset int64, err error) {
	t.uploader.metrics.errors.WithLabelValues(t.partition.Name.Topic).Inc()
	t.logger().Warn("copying segments has failed and will be tried again", "segment", baseOffset, "err", err)
	if t.options.Events.Failed != nil {
		t.options.Events.Failed(t.partition.Name, baseOffset, err)
	}
}

// log is the partition's local log; one of another incarnation of the topic is none of ours.
func (t *Task) log() (*storage.Log, error) {
	log, err := t.options.Logs(t.partition.Name)
	if err != nil {
		return nil, err
	}
	if log.TopicID() != t.partition.ID.ID {
		return nil, fmt.Errorf("the log of %s is that of topic %s, not of %s: %w",
			t.partition.Name, log.TopicID(), t.partition.ID.ID, kafka.InconsistentTopicID)
	}
	return log, nil
}

// round does what there is to do, and tells how long there may be nothing.
func (t *Task) round(ctx context.Context) (idle time.Duration, err error) {
	switch settings := t.settings.Load(); {
	case settings.Off:
		t.awaited.Store(0)
		return t.options.Interval, t.empty(ctx)
	case settings.Paused:
		t.awaited.Store(0)
		return t.options.Interval, nil
	}
	log, err := t.log()
	if err != nil {
		return 0, err
	}
	tier, err := t.openTier(ctx, log)
	if err != nil {
		return 0, err
	}
	if idle, err = t.roll(log); err != nil {
		return 0, err
	}
	return idle, t.copyAll(ctx, log, tier)
}

// copyAll copies what there is, from wherever the remote end is.
func (t *Task) copyAll(ctx context.Context, log *storage.Log, tier image.TierState) error {
	for {
		err := t.copySegments(ctx, log, tier)
		if !errors.Is(err, errMoved) {
			return err
		}
		moved, readErr := t.readTier(ctx, log)
		if readErr != nil || moved.End == tier.End {
			return errors.Join(err, readErr)
		}
		tier = moved // somebody else has moved the remote end, or the commit was ours after all: go on from there
	}
}

// openTier begins tiering if it has not begun, and brings an empty remote part up to the log start: what lies below it
// is nobody's any more. Where something is remote, the start is the metastore's to know.
func (t *Task) openTier(ctx context.Context, log *storage.Log) (image.TierState, error) {
	partition, found := t.options.Metadata.Image().PartitionByID(t.partition.ID)
	if !found || partition.Epoch != t.partition.Epoch {
		return image.TierState{}, fmt.Errorf("%s: %w", t.partition.Name, errFenced)
	}
	var tier image.TierState
	var err error
	if partition.Tier != nil {
		tier = *partition.Tier
	} else if tier, err = t.readTier(ctx, log); err != nil {
		return tier, err
	}
	if start := log.LogStartOffset(); tier.Segments == 0 && start > tier.End {
		return t.propose(ctx, command.AdvanceStart{
			Partition: t.partition.ID, LeaderEpoch: t.partition.Epoch, Start: start,
			ElapsedMs: t.options.Metadata.ElapsedMs(),
		})
	}
	return tier, nil
}

// empty takes what is remote out of a log whose remote storage was switched off: the log begins where the local one
// does. Should retention, which still went by the old settings, have moved that on in between, the next round follows.
func (t *Task) empty(ctx context.Context) error {
	partition, found := t.options.Metadata.Image().PartitionByID(t.partition.ID)
	if !found || partition.Epoch != t.partition.Epoch {
		return fmt.Errorf("%s: %w", t.partition.Name, errFenced)
	}
	log, err := t.log()
	if err != nil {
		return err
	}
	start, tier := log.LocalLogStartOffset(), partition.Tier
	if tier == nil || tier.Segments == 0 && start <= tier.End {
		return nil
	}
	if _, err := t.propose(ctx, command.EmptyTier{
		Partition: t.partition.ID, LeaderEpoch: t.partition.Epoch, Start: start,
		ElapsedMs: t.options.Metadata.ElapsedMs(),
	}); err != nil {
		return err
	}
	t.reserved.forget(ctx)
	t.logger().Info("remote storage was switched off: what was remote is no part of the log any more",
		"segments", tier.Segments, "log start", start)
	return nil
}

// readTier gives the tier state as of now, behind everything that was proposed before: opening what is open changes
// nothing, but it is answered from the log.
func (t *Task) readTier(ctx context.Context, log *storage.Log) (image.TierState, error) {
	return t.propose(ctx, command.OpenTier{
		Partition: t.partition.ID, LeaderEpoch: t.partition.Epoch, Start: log.LogStartOffset(),
	})
}

// propose has a tier command applied. A refusal because of another leader or topic is errFenced.
func (t *Task) propose(ctx context.Context, cmd command.Command) (image.TierState, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	result, err := t.options.Metadata.Propose(ctx, cmd)
	state, _ := result.(image.TierState)
	if err == nil {
		return state, nil
	}
	err = fmt.Errorf("%s of %s: %w", cmd.Type(), t.partition.Name, err)
	if fenced(err) {
		err = fmt.Errorf("%w: %w", errFenced, err)
	}
	return state, err
}

func fenced(err error) bool {
	for _, code := range []kafka.Errno{
		kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.UnknownTopicID, kafka.UnknownTopicOrPartition,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
