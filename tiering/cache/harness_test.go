package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	kib = 1 << 10
	// partBytes is the size of most parts in tests: what the smallest counts, so that room is easily told.
	partBytes = minCharge
)

// store is the state database as it behaves in a crash: what was written last may be lost, and never anything but the
// last.
type store struct {
	mu     sync.Mutex // guards the fields below
	writes []write
	synced int // so many are durable
	fail   error
}

type write struct {
	key   string
	value []byte // nil: deleted
}

func (s *store) put(key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.writes = append(s.writes, write{key, value})
	return nil
}

func (s *store) Set(key, value []byte) error { return s.put(string(key), bytes.Clone(value)) }
func (s *store) Delete(key []byte) error     { return s.put(string(key), nil) }

func (s *store) sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = len(s.writes)
	return s.fail
}

func (s *store) content() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	content := map[string][]byte{}
	for _, w := range s.writes {
		if w.value == nil {
			delete(content, w.key)
		} else {
			content[w.key] = w.value
		}
	}
	return content
}

func (s *store) Get(key []byte) ([]byte, error) { return s.content()[string(key)], nil }

func (s *store) Scan(prefix []byte, visit func(key, value []byte) error) error {
	content := s.content()
	var keys []string
	for key := range content {
		if strings.HasPrefix(key, string(prefix)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := visit([]byte(key), content[key]); err != nil {
			return err
		}
	}
	return nil
}

// crash is what a power cut leaves.
func (s *store) crash(rng *rand.Rand) *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.synced + rng.IntN(len(s.writes)-s.synced+1)
	return &store{writes: slices.Clone(s.writes[:left]), synced: left}
}

// node is a cache with the disk it stands on.
type node struct {
	files    *vfs.Mem
	store    *store
	cache    *Cache
	registry *prometheus.Registry
	options  Options
	stop     func()
}

func newNode(change ...func(*Options)) *node {
	n := &node{files: vfs.NewMem(), store: &store{}}
	n.options = Options{Logger: slog.New(slog.DiscardHandler), Dir: "data/cache", Bytes: 4 * partBytes}
	for _, fn := range change {
		fn(&n.options)
	}
	return n
}

// start runs a cache; in a bubble, so that it has read its list when this returns is up to the caller's synctest.Wait.
func (n *node) start() {
	n.registry = prometheus.NewRegistry()
	options := n.options
	options.Registerer = n.registry
	if options.FS == nil {
		options.FS = n.files
	}
	options.Store, options.SyncStore = n.store, n.store.sync
	n.cache = New(options)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.cache.Run(ctx) }()
	n.stop = func() { cancel(); <-done }
}

// crashed is another node, on what a power cut at this moment leaves.
func (n *node) crashed(seed uint64) *node {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &node{files: n.files.CrashClone(rng), store: n.store.crash(rng), options: n.options}
}

func idOf(name string) ID {
	id := ID{Index: int64(len(name))}
	copy(id.Upload[:], name)
	return id
}

// content is what the bucket has under an id.
func content(id ID, size int) []byte {
	var seed [32]byte
	copy(seed[:], id.Upload[:])
	binary.LittleEndian.PutUint64(seed[16:], uint64(id.Index))
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(data)
	return data
}

// want reads a part as the tier's reader does: from the disk if it is there, else from the bucket.
func (n *node) want(id ID, size int) (how string, err error) {
	if file := n.cache.Get(id); file != nil {
		defer file.Release()
		if err := file.Open(); err == nil {
			data := make([]byte, size)
			if _, err := file.File().ReadAt(data, 0); err != nil {
				return "", err
			}
			if !bytes.Equal(data, content(id, size)) {
				return "", errors.New("what the cache has is not what was put there")
			}
			return "from the disk", nil
		}
	}
	if n.cache.Reserve(id, int64(size)).Fill(content(id, size)) {
		return "downloaded and kept", nil
	}
	return "downloaded", nil
}

// onDisk is how many files of the cache there are, and how many bytes they have.
func (n *node) onDisk() (files int, bytes int64, err error) {
	names, err := n.files.List(n.options.Dir)
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, fileSuffix) {
			info, err := n.files.Stat(n.options.Dir + "/" + name)
			if err != nil {
				return 0, 0, err
			}
			files, bytes = files+1, bytes+info.Size()
		}
	}
	return files, bytes, nil
}

// check compares the books with the disk. Nothing may be under way.
func (n *node) check() error {
	files, bytes, err := n.onDisk()
	if err != nil {
		return err
	}
	c := n.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	var charged int64
	for _, e := range c.known {
		charged += charge(e.size)
	}
	switch {
	case !c.ready:
		return errors.New("the list has not been read")
	case charged != c.bytes || len(c.known) != c.used.Len() || len(c.filling) != 0:
		return fmt.Errorf("%d bytes in the books, %d of %d files, %d are being written",
			c.bytes, charged, len(c.known), len(c.filling))
	case c.bytes > c.options.Bytes:
		return fmt.Errorf("%d bytes, more than %d", c.bytes, c.options.Bytes)
	case files > len(c.known) || bytes > c.bytes:
		return fmt.Errorf("%d files with %d bytes on the disk, %d on the list", files, bytes, len(c.known))
	}
	return nil
}

func (n *node) metric(t testing.TB, name string) float64 {
	t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "firn_tier_cache_"+name {
			return family.GetMetric()[0].GetCounter().GetValue() + family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
