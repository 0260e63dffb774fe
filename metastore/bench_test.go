package metastore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/state"
)

// BenchmarkCreateTopics applies one topic a command, beside as many as there are already: the cost must not grow with
// them.
func BenchmarkCreateTopics(b *testing.B) {
	db := openState(b, vfs.NewMem())
	defer closeState(b, db)
	m := newMachine(b, db)
	mustApply(b, m, registration(1))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		mustApply(b, m, command.CreateTopics{Topics: []command.NewTopic{newTopic(fmt.Sprint("topic-", i), 1)}})
	}
}

// BenchmarkStart measures from opening the databases of a sole voter on a real disk until it is ready.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		start := time.Now()
		db, err := state.Open(state.Options{FS: vfs.Default, Dir: dir + "/state", Logger: quiet()})
		if err != nil {
			b.Fatal(err)
		}
		s, err := Open(Options{FS: vfs.Default, Dir: dir + "/raft", NodeID: 1, State: db, Logger: quiet()})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		if err := s.WaitReady(ctx); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/ready")
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		closeState(b, db)
	}
}

// BenchmarkPropose measures proposals of many callers at once on a real disk, which share its syncs.
func BenchmarkPropose(b *testing.B) {
	dir := b.TempDir()
	db, err := state.Open(state.Options{FS: vfs.Default, Dir: dir + "/state", Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer closeState(b, db)
	s, err := Open(Options{FS: vfs.Default, Dir: dir + "/raft", NodeID: 1, State: db, Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if err := s.WaitReady(ctx); err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Propose(ctx, command.AllocateProducerIDs{Broker: 1, Count: 1}); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}
