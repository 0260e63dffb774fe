package metastore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/state"
)

// sampleMachine has one of everything in its state.
func sampleMachine(t testing.TB, db *state.DB) *machine {
	t.Helper()
	m := newMachine(t, db)
	rack, value := "r1", "-1"
	broker := registration(1)
	broker.Rack = &rack
	tp := kafka.TopicIDPartition{ID: id("t1"), Partition: 1}
	topic := newTopic("flights", 2)
	topic.ID, topic.Configs = id("t1"), map[string]string{"segment.ms": "86400000"}
	gone := newTopic("gone", 1)
	entry := command.SegmentEntry{
		BaseOffset: 5, EndOffset: 9, UploadID: id("u1"), DataBytes: 100, ObjectBytes: 120, TailBytes: 20,
		MinTimestamp: 1, MaxTimestamp: 2, MaxTimestampOffset: 8, FirstAppendedAt: 3, LastAppendedAt: 4,
	}
	next := entry
	next.BaseOffset, next.EndOffset, next.UploadID = 9, 20, id("u2")
	for _, cmd := range []command.Command{
		command.InitCluster{ClusterID: id("cluster")},
		broker,
		command.CreateTopics{Topics: []command.NewTopic{topic, gone}},
		command.AlterConfigs{Resource: command.ResourceTopic, Name: "flights", Ops: []command.ConfigOp{
			{Name: "retention.ms", Value: &value},
		}},
		command.AlterConfigs{Resource: command.ResourceBroker, Ops: []command.ConfigOp{{Name: "a", Value: &value}}},
		command.AlterConfigs{Resource: command.ResourceGroup, Name: "g", Ops: []command.ConfigOp{{Name: "b", Value: &value}}},
		command.AllocateProducerIDs{Broker: 1, Count: 1000},
		command.OpenTier{Partition: tp, Start: 5},
		command.OpenTier{Partition: kafka.TopicIDPartition{ID: id("gone")}},
		command.ReserveUploads{
			Partition: tp, UploadIDs: []kafka.UUID{id("u1"), id("u2"), id("u3"), id("u4")}, DeadlineMs: 1000,
		},
		command.CommitSegment{Partition: tp, Version: 1, Entry: entry},
		command.CommitSegment{Partition: tp, Version: 2, Entry: next},
		command.AdvanceStart{Partition: tp, Start: 10, ElapsedMs: 500},
		command.DeleteTopic{ID: id("gone"), ElapsedMs: 600},
		command.ReserveUploads{Partition: tp, UploadIDs: []kafka.UUID{id("l1")}, DeadlineMs: 1000, Rewrite: true, From: 9},
		command.Seal{Partition: tp, Version: 4, Removed: []kafka.UUID{id("u2")}, Reference: command.Reference{
			Level: command.LevelLeaf, BaseOffset: 9, EndOffset: 20, UploadID: id("l1"), Segments: 1, DataBytes: 100,
			ObjectBytes: 120, SealedBytes: 200, Checksum: 7, MinTimestamp: 1, MaxTimestamp: 2, MaxTimestampOffset: 8,
			FirstAppendedAt: 3, LastAppendedAt: 4,
		}},
		command.PinSnapshot{Pin: command.Pin{
			ID: id("pin"), TopicID: id("t1"), Ranges: []command.PartitionRange{{Partition: 1, From: 10, To: 20}}, DeadlineMs: 900,
		}},
		command.CheckpointWritten{Checkpoint: command.Checkpoint{Index: 12, ID: id("ckpt")}},
		command.RestoreTopics{Topics: []command.RestoredTopic{{
			ID: id("old"), Name: "old", Origins: []kafka.UUID{id("before"), id("cluster")},
			Partitions: []command.RestoredPartition{{
				Replicas: []kafka.BrokerID{1}, Directories: []kafka.UUID{id("d1")}, LeaderEpoch: 40, Tiered: true,
				Start: 5, End: 9, Version: 3, Bytes: 120, Segments: 1, Items: []command.Item{entry},
			}},
		}}},
	} {
		mustApply(t, m, cmd)
	}
	return m
}

