package command

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; released bytes must never change")

// goldenText prints encoded values, a line for each: its name and its bytes in hex.
func goldenText(names []string, values [][]byte) string {
	var out strings.Builder
	for i, name := range names {
		fmt.Fprintf(&out, "%s %s\n", name, hex.EncodeToString(values[i]))
	}
	return out.String()
}

// checkGolden compares with a file, or writes it, and gives back the bytes that are in the file.
func checkGolden(t *testing.T, file string, names []string, values [][]byte) [][]byte {
	t.Helper()
	path := filepath.Join("testdata", file)
	text := goldenText(names, values)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(stored), text); diff != "" {
		t.Errorf("the encoding has changed (-golden +now):\n%s", diff)
	}
	var decoded [][]byte
	for line := range strings.Lines(string(stored)) {
		_, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		raw, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		decoded = append(decoded, raw)
	}
	return decoded
}

func TestEveryCommandKeepsItsEncoding(t *testing.T) {
	var names []string
	var values [][]byte
	seen := map[Type]bool{}
	for _, cmd := range samples() {
		seen[cmd.Type()] = true
		names = append(names, cmd.Type().String())
		values = append(values, Encode(cmd))
	}
	for kind := Type(1); !strings.HasPrefix(kind.String(), "type "); kind++ {
		if !seen[kind] {
			t.Errorf("command %s has no sample", kind)
		}
	}
	for i, data := range checkGolden(t, "commands.golden", names, values) {
		decoded, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", names[i], err)
		}
		if diff := cmp.Diff(samples()[i], decoded); diff != "" {
			t.Errorf("%s reads back differently (-want +got):\n%s", names[i], diff)
		}
	}
}

// What was written in the first version of a body is read for ever, with nothing in the fields that came later.
func TestOldVersionsOfCommandsAreRead(t *testing.T) {
	tp := kafka.TopicIDPartition{ID: id(0x10), Partition: 3}
	want := []Command{
		ReserveUploads{
			Partition: tp, LeaderEpoch: 7, UploadIDs: []kafka.UUID{id(0x90), id(0xa0)}, ElapsedMs: 60_000, DeadlineMs: 660_000,
		},
		AdvanceStart{Partition: tp, LeaderEpoch: 7, Start: 2000, ElapsedMs: 70_000},
		Collected{Objects: []CollectedObject{{Partition: tp, UploadID: id(0x90)}}},
		DeleteTopic{ID: id(0x10), ElapsedMs: 123_456},
	}
	stored, err := os.ReadFile(filepath.Join("testdata", "commands-v1.golden"))
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for line := range strings.Lines(string(stored)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		raw, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d old commands instead of %d", i, len(want))
	}
}

func TestACommandThatIsCutShortOrTooLongIsAnError(t *testing.T) {
	for _, cmd := range samples() {
		data := Encode(cmd)
		for size := range data {
			if _, err := Decode(data[:size]); err == nil {
				t.Errorf("%s decodes from %d of its %d bytes", cmd.Type(), size, len(data))
			}
		}
		var corrupt *CorruptError
		if _, err := Decode(append(data, 0)); !errors.As(err, &corrupt) || corrupt.Position != len(data) {
			t.Errorf("%s with a byte too many: %v", cmd.Type(), err)
		}
	}
}

