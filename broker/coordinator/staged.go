package coordinator

import (
	"strings"
	"sync"
)

// staged are the keys for which open transactions have records. There are few of them at a time.
type staged struct {
	mu     sync.RWMutex // guards the fields below; a leaf
	byKey  map[string]int
	owners map[int64]map[string]bool // by producer id
}

func (s *staged) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey, s.owners = map[string]int{}, map[int64]map[string]bool{}
}

func (s *staged) add(producer int64, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.owners[producer]
	if keys == nil {
		keys = map[string]bool{}
		s.owners[producer] = keys
	}
	if !keys[string(key)] {
		keys[string(key)] = true
		s.byKey[string(key)]++
	}
}

// end forgets a producer's transaction.
func (s *staged) end(producer int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.owners[producer] {
		s.release(key)
	}
	delete(s.owners, producer)
}

// remove forgets a key, whosever transactions have it.
func (s *staged) remove(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[string(key)] == 0 {
		return
	}
	delete(s.byKey, string(key))
	for producer, keys := range s.owners {
		delete(keys, string(key))
		if len(keys) == 0 {
			delete(s.owners, producer)
		}
	}
}

func (s *staged) release(key string) {
	if s.byKey[key]--; s.byKey[key] == 0 {
		delete(s.byKey, key)
	}
}

func (s *staged) has(key []byte) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byKey[string(key)] > 0
}

func (s *staged) keys(prefix []byte) [][]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys [][]byte
	for key := range s.byKey {
		if strings.HasPrefix(key, string(prefix)) {
			keys = append(keys, []byte(key))
		}
	}
	return keys
}

// producers lists whose transactions have a key.
func (s *staged) producers(key []byte) []int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.byKey[string(key)] == 0 {
		return nil
	}
	var ids []int64
	for producer, keys := range s.owners {
		if keys[string(key)] {
			ids = append(ids, producer)
		}
	}
	return ids
}

// of tells whether a producer has anything staged.
func (s *staged) of(producer int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.owners[producer]) > 0
}
