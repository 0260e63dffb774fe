package storage

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// memoryStore is a state database in memory that knows what a power cut would leave of it: what had been synced, and
// the changes since up to some point.
type memoryStore struct {
	mu      sync.Mutex // guards the fields below
	durable map[string]string
	values  map[string]string
	changes []storeChange // since the last sync
	failing bool
}

type storeChange struct {
	key   string
	value *string // nil deletes
}

var (
	_ Store = (*memoryStore)(nil)

	errStoreFailed = errors.New("the state database has failed")
)

func newMemoryStore() *memoryStore {
	return &memoryStore{durable: map[string]string{}, values: map[string]string{}}
}

func (s *memoryStore) change(key string, value *string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing {
		return errStoreFailed
	}
	c := storeChange{key: key, value: value}
	c.apply(s.values)
	s.changes = append(s.changes, c)
	return nil
}

func (c storeChange) apply(values map[string]string) {
	if c.value == nil {
		delete(values, c.key)
		return
	}
	values[c.key] = *c.value
}

// sync is SyncStore.
func (s *memoryStore) sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable, s.changes = maps.Clone(s.values), nil
	return nil
}

// crashClone keeps the changes since the last sync up to one that rng chooses.
func (s *memoryStore) crashClone(rng *rand.Rand) *memoryStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := maps.Clone(s.durable)
	for _, c := range s.changes[:rng.IntN(len(s.changes)+1)] {
		c.apply(left)
	}
	return &memoryStore{durable: left, values: maps.Clone(left)}
}

func (s *memoryStore) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, found := s.values[string(key)]; found {
		return []byte(value), nil
	}
	return nil, nil
}

func (s *memoryStore) Set(key, value []byte) error {
	text := string(value)
	return s.change(string(key), &text)
}

func (s *memoryStore) Delete(key []byte) error { return s.change(string(key), nil) }

func (s *memoryStore) Scan(prefix []byte, visit func(key, value []byte) error) error {
	s.mu.Lock()
	values := maps.Clone(s.values)
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !strings.HasPrefix(key, string(prefix)) {
			continue
		}
		if err := visit([]byte(key), []byte(values[key])); err != nil {
			return err
		}
	}
	return nil
}