// Each key and value of the state is golden text, and so is the snapshot that is made of them.
func TestTheStateAndItsSnapshotKeepTheirEncoding(t *testing.T) {
	db := openState(t, vfs.NewMem())
	defer closeState(t, db)
	m := sampleMachine(t, db)
	text := dumpReplicated(t, db) + "snapshot\n" + hex.Dump(takeSnapshot(t, db))
	path := filepath.Join("testdata", "state.golden")
	if rewriting() {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), text); diff != "" {
		t.Errorf("the encoding has changed (-golden +now):\n%s", diff)
	}

	_, dump, _ := strings.Cut(string(golden), "snapshot\n")
	restored := openState(t, vfs.NewMem())
	defer closeState(t, restored)
	if err := readSnapshot(bytes.NewReader(undump(t, dump)), restored); err != nil {
		t.Fatal(err)
	}
	expectLoaded(t, restored, m.image)
	if diff := cmp.Diff(dumpReplicated(t, db), dumpReplicated(t, restored)); diff != "" {
		t.Errorf("the restored state (-original +restored):\n%s", diff)
	}
}

// What an older program has left is read, too: records of the first version, without the fields that came later.
func TestAStateOfAnOlderProgramIsRead(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "state-v1.golden"))
	if err != nil {
		t.Fatal(err)
	}
	_, dump, _ := strings.Cut(string(golden), "snapshot\n")
	db := openState(t, vfs.NewMem())
	defer closeState(t, db)
	if err := readSnapshot(bytes.NewReader(undump(t, dump)), db); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, db)
	topic, _ := m.image.Topic("flights")
	if topic == nil || topic.Configs["retention.ms"] != "-1" || topic.Partitions[1].Tier.End != 20 {
		t.Errorf("the image is\n%s", describe(m.image))
	}
	want := "deadline 1000 of t1:1 u3\ndeadline 1000 of t1:1 u4\ndeleted topic gone gone of 1 partitions, since 600\n" +
		"garbage t1:1 u1: removed segment [5, 9) epoch 0, 120 bytes, since 500\n" +
		"reserved t1:1 u3 epoch 0 at remote end 5 until 1000\nreserved t1:1 u4 epoch 0 at remote end 5 until 1000\n" +
		"segment t1:1 [9, 20) epoch 0 upload u2\n" +
		"state t1:1 {Start:10 End:20 LeaderEpoch:0 Version:4 Bytes:120 Segments:1}\n"
	if diff := cmp.Diff(want, describeTier(t, db)); diff != "" {
		t.Errorf("the tier (-want +got):\n%s", diff)
	}
}

func takeSnapshot(t testing.TB, db *state.DB) []byte {
	t.Helper()
	frozen := db.Snapshot()
	var out bytes.Buffer
	if err := errors.Join(writeSnapshot(&out, frozen), frozen.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// undump reads what hex.Dump has printed.
func undump(t *testing.T, dump string) []byte {
	t.Helper()
	var data []byte
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) < 10 {
			continue // the last line has only the size
		}
		digits, _, _ := strings.Cut(line[10:], "|")
		raw, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, raw...)
	}
	return data
}