func TestACommandOfANewerProgramIsNamed(t *testing.T) {
	for name, data := range map[string][]byte{
		"command type 200 version 1":     {200, 1},
		"command init_cluster version 2": append([]byte{1, 2}, make([]byte, 16)...),
		"command type 0 version 1":       {0, 1},
		"command open_tier version 255":  {9, 255, 1, 2, 3},
	} {
		_, err := Decode(data)
		var unknown *UnknownError
		if !errors.As(err, &unknown) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALengthBeyondTheInputReservesNothing(t *testing.T) {
	huge := []byte{byte(TypeCreateTopics), version1, 0xff, 0xff, 0xff, 0xff, 0x0f}
	if _, err := Decode(huge); err == nil {
		t.Error("4 G topics in no bytes decode")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = Decode(huge)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("%d bytes are reserved for a wrong length", allocated)
	}
}

func TestAValueThatIsOutOfBoundsIsNamed(t *testing.T) {
	topic := func(rest ...byte) []byte { // one topic without a name
		data := append([]byte{byte(TypeCreateTopics), version1, 1}, make([]byte, 16)...)
		return append(append(data, 0), rest...)
	}
	tier := func(rest ...byte) []byte {
		return append(append([]byte{byte(TypeOpenTier), version1}, make([]byte, 16)...), rest...)
	}
	for reason, data := range map[string][]byte{
		"settings are not in order": topic(0, 2, 1, 'b', 0, 1, 'a', 0, 0),
		"neither true nor false":    topic(2, 0, 0),
		"an origin has one byte": {
			byte(TypeReplaceRange), version1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // topic
			0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 2, 0, 0, 0, 0, 0, 0, 0,
		},
		"does not fit 32 bits":          tier(0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0),
		"not a varint":                  tier(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0),
		"a list of 9 does not fit":      topic(0, 9, 1, 'a', 1, 'b', 0, 0),
		"16 bytes expected, 3 are left": tier()[:5],
	} {
		if _, err := Decode(data); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q is expected, not %v", reason, err)
		}
	}
}

func TestASegmentEntryMustDescribeAnObject(t *testing.T) {
	for name, spoil := range map[string]func(*SegmentEntry){
		"a negative base offset":        func(e *SegmentEntry) { e.BaseOffset = -1 },
		"an empty range":                func(e *SegmentEntry) { e.EndOffset = e.BaseOffset },
		"more data than the object has": func(e *SegmentEntry) { e.DataBytes = e.ObjectBytes + 1 },
		"a negative size":               func(e *SegmentEntry) { e.DataBytes = -1 },
		"a negative tail":               func(e *SegmentEntry) { e.TailBytes = -1 },
		"no upload id":                  func(e *SegmentEntry) { e.UploadID = kafka.UUID{} },
		"no leader epoch":               func(e *SegmentEntry) { e.LeaderEpoch = kafka.NoLeaderEpoch },
	} {
		entry := sampleEntry()
		spoil(&entry)
		if _, err := ParseItem(entry.AppendTo(nil)); err == nil {
			t.Errorf("an entry with %s is read without an error", name)
		}
		if code := kafka.CodeOf(entry.Validate()); code != kafka.InvalidRequest {
			t.Errorf("an entry with %s: code %d", name, code)
		}
		// In the log it must still decode: it is the state machine that refuses it.
		if _, err := Decode(Encode(CommitSegment{Entry: entry})); err != nil {
			t.Errorf("a commit of an entry with %s does not decode: %v", name, err)
		}
	}
}

func TestASegmentEntryOfAnotherKindIsNotMistakenForASegment(t *testing.T) {
	data := sampleEntry().AppendTo(nil)
	if len(data) != SegmentEntrySize {
		t.Fatalf("an entry has %d bytes instead of %d", len(data), SegmentEntrySize)
	}
	for position := range 2 {
		other := append([]byte(nil), data...)
		other[position]++
		if _, err := ParseItem(other); err == nil {
			t.Errorf("byte %d is not looked at", position)
		}
	}
}

func TestItemsKeepTheirEncoding(t *testing.T) {
	items := []Item{sampleEntry(), sampleEntry().WithOrigin(255), sampleReference(LevelLeaf), sampleReference(LevelNode)}
	names := []string{"segment", "segment_of_another_origin", "leaf", "node"}
	var values [][]byte
	for _, item := range items {
		values = append(values, item.AppendTo(nil))
	}
	for i, data := range checkGolden(t, "items.golden", names, values) {
		got, err := ParseItem(data)
		if err != nil {
			t.Fatalf("%s: %v", names[i], err)
		}
		if got != items[i] {
			t.Errorf("%s is read back as %+v", names[i], got)
		}
		for size := range data {
			if _, err := ParseItem(data[:size]); err == nil {
				t.Fatalf("%s is read from %d of its %d bytes", names[i], size, len(data))
			}
		}
		data[1] = 4
		if _, err := ParseItem(data); err == nil {
			t.Errorf("%s is read although its kind is not known", names[i])
		}
	}
	if got := items[1].Summary(); got.Origin() != 255 || got.Flags&HasAbortedTransactions == 0 {
		t.Errorf("the origin is %d and the flags are %x", got.Origin(), got.Flags)
	}
}

func TestGarbageOfEveryKindIsReadBack(t *testing.T) {
	for kind := RemovedSegment; kind <= LapsedRewrite; kind++ {
		want := sampleGarbage(kind)
		c := NewCursor(AppendGarbage(nil, want))
		got := c.Garbage()
		if err := c.Finish(); err != nil || got != want {
			t.Errorf("kind %d: %+v, %v", kind, got, err)
		}
	}
}

func TestAReferenceMustDescribeWhatItStandsFor(t *testing.T) {
	for name, spoil := range map[string]func(*Reference){
		"an unknown level":            func(r *Reference) { r.Level = 3 },
		"an empty range":              func(r *Reference) { r.EndOffset = r.BaseOffset },
		"more data than objects have": func(r *Reference) { r.DataBytes = r.ObjectBytes + 1 },
		"no segments":                 func(r *Reference) { r.Segments = 0 },
		"no size of its own":          func(r *Reference) { r.SealedBytes = 0 },
		"no upload id":                func(r *Reference) { r.UploadID = kafka.UUID{} },
		"no leader epoch":             func(r *Reference) { r.LeaderEpoch = kafka.NoLeaderEpoch },
	} {
		reference := sampleReference(LevelLeaf)
		spoil(&reference)
		if code := kafka.CodeOf(reference.Validate()); code != kafka.InvalidRequest {
			t.Errorf("a reference with %s: code %d", name, code)
		}
	}
	first, second := sampleEntry(), sampleEntry()
	first.LastAppendedAt, second.LastAppendedAt = 5, 7
	second.BaseOffset, second.EndOffset, second.MaxTimestamp, second.MaxTimestampOffset = 2000, 2500, first.MaxTimestamp, 2400
	second.Flags = 0
	run := []Item{first, second}
	reference := Reference{
		Level: LevelLeaf, BaseOffset: 1000, EndOffset: 2500, UploadID: id(0xa0), Segments: 2, DataBytes: 200_000,
		ObjectBytes: 202_000, SealedBytes: 1, MinTimestamp: first.MinTimestamp, MaxTimestamp: first.MaxTimestamp,
		MaxTimestampOffset: 1990, FirstAppendedAt: first.FirstAppendedAt, LastAppendedAt: 7, Flags: HasAbortedTransactions,
	}
	if !reference.WithOrigin(3).Covers(run) {
		t.Errorf("%+v does not cover %+v", reference, Summarize(run))
	}
	for name, spoil := range map[string]func(*Reference){
		"end":      func(r *Reference) { r.EndOffset++ },
		"segments": func(r *Reference) { r.Segments++ },
		"bytes":    func(r *Reference) { r.ObjectBytes++ },
		"time":     func(r *Reference) { r.MaxTimestamp++ },
		"appended": func(r *Reference) { r.LastAppendedAt = -1 },
		"flags":    func(r *Reference) { r.Flags = 0 },
	} {
		other := reference
		spoil(&other)
		if other.Covers(run) {
			t.Errorf("a reference with another %s covers the run", name)
		}
	}
	second.LastAppendedAt = -1
	if got := Summarize([]Item{first, second}); got.LastAppendedAt != -1 {
		t.Errorf("the last append time is %d although one is unknown", got.LastAppendedAt)
	}
}

func TestTierRefusalsCarryAKafkaCode(t *testing.T) {
	for _, err := range []error{ErrTierMoved, ErrUploadNotReserved, ErrTierNotOpen, ErrNoPin} {
		if kafka.CodeOf(err) != kafka.OperationNotAttempted {
			t.Errorf("%v has code %d", err, kafka.CodeOf(err))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, cmd := range samples() {
		f.Add(Encode(cmd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cmd, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(Encode(cmd))
		if err != nil {
			t.Fatalf("%#v decodes once, but not again: %v", cmd, err)
		}
		if diff := cmp.Diff(cmd, again); diff != "" {
			t.Fatalf("decoded twice (-first +second):\n%s", diff)
		}
	})
}

func FuzzParseItem(f *testing.F) {
	f.Add(sampleEntry().AppendTo(nil))
	f.Add(sampleReference(LevelNode).AppendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		item, err := ParseItem(data)
		if err != nil {
			return
		}
		if diff := cmp.Diff(data, item.AppendTo(nil)); diff != "" {
			t.Fatalf("an item is written back differently:\n%s", diff)
		}
	})
}
