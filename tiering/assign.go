package tiering

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/upload"
)

// assignment is a task that ought to run.
type assignment struct {
	partition upload.Partition
	settings  upload.Settings
}

// assign brings wanted up to an image and tells whether it has changed. It needs mu.
func (m *Manager) assign(img *image.Image, delta image.Delta) (changed bool) {
	if delta.Reset {
		clear(m.wanted)
		m.assignAll(img)
		return true
	}
	for _, topic := range delta.TopicsDeleted {
		for i := range topic.Partitions {
			delete(m.wanted, kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)})
		}
	}
	for _, topic := range delta.TopicsCreated {
		m.assignTopic(img, topic)
	}
	for _, id := range delta.PartitionsChanged {
		if topic, found := img.TopicByID(id.ID); found {
			m.assignPartition(topic, id.Partition, m.settings(img, topic))
		}
	}
	for _, resource := range delta.ConfigsChanged {
		if !resource.Topic {
			m.assignAll(img)
		} else if topic, found := img.Topic(resource.Name); found {
			m.assignTopic(img, topic)
		}
	}
	return len(delta.TopicsDeleted)+len(delta.TopicsCreated)+len(delta.PartitionsChanged)+len(delta.ConfigsChanged) > 0
}

func (m *Manager) assignAll(img *image.Image) {
	for topic := range img.Topics() {
		m.assignTopic(img, topic)
	}
}

func (m *Manager) assignTopic(img *image.Image, topic *image.Topic) {
	settings := m.settings(img, topic)
	for i := range topic.Partitions {
		m.assignPartition(topic, int32(i), settings)
	}
}

// settings resolves what a topic says about the tier; nil if it is not known. Settings that do not fit any more, which
// a stricter table could make of them, leave everything where it is: nothing is lost by that.
func (m *Manager) settings(img *image.Image, topic *image.Topic) *upload.Settings {
	cfg, err := config.ResolveTopic(topic.Configs, m.options.Layers(img).Lookup)
	if err != nil {
		m.options.Logger.Error("topic settings do not fit any more, the topic is not copied to the object store",
			"topic", topic.Name, "err", err)
		return nil
	}
	if !cfg.RemoteStorageEnable {
		return &upload.Settings{Off: true}
	}
	return &upload.Settings{Hold: upload.HoldOf(&cfg), Paused: cfg.RemoteCopyDisable}
}

func (m *Manager) assignPartition(topic *image.Topic, index int32, settings *upload.Settings) {
	id := kafka.TopicIDPartition{ID: topic.ID, Partition: index}
	if int(index) >= len(topic.Partitions) || settings == nil || topic.Partitions[index].Leader != m.options.BrokerID ||
		settings.Off && topic.Partitions[index].Tier == nil { // it has never been tiered
		delete(m.wanted, id)
		return
	}
	m.wanted[id] = assignment{
		partition: upload.Partition{
			ID: id, Name: kafka.TopicPartition{Topic: topic.Name, Partition: index}, Epoch: topic.Partitions[index].Epoch,
		},
		settings: *settings,
	}
}

// runningTask is a task with its goroutine.
type runningTask struct {
	task     *upload.Task
	settings upload.Settings
	cancel   context.CancelFunc
	done     chan struct{} // closed when it has ended
}

// supervise starts and stops tasks until ctx ends, and waits for all of them.
func (m *Manager) supervise(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	running := map[kafka.TopicIDPartition]*runningTask{}
	for {
		for id, want := range m.snapshot() {
			m.ensure(ctx, &group, running, id, want)
		}
		m.drop(running)
		select {
		case <-m.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) snapshot() map[kafka.TopicIDPartition]assignment {
	m.mu.RLock()
	defer m.mu.RUnlock()
	wanted := make(map[kafka.TopicIDPartition]assignment, len(m.wanted))
	for id, want := range m.wanted {
		wanted[id] = want
	}
	return wanted
}

// ensure has a task run as it is wanted. One for a new leader epoch takes the place of the old one, and begins when
// that has ended: two would make the same objects.
func (m *Manager) ensure(ctx context.Context, group *sync.WaitGroup,
	running map[kafka.TopicIDPartition]*runningTask, id kafka.TopicIDPartition, want assignment,
) {
	current := running[id]
	if current != nil && current.task.Partition() == want.partition {
		if current.settings != want.settings {
			current.settings = want.settings
			current.task.Change(want.settings)
		}
		return
	}
	random := rand.New(rand.NewPCG(m.options.Random.Uint64(), m.options.Random.Uint64()))
	ctx, cancel := context.WithCancel(ctx)
	next := &runningTask{
		task:     m.uploader.NewTask(want.partition, want.settings, random),
		settings: want.settings, cancel: cancel, done: make(chan struct{}),
	}
	running[id] = next
	m.mu.Lock()
	m.tasks[want.partition.Name] = next.task
	m.mu.Unlock()
	if current != nil {
		current.cancel()
	}
	group.Go(func() {
		defer close(next.done)
		defer cancel()
		if current != nil {
			<-current.done
		}
		next.task.Run(ctx)
	})
}

// drop stops the tasks that are not wanted any more.
func (m *Manager) drop(running map[kafka.TopicIDPartition]*runningTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, current := range running {
		if _, wanted := m.wanted[id]; wanted {
			continue
		}
		current.cancel()
		delete(running, id)
		if name := current.task.Partition().Name; m.tasks[name] == current.task {
			delete(m.tasks, name)
		}
	}
}
