package manifest

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// Source is what the metastore knows, or a checkpoint.
type Source interface {
	Image() *image.Image
	// Items is a partition's tier state and the top level of its manifest, of one moment and at least as new as Image. The
	// state is nil if tiering has not begun.
	Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error)
}

// Options are what Manifests are made of.
type Options struct {
	Source     Source
	Bucket     segment.Getter
	ClusterID  kafka.UUID // of the cluster whose manifests they are
	CacheBytes int64      // memory for trees and sealed objects
	Registerer prometheus.Registerer
}

// Manifests makes trees. Its methods may be called concurrently.
type Manifests struct {
	options Options
	metrics metrics

	mu      sync.Mutex // guards the fields below
	known   map[any]*list.Element
	used    *list.List // of *kept, the least recently used first
	bytes   int64
	loading map[kafka.UUID]*loading
	base    context.Context // of loads; nil outside Run
	work    sync.WaitGroup  // loads that belong to Run
}

// kept is a tree (under its partition) or the items of a sealed object (under its upload id).
type kept struct {
	key   any
	bytes int64
	tree  *Tree
	items []command.Item
}

// loading is a sealed object on its way.
type loading struct {
	asked time.Time
	done  chan struct{} // closed when the next two are set
	items []command.Item
	err   error
}

// New makes manifests. Nothing is loaded before it is asked for.
func New(options Options) *Manifests {
	return &Manifests{
		options: options, metrics: newMetrics(options.Registerer),
		known: map[any]*list.Element{}, used: list.New(), loading: map[kafka.UUID]*loading{},
	}
}

// Get gives the manifest of a partition as of now. What is not known is an error that says "try again".
func (m *Manifests) Get(_ context.Context, tp kafka.TopicIDPartition) (*Tree, error) {
	img := m.options.Source.Image()
	topic, found := img.TopicByID(tp.ID)
	if !found {
		return nil, fmt.Errorf("topic %s is not known here: %w", tp.ID, kafka.NotLeaderOrFollower)
	}
	partition, found := img.PartitionByID(tp)
	if !found {
		return nil, fmt.Errorf("partition %s is not known here: %w", tp, kafka.NotLeaderOrFollower)
	}
	if known := m.lookup(tp); known != nil && partition.Tier != nil && known.tree.Version >= partition.Tier.Version {
		return known.tree, nil
	}
	tier, items, err := m.options.Source.Items(tp)
	switch {
	case err != nil:
		return nil, err
	case tier == nil:
		return nil, fmt.Errorf("it is not known yet what is remote of %s: %w", tp, kafka.KafkaStorageError)
	}
	if err := check(items); err != nil {
		return nil, fmt.Errorf("the manifest of %s makes no sense: %w", tp, errors.Join(err, kafka.KafkaStorageError))
	}
	tree := &Tree{
		Start: tier.Start, End: tier.End, Version: tier.Version, Bytes: tier.Bytes, Count: tier.Segments,
		manifests: m, tp: tp, topic: topic, items: items,
	}
	m.keep(&kept{key: tp, bytes: treeBytes + itemBytes*int64(len(items)), tree: tree})
	return tree, nil
}

// check tells whether items form a run: each range begins where the one before it ends, so that an offset between the
// records of a segment (compaction leaves such holes) belongs to exactly one of them.
func check(items []command.Item) error {
	for i := 1; i < len(items); i++ {
		if before, s := items[i-1].Summary(), items[i].Summary(); s.BaseOffset != before.EndOffset {
			return fmt.Errorf("item %d begins at offset %d, the one before it ends at %d", i, s.BaseOffset, before.EndOffset)
		}
	}
	return nil
}

// Forget has a manifest read again at the next look: it may be older than what is in the bucket.
func (m *Manifests) Forget(tp kafka.TopicIDPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if element := m.known[tp]; element != nil {
		m.remove(element)
	}
}

// Has tells whether the manifest of a partition, as it is now, has an object, or may have it in a part that cannot be
// read. Of a topic that has gone there is none.
func (m *Manifests) Has(ctx context.Context, key segment.Key) (bool, error) {
	m.Forget(key.Partition)
	tree, err := m.Get(ctx, key.Partition)
	if errors.Is(err, kafka.NotLeaderOrFollower) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for item, err := range tree.Walk(ctx, key.BaseOffset, key.BaseOffset+1) {
		if err != nil && !IsDamaged(err) {
			return false, err
		}
		if err != nil || tree.Key(item) == key {
			return true, nil
		}
	}
	return false, nil
}

// IsDamaged tells whether an error says that a sealed object is damaged or has gone, and so will stay.
func IsDamaged(err error) bool {
	var corrupt *CorruptError
	return errors.As(err, &corrupt) || errors.Is(err, objectstore.ErrNotFound)
}

