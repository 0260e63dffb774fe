package storage

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// faultRun appends, rolls, flushes and drops segments on a file system one of whose operations fails, and keeps the
// batches whose append was reported as done.
type faultRun struct {
	t       *testing.T
	name    string
	log     *Log
	batches []record.Batch
	flushed int64
	failed  error // a flush failed, or the log went offline by itself
}

func (r *faultRun) run() {
	for i := range 14 {
		batch := batchOf(3, int64(1000+10*i))
		info, err := tryAppend(r.log, batch, 1, int64(1000+i))
		if err == nil {
			r.batches = append(r.batches, batch)
			if want := int64(3 * (len(r.batches) - 1)); info.BaseOffset != want {
				r.t.Fatalf("%s: appended at %d instead of %d", r.name, info.BaseOffset, want)
			}
		}
		r.note(err)
		if i%4 == 3 {
			r.note(r.log.Flush())
			r.flushed = max(r.flushed, r.log.FlushedOffset())
		}
		if i == 9 {
			r.log.SetHighWatermark(r.log.EndOffset())
			r.note(r.log.MoveLogStart(min(6, r.log.HighWatermark())))
			_, err := r.log.MoveLocalStart(6, "test")
			r.note(err)
		}
	}
}

// note checks that every error carries the code a client retries, and that the log is offline where it must be.
func (r *faultRun) note(err error) {
	if err == nil {
		return
	}
	var outOfRange *RangeError
	if errors.As(err, &outOfRange) {
		return
	}
	if kafka.CodeOf(err) != kafka.KafkaStorageError {
		r.t.Fatalf("%s: %v has code %d", r.name, err, kafka.CodeOf(err))
	}
	if r.log.Err() != nil {
		r.failed = r.log.Err()
	}
}

func TestEachFaultOfARunLosesNothingThatWasAcknowledged(t *testing.T) {
	kinds := map[string]func(op vfs.Op) error{
		"not performed": func(vfs.Op) error { return vfs.ErrInjected },
		"in half":       func(op vfs.Op) error { return vfs.ShortWrite(op.Size/2, vfs.ErrInjected) },
		"after it":      func(vfs.Op) error { return vfs.Afterwards(vfs.ErrInjected) },
	}
	config := Config{SegmentBytes: 700, IndexIntervalBytes: 100}
	for kind, injected := range kinds {
		offline, clean := 0, false
		for i := int64(1); !clean; i++ {
			name := fmt.Sprintf("operation %d fails %s", i, kind)
			mem := vfs.NewMem()
			d := &disk{fs: mem, store: newMemoryStore()}
			m, _ := d.open(t, config)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			var armed, done bool
			count := int64(0)
			d.fs = vfs.NewFaulty(mem, func(op vfs.Op) error {
				if !armed || !op.Kind.Changes() {
					return nil
				}
				if count++; count == i {
					done = true
					name = fmt.Sprintf("%s %s: %s", name, kind, op)
					return injected(op)
				}
				return nil
			})
			m, l := d.open(t, config)
			armed = true
			r := &faultRun{t: t, name: name, log: l}
			r.run()
			armed, clean = false, !done
			r.verify(m, mem, d.store, config)
			if r.failed != nil {
				offline++
			}
		}
		if offline == 0 {
			t.Fatalf("no fault %s has taken a log offline: the run does not test what it should", kind)
		}
	}
}

// verify compares what is readable, now and after a restart of the process, with what was acknowledged.
func (r *faultRun) verify(m *Manager, mem *vfs.Mem, store *memoryStore, config Config) {
	r.t.Helper()
	left := &disk{fs: mem.KillClone(), store: &memoryStore{durable: store.durable, values: store.values}}
	if r.failed == nil {
		r.compare(r.log)
		if err := m.Close(); err != nil {
			r.t.Fatalf("%s: close: %v", r.name, err)
		}
	} else if _, err := tryAppend(r.log, batchOf(1, 1), 1, 1); kafka.CodeOf(err) != kafka.KafkaStorageError {
		r.t.Fatalf("%s: append to an offline log: %v", r.name, err)
	}
	again, result := left.start(r.t, config)
	if len(result.Offline) > 0 {
		r.t.Fatalf("%s: offline after a restart: %v", r.name, result.Offline[0].Err)
	}
	l, err := again.Log(testTopic)
	if err != nil {
		r.t.Fatalf("%s: %v", r.name, err)
	}
	if l.EndOffset() < r.flushed {
		r.t.Fatalf("%s: the log ends at %d after a restart, and %d had been flushed", r.name, l.EndOffset(), r.flushed)
	}
	r.compare(l)
	if err := again.Close(); err != nil {
		r.t.Fatalf("%s: close: %v", r.name, err)
	}
}

func (r *faultRun) compare(l *Log) {
	r.t.Helper()
	var want []byte
	for _, batch := range r.batches {
		if batch.NextOffset() > l.LocalLogStartOffset() && batch.BaseOffset() < l.EndOffset() {
			want = append(want, batch...)
		}
	}
	if got := readAll(r.t, l, l.LocalLogStartOffset()); !bytes.Equal(got, want) {
		r.t.Fatalf("%s: read %d bytes instead of %d", r.name, len(got), len(want))
	}
}
