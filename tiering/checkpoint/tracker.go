package checkpoint

import (
	"context"
	"sync"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// tracker knows what has changed since the last checkpoint, and who waits for the next one.
type tracker struct {
	wake chan struct{} // has room for one: somebody waits

	mu    sync.Mutex               // guards the fields below
	image *image.Image             // as of the last change
	dirty map[shardID]struct{}     // shards of topics that may have changed
	all   bool                     // every shard of topics may have changed
	needs map[kafka.TopicID]uint64 // index of a topic's last creation or reconfiguration that no checkpoint has yet
	// needsAll is the same for all topics: what happened before the node started is not known.
	needsAll uint64
	covered  uint64        // index up to which a checkpoint has all
	asked    int           // calls of flush
	answered int           // as many of them have their checkpoint
	stopped  error         // why there will be no further checkpoints
	changed  chan struct{} // closed and replaced when covered or stopped change
}

func newTracker() *tracker {
	return &tracker{
		wake: make(chan struct{}, 1), image: image.Empty(), dirty: map[shardID]struct{}{},
		needs: map[kafka.TopicID]uint64{}, changed: make(chan struct{}),
	}
}

// apply takes in a change of the metadata.
func (t *tracker) apply(img *image.Image, delta image.Delta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.image = img
	if delta.Reset {
		t.all, t.needsAll = true, img.Index
		return
	}
	for _, topic := range delta.TopicsCreated {
		t.topicChanged(topic, delta.Index)
	}
	for _, topic := range delta.TopicsDeleted {
		t.topicChanged(topic, delta.Index)
		delete(t.needs, topic.ID)
	}
	for _, resource := range delta.ConfigsChanged {
		if topic, found := img.Topic(resource.Name); found && resource.Topic {
			t.topicChanged(topic, delta.Index)
		}
	}
	for _, tp := range delta.PartitionsChanged {
		t.dirty[shardOfPartition(tp)] = struct{}{}
		t.dirty[shardOfTopic(tp.ID)] = struct{}{} // it may be a new one
		if partition, found := img.PartitionByID(tp); found && partition.Tier == nil {
			t.needs[tp.ID] = delta.Index
		}
	}
	for _, tp := range delta.TierChanged {
		t.dirty[shardOfPartition(tp)] = struct{}{}
	}
}

func (t *tracker) topicChanged(topic *image.Topic, index uint64) {
	t.needs[topic.ID] = index
	t.dirty[shardOfTopic(topic.ID)] = struct{}{}
	for partition := range topic.Partitions {
		t.dirty[shardOfPartition(kafka.TopicIDPartition{ID: topic.ID, Partition: int32(partition)})] = struct{}{}
	}
}

// take gives the image as of the last change and the shards that have changed up to it, for whoever writes them; put
// gives them back if that fails.
func (t *tracker) take() (img *image.Image, dirty map[shardID]struct{}, asked int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	dirty = t.dirty
	if t.all {
		for number := range uint32(topicShards) {
			dirty[shardID{shardOfTopics, number}] = struct{}{}
		}
	}
	t.dirty, t.all = map[shardID]struct{}{}, false
	return t.image, dirty, t.asked
}

func (t *tracker) put(dirty map[shardID]struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range dirty {
		t.dirty[id] = struct{}{}
	}
}

// cover says that a checkpoint has everything up to an index, and that it was begun after so many calls of flush.
func (t *tracker) cover(index uint64, asked int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, needed := range t.needs {
		if needed <= index {
			delete(t.needs, id)
		}
	}
	t.covered, t.answered, t.stopped = max(t.covered, index), asked, nil
	t.tell()
}

// stop says that there will be no further checkpoints until cover says otherwise.
func (t *tracker) stop(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = reason
	t.tell()
}

// tell needs mu.
func (t *tracker) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// await waits until a checkpoint has what was done to a topic.
func (t *tracker) await(ctx context.Context, topic kafka.TopicID) error {
	t.mu.Lock()
	index := max(t.needs[topic], t.needsAll)
	t.mu.Unlock()
	return t.until(ctx, func() bool { return t.covered >= index })
}

// flush waits for a checkpoint that is begun from now on.
func (t *tracker) flush(ctx context.Context) error {
	t.mu.Lock()
	t.asked++
	number := t.asked
	t.mu.Unlock()
	return t.until(ctx, func() bool { return t.answered >= number })
}

// until wakes the writer until something holds, which is looked at under mu.
func (t *tracker) until(ctx context.Context, holds func() bool) error {
	for {
		t.mu.Lock()
		done, stopped, changed := holds(), t.stopped, t.changed
		t.mu.Unlock()
		if stopped != nil || done {
			return stopped
		}
		select {
		case t.wake <- struct{}{}:
		default: // it has been woken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