// Open gives the items that a reference stands for, be it part of a manifest or not any more.
func (m *Manifests) Open(ctx context.Context, tp kafka.TopicIDPartition, reference command.Reference) (
	[]command.Item, error,
) {
	topic, found := m.options.Source.Image().TopicByID(tp.ID)
	if !found {
		return nil, fmt.Errorf("topic %s is not known here: %w", tp.ID, kafka.NotLeaderOrFollower)
	}
	return m.load(ctx, m.keyOf(topic, tp, reference), reference)
}

func (m *Manifests) keyOf(topic *image.Topic, tp kafka.TopicIDPartition, item command.Item) segment.Key {
	return segment.KeyOfItem(topic.OriginID(m.options.ClusterID, item.Summary().Origin()), tp, item)
}

// load gives what is in a sealed object, with one request if it is not in memory however many ask for it.
func (m *Manifests) load(ctx context.Context, key segment.Key, reference command.Reference) ([]command.Item, error) {
	for {
		m.mu.Lock()
		if element := m.known[key.UploadID]; element != nil {
			m.used.MoveToBack(element)
			m.mu.Unlock()
			return element.Value.(*kept).items, nil
		}
		under := m.loading[key.UploadID]
		if under == nil {
			under = &loading{asked: time.Now(), done: make(chan struct{})}
			m.loading[key.UploadID] = under
			if m.base == nil {
				m.mu.Unlock()
				m.fetch(ctx, under, key, reference)
				return under.items, under.err
			}
			m.fetchApart(under, key, reference)
		}
		m.mu.Unlock()
		if err := objectstore.Await(ctx, under.done, under.asked); err != nil {
			return nil, err
		}
		if !errors.Is(under.err, context.Canceled) && !errors.Is(under.err, context.DeadlineExceeded) {
			return under.items, under.err
		} // whoever was first has left: somebody else must ask
	}
}

// fetchApart is fetch for loads that do not end with the request that asked for them: a poll waits for half a second,
// and the next one would begin anew. It needs mu.
func (m *Manifests) fetchApart(under *loading, key segment.Key, reference command.Reference) {
	base := m.base
	m.work.Go(func() {
		ctx, cancel := context.WithTimeout(base, loadDeadline)
		defer cancel()
		m.fetch(ctx, under, key, reference)
	})
}

// loadDeadline ends a load, with all its retries: then the next reader tries anew.
const loadDeadline = time.Minute

// Run has loads go on without those who asked for them, until ctx ends. Outside of it a load ends with its request.
func (m *Manifests) Run(ctx context.Context) {
	m.mu.Lock()
	m.base = ctx
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.base = nil
	m.mu.Unlock()
	m.work.Wait()
}

// fetch loads a sealed object for all who wait for it.
func (m *Manifests) fetch(ctx context.Context, under *loading, key segment.Key, reference command.Reference) {
	under.items, under.err = m.read(ctx, key, reference)
	if under.err == nil {
		m.keep(&kept{key: key.UploadID, bytes: treeBytes + itemBytes*int64(len(under.items)), items: under.items})
	}
	m.mu.Lock()
	delete(m.loading, key.UploadID)
	m.mu.Unlock()
	close(under.done)
}

func (m *Manifests) read(ctx context.Context, key segment.Key, reference command.Reference) ([]command.Item, error) {
	if reference.SealedBytes > maxSealedBytes {
		return nil, m.corrupt(key, fmt.Errorf("%d bytes are too many", reference.SealedBytes))
	}
	m.metrics.loads.Inc()
	data := make([]byte, reference.SealedBytes)
	if n, err := m.options.Bucket.Get(ctx, key.String(), 0, data); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, m.corrupt(key, fmt.Errorf("the object has %d bytes instead of %d", n, len(data)))
		}
		return nil, fmt.Errorf("load a part of the manifest: %w", err)
	}
	items, err := open(data, key, reference)
	if err != nil {
		return nil, m.corrupt(key, err)
	}
	return items, nil
}

func (m *Manifests) corrupt(key segment.Key, err error) error {
	m.metrics.corrupt.Inc()
	return &CorruptError{Key: key.String(), Err: err}
}

// What is kept takes about as much memory: an item is an interface and the value behind it.
const (
	treeBytes = 256
	itemBytes = 144
)

func (m *Manifests) lookup(key any) *kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	element := m.known[key]
	if element == nil {
		return nil
	}
	m.used.MoveToBack(element)
	return element.Value.(*kept)
}

// keep takes something in, and lets go of what was used longest ago.
func (m *Manifests) keep(k *kept) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.known[k.key]; old != nil {
		m.remove(old)
	}
	m.known[k.key] = m.used.PushBack(k)
	m.bytes += k.bytes
	for m.bytes > m.options.CacheBytes && m.used.Len() > 1 {
		m.remove(m.used.Front())
	}
	m.metrics.cached.Set(float64(m.bytes))
}

// remove needs mu.
func (m *Manifests) remove(element *list.Element) {
	old := m.used.Remove(element).(*kept)
	delete(m.known, old.key)
	m.bytes -= old.bytes
}
