package storage

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

func TestDirectoryOfAnotherOwnerIsRefused(t *testing.T) {
	owner := Owner{ClusterID: kafka.UUID{1}, NodeID: 1}
	for name, c := range map[string]struct {
		id    kafka.UUID
		owner Owner
		want  string
	}{
		"the same owner":    {owner: owner},
		"another cluster":   {owner: Owner{ClusterID: kafka.UUID{2}, NodeID: 1}, want: "belongs to cluster"},
		"another node":      {owner: Owner{ClusterID: kafka.UUID{1}, NodeID: 2}, want: "set node.id=1"},
		"another directory": {id: kafka.UUID{9}, owner: owner, want: "should be"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			opts := ManagerOptions{FS: mem, Dirs: []Directory{{Path: "log"}}, Owner: owner, Store: newMemoryStore()}
			first, err := NewManager(opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			opts.Dirs, opts.Owner = []Directory{{Path: "log", ID: c.id}}, c.owner
			second, err := NewManager(opts)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if got, want := second.Directories(), first.Directories(); got[0] != want[0] {
					t.Fatalf("%v became %v", want, got)
				}
				if err := second.Close(); err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v", err)
			}
		})
	}
}

func TestDirectoryInUseIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	opts := ManagerOptions{FS: mem, Dirs: []Directory{{Path: "log"}}, Store: newMemoryStore()}
	first, err := NewManager(opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewManager(opts); err == nil || !strings.Contains(err.Error(), "another process may be using") {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := NewManager(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCleanMarkerIsGoneWhileTheDirectoryIsInUse(t *testing.T) {
	d := newDisk()
	marker := "data/log/" + cleanMarkerName
	m, _ := d.open(t, Config{})
	if _, err := d.fs.Stat(marker); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("marker before the first stop: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.fs.Stat(marker); err != nil {
		t.Fatal(err)
	}
	m, result := d.start(t, Config{})
	if !result.Clean {
		t.Fatal("the stop was not clean")
	}
	crashed := &disk{fs: d.fs.(*vfs.Mem).CrashCloneStrict(), store: d.store}
	if _, result := crashed.start(t, Config{}); result.Clean {
		t.Fatal("the marker has come back after a power cut")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownFoldersArePutAsideAndDeletedOnesRemoved(t *testing.T) {
	mem := vfs.NewMem()
	store := newMemoryStore()
	long := kafka.TopicPartition{Topic: strings.Repeat("t", 249), Partition: 12345}
	known := map[kafka.TopicPartition]bool{}
	load := func() (*Manager, LoadResult) {
		m, err := NewManager(ManagerOptions{FS: mem, Dirs: []Directory{{Path: "log"}}, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		result, err := m.Load(context.Background(), func(tp kafka.TopicPartition, _ kafka.TopicID) (Config, bool) {
			return Config{}, known[tp]
		})
		if err != nil {
			t.Fatal(err)
		}
		return m, result
	}
	m, _ := load()
	for i, tp := range []kafka.TopicPartition{testTopic, long, {Topic: "kept", Partition: 3}, {Topic: "dropped"}} {
		l, err := m.Create(tp, kafka.TopicID{byte(i + 1)}, Config{}, kafka.UUID{})
		if err != nil {
			t.Fatal(err)
		}
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		known[tp] = true
	}
	if err := m.Delete(kafka.TopicPartition{Topic: "dropped"}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Log(kafka.TopicPartition{Topic: "dropped"}); kafka.CodeOf(err) != kafka.UnknownTopicOrPartition {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	delete(known, testTopic)
	delete(known, long)
	m, result := load()
	if len(result.Strays) != 2 || len(m.Logs()) != 1 || m.Logs()[0].TopicPartition().Topic != "kept" {
		t.Fatalf("%+v, %d logs", result, len(m.Logs()))
	}
	names, err := mem.List("log")
	if err != nil {
		t.Fatal(err)
	}
	strays := 0
	for _, name := range names {
		if len(name) > 255 || strings.HasSuffix(name, deletedFolderSuffix) {
			t.Errorf("folder %q of %d bytes", name, len(name))
		}
		if strings.HasSuffix(name, strayFolderSuffix) {
			strays++
			if !hasRecords(mem, path.Join("log", name)) {
				t.Errorf("%q lost its records", name)
			}
		}
	}
	if strays != 2 {
		t.Errorf("%q", names)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDeletedLogGoesAsideAtOnceAndFromDiskLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		config := Config{FileDeleteDelay: time.Minute}
		m, l := d.open(t, config)
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		read, err := l.Read(ReadRequest{Offset: 0, AtLeastOne: true, UpTo: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		stop := runManager(t, m)
		defer stop()
		if err := m.Delete(testTopic); err != nil {
			t.Fatal(err)
		}
		if _, err := tryAppend(l, batchOf(1, 1), 0, 1); kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Fatalf("append to a deleted log: %v", err)
		}
		if len(d.store.values) > 0 {
			t.Fatalf("the state database still knows %d keys of it", len(d.store.values))
		}
		// A topic of the same name can be made at once; what a reader holds stays readable.
		again, err := m.Create(testTopic, kafka.TopicID{7}, config, kafka.UUID{})
		if err != nil || again.EndOffset() != 0 {
			t.Fatal(again, err)
		}
		if data := regionBytes(t, read.Region); len(data) != read.Size {
			t.Fatal(len(data))
		}
		read.Region.Release()
		countDeleted := func() (n int) {
			names, _ := d.fs.List("data/log")
			for _, name := range names {
				if strings.HasSuffix(name, deletedFolderSuffix) {
					n++
				}
			}
			return n
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if countDeleted() != 1 {
			t.Fatal("the folder is gone too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if countDeleted() != 0 {
			t.Fatal("the folder is still there")
		}
	})
}

// runManager starts Run and returns what stops it and closes the manager.
func runManager(t *testing.T, m *Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGroupPolicyFlushesInTimeAndSharesFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		syncs := 0
		d.fs = vfs.NewFaulty(d.fs, func(op vfs.Op) error {
			if op.Kind == vfs.OpSyncData {
				syncs++
				time.Sleep(5 * time.Millisecond) // a disk takes its time
			}
			return nil
		})
		m, l := d.open(t, Config{})
		var flushed []int64
		l.OnFlush(func(offset int64) { flushed = append(flushed, offset) })
		stop := runManager(t, m)
		defer stop()

		// Nobody waits: ten milliseconds later it is flushed anyway.
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		time.Sleep(9 * time.Millisecond)
		if l.FlushedOffset() != 0 || l.SetHighWatermark(1) != 0 {
			t.Fatal("flushed although nobody waits")
		}
		time.Sleep(7 * time.Millisecond)
		synctest.Wait()
		if l.FlushedOffset() != 1 || l.SetHighWatermark(1) != 1 {
			t.Fatalf("flushed offset %d", l.FlushedOffset())
		}

		// Somebody waits: at once. What comes meanwhile shares the next flush.
		before := syncs
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		l.RequestFlush()
		time.Sleep(time.Millisecond)
		for range 10 {
			appendBatch(t, l, batchOf(1, 1), 0, 1)
			l.RequestFlush()
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if l.FlushedOffset() != 2 {
			t.Fatalf("flushed offset %d", l.FlushedOffset())
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if l.FlushedOffset() != 12 || syncs != before+2 {
			t.Fatalf("flushed offset %d after %d syncs", l.FlushedOffset(), syncs-before)
		}
		if last := flushed[len(flushed)-1]; last != 12 {
			t.Fatalf("%v", flushed)
		}

		// A MiB without anybody waiting.
		for l.EndOffset() < 1100 {
			appendBatch(t, l, batchOfBytes(100<<10), 0, 1)
		}
		time.Sleep(6 * time.Millisecond)
		synctest.Wait()
		if l.FlushedOffset() < 1000 {
			t.Fatalf("flushed offset %d of %d", l.FlushedOffset(), l.EndOffset())
		}
	})
}

func TestFlushSettingsOfKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		m, l := d.open(t, Config{FlushMs: 500}, func(o *ManagerOptions) { o.Policy = FlushOS })
		stop := runManager(t, m)
		defer stop()
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		if got := l.SetHighWatermark(1); got != 1 {
			t.Fatalf("high watermark %d under policy os", got)
		}
		time.Sleep(499 * time.Millisecond)
		synctest.Wait()
		if l.FlushedOffset() != 0 {
			t.Fatal("flushed before flush.ms")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if l.FlushedOffset() != 1 {
			t.Fatal("not flushed after flush.ms")
		}
		l.SetConfig(Config{FlushMessages: 3})
		appendBatch(t, l, batchOf(2, 1), 0, 1)
		if l.FlushedOffset() != 1 {
			t.Fatal("flushed before flush.messages")
		}
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		if l.FlushedOffset() != 4 {
			t.Fatalf("flushed offset %d when the third record was answered", l.FlushedOffset())
		}
		l.SetConfig(Config{})
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		if l.FlushedOffset() != 4 {
			t.Fatal("flushed although nothing asks for it")
		}
		// Rolling flushes under every policy.
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if l.FlushedOffset() != 5 || !l.Segments()[0].Flushed {
			t.Fatalf("flushed offset %d after a roll", l.FlushedOffset())
		}
		l.SetPolicy(FlushGroup)
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		time.Sleep(11 * time.Millisecond)
		synctest.Wait()
		if l.FlushedOffset() != 6 {
			t.Fatal("not flushed after the policy became group")
		}
	})
}

func TestCheckpointFollowsWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		m, l := d.open(t, Config{})
		stop := runManager(t, m)
		defer stop()
		appendBatch(t, l, batchOf(4, 1), 3, 12345)
		time.Sleep(20 * time.Millisecond)
		l.SetHighWatermark(3)
		time.Sleep(time.Second)
		synctest.Wait()
		saved, err := l.loadCheckpoint()
		if err != nil || saved.FlushedOffset != 4 || saved.FlushedEpoch != 3 || saved.HighWatermark != 3 {
			t.Fatalf("%+v, %v", saved, err)
		}
		// The append times of the active segment survive a crash, since the checkpoint is durable.
		crashed := &disk{fs: d.fs.(*vfs.Mem).KillClone(), store: &memoryStore{values: d.store.durable}}
		_, again := crashed.open(t, Config{})
		if info := again.Segments()[0]; info.FirstAppendedAt != 12345 || again.HighWatermark() != 3 {
			t.Fatalf("%+v, high watermark %d", info, again.HighWatermark())
		}
	})
}

func TestFailedSyncTakesTheDirectoryOffline(t *testing.T) {
	mem := vfs.NewMem()
	failing := false
	syncs := 0
	fsys := vfs.NewFaulty(mem, func(op vfs.Op) error {
		if failing && op.Kind == vfs.OpSyncData && strings.HasPrefix(op.Name, "a/") {
			syncs++
			return vfs.ErrInjected
		}
		return nil
	})
	var failed []string
	m, err := NewManager(ManagerOptions{
		FS: fsys, Dirs: []Directory{{Path: "a"}, {Path: "b"}}, Store: newMemoryStore(),
		Events: &Events{DirectoryFailed: func(dir string, _ error) { failed = append(failed, dir) }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Load(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var logs []*Log
	for i := range 4 {
		l, err := m.Create(kafka.TopicPartition{Topic: "t", Partition: int32(i)}, testID, Config{}, kafka.UUID{})
		if err != nil {
			t.Fatal(err)
		}
		appendBatch(t, l, batchOf(1, 1), 0, 1)
		logs = append(logs, l)
	}
	failing = true
	for _, l := range logs {
		err := l.Flush()
		_, appendErr := tryAppend(l, batchOf(1, 1), 0, 1)
		_, readErr := l.Read(ReadRequest{AtLeastOne: true, UpTo: 1})
		_, logErr := m.Log(l.TopicPartition())
		for _, err := range []error{err, appendErr, readErr, logErr} {
			if offline := kafka.CodeOf(err) == kafka.KafkaStorageError; offline != (l.Dir() == "a") {
				t.Errorf("%s in %s: %v", l.TopicPartition(), l.Dir(), err)
			}
		}
	}
	if syncs != 1 || len(failed) != 1 {
		t.Errorf("%d syncs after the first one failed, %d reports", syncs, len(failed))
	}
	l, err := m.Create(kafka.TopicPartition{Topic: "new"}, kafka.TopicID{4}, Config{}, kafka.UUID{})
	if err != nil || l.Dir() != "b" {
		t.Errorf("a new log is made in %v, %v", l, err)
	}
	if err := m.Close(); err == nil {
		t.Error("closing says nothing of the failed directory")
	}
	if _, err := mem.Stat("a/" + cleanMarkerName); err == nil {
		t.Error("the failed directory is marked as clean")
	}
	if _, err := mem.Stat("b/" + cleanMarkerName); err != nil {
		t.Error("the other directory is not marked as clean")
	}
}

func TestDirectoryThatCannotBeReadLeavesTheOthersServing(t *testing.T) {
	fsys := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if strings.HasPrefix(op.Name, "a") {
			return vfs.ErrInjected
		}
		return nil
	})
	opts := ManagerOptions{FS: fsys, Dirs: []Directory{{Path: "a"}, {Path: "b"}}, Store: newMemoryStore()}
	m, err := NewManager(opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Load(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if l, err := m.Create(testTopic, testID, Config{}, kafka.UUID{}); err != nil || l.Dir() != "b" {
		t.Fatal(l, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	opts.Dirs = opts.Dirs[:1]
	if _, err := NewManager(opts); err == nil {
		t.Fatal("a broker without any usable directory starts")
	}
}

func TestLogIsMadeInTheDirectoryItBelongsToOrNotAtAll(t *testing.T) {
	m, err := NewManager(ManagerOptions{
		FS: vfs.NewMem(), Dirs: []Directory{{Path: "a"}, {Path: "b"}}, Store: newMemoryStore(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Load(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	dirs := m.Directories()
	for i, want := range []DirectoryState{dirs[1], dirs[1], dirs[0]} {
		tp := kafka.TopicPartition{Topic: "t", Partition: int32(i)}
		if l, err := m.Create(tp, testID, Config{}, want.ID); err != nil || l.Dir() != want.Path {
			t.Errorf("%s: %v, %v", tp, l, err)
		}
	}
	first := kafka.TopicPartition{Topic: "t"}
	if l, err := m.Create(first, testID, Config{}, dirs[1].ID); err != nil || l == nil {
		t.Errorf("the log that exists: %v", err)
	}
	for name, directory := range map[string]kafka.UUID{"another directory": dirs[0].ID, "one that is not here": {9}} {
		tp := kafka.TopicPartition{Topic: "t", Partition: 9}
		if name == "another directory" {
			tp = first
		}
		if _, err := m.Create(tp, testID, Config{}, directory); kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
