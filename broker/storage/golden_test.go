package storage

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
)

// rewrite is registered by datadriven, which reads the same flag: it makes the golden files anew.
func rewriteGolden() bool {
	f := flag.Lookup("rewrite")
	return f != nil && f.Value.String() == "true"
}

// checkGolden compares an encoding with testdata/NAME.golden: text as it is, bytes as a hex dump.
func checkGolden(t *testing.T, name string, got []byte, isText bool) {
	t.Helper()
	text := string(got)
	if !isText {
		text = hex.Dump(got)
	}
	file := filepath.Join("testdata", name+".golden")
	if rewriteGolden() {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Fatalf("%s: %s", name, diff)
	}
}

// goldenBytes are those of a format that is only read any more.
func goldenBytes(t *testing.T, name string) (data []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line[min(10, len(line)):], "|")
		bytes, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, bytes...)
	}
	return data
}

var (
	goldenOffsets  = []offsetEntry{{relative: 3, position: 109}, {relative: 65536, position: 1 << 30}}
	goldenTimes    = []timeEntry{{timestamp: 0, relative: 3}, {timestamp: 1357016400000, relative: 70000}}
	goldenSnapshot = []SnapshotEntry{
		{
			ProducerID: 1, ProducerEpoch: 0, LastSequence: 4, LastOffset: 104, OffsetDelta: 4, Timestamp: 1357016400000,
			CoordinatorEpoch: -1, TxnFirstOffset: -1,
		},
		{
			ProducerID: 1, ProducerEpoch: 0, LastSequence: 9, LastOffset: 109, OffsetDelta: 4, Timestamp: 1357016400001,
			CoordinatorEpoch: -1, TxnFirstOffset: -1,
		},
		{
			ProducerID: 1 << 40, ProducerEpoch: 7, LastSequence: -1, LastOffset: -1, Timestamp: -1, CoordinatorEpoch: 3,
			TxnFirstOffset: -1,
		},
	}
	goldenEpochs = []EpochEntry{{Epoch: 0, StartOffset: 0}, {Epoch: 5, StartOffset: 1 << 33}}
	goldenMeta   = MetaProperties{
		Owner: Owner{ClusterID: kafka.UUID{1}, NodeID: 1}, DirectoryID: kafka.UUID{2},
	}
	goldenCheckpoint = checkpoint{
		FlushedOffset: 1 << 33, FlushedEpoch: 5, HighWatermark: 77, LogStartOffset: 3, LocalStart: 4,
	}
	goldenState = segmentState{
		EndOffset: 200, Size: 1 << 20, FirstTimestamp: 1, MaxTimestamp: 1357016400000, MaxTimestampLast: 150,
		MaxTimestampOffset: 149, FirstAppendedAt: 1795980000000, LastAppendedAt: 1795980000001, OffsetEntries: 256,
		TimeEntries: 12, AbortedEntries: 7, Sealed: true, NextBaseOffset: 201,
	}
	goldenAborted = []AbortedTransaction{
		{ProducerID: 7, FirstOffset: 10, LastOffset: 20, LastStableOffset: 12},
		{ProducerID: 1 << 40, FirstOffset: 12, LastOffset: 1 << 33, LastStableOffset: 1<<33 + 1},
	}
)

