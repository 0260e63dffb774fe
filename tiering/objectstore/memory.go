package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Memory is a bucket in memory, for tests and simulations. It keeps no more promises than other buckets do; faults come
// from Faulty around it.
type Memory struct {
	mu      sync.Mutex // guards the fields below
	objects map[string][]byte
	folders map[string]int // how many objects lie below each folder
}

var _ Bucket = (*Memory)(nil)

// NewMemory makes an empty bucket.
func NewMemory() *Memory {
	return &Memory{objects: map[string][]byte{}, folders: map[string]int{}}
}

// Clone copies the bucket as it is at this instant. Objects are immutable, so they are shared.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{objects: maps.Clone(m.objects), folders: maps.Clone(m.folders)}
}

// String lists the bucket, one object a line: key, size and checksum.
func (m *Memory) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		object := m.objects[key]
		fmt.Fprintf(&text, "%s %d bytes crc32c %08x\n", key, len(object), crc32.Checksum(object, castagnoli))
	}
	return text.String()
}

// Put implements Bucket.
func (m *Memory) Put(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error {
	if err := checkPut(OpPut, m.name(), key, size); err != nil {
		return err
	}
	object := make([]byte, 0, size)
	err := forEachBlock(ctx, body, 0, size, func(block []byte) error {
		object = append(object, block...)
		return nil
	})
	if err != nil {
		return m.failure(OpPut, key, nil, err)
	}
	if got := crc32.Checksum(object, castagnoli); options.HasCRC32C && got != options.CRC32C {
		return m.failure(OpPut, key, ErrChecksum, checksumMismatch(options.CRC32C, got))
	}
	if options.Sent != nil {
		options.Sent(size)
	}
	_, err = m.store(OpPut, key, object, func() bool { return true })
	return err
}

// PutIfAbsent implements Bucket.
func (m *Memory) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	if err := checkPut(OpPutIfAbsent, m.name(), key, int64(len(data))); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, m.failure(OpPutIfAbsent, key, nil, err)
	}
	return m.store(OpPutIfAbsent, key, bytes.Clone(data), func() bool {
		_, exists := m.objects[key]
		return !exists
	})
}

// store sets an object if allowed, which is asked under the lock, says so.
func (m *Memory) store(operation Operation, key string, object []byte, allowed func() bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkFolders(key); err != nil {
		return false, m.failure(operation, key, ErrInvalidKey, err)
	}
	if !allowed() {
		return false, nil
	}
	if _, exists := m.objects[key]; !exists {
		for _, folder := range parents(key) {
			m.folders[folder]++
		}
	}
	m.objects[key] = object
	return true, nil
}

// checkFolders refuses a key that is the folder of another one, or the other way round.
func (m *Memory) checkFolders(key string) error {
	if m.folders[key] > 0 {
		return errors.New("it is already a folder of other keys")
	}
	for _, folder := range parents(key) {
		if _, exists := m.objects[folder]; exists {
			return fmt.Errorf("%s is already an object", folder)
		}
	}
	return nil
}

// Get implements Bucket.
func (m *Memory) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	if err := checkGet(OpGet, m.name(), key, offset); err != nil {
		return 0, err
	}
	if len(dst) == 0 {
		return 0, nil
	}
	object, err := m.object(ctx, OpGet, key)
	if err != nil {
		return 0, err
	}
	n := copy(dst, object[min(offset, int64(len(object))):])
	if n < len(dst) {
		return n, pastEnd(m.name(), key, offset+int64(len(dst)), int64(len(object)))
	}
	return n, nil
}

// Stat implements Bucket.
func (m *Memory) Stat(ctx context.Context, key string) (ObjectInfo, error) {
	if err := checkGet(OpStat, m.name(), key, 0); err != nil {
		return ObjectInfo{}, err
	}
	object, err := m.object(ctx, OpStat, key)
	if err != nil {
		return ObjectInfo{}, err
	}
	return ObjectInfo{Key: key, Size: int64(len(object))}, nil
}

func (m *Memory) object(ctx context.Context, operation Operation, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, m.failure(operation, key, nil, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	object, exists := m.objects[key]
	if !exists {
		return nil, m.failure(operation, key, ErrNotFound, nil)
	}
	return object, nil
}

// List implements Bucket. It lists the bucket as it was at the call.
func (m *Memory) List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error {
	for _, info := range m.snapshot(prefix, startAfter) {
		if err := ctx.Err(); err != nil {
			return m.failure(OpList, prefix, nil, err)
		}
		if err := visit(info); err != nil {
			return ignoreSkipAll(err)
		}
	}
	return nil
}

func (m *Memory) snapshot(prefix, startAfter string) []ObjectInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	var infos []ObjectInfo
	for key, object := range m.objects {
		if strings.HasPrefix(key, prefix) && key > startAfter {
			infos = append(infos, ObjectInfo{Key: key, Size: int64(len(object))})
		}
	}
	slices.SortFunc(infos, func(a, b ObjectInfo) int { return strings.Compare(a.Key, b.Key) })
	return infos
}

// Delete implements Bucket.
func (m *Memory) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := checkGet(OpDelete, m.name(), key, 0); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return m.failure(OpDelete, "", nil, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if _, exists := m.objects[key]; !exists {
			continue
		}
		delete(m.objects, key)
		for _, folder := range parents(key) {
			if m.folders[folder]--; m.folders[folder] == 0 {
				delete(m.folders, folder)
			}
		}
	}
	return nil
}

func (m *Memory) name() string { return "memory" }

func (m *Memory) failure(operation Operation, key string, kind, cause error) error {
	return localFailure(operation, m.name(), key, kind, cause)
}

// localFailure describes a failure in a bucket that has no protocol, and so no status of its own.
func localFailure(operation Operation, bucket, key string, kind, cause error) error {
	status := "failed"
	switch {
	case kind != nil:
		status = kind.Error()
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		status = "cancelled"
	}
	return &Error{Operation: operation, Bucket: bucket, Key: key, Status: status, Kind: kind, Err: cause}
}

// pastEnd is the failure of a Get whose range ends at wanted while the object ends at size.
func pastEnd(bucket, key string, wanted, size int64) error {
	return &Error{Operation: OpGet, Bucket: bucket, Key: key, Status: "past the end",
		Err: fmt.Errorf("the range ends at byte %d, the object at %d: %w", wanted, size, io.ErrUnexpectedEOF)}
}

func checksumMismatch(declared, found uint32) error {
	return fmt.Errorf("declared as %08x, the bytes have %08x", declared, found)
}

func ignoreSkipAll(err error) error {
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}
