package storage

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// memoryStore is a state database of its own: what is set is durable at once.
type memoryStore struct {
	mu     sync.Mutex // guards values
	values map[string]string
}

var _ Store = (*memoryStore)(nil)

func newMemoryStore() *memoryStore { return &memoryStore{values: map[string]string{}} }

func (s *memoryStore) clone() *memoryStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &memoryStore{values: maps.Clone(s.values)}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[string(key)] = string(value)
	return nil
}

func (s *memoryStore) Delete(key []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, string(key))
	return nil
}

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