func TestFormatsStayWhatTheyAre(t *testing.T) {
	var offsets, times []byte
	for _, entry := range goldenOffsets {
		offsets = appendOffsetEntry(offsets, entry)
	}
	for _, entry := range goldenTimes {
		times = appendTimeEntry(times, entry)
	}
	checkGolden(t, "offset-index", offsets, false)
	checkGolden(t, "time-index", times, false)
	for i, want := range goldenOffsets {
		if got := offsetEntryAt(offsets, i); got != want {
			t.Errorf("offset entry %d is %+v", i, got)
		}
	}
	for i, want := range goldenTimes {
		if got := timeEntryAt(times, i); got != want {
			t.Errorf("time entry %d is %+v", i, got)
		}
	}

	snapshot := AppendProducerSnapshot(nil, goldenSnapshot)
	checkGolden(t, "producer-snapshot", snapshot, false)
	checkParsed(t, goldenSnapshot, snapshot, ParseProducerSnapshot)

	epochs := appendEpochFile(nil, goldenEpochs)
	checkGolden(t, "leader-epoch-checkpoint", epochs, true)
	checkParsed(t, goldenEpochs, epochs, parseEpochFile)

	meta := goldenMeta.encode()
	checkGolden(t, "meta.properties", meta, true)
	checkParsed(t, goldenMeta, meta, parseMetaProperties)

	saved := goldenCheckpoint.append(nil)
	checkGolden(t, "store-checkpoint", saved, false)
	checkParsed(t, goldenCheckpoint, saved, parseCheckpoint)

	state := goldenState.append(nil)
	checkGolden(t, "store-segment", state, false)
	checkParsed(t, goldenState, state, parseSegmentState)
	before := goldenState
	before.AbortedEntries = 0
	checkParsed(t, before, goldenBytes(t, "store-segment-v1"), parseSegmentState)

	var aborted []byte
	for _, entry := range goldenAborted {
		aborted = appendTxnEntry(aborted, entry)
	}
	checkGolden(t, "transaction-index", aborted, false)
	checkParsed(t, goldenAborted, aborted, ParseTransactionIndex)

	lagging := append([]byte{storeVersion}, epochs...)
	checkParsed(t, goldenEpochs, lagging, parseSavedEpochs)

	keys := keysOf(kafka.TopicID{0xaa}, 7)
	checkGolden(t, "store-keys", bytes.Join([][]byte{
		keys.kind(checkpointKind), keys.at(segmentKind, 258), keys.at(producerKind, 259),
		keys.kind(epochsKind), keys.kind(cleanedKind), keys.at(rewriteKind, 260),
	}, nil), false)
	note := rewriteNote{state: goldenState, replaced: []int64{258, 259}}
	checkGolden(t, "store-rewrite", note.append(nil), false)
	checkParsed(t, note, note.append(nil), parseRewriteNote)
	checkGolden(t, "store-cleaned", appendCleaned(nil, 1<<33), false)
	checkParsed(t, int64(1<<33), appendCleaned(nil, 1<<33), parseCleaned)
}

func checkParsed[T any](t *testing.T, want T, data []byte, parse func(data []byte) (T, error)) {
	t.Helper()
	got, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(segmentState{}, rewriteNote{})); diff != "" {
		t.Fatal(diff)
	}
}

func TestDecodersRefuseWhatIsNotTheirs(t *testing.T) {
	snapshot := AppendProducerSnapshot(nil, goldenSnapshot)
	for i := range snapshot {
		damaged := bytes.Clone(snapshot)
		damaged[i] ^= 4
		if _, err := ParseProducerSnapshot(damaged); err == nil {
			t.Errorf("a snapshot with a flipped bit in byte %d is taken for a good one", i)
		}
		if _, err := ParseProducerSnapshot(snapshot[:i]); err == nil {
			t.Errorf("a snapshot cut to %d bytes is taken for a good one", i)
		}
	}
	for name, text := range map[string]string{
		"empty":            "",
		"another version":  "1\n0\n",
		"no count":         "0\n",
		"too few entries":  "0\n2\n1 5\n",
		"too many entries": "0\n1\n1 5\n2 6\n",
		"not ascending":    "0\n2\n2 5\n1 6\n",
		"going back":       "0\n2\n1 5\n2 4\n",
		"negative":         "0\n1\n-1 5\n",
		"no number":        "0\n1\nx 5\n",
		"one field":        "0\n1\n5\n",
		"another offset":   "0\n1\n5 y\n",
	} {
		if entries, err := parseEpochFile([]byte(text)); err == nil {
			t.Errorf("a leader epoch file that is %s is taken for %v", name, entries)
		}
	}
	for _, text := range []string{
		"", "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: 0", "version: 0\ntopic_id: x",
		"version: 0\nid: AAAAAAAAAAAAAAAAAAAAAA",
	} {
		if id, err := parsePartitionMetadata([]byte(text)); err == nil {
			t.Errorf("partition metadata %q is taken for %v", text, id)
		}
	}
}
