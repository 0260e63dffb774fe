package storage

import (
	"maps"
	"sync"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// TestWhatTheFirstFlushOfALogCosts counts the times that the disk is waited for: ten thousand partitions pay each of
// them ten thousand times.
func TestWhatTheFirstFlushOfALogCosts(t *testing.T) {
	var mu sync.Mutex // logs are created side by side
	syncs := map[vfs.Kind]int{}
	d := &disk{store: newMemoryStore(), fs: vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpSync, vfs.OpSyncData, vfs.OpSyncDir:
			mu.Lock()
			defer mu.Unlock()
			syncs[op.Kind]++
		}
		return nil
	})}
	m, _ := d.start(t, Config{})
	expect := func(when string, want map[vfs.Kind]int) {
		t.Helper()
		if !maps.Equal(syncs, want) {
			t.Errorf("%s: %v, want %v", when, syncs, want)
		}
		clear(syncs)
	}
	clear(syncs)
	const count = 10
	wanted := make([]NewLog, count)
	for i := range wanted {
		wanted[i] = NewLog{TopicPartition: kafka.TopicPartition{Topic: "new", Partition: int32(i)}, TopicID: testID}
	}
	created := m.CreateAll(wanted)
	// Whose folder it is must be known before anything is in it.
	expect("creating", map[vfs.Kind]int{vfs.OpSync: count, vfs.OpSyncDir: 1})
	for _, one := range created {
		if one.Err != nil {
			t.Fatal(one.Err)
		}
		appendBatch(t, one.Log, batchOf(1, 1), 3, 1)
		if err := one.Log.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	expect("the first flush of each", map[vfs.Kind]int{vfs.OpSyncData: count, vfs.OpSyncDir: count})
	for _, one := range created {
		appendBatch(t, one.Log, batchOf(1, 1), 4, 1) // a new leader epoch
		if err := one.Log.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	expect("the second", map[vfs.Kind]int{vfs.OpSyncData: count})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	expect("a clean stop, which leaves a sign of itself", map[vfs.Kind]int{vfs.OpSync: 1, vfs.OpSyncDir: 1})
}
