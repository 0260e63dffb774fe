package upload

import (
	"context"
	"time"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// maxReserved bounds the ids of one command. Sixteen make the reservations of a busy partition a small part of its
// entries in the metadata log; what is left over of them costs one LIST when it lapses, however many there are.
const maxReserved = 16

// reservations are the upload ids of one partition that are promised and not used yet. An id is taken once, whatever
// becomes of its upload: a key is never used twice.
type reservations struct {
	task *Task

	// token is the lock of the fields below. It is held across the proposal, so that one command serves all who wait,
	// and is a channel because that is a wait.
	token      chan struct{}
	ids        []kafka.UUID
	deadlineMs int64 // elapsed time at which ids lapse
	batch      int   // how many were reserved last
	used       int   // how many of them were taken before they were too old
}

func (r *reservations) init(task *Task) { r.task, r.token = task, make(chan struct{}, 1) }

// take returns an id that stays reserved for longer than an upload may take. waiting is how many uploads could use one
// now.
func (r *reservations) take(ctx context.Context, waiting int) (kafka.UUID, error) {
	select {
	case r.token <- struct{}{}:
		defer func() { <-r.token }()
	case <-ctx.Done():
		return kafka.UUID{}, ctx.Err()
	}
	if len(r.ids) == 0 || r.deadlineMs-r.task.options.Metadata.ElapsedMs() <= r.task.options.Deadline.Milliseconds() {
		if err := r.reserve(ctx, r.want(waiting)); err != nil {
			return kafka.UUID{}, err
		}
	}
	id := r.ids[len(r.ids)-1]
	r.ids = r.ids[:len(r.ids)-1]
	r.used++
	return id, nil
}

// forget lets go of what is left: it has lapsed.
func (r *reservations) forget(ctx context.Context) {
	select {
	case r.token <- struct{}{}:
		r.ids = nil
		<-r.token
	case <-ctx.Done():
	}
}

// want is how many ids to reserve: as many as there is work for, or as were needed in the time of the last batch.
func (r *reservations) want(waiting int) int {
	want := max(waiting, r.used)
	if r.batch > 0 && r.used == r.batch {
		want = max(want, 2*r.batch) // they were used up before they lapsed
	}
	return min(max(want, 1), maxReserved)
}

// reserve replaces what is left. If the outcome is unknown, the ids may be reserved or not; they are never used, and
// lapse if they are.
func (r *reservations) reserve(ctx context.Context, count int) error {
	options := r.task.options
	r.ids = nil
	ids := make([]kafka.UUID, count)
	for i := range ids {
		ids[i] = options.NewUploadID()
	}
	now := options.Metadata.ElapsedMs()
	deadlineMs := now + options.Reservation.Milliseconds()
	_, err := r.task.propose(ctx, command.ReserveUploads{
		Partition: r.task.partition.ID, LeaderEpoch: r.task.partition.Epoch, UploadIDs: ids,
		ElapsedMs: now, DeadlineMs: deadlineMs,
	})
	if err != nil {
		return err
	}
	r.ids, r.deadlineMs, r.batch, r.used = ids, deadlineMs, count, 0
	return nil
}

// proposeTimeout ends the wait for the metastore. It is long: an unknown outcome costs more than waiting.
const proposeTimeout = 30 * time.Second