func TestARestoreReplacesTheReplicatedStateAndNothingElse(t *testing.T) {
	source := openState(t, vfs.NewMem())
	defer closeState(t, source)
	m := sampleMachine(t, source)
	snapshot := takeSnapshot(t, source)

	db := openState(t, vfs.NewMem())
	defer closeState(t, db)
	behind := newMachine(t, db)
	mustApply(t, behind, registration(1))
	mustApply(t, behind, registration(7))
	mustApply(t, behind, command.CreateTopics{Topics: []command.NewTopic{newTopic("old", 3)}})
	if err := db.Space(state.SpaceStorage).Set([]byte("local"), []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if err := behind.Restore(io.NopCloser(bytes.NewReader(snapshot))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(describe(m.image), describe(behind.image)); diff != "" {
		t.Errorf("the restored image (-source +restored):\n%s", diff)
	}
	expectLoaded(t, db, m.image)
	if value, err := db.Space(state.SpaceStorage).Get([]byte("local")); string(value) != "kept" || err != nil {
		t.Errorf("the broker's own state is %q, %v", value, err)
	}
	// And it goes on from there.
	mustApply(t, behind, command.DeleteTopic{ID: id("t1"), ElapsedMs: 700})
	expectLoaded(t, db, behind.image)
}

// A restore in many parts, as of a large state, is complete as well.
func TestALargeStateIsRestored(t *testing.T) {
	source := openState(t, vfs.NewMem())
	defer closeState(t, source)
	m := newMachine(t, source)
	mustApply(t, m, registration(1))
	for i := range 50 {
		topic := newTopic(fmt.Sprint("t", i), 1000)
		mustApply(t, m, command.CreateTopics{Topics: []command.NewTopic{topic}})
	}
	snapshot := takeSnapshot(t, source)
	if len(snapshot) < 2*restoreBatchBytes {
		t.Fatalf("a snapshot of %d bytes is no large one", len(snapshot))
	}
	db := openState(t, vfs.NewMem())
	defer closeState(t, db)
	if err := readSnapshot(bytes.NewReader(snapshot), db); err != nil {
		t.Fatal(err)
	}
	if dumpReplicated(t, source) != dumpReplicated(t, db) {
		t.Error("the restored state is another one")
	}
}

func TestADamagedSnapshotStopsTheStateMachineAndIsNotTakenForAState(t *testing.T) {
	source := openState(t, vfs.NewMem())
	defer closeState(t, source)
	sampleMachine(t, source)
	snapshot := takeSnapshot(t, source)
	damaged := map[string][]byte{
		"empty":              nil,
		"a byte is missing":  snapshot[:len(snapshot)-1],
		"half is missing":    snapshot[:len(snapshot)/2],
		"another format":     append([]byte("firnmetb"), snapshot[8:]...),
		"a later version":    append([]byte("firnmeta\x02"), snapshot[9:]...),
		"a byte has changed": bytes.Replace(snapshot, []byte("flights"), []byte("flightz"), 1),
		"a foreign key":      bytes.Replace(snapshot, []byte{2, 'm', 'c'}, []byte{2, 's', 'c'}, 1),
	}
	for name, data := range damaged {
		t.Run(name, func(t *testing.T) {
			db := openState(t, vfs.NewMem())
			defer closeState(t, db)
			m := sampleMachine(t, db)
			var stopped error
			m.fail = func(err error) { stopped = err }
			if err := m.Restore(io.NopCloser(bytes.NewReader(data))); err == nil || stopped == nil {
				t.Fatalf("the restore: %v, the store is told %v", err, stopped)
			}
			outcome := m.Apply(logEntry(100, registration(1))).(*applied)
			if !errors.Is(outcome.err, ErrUnknownOutcome) {
				t.Errorf("a command after that: %v", outcome.err)
			}
			if _, err := m.Snapshot(); err == nil {
				t.Error("a snapshot is taken of it")
			}
		})
	}
}

func FuzzSnapshot(f *testing.F) {
	db := openState(f, vfs.NewMem())
	sampleMachine(f, db)
	f.Add(takeSnapshot(f, db))
	closeState(f, db)
	f.Add([]byte(snapshotMagic + "\x01\x00\x00\x00\x00\x00\x00\x00\x07\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, _, err := openSnapshot(bytes.NewReader(data))
		read := 0
		for err == nil {
			var key, value []byte
			key, value, err = r.next()
			read += len(key) + len(value)
		}
		if read > len(data) {
			t.Fatalf("%d bytes are read from %d", read, len(data))
		}
	})
}

// FuzzRecords: damaged values in the database are errors, never a panic.
func FuzzRecords(f *testing.F) {
	db := openState(f, vfs.NewMem())
	sampleMachine(f, db)
	for _, space := range state.ReplicatedSpaces() {
		if err := db.Space(space).Scan(nil, func(_, value []byte) error {
			f.Add(append([]byte(nil), value...))
			return nil
		}); err != nil {
			f.Fatal(err)
		}
	}
	closeState(f, db)
	f.Fuzz(func(t *testing.T, value []byte) {
		if broker, err := parseBroker(1, value); err == nil {
			if _, err := parseBroker(1, encodeBroker(broker)); err != nil {
				t.Error(err)
			}
		}
		if topic, err := parseTopic(id("t"), value); err == nil {
			if _, err := parseTopic(id("t"), encodeTopic(topic)); err != nil {
				t.Error(err)
			}
		}
		if partition, err := parsePartitionRecord(value); err == nil {
			if _, err := parsePartitionRecord(encodePartition(&partition)); err != nil {
				t.Error(err)
			}
		}
		if tier, err := parseTier(value); err == nil {
			if _, err := parseTier(encodeTier(tier)); err != nil {
				t.Error(err)
			}
		}
		_, _ = parseConfigs(value)
		_, _ = parseReservation(value)
		_, _ = parseGarbage(make([]byte, uploadKeySize), value)
		_, _ = parseDeletedTopic(id("t"), value)
	})
}
